// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/table/held_back.h"

#include <algorithm>
#include <functional>

namespace refract::kv {

void HeldBack::keep(const Buffer& buffer) {
  bytes_ += Heap::footprint(buffer.bytes);
  buffers_.push_back(buffer);
  std::ranges::push_heap(buffers_, std::greater{}, &Buffer::needed_until);
}

size_t HeldBack::release(uint64_t position) {
  size_t released = 0;
  while (!buffers_.empty() && buffers_.front().needed_until <= position) {
    std::ranges::pop_heap(buffers_, std::greater{}, &Buffer::needed_until);
    const Buffer buffer = buffers_.back();
    buffers_.pop_back();
    bytes_ -= Heap::footprint(buffer.bytes);
    heap_.retire(buffer.at, buffer.bytes);
    ++released;
  }
  return released;
}

}  // namespace refract::kv
