// SPDX-License-Identifier: Apache-2.0
// What all operations of one remote reader share: where the space is reached, how the table lies in it, what
// was seen of it so far, and what its owner's clock may say.
//
// Threads: one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "refract/base/units.h"
#include "refract/kv/layout/table_geometry.h"
#include "refract/kv/remote/location_cache.h"
#include "refract/kv/remote/remote_space.h"

namespace refract::kv {

// Between which two moments the owner's wall clock stands, from what it said in an answer.
class OwnerClock {
 public:
  struct Answer {
    uint64_t wall_ns = 0;
    uint64_t asked_ns = 0;  // By the shard's clock, likewise.
    uint64_t answered_ns = 0;
  };
  void note(const Answer& answer) noexcept { answer_ = answer; }

  struct Range {
    uint64_t earliest_ns = 0;
    uint64_t latest_ns = 0;
  };
  // `error_ns`: by how much it may be set in the meantime. Clocks that drift by more than a thousandth are
  // broken.
  [[nodiscard]] Range at(uint64_t now_ns, uint64_t error_ns) const noexcept {
    const uint64_t since_ns = std::max(now_ns, answer_.answered_ns) - answer_.answered_ns;
    const uint64_t margin_ns = error_ns + since_ns / 1000;
    const uint64_t earliest_ns = answer_.wall_ns + since_ns;
    return {.earliest_ns = earliest_ns > margin_ns ? earliest_ns - margin_ns : 0,
            .latest_ns = earliest_ns + (answer_.answered_ns - answer_.asked_ns) + margin_ns};
  }
  [[nodiscard]] uint64_t answered_ns() const noexcept { return answer_.answered_ns; }

 private:
  Answer answer_;
};

// Why an operation went to the owner by a call instead.
enum class WhyCalled : uint8_t {
  kNotAttached,  // The channel's READs need the owner, or it offers no memory.
  kClosed,       // The channel has closed meanwhile; a call waits until it is open again.
  kExpires,      // Whether the entry's time has come, only the owner's clock tells.
  kLarge,        // Beyond RemoteClientOptions::buffer_bytes_max.
  kContended,    // The entry was changed again and again.
  kRefused,      // What was read made no sense, or could not be read.
  kCrowded,      // The bucket has more lines than are worth a round trip each.
};
inline constexpr size_t kWhyCalledReasons = 7;

struct RemoteCounts {
  uint64_t gets = 0;         // Answered by READs, kNotFound included.
  uint64_t batches = 0;      // Round trips, each of however many gets.
  uint64_t reads = 0;        // Posted.
  uint64_t retries = 0;      // Gets that met a change and looked again.
  uint64_t region_asks = 0;  // Times that the owner was asked where its memory lies.
  std::array<uint64_t, kWhyCalledReasons> called{};

  [[nodiscard]] uint64_t all_called() const noexcept {
    uint64_t sum = 0;
    for (const uint64_t count : called) sum += count;
    return sum;
  }
};

struct RemoteClientOptions {
  uint64_t timeout_ns = 5 * kSecond_ns;
  // Of the memory for locations, 41 bytes each; 0: none, so that every get takes two round trips.
  size_t location_bytes = kMiB;
  // Longer entries are got by calls, which pin them and read them piece by piece.
  uint64_t buffer_bytes_max = 64 * kKiB;
  size_t batch = 16;  // Keys of a multi_get that are read together.
  // By how much the owner's wall clock may be set between two looks at it. Entries whose time comes or came
  // within that are got by calls.
  uint64_t clock_error_ns = kSecond_ns;
  // The whole stamp is READ again behind the slot, and in front of a buffer whose stamp is not known yet: a
  // slot has room for 16 bits of it, which come back after 65,536 puts. docs/design/042-confirmed-stamps.md.
  // False: for tests of what that is needed for.
  bool confirms_stamps = true;
};

struct RemoteLink {
  explicit RemoteLink(const RemoteClientOptions& how) : options(how), locations(how.location_bytes) {}

  RemoteClientOptions options;
  RemoteSpace space;
  TableGeometry geometry;
  LocationCache locations;
  OwnerClock clock;
  RemoteCounts counts;
};

}  // namespace refract::kv
