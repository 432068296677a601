// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/snic/free_lists.h"

#include <algorithm>
#include <array>
#include <utility>

#include "refract/base/check.h"
#include "refract/memory/size_class.h"

namespace refract::prism::snic {

uint64_t FreeLists::add_list(const List& list) {
  REFRACT_CHECK(list.start.value % 8 == 0 && list.buffer_bytes % 8 == 0 && list.buffer_bytes > 0);
  REFRACT_CHECK(list.count < (uint64_t{1} << 32));
  Queue queue{.geometry = list, .free = {}, .is_out = {}};
  queue.free.resize(list.count);
  queue.is_out.resize(list.count, 0);
  for (uint32_t i = 0; i < list.count; ++i) queue.free[i] = i;
  queue.free_count = list.count;
  lists_.push_back(std::move(queue));
  found_at_ = {};
  return lists_.size() - 1;
}

Result<Buffers::Fresh> FreeLists::allocate(uint64_t list, std::span<const std::byte> data) noexcept {
  if (list >= lists_.size()) return fail(Code::kInvalidArgument);
  Queue& queue = lists_[list];
  if (data.size() > queue.geometry.buffer_bytes) return fail(Code::kTooLarge);
  if (queue.free_count == 0) return fail(Code::kNoSpace);
  const uint32_t buffer = queue.free[queue.first];
  queue.first = queue.first + 1 < queue.free.size() ? queue.first + 1 : 0;
  --queue.free_count;
  queue.is_out[buffer] = 1;
  const Offset at = queue.geometry.start.plus(buffer * queue.geometry.buffer_bytes);
  if (!data.empty()) writer_.copy(at, data);
  return Fresh{.at = at, .bytes = queue.geometry.buffer_bytes, .stamp = 0};
}

bool FreeLists::is_granular(uint64_t list) const noexcept {
  if (list >= lists_.size()) return true;  // allocate() says what is wrong.
  const List& geometry = lists_[list].geometry;
  return geometry.start.value % kGranuleBytes == 0 && geometry.buffer_bytes % kGranuleBytes == 0;
}

void FreeLists::put(Queue& queue, uint32_t buffer) noexcept {
  if (poisons_) {
    std::array<std::byte, 64> poison;
    poison.fill(poison_);
    Offset at = queue.geometry.start.plus(buffer * queue.geometry.buffer_bytes);
    for (uint64_t left = queue.geometry.buffer_bytes; left > 0;) {
      const uint64_t piece = std::min<uint64_t>(left, poison.size());
      writer_.copy(at, std::span(poison).first(piece));
      at = at.plus(piece);
      left -= piece;
    }
  }
  queue.is_out[buffer] = 0;
  const uint64_t end = queue.first + queue.free_count;
  queue.free[end < queue.free.size() ? end : end - queue.free.size()] = buffer;
  ++queue.free_count;
}

void FreeLists::recycle(Offset at, uint64_t /*bytes*/) noexcept {
  const BufferNumber found = find(at);
  // Chains of hostile clients can retire what another chain still owns; it comes back once.
  if (found.list == lists_.size() || lists_[found.list].is_out[found.buffer] == 0) return;
  put(lists_[found.list], found.buffer);
}

bool FreeLists::claim(Offset at) {
  const BufferNumber found = find(at);
  if (found.list == lists_.size() || lists_[found.list].is_out[found.buffer] != 0) return false;
  Queue& queue = lists_[found.list];
  // What stands before it moves up by one; all others keep their order.
  uint64_t place = queue.first;
  while (queue.free[place] != found.buffer) place = (place + 1) % queue.free.size();
  while (place != queue.first) {
    const uint64_t before = (place + queue.free.size() - 1) % queue.free.size();
    queue.free[place] = queue.free[before];
    place = before;
  }
  queue.first = (queue.first + 1) % queue.free.size();
  --queue.free_count;
  queue.is_out[found.buffer] = 1;
  return true;
}

uint64_t FreeLists::bytes_out(Offset at) const noexcept {
  const BufferNumber found = find(at);
  const bool is_out = found.list < lists_.size() && lists_[found.list].is_out[found.buffer] != 0;
  return is_out ? lists_[found.list].geometry.buffer_bytes : 0;
}

FreeLists::BufferNumber FreeLists::find(Offset at) const noexcept {
  if (at == found_at_ && at) return found_;
  BufferNumber found{.list = lists_.size(), .buffer = 0};
  for (size_t i = 0; i < lists_.size(); ++i) {
    const List& list = lists_[i].geometry;
    if (at.value < list.start.value) continue;
    const uint64_t distance = at.value - list.start.value;
    const uint64_t buffer = distance / list.buffer_bytes;
    if (buffer * list.buffer_bytes != distance || buffer >= list.count) continue;
    found = {.list = i, .buffer = static_cast<uint32_t>(buffer)};
    break;
  }
  found_at_ = at;
  found_ = found;
  return found;
}

}  // namespace refract::prism::snic
