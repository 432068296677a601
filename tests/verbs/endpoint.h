// SPDX-License-Identifier: Apache-2.0
// One end of a reliable connection, by libibverbs' own calls: a protection domain, a queue pair, a completion
// queue and a buffer that the other end may read, write and count in.
//
// Made to be looked at beside a provider that does not work: if these few lines do work, the device is not to
// blame. Whatever cannot be made ends the program, with the call that failed.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/fabric/verbs/device.h"
#include "refract/fabric/verbs/library.h"

namespace refract::test {

class Endpoint {
 public:
  static constexpr size_t kBufferBytes = 256 * 1024;

  // `context` outlives the endpoint.
  Endpoint(const fabric::verbs::VerbsLibrary& library, ibv_context* context);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ~Endpoint();

  // What the other end must know to connect to this one, beside this one's GID.
  [[nodiscard]] uint32_t queue_pair_number() const noexcept { return qp_->qp_num; }
  [[nodiscard]] ibv_qp* queue_pair() const noexcept { return qp_; }

  // Both ends call it before either sends.
  void connect(const Endpoint& peer, const fabric::verbs::GidFacts& peer_gid,
               const fabric::verbs::DeviceChoice& self);
  // To a queue pair that is no endpoint; its first packet has the number `packet`.
  struct Peer {
    uint32_t queue_pair = 0;
    uint32_t packet = 0;
    fabric::verbs::Gid gid{};
  };
  void connect(const Peer& peer, const fabric::verbs::DeviceChoice& self);
  // The number of the first packet that an endpoint sends.
  static constexpr uint32_t kFirstPacket = 0x123456;
  // Requests and receives that it holds at once.
  static constexpr uint32_t kDepth = 256;

  [[nodiscard]] std::span<std::byte> buffer() noexcept { return buffer_; }
  [[nodiscard]] uint32_t rkey() const noexcept { return mr_->rkey; }
  [[nodiscard]] uint64_t address_of(size_t offset) const noexcept;

  void post_receive(size_t offset, uint32_t bytes);
  // `bytes` of the buffer at `offset`; what else an operation needs is in `request` already.
  void post(ibv_send_wr request, size_t offset, uint32_t bytes);
  // Waits for it: a connection that is cut says so by a completion, too.
  [[nodiscard]] ibv_wc next_completion();
  // Does not wait for it.
  [[nodiscard]] bool poll(ibv_wc& completion);

 private:
  const fabric::verbs::VerbsLibrary& library_;
  ibv_pd* pd_;
  ibv_cq* cq_;
  ibv_qp* qp_ = nullptr;
  ibv_mr* mr_;
  std::vector<std::byte> buffer_;
};

}  // namespace refract::test
