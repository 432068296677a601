// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/extent_allocator.h"

#include "refract/base/check.h"

namespace refract {

void ExtentAllocator::insert(Run run) {
  by_start_.emplace(run.start.value, run.bytes);
  by_bytes_.emplace(run.bytes, run.start.value);
  free_bytes_ += run.bytes;
}

void ExtentAllocator::remove(std::map<uint64_t, uint64_t>::iterator run) {
  by_bytes_.erase({run->second, run->first});
  free_bytes_ -= run->second;
  by_start_.erase(run);
}

ExtentAllocator::Run ExtentAllocator::release(Run run) {
  auto next = by_start_.lower_bound(run.start.value);
  REFRACT_CHECK(next == by_start_.end() || next->first >= run.start.value + run.bytes);
  if (next != by_start_.end() && next->first == run.start.value + run.bytes &&
      !borders_.contains(next->first)) {
    run.bytes += next->second;
    remove(next);
  }
  auto previous = by_start_.lower_bound(run.start.value);
  if (previous != by_start_.begin() && !borders_.contains(run.start.value)) {
    --previous;
    REFRACT_CHECK(previous->first + previous->second <= run.start.value);
    if (previous->first + previous->second == run.start.value) {
      run = {.start = {previous->first}, .bytes = previous->second + run.bytes};
      remove(previous);
    }
  }
  insert(run);
  return run;
}

std::optional<Offset> ExtentAllocator::take(uint64_t bytes) {
  const auto fit = by_bytes_.lower_bound({bytes, 0});
  if (fit == by_bytes_.end()) return std::nullopt;
  const Run run{.start = {fit->second}, .bytes = fit->first};
  remove(by_start_.find(run.start.value));
  if (run.bytes > bytes) insert({.start = run.start.plus(bytes), .bytes = run.bytes - bytes});
  return run.start;
}

bool ExtentAllocator::take_at(Run run) {
  auto holder = by_start_.upper_bound(run.start.value);
  if (holder == by_start_.begin()) return false;
  --holder;
  const Run whole{.start = {holder->first}, .bytes = holder->second};
  const uint64_t before = run.start.value - whole.start.value;
  if (before + run.bytes > whole.bytes) return false;
  remove(holder);
  if (before > 0) insert({.start = whole.start, .bytes = before});
  const uint64_t after = whole.bytes - before - run.bytes;
  if (after > 0) insert({.start = run.start.plus(run.bytes), .bytes = after});
  return true;
}

void ExtentAllocator::clear() noexcept {
  by_start_.clear();
  by_bytes_.clear();
  free_bytes_ = 0;
}

}  // namespace refract
