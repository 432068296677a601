// SPDX-License-Identifier: Apache-2.0
// One run of a store of objects in a simulated world: an owner that is killed between any two of its stores
// and recovers, clients that make, get, hold and delete objects of a few ids, and a judge of every answer.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace refract::campaign {

// Rules broken on purpose, to see that the campaign finds it.
enum class ObjectMutation : uint8_t {
  kNone,
  kNoSecondLook,    // Readers that have pinned do not look again.
  kEarlyPins,       // The owner looks at pins while readers still see the record that it has removed.
  kIgnorePins,      // The owner gives back what clients have pinned.
  kForgetDeparted,  // Recovery overlooks the records of departed objects.
  kEarlyReads,      // The owner publishes what it READs from a creator before the bytes are there.
  kEarlyAborts,     // It gives back what a creator aborts while it READs into it.
  kReleaseAtOnce,   // It gives back what its own answers still show.
  kLoseSealed,      // Recovery overlooks a sealed object.
};

struct ObjectMutationRow {
  ObjectMutation mutation;
  std::string_view name;
};

inline constexpr std::array kObjectMutations = {
    ObjectMutationRow{ObjectMutation::kNoSecondLook, "readers do not look again"},
    ObjectMutationRow{ObjectMutation::kEarlyPins, "pins are looked at before the record is gone"},
    ObjectMutationRow{ObjectMutation::kIgnorePins, "pins are ignored"},
    ObjectMutationRow{ObjectMutation::kForgetDeparted, "recovery forgets what has departed"},
    ObjectMutationRow{ObjectMutation::kEarlyReads, "an object is published before its bytes are there"},
    ObjectMutationRow{ObjectMutation::kEarlyAborts, "memory is given back while a READ is under way"},
    ObjectMutationRow{ObjectMutation::kReleaseAtOnce, "what is being fetched is given back"},
    ObjectMutationRow{ObjectMutation::kLoseSealed, "recovery loses an object"},
};

struct ObjectRun {
  uint64_t seed = 1;
  int clients = 4;       // Hosts, with one worker each.
  int operations = 150;  // Of each worker, but for those who are far away.
  int ids = 5;
  bool crashes = true;
  bool evicts = false;  // The limit is low, and objects that are not held go.
  ObjectMutation mutation = ObjectMutation::kNone;
};

// What happened, so that a campaign can say what it has covered.
struct ObjectOutcome {
  std::string wrong;  // Empty: all answers were right. Else the first wrong one, with the seed.
  uint64_t found = 0;
  uint64_t missing = 0;
  uint64_t held = 0;  // Handles, whose bytes were compared at their end,
  uint64_t held_over_crash = 0;
  uint64_t held_over_delete = 0;
  uint64_t fetched = 0;
  uint64_t sealed = 0;
  uint64_t pulled = 0;   // Objects that the owner READ from their creators.
  uint64_t written = 0;  // Those that their creators wrote through a window.
  uint64_t sealed_over_crash = 0;
  uint64_t put = 0;
  uint64_t aborted = 0;
  uint64_t left = 0;  // Creations without a word.
  uint64_t deleted = 0;
  uint64_t evicted = 0;
  uint64_t refused = 0;  // For an id that another object has.
  uint64_t no_space = 0;
  uint64_t unknown = 0;   // Calls whose fate no client learned.
  uint64_t repeated = 0;  // Messages that came twice.
  uint64_t crashes = 0;
  uint64_t trace_hash = 0;

  // Adds the other's numbers; `wrong` and the hash stay.
  void add(const ObjectOutcome& other);
  [[nodiscard]] std::string text() const;
};

[[nodiscard]] ObjectOutcome run_objects(const ObjectRun& run);

}  // namespace refract::campaign
