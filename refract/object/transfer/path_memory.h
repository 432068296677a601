// SPDX-License-Identifier: Apache-2.0
// What a node has learned of its way to one member: how long a message there and back takes, how many bytes a
// second come, and from which size on READs bring an object sooner than messages.
//
// Pulls themselves are the trials (docs/design/055-object-transport.md): of kPeriod pulls of about one size,
// kTrials take the two ways in turns, half of them at once and the others apart, and the rest the way that
// was quicker. Where one way was quicker by half at this size, or else at a smaller or larger one, there are
// no trials: what a message costs for each byte, and a READ at its beginning, does not turn around. There are
// none either where what messages may have under way does not fill the path: a trial of many round trips
// would cost more than all pulls by READs.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "refract/object/transfer/transfer_wire.h"

namespace refract::object {

class PathMemory {
 public:
  // Sizes from a power of two up to the next one; the first has all that is shorter, too.
  static constexpr size_t kSizeFirstLog2 = 10;
  static constexpr size_t kSizes = 20;
  static constexpr uint64_t kPeriod = 64;
  static constexpr uint64_t kTrials = 8;

  // The way that one more pull of so many bytes takes. `one_sided_bytes_min`: the channel's word, as long as
  // nothing is learned; 0 stands for `message_bytes`, above which messages need several. `messages_max`: so
  // many are under way at most; 0: any number.
  struct Channel {
    uint32_t one_sided_bytes_min = 0;
    uint64_t message_bytes = 0;
    uint64_t messages_max = 0;
  };
  [[nodiscard]] wire::TransferBy choose(uint64_t bytes, const Channel& channel) noexcept;
  // The same of one that is no trial.
  [[nodiscard]] wire::TransferBy known_way(uint64_t bytes, const Channel& channel) const noexcept;
  // One that this member alone brought, whole.
  void learn(wire::TransferBy by, uint64_t bytes, uint64_t ns) noexcept;

  void note_round_trip(uint64_t ns) noexcept;
  // Of some pieces: so many bytes came in this time. Where there was too little to ask for to fill the path,
  // that counts only if it is more than what was known.
  void note_rate(uint64_t bytes, uint64_t ns, bool is_full) noexcept;
  // 0: not known.
  [[nodiscard]] uint64_t round_trip_ns() const noexcept { return round_trip_ns_; }
  [[nodiscard]] uint64_t bytes_per_s() const noexcept { return bytes_per_s_; }
  // What should be under way so that the path is full: twice rate x delay. 0: not known.
  [[nodiscard]] uint64_t bytes_under_way() const noexcept;
  // About how long an object of so many bytes takes; 0: not known.
  [[nodiscard]] uint64_t time_of(uint64_t bytes) const noexcept;

  // One way, at one size.
  struct Point {
    uint64_t ns = 0;  // Mean, of late, for the whole of the size's first power of two. 0: never tried.
    uint64_t pulls = 0;
  };
  struct Size {
    std::array<Point, 2> by{};  // Messages, READs.
    uint64_t pulls = 0;
  };
  [[nodiscard]] const std::array<Size, kSizes>& sizes() const noexcept { return sizes_; }
  // From how many bytes on READs are quicker, as far as it is known; nothing: at no size that was tried.
  [[nodiscard]] std::optional<uint64_t> switch_bytes() const noexcept;

  [[nodiscard]] static size_t size_of(uint64_t bytes) noexcept;
  [[nodiscard]] static uint64_t bytes_of_size(size_t size) noexcept {
    return uint64_t{1} << (kSizeFirstLog2 + size);
  }

 private:
  // By half, at this size or one that says the same of it. Nothing: it must be tried.
  [[nodiscard]] std::optional<wire::TransferBy> clearly_better(uint64_t bytes,
                                                               const Channel& channel) const noexcept;
  [[nodiscard]] bool messages_cannot_fill(uint64_t bytes, const Channel& channel) const noexcept;

  std::array<Size, kSizes> sizes_{};
  uint64_t round_trip_ns_ = 0;
  uint64_t bytes_per_s_ = 0;
};

}  // namespace refract::object
