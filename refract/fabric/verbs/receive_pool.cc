// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/receive_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/units.h"
#include "refract/fabric/verbs/library.h"
#include "refract/fabric/verbs/trouble.h"
#include "refract/fabric/verbs/tuning.h"

namespace refract::fabric::verbs {
namespace {

constexpr size_t kRepostBatch = 32;

}  // namespace

void DeviceMemory::FreePages::operator()(std::byte* pages) const noexcept {
  ::operator delete[](pages, std::align_val_t{kPageBytes});
}

Reported<DeviceMemory> DeviceMemory::make(const OpenDevice& device, size_t bytes) {
  bytes = round_up(bytes, kPageBytes);
  DeviceMemory memory;
  memory.pages_.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kPageBytes})));
  std::memset(memory.pages_.get(), 0, bytes);
  auto made = Registration::make(device, {.bytes = {memory.pages_.get(), bytes}, .rights = {}});
  if (!made) return report(made.error());
  // One key and one range of addresses, by which all of it is named.
  REFRACT_CHECK(made->remote_keys().size() == 1);
  memory.registration_ = std::move(*made);
  return memory;
}

Reported<std::unique_ptr<ReceivePool>> ReceivePool::make(const OpenDevice& device, uint32_t buffers_max) {
  std::unique_ptr<ReceivePool> pool(new ReceivePool(device));
  pool->buffers_max_ = buffers_max;
  pool->recycled_.reserve(buffers_max);
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = buffers_max;
  attributes.attr.max_sge = 1;
  pool->queue_ = device.calls().create_srq(device.pd(), &attributes);
  if (pool->queue_ == nullptr) {
    return report(explain({.step = Step::kReceiveQueue,
                           .error = errno,
                           .what = fmt::format("{} cannot make a shared receive queue of {} buffers",
                                               device.facts().name, buffers_max)}));
  }
  return pool;
}

ReceivePool::~ReceivePool() {
  if (queue_ != nullptr) (void)device_.calls().destroy_srq(queue_);
}

Reported<> ReceivePool::add(uint32_t buffers) {
  // Those behind the end make no difference to honest peers.
  const uint32_t count = std::min(buffers, buffers_max_ - buffers_);
  while (slabs_.size() * kReceivesEach < buffers_ + count) {
    auto slab = DeviceMemory::make(device_, kReceivesEach * kMessageBytesMax);
    if (!slab) return report(slab.error());
    slabs_.push_back(std::move(*slab));
  }
  for (uint32_t i = 0; i < count; ++i) recycle(buffers_ + i);
  buffers_ += count;
  repost();
  return {};
}

std::byte* ReceivePool::buffer(uint32_t index) const noexcept {
  return slabs_[index / kReceivesEach].data() + (index % kReceivesEach) * kMessageBytesMax;
}

void ReceivePool::repost() noexcept {
  std::array<ibv_recv_wr, kRepostBatch> requests;
  std::array<ibv_sge, kRepostBatch> places;
  while (!recycled_.empty()) {
    const size_t count = std::min(recycled_.size(), kRepostBatch);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t index = recycled_[recycled_.size() - 1 - i];
      const DeviceMemory& slab = slabs_[index / kReceivesEach];
      places[i] = {.addr = slab.address(buffer(index)), .length = kMessageBytesMax, .lkey = slab.key()};
      requests[i] = {.wr_id = index,
                     .next = i + 1 < count ? &requests[i + 1] : nullptr,
                     .sg_list = &places[i],
                     .num_sge = 1};
    }
    ibv_recv_wr* refused = nullptr;
    // The queue is as long as there are buffers, so it takes them all.
    if (::ibv_post_srq_recv(queue_, requests.data(), &refused) != 0) return;
    recycled_.resize(recycled_.size() - count);
  }
}

}  // namespace refract::fabric::verbs
