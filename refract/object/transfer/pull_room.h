// SPDX-License-Identifier: Apache-2.0
// Room for copies of what other members have, taken in turns.
//
// Pulls stand in one line, those that a get awaits before others, each in the order it came; only the first
// takes room, so that no small one overtakes a large one for ever. What was pulled stays for kGrace_ns, or
// until a reader holds it, whatever lacks room: so each get that was told of a copy finds it, and pulls of a
// set that is larger than the memory do not evict each other's copies in circles, but end with kNoSpace.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <span>

#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/session_state.h"
#include "refract/object/owner/elsewhere.h"
#include "refract/object/owner/object_store.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::object {

class PullRoom {
 public:
  // Shorter than a get waits for what a look brings (2 s), so that it is told.
  static constexpr uint64_t kTimeout_ns = 1500 * kMillisecond_ns;
  static constexpr uint64_t kGrace_ns = 100 * kMillisecond_ns;

  // All outlive it.
  struct Parts {
    ObjectStore& store;
    runtime::Shard& shard;
    kv::GrowthSource& growth;
    kv::SessionPins* pins = nullptr;  // Among the sources that the heap asks. Null: nothing has a grace.
  };
  explicit PullRoom(const Parts& parts) noexcept : parts_(parts) {}
  PullRoom(const PullRoom&) = delete;
  PullRoom& operator=(const PullRoom&) = delete;
  ~PullRoom();

  // Told when objects have gone for it; may be null, likewise later.
  void tell(Elsewhere::Asker* asker) noexcept { asker_ = asker; }

  // Makes the creation. kExists: that birth is sealed here already, or another one. kNoSpace: within
  // kTimeout_ns there was none, not counting the time in which memory was on its way.
  [[nodiscard]] runtime::Task<Code> take(ObjectStore::NewObject object, bool is_awaited);
  // A copy is there.
  void came(const Object& object);
  // It is about to be deleted.
  void end_grace_of(std::span<const std::byte> id, uint64_t birth);

  struct Counts {
    uint64_t waits = 0;   // Pulls that did not find room at once,
    uint64_t fails = 0;   // and those that found none at all.
    uint64_t graces = 0;  // Copies that nothing may take now.
  };
  [[nodiscard]] Counts counts() const noexcept;

 private:
  struct Waiting {
    bool is_awaited = false;
    runtime::Token waiter = 0;
  };
  struct Grace {
    Offset object;
    uint64_t until_ns = 0;
  };
  class Place;

  [[nodiscard]] Code try_take(const ObjectStore::NewObject& object);
  [[nodiscard]] runtime::Task<Code> take_in_turn(ObjectStore::NewObject object, bool is_awaited);
  void wake_first() noexcept;
  // Of those that readers hold, and of those whose time is over.
  void end_graces();
  [[nodiscard]] runtime::Task<> run_graces();

  const Parts parts_;
  Elsewhere::Asker* asker_ = nullptr;
  std::list<Waiting> line_;
  uint64_t memory_comes_ns_ = 0;  // When the first in the line last waited for memory that can come.
  std::deque<Grace> graces_;      // The oldest first.
  bool is_timing_ = false;
  runtime::Task<> timer_;
  Counts counts_;
};

}  // namespace refract::object
