// SPDX-License-Identifier: Apache-2.0
#include "refract/object/transfer/path_memory.h"

#include <algorithm>
#include <bit>

#include "refract/base/units.h"

namespace refract::object {

using wire::TransferBy;

namespace {

// Of the mean, that one more pull changes.
constexpr uint64_t kShare = 8;
// One pull that waited for something else says little of its way.
constexpr uint64_t kOutlier = 4;
constexpr uint64_t kSlowPull = 2;
// Of a way's pulls: the first ones meet what is cold, so of these the quickest counts.
constexpr uint64_t kFirstPulls = PathMemory::kTrials / 2;
// Of so many periods: where one way is clearly the worse one, times how much worse it is.
constexpr uint64_t kRareTrial = 8;
constexpr uint64_t kRareTrials = 2;  // One may wait for something else.

[[nodiscard]] constexpr size_t index_of(TransferBy by) noexcept {
  return by == TransferBy::kReads ? 1 : 0;
}
[[nodiscard]] constexpr TransferBy way(size_t index) noexcept {
  return index == 1 ? TransferBy::kReads : TransferBy::kMessages;
}
[[nodiscard]] constexpr bool is_known(const PathMemory::Size& size) noexcept {
  return size.by[0].ns != 0 && size.by[1].ns != 0;
}
// Of both ways the quicker one; REQUIRES: both are known.
[[nodiscard]] constexpr size_t quicker(const PathMemory::Size& size) noexcept {
  return size.by[1].ns < size.by[0].ns ? 1 : 0;
}
[[nodiscard]] constexpr bool is_clear(const PathMemory::Size& size) noexcept {
  if (!is_known(size)) return false;
  const size_t better = quicker(size);
  const bool is_tried =
      size.by[0].pulls >= PathMemory::kTrials / 2 && size.by[1].pulls >= PathMemory::kTrials / 2;
  return is_tried && size.by[1 - better].ns / 3 * 2 > size.by[better].ns;
}

// Two of each way at once, the rest apart: few pulls of a size pay for few trials.
[[nodiscard]] constexpr bool has_trial(uint64_t number) noexcept {
  static_assert(PathMemory::kTrials == 8 && PathMemory::kPeriod == 64);
  return number < 4 || number / 2 == 8 || number / 2 == 16;
}

// As long as nothing is learned.
[[nodiscard]] constexpr size_t first_way(uint64_t bytes, const PathMemory::Channel& channel) noexcept {
  const uint64_t from =
      channel.one_sided_bytes_min != 0 ? channel.one_sided_bytes_min : channel.message_bytes + 1;
  return bytes >= from ? 1 : 0;
}

}  // namespace

size_t PathMemory::size_of(uint64_t bytes) noexcept {
  const auto log2 = static_cast<size_t>(std::bit_width(std::max<uint64_t>(bytes, 1)) - 1);
  return std::min(log2 < kSizeFirstLog2 ? 0 : log2 - kSizeFirstLog2, kSizes - 1);
}

// Each round trip brings what may be under way, and no more: that takes longer by half than READs do, which
// have a round trip more at their beginning.
bool PathMemory::messages_cannot_fill(uint64_t bytes, const Channel& channel) const noexcept {
  const uint64_t window_bytes = channel.messages_max * channel.message_bytes;
  if (window_bytes == 0 || bytes_per_s_ == 0) return false;
  const double windows = static_cast<double>(bytes) / static_cast<double>(window_bytes);
  const double least_ns = windows * static_cast<double>(round_trip_ns_);
  return least_ns > 1.5 * static_cast<double>(round_trip_ns_ + time_of(bytes));
}

std::optional<TransferBy> PathMemory::clearly_better(uint64_t bytes, const Channel& channel) const noexcept {
  const size_t size = size_of(bytes);
  if (is_clear(sizes_[size])) return way(quicker(sizes_[size]));
  if (messages_cannot_fill(bytes, channel)) return TransferBy::kReads;
  // READs that are better by half at a smaller size are so at this one; messages, at a larger one.
  for (size_t i = size; i-- > 0;) {
    if (is_clear(sizes_[i]) && quicker(sizes_[i]) == 1) return TransferBy::kReads;
  }
  for (size_t i = size + 1; i < kSizes; ++i) {
    if (is_clear(sizes_[i]) && quicker(sizes_[i]) == 0) return TransferBy::kMessages;
  }
  return std::nullopt;
}

TransferBy PathMemory::choose(uint64_t bytes, const Channel& channel) noexcept {
  Size& size = sizes_[size_of(bytes)];
  const uint64_t number = size.pulls++ % kPeriod;
  if (const auto clear = clearly_better(bytes, channel)) {
    if (!is_clear(size)) return *clear;
    // Paths change. The worse way is tried once in a while where the answer was found, and the more seldom
    // the more that costs.
    const size_t better = index_of(*clear);
    const uint64_t times_worse = size.by[1 - better].ns / size.by[better].ns + 1;
    const bool is_trial = size.pulls % (kPeriod * kRareTrial * times_worse) < kRareTrials;
    return is_trial ? way(1 - better) : *clear;
  }
  const size_t first = first_way(bytes, channel);
  if (has_trial(number)) return way(number % 2 == 0 ? first : 1 - first);
  return is_known(size) ? way(quicker(size)) : way(first);
}

TransferBy PathMemory::known_way(uint64_t bytes, const Channel& channel) const noexcept {
  if (const auto clear = clearly_better(bytes, channel)) return *clear;
  const Size& size = sizes_[size_of(bytes)];
  return way(is_known(size) ? quicker(size) : first_way(bytes, channel));
}

void PathMemory::learn(TransferBy by, uint64_t bytes, uint64_t ns) noexcept {
  if (bytes == 0 || ns == 0) return;
  const size_t at = size_of(bytes);
  Point& point = sizes_[at].by[index_of(by)];
  ++point.pulls;
  // As if it had the first power of two: a class has objects of twice the length, too.
  const uint64_t whole = bytes_of_size(at);
  uint64_t one_ns = ns;
  if (bytes > whole) one_ns = std::max<uint64_t>(1, ns / bytes * whole + ns % bytes * whole / bytes);
  if (point.pulls <= kFirstPulls) {
    point.ns = point.pulls == 1 ? one_ns : std::min(point.ns, one_ns);
    return;
  }
  // What was quick shows what the way can do; what was slow may have waited for something else.
  const uint64_t share = one_ns < point.ns / 2 ? 2 : kShare;
  one_ns = std::min(one_ns, point.ns * kSlowPull);
  point.ns = std::max<uint64_t>(1, point.ns - point.ns / share + one_ns / share);
}

// The shortest of late: what waited behind something else says nothing of the path.
void PathMemory::note_round_trip(uint64_t ns) noexcept {
  ns = std::max<uint64_t>(ns, 1);
  if (round_trip_ns_ == 0 || ns < round_trip_ns_) {
    round_trip_ns_ = ns;
  } else {
    const uint64_t step = std::min(ns, round_trip_ns_ * kOutlier) - round_trip_ns_;
    round_trip_ns_ += step / (kShare * 2);
  }
}

// The highest of late: what was slowed down by something else says nothing of the path.
void PathMemory::note_rate(uint64_t bytes, uint64_t ns, bool is_full) noexcept {
  const auto rate = static_cast<uint64_t>(static_cast<double>(bytes) * 1e9 /
                                          static_cast<double>(std::max<uint64_t>(ns, 1)));
  if (rate >= bytes_per_s_) {
    bytes_per_s_ = rate;
  } else if (is_full) {
    bytes_per_s_ -= (bytes_per_s_ - rate) / (kShare * 4);
  }
}

uint64_t PathMemory::bytes_under_way() const noexcept {
  const double bytes = static_cast<double>(bytes_per_s_) * static_cast<double>(round_trip_ns_) / 1e9;
  return static_cast<uint64_t>(2 * bytes);
}

uint64_t PathMemory::time_of(uint64_t bytes) const noexcept {
  if (bytes_per_s_ == 0) return 0;
  const double ns = static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_s_);
  return round_trip_ns_ + static_cast<uint64_t>(ns);
}

std::optional<uint64_t> PathMemory::switch_bytes() const noexcept {
  std::optional<uint64_t> from;
  for (size_t i = kSizes; i-- > 0;) {
    if (!is_known(sizes_[i])) continue;
    if (quicker(sizes_[i]) == 0) break;
    from = bytes_of_size(i);
  }
  return from;
}

}  // namespace refract::object
