// SPDX-License-Identifier: Apache-2.0
#include "refract/runtime/frame_pool.h"

#include <sanitizer/asan_interface.h>

#include <cstdlib>
#include <utility>

#include "refract/base/check.h"

namespace refract::runtime {
namespace {

// Stands before each frame, so that the whole frame can be poisoned for the address sanitizer while it is
// free.
struct alignas(16) Header {
  Header* next;
};

constexpr size_t kClasses = FramePool::kPooledBytesMax / FramePool::kStepBytes;

struct Lists {
  std::array<Header*, kClasses> heads = {};
  FramePool::Stats stats = {};
  bool ending = false;  // The thread is being taken down: frames go to the heap.
};
constinit thread_local Lists t_lists;

struct Ending {
  Ending() = default;
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() {
    t_lists.ending = true;
    for (Header*& head : t_lists.heads) {
      while (head != nullptr) std::free(std::exchange(head, head->next));
    }
  }
  // Naming a thread_local with a destructor is what registers that destructor.
  void arm() noexcept { armed = true; }
  bool armed = false;
};
thread_local Ending t_ending;

size_t class_of(size_t bytes) noexcept {
  return (bytes - 1) / FramePool::kStepBytes;
}

}  // namespace

void* FramePool::allocate(size_t bytes) noexcept {
  const bool pooled = bytes <= kPooledBytesMax;
  if (pooled) {
    Header*& head = t_lists.heads[class_of(bytes)];
    if (head != nullptr) {
      ++t_lists.stats.hit_count;
      Header* const header = std::exchange(head, head->next);
      ASAN_UNPOISON_MEMORY_REGION(header + 1, bytes);
      return header + 1;
    }
  }
  ++t_lists.stats.heap_count;
  const size_t room = pooled ? (class_of(bytes) + 1) * kStepBytes : bytes;
  auto* const header = static_cast<Header*>(std::malloc(sizeof(Header) + room));
  REFRACT_CHECK(header != nullptr);
  return header + 1;
}

void FramePool::release(void* frame, size_t bytes) noexcept {
  Header* const header = static_cast<Header*>(frame) - 1;
  if (bytes > kPooledBytesMax || t_lists.ending) {
    std::free(header);
    return;
  }
  Header*& head = t_lists.heads[class_of(bytes)];
  if (head == nullptr) t_ending.arm();
  header->next = std::exchange(head, header);
  ASAN_POISON_MEMORY_REGION(frame, (class_of(bytes) + 1) * kStepBytes);
}

FramePool::Stats FramePool::stats() noexcept {
  return t_lists.stats;
}

}  // namespace refract::runtime
