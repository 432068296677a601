// SPDX-License-Identifier: Apache-2.0
#include "refract/object/directory/bring_time.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "refract/base/units.h"

namespace refract::object {
namespace {

// As many answers are under way where a pull begins and nothing of the path is known (ObjectTransfer).
constexpr uint64_t kFirstMessages = 8;
// A pull that took so many round trips shows what bytes cost.
constexpr uint64_t kRoundTripsOfRate = 4;
// A holder has two pieces at least, or another one is of no use.
constexpr uint64_t kBytesOfHolder = 2 * kMiB;

[[nodiscard]] uint64_t whole_ns(double ns) noexcept {
  constexpr double kMost = 1e18;  // 30 years.
  return static_cast<uint64_t>(std::clamp(ns, 1.0, kMost));
}

[[nodiscard]] uint64_t shortest(const PathMemory::Size& size) noexcept {
  const auto [messages_ns, reads_ns] = std::pair(size.by[0].ns, size.by[1].ns);
  if (messages_ns == 0 || reads_ns == 0) return std::max(messages_ns, reads_ns);
  return std::min(messages_ns, reads_ns);
}

// By pulls over this path. Nothing: they say nothing of this size.
[[nodiscard]] std::optional<uint64_t> measured_ns(const PathMemory& path, uint64_t bytes) noexcept {
  const size_t at = PathMemory::size_of(bytes);
  if (const uint64_t ns = shortest(path.sizes()[at]); ns != 0) {
    const uint64_t whole = PathMemory::bytes_of_size(at);
    if (bytes <= whole) return ns;
    return whole_ns(static_cast<double>(ns) * static_cast<double>(bytes) / static_cast<double>(whole));
  }
  for (size_t i = 0; i < PathMemory::kSizes; ++i) {
    const uint64_t ns = shortest(path.sizes()[i]);
    const bool shows_rate = i > at || ns / kRoundTripsOfRate >= path.round_trip_ns();
    if (ns == 0 || !shows_rate || path.bytes_per_s() == 0) continue;
    return whole_ns(static_cast<double>(path.round_trip_ns()) +
                    static_cast<double>(bytes) * 1e9 / static_cast<double>(path.bytes_per_s()));
  }
  return std::nullopt;
}

}  // namespace

BringTime bring_time(const KnownPath& path, uint64_t bytes) noexcept {
  if (const auto ns = measured_ns(*path.measured, bytes)) return {.ns = *ns};
  const uint64_t known_ns = path.measured->round_trip_ns();
  const auto round_trip_ns =
      static_cast<double>(std::max<uint64_t>(known_ns != 0 ? known_ns : path.hello_ns, 1));
  const double first_rate =
      static_cast<double>(kFirstMessages * std::max<uint64_t>(path.message_bytes, 1)) * 1e9 / round_trip_ns;
  const double rate = std::max(first_rate, static_cast<double>(path.measured->bytes_per_s()));
  return {.ns = whole_ns(round_trip_ns + static_cast<double>(bytes) * 1e9 / rate), .is_guessed = true};
}

void BringEstimate::add(uint64_t bytes, std::span<const Holder> holders) {
  ++missing_;
  missing_bytes_ = sum_or_most(missing_bytes_, bytes);
  if (holders.empty()) {
    ++unreachable_;
    return;
  }
  struct Offer {
    uint64_t done_ns;
    BringTime alone;
    MemberIndex member;
  };
  std::vector<Offer> offers;
  offers.reserve(holders.size());
  for (const Holder& holder : holders) {
    const BringTime alone = bring_time(holder.path, bytes);
    offers.push_back(
        {.done_ns = sum_or_most(busy_ns_[holder.member], alone.ns), .alone = alone, .member = holder.member});
  }
  std::ranges::sort(offers, {}, [](const Offer& offer) { return std::pair(offer.done_ns, offer.member); });
  const size_t together =
      std::clamp<uint64_t>(bytes / kBytesOfHolder, 1, std::min(offers.size(), kHoldersMax));
  double objects_per_ns = 0;
  for (size_t i = 0; i < together; ++i) objects_per_ns += 1 / static_cast<double>(offers[i].alone.ns);
  const uint64_t share_ns = whole_ns(1 / objects_per_ns);
  for (size_t i = 0; i < together; ++i) {
    uint64_t& busy_ns = busy_ns_[offers[i].member];
    busy_ns = sum_or_most(busy_ns, share_ns);
    time_ns_ = std::max(time_ns_, busy_ns);
    is_guessed_ = is_guessed_ || offers[i].alone.is_guessed;
  }
}

}  // namespace refract::object
