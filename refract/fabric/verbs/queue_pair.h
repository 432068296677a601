// SPDX-License-Identifier: Apache-2.0
// A reliable connected queue pair, from its making to the moment when it may be used.
//
// Destroying it is the one moment from which on the device touches no byte of its requests; a caller that
// promised bytes back waits for that or for the requests' completions. Control path.
#pragma once

#include <cstdint>
#include <memory>

#include "refract/fabric/verbs/device.h"
#include "refract/fabric/verbs/wire.h"

struct ibv_cq;   // NOLINT(readability-identifier-naming)
struct ibv_qp;   // NOLINT(readability-identifier-naming)
struct ibv_srq;  // NOLINT(readability-identifier-naming)

namespace refract::fabric::verbs {

class QueuePair {
 public:
  struct Queues {
    ibv_cq* completions = nullptr;
    ibv_srq* receives = nullptr;
  };
  // In the state in which it can be introduced. `gid`: the address of this end.
  [[nodiscard]] static Reported<std::unique_ptr<QueuePair>> make(const OpenDevice& device,
                                                                 const Queues& queues, const GidFacts& gid);
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  ~QueuePair();

  // What the other end has to know.
  [[nodiscard]] Introduction introduction(Kind kind) const noexcept;
  // From here on it receives, and may send once the other end is ready.
  [[nodiscard]] Reported<> meet(const Introduction& peer);

  [[nodiscard]] ibv_qp* get() const noexcept { return pair_; }
  [[nodiscard]] uint32_t number() const noexcept;
  [[nodiscard]] uint32_t inline_bytes() const noexcept { return inline_bytes_; }

 private:
  QueuePair(const OpenDevice& device, GidFacts gid) noexcept : device_(device), gid_(std::move(gid)) {}
  [[nodiscard]] Reported<> initialise();

  const OpenDevice& device_;
  GidFacts gid_;
  ibv_qp* pair_ = nullptr;
  uint32_t inline_bytes_ = 0;
  uint32_t packet_sequence_ = 0;
};

}  // namespace refract::fabric::verbs
