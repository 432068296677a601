// SPDX-License-Identifier: Apache-2.0
// The shared receive queue of a domain and the buffers in it.
//
// Each channel adds as many buffers as its peer has credits, so the queue never runs dry among honest peers.
// A buffer is in the queue, or holds a message until recycle(), or was lost with a queue pair that broke in
// the middle of a message: the device says nothing of those, so each broken queue pair is made good by one
// more buffer. Used only by the domain's shard; only add() allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "refract/fabric/verbs/device.h"
#include "refract/fabric/verbs/registration.h"

struct ibv_srq;  // NOLINT(readability-identifier-naming)

namespace refract::fabric::verbs {

// Memory of whole pages that the device may reach, for as long as it lives.
class DeviceMemory {
 public:
  [[nodiscard]] static Reported<DeviceMemory> make(const OpenDevice& device, size_t bytes);

  [[nodiscard]] std::byte* data() const noexcept { return registration_.bytes().data(); }
  // Of a byte of it, as a work request names it.
  [[nodiscard]] uint64_t address(const std::byte* byte) const noexcept {
    return static_cast<uint64_t>(byte - data());
  }
  [[nodiscard]] uint32_t key() const noexcept { return registration_.local_key(0); }

 private:
  struct FreePages {
    void operator()(std::byte* pages) const noexcept;
  };
  // In this order: the registration ends before the memory does.
  std::unique_ptr<std::byte[], FreePages> pages_;
  Registration registration_;
};

class ReceivePool {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<ReceivePool>> make(const OpenDevice& device,
                                                                   uint32_t buffers_max);
  ReceivePool(const ReceivePool&) = delete;
  ReceivePool& operator=(const ReceivePool&) = delete;
  ~ReceivePool();

  [[nodiscard]] ibv_srq* queue() const noexcept { return queue_; }
  // Control path.
  [[nodiscard]] Reported<> add(uint32_t buffers);
  [[nodiscard]] std::byte* buffer(uint32_t index) const noexcept;
  // Back into the queue with the next repost().
  void recycle(uint32_t index) noexcept { recycled_.push_back(index); }
  void repost() noexcept;

 private:
  explicit ReceivePool(const OpenDevice& device) noexcept : device_(device) {}

  const OpenDevice& device_;
  ibv_srq* queue_ = nullptr;
  uint32_t buffers_max_ = 0;
  uint32_t buffers_ = 0;
  std::vector<DeviceMemory> slabs_;  // Each of kReceivesEach buffers.
  std::vector<uint32_t> recycled_;
};

}  // namespace refract::fabric::verbs
