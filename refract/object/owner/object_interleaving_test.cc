// SPDX-License-Identifier: Apache-2.0
// What a reader holds without a message has its bytes, however its loads fall between the stores of an owner
// that deletes the object and makes another one in its memory.
//
// Method: the stores of the owner are recorded, with a store to a word of its own wherever it looks at pins;
// a reader that has announced its pin loads that word. Then a hold is executed once for every way in which
// the stores can become visible between its loads. Where the reader's pin came behind the look, the owner has
// not seen it, and gives the memory back: then nothing may be held. Where it came before, that recording is
// not what happens, but another one, in which the owner has seen the pin. The tests named "found" break a
// rule on purpose, and demand that some schedule shows it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/fabric/sim/interleavings.h"
#include "refract/kv/testing/test_sim_reader_memory.h"
#include "refract/object/direct/direct_objects.h"
#include "refract/object/testing/test_store.h"

namespace refract::object::object_interleaving_test {
namespace {

using refract::test::needed;
using test::id_of;
using test::StoreWorld;

// Reserved in the header of the space.
constexpr Offset kLooksAt{sizeof(SpaceHeader) - sizeof(uint64_t)};
constexpr uint64_t kBodyBytes = 16;

class SimObjectMemory : public kv::SimReaderMemory {
 public:
  using kv::SimReaderMemory::SimReaderMemory;
  // Of a body, once its object's pin is announced.
  void prefetch(Offset at) noexcept { looks_at_pin[at.value] = observe(kLooksAt); }
  std::map<uint64_t, uint64_t> looks_at_pin;
};

class Recorder final : public StoreLog {
 public:
  void stored(Offset at, std::span<const std::byte> bytes) noexcept override {
    if (list != nullptr) list->stored(at, bytes);
  }
  sim::StoreList* list = nullptr;
};

using Objects = DirectObjects<SimObjectMemory>;
using HoldBy = Objects::Held (*)(Objects&, SimObjectMemory&);

Objects::Held hold(Objects& objects, SimObjectMemory&) {
  return objects.hold(id_of("a"));
}
// Pins, and does not look again.
Objects::Held hold_carelessly(Objects& objects, SimObjectMemory& memory) {
  Objects::Held held;
  held.code = objects.look(id_of("a"), held.record);
  if (held.code != Code::kOk) return held;
  held.pin = objects.pin(held.record);
  memory.prefetch(Offset{held.record.object_at + ObjectParts::body_at()});
  return held;
}

struct Outcomes {
  std::map<std::string, uint64_t> seen;
  std::optional<std::string> wrong;
};

class Trial {
 public:
  Trial() : world_({.chunks = 8, .chunks_max = 8, .limit = 4 * kMiB}, &recorder_) {
    world_.readers.at_look = [this] { world_.writer().publish(kLooksAt, ++looks_); };
  }

  StoreWorld& world() { return world_; }
  Object make(std::string_view id, uint64_t birth) { return needed(world_.make(id, birth, kBodyBytes)); }
  void record(const std::function<void()>& first, const std::function<void()>& then) {
    looks_ = 0;
    world_.writer().publish(kLooksAt, 0);
    base_.assign(world_.base(), world_.base() + world_.bytes());
    sim::StoreList list(world_.base());
    recorder_.list = &list;
    first();
    // The first one behind the removal is what decides.
    ASSERT_EQ(looks_, 1U);
    then();
    recorder_.list = nullptr;
    stores_ = list.stores();
  }
  std::vector<sim::Store>& stores() { return stores_; }

  // `is_seen`: the recording is of an owner that has seen the pin of the object of birth 7.
  Outcomes outcomes(bool is_seen, HoldBy hold_by = hold) {
    Outcomes outcomes;
    const auto count = sim::for_each_interleaving(base_, stores_, {}, [&](sim::ReaderMemory& visible) {
      SimObjectMemory memory(visible);
      PinTable table{};
      PinWriter writer(&table);
      WidePins pins(writer);
      Objects objects(memory, pins, world_.clock());
      const Objects::Held held = hold_by(objects, memory);
      if (held.code != Code::kOk) {
        ++outcomes.seen[std::string(text(held.code))];
        if (writer.in_use() != 0) outcomes.wrong = "a pin is left";
        return;
      }
      const ObjectRecord& record = held.record;
      const uint64_t looks = memory.looks_at_pin[record.object_at + ObjectParts::body_at()];
      const bool was_missed = record.birth == 7 && looks > 0;
      ++outcomes.seen[std::to_string(record.birth) + (was_missed ? " missed" : " held")];
      if (record.birth == 7 && looks == 0 && !is_seen) return;
      const std::string wrong = check(record, memory);
      if (!wrong.empty() && !outcomes.wrong) outcomes.wrong = std::to_string(record.birth) + wrong;
    });
    EXPECT_TRUE(count.complete);
    EXPECT_GT(count.runs, 1U);
    return outcomes;
  }

 private:
  // The bytes are the object's now, and behind the last store.
  std::string check(const ObjectRecord& record, SimObjectMemory& memory) const {
    std::array<std::byte, kBodyBytes> body;
    const Offset at{record.object_at + ObjectParts::body_at()};
    memory.copy(body.data(), at, body.size());
    const auto is_its = [&](std::byte byte) { return byte == StoreWorld::byte_of(record.birth); };
    if (!std::ranges::all_of(body, is_its)) return " has other bytes when it is held";
    std::vector<std::byte> later(base_.begin() + static_cast<ptrdiff_t>(at.value),
                                 base_.begin() + static_cast<ptrdiff_t>(at.value + kBodyBytes));
    for (const sim::Store& store : stores_) {
      if (store.at.value < at.value || store.at.value >= at.value + kBodyBytes) continue;
      std::memcpy(&later[store.at.value - at.value], &store.word, sizeof(store.word));
    }
    return std::ranges::all_of(later, is_its) ? "" : " has other bytes while it is held";
  }

  Recorder recorder_;
  StoreWorld world_;
  uint64_t looks_ = 0;
  std::vector<std::byte> base_;
  std::vector<sim::Store> stores_;
};

TEST(ObjectInterleaving, a_deleted_object_is_held_or_its_memory_is_another_s) {
  Trial trial;
  const Object a = trial.make("a", 7);
  trial.record([&] { ASSERT_TRUE(trial.world().store().erase(id_of("a"), 0)); },
               [&] { EXPECT_EQ(trial.make("b", 8).object.value, a.object.value); });
  const Outcomes outcomes = trial.outcomes(false);
  EXPECT_EQ(outcomes.wrong, std::nullopt);
  EXPECT_GT(outcomes.seen.at("7 held"), 0U);
  EXPECT_GT(outcomes.seen.at("not_found"), 0U);
  EXPECT_EQ(outcomes.seen.size(), 2U);
}

TEST(ObjectInterleaving, what_the_owner_has_seen_keeps_its_bytes) {
  Trial trial;
  const Object a = trial.make("a", 7);
  trial.world().readers.hold(a.object);
  trial.record([&] { ASSERT_TRUE(trial.world().store().erase(id_of("a"), 0)); },
               [&] {
                 EXPECT_NE(trial.make("b", 8).object.value, a.object.value);
                 EXPECT_NE(trial.make("a", 9).object.value, a.object.value);
               });
  const Outcomes outcomes = trial.outcomes(true);
  EXPECT_EQ(outcomes.wrong, std::nullopt);
  EXPECT_GT(outcomes.seen.at("7 held"), 0U);
  EXPECT_GT(outcomes.seen.at("9 held"), 0U);
}

TEST(ObjectInterleaving, the_same_id_comes_again_in_the_same_place) {
  Trial trial;
  const Object a = trial.make("a", 7);
  trial.record([&] { ASSERT_TRUE(trial.world().store().erase(id_of("a"), 0)); },
               [&] { EXPECT_EQ(trial.make("a", 8).object.value, a.object.value); });
  const Outcomes outcomes = trial.outcomes(false);
  EXPECT_EQ(outcomes.wrong, std::nullopt);
  EXPECT_GT(outcomes.seen.at("7 held"), 0U);
  EXPECT_GT(outcomes.seen.at("8 held"), 0U);
  EXPECT_FALSE(outcomes.seen.contains("7 missed"));
}

TEST(ObjectInterleaving, an_evicted_object_is_held_or_its_memory_is_another_s) {
  Trial trial;
  const Object a = trial.make("a", 7);
  // An eviction looks at pins before it chooses, too: that look is not the one that decides.
  auto& readers = trial.world().readers;
  const auto note = readers.at_look;
  readers.at_look = [&, is_first = true]() mutable {
    if (!is_first) note();
    is_first = false;
  };
  trial.record([&] { EXPECT_EQ(trial.world().store().evict(1), kBodyBytes); },
               [&] { EXPECT_EQ(trial.make("b", 8).object.value, a.object.value); });
  const Outcomes outcomes = trial.outcomes(false);
  EXPECT_EQ(outcomes.wrong, std::nullopt);
  EXPECT_GT(outcomes.seen.at("7 held"), 0U);
  EXPECT_FALSE(outcomes.seen.contains("7 missed"));
}

TEST(ObjectInterleaving, a_hold_survives_that_its_object_is_kept_meanwhile) {
  Trial trial;
  (void)trial.make("a", 7);
  auto& readers = trial.world().readers;
  const auto note = readers.at_look;
  trial.record(
      [&] {
        ASSERT_EQ(trial.world().store().keep(id_of("a"), true), Code::kOk);
        ASSERT_EQ(trial.world().store().keep(id_of("a"), false), Code::kOk);
        note();
      },
      [] {});
  const Outcomes outcomes = trial.outcomes(true);
  EXPECT_EQ(outcomes.wrong, std::nullopt);
  EXPECT_FALSE(outcomes.seen.contains("not_found"));
}

// A record of the table goes into what an object was, and an object into what records were.
TEST(ObjectInterleaving, memory_of_objects_and_of_records_changes_hands) {
  Trial trial;
  const std::string long_id(80, 'i');  // Its record takes as much as a small object.
  (void)trial.make("a", 7);
  trial.record([&] { ASSERT_TRUE(trial.world().store().erase(id_of("a"), 0)); },
               [&] {
                 (void)trial.make(long_id, 8);
                 trial.world().heap().reclaim();
                 (void)trial.make("a", 9);
                 ASSERT_TRUE(trial.world().store().erase(id_of(long_id), 0));
                 trial.world().heap().reclaim();
                 (void)trial.make("c", 10);
               });
  const Outcomes outcomes = trial.outcomes(false);
  EXPECT_EQ(outcomes.wrong, std::nullopt);
  EXPECT_GT(outcomes.seen.at("9 held"), 0U);
}

TEST(ObjectInterleaving, a_look_at_pins_before_the_removal_is_found) {
  Trial trial;
  (void)trial.make("a", 7);
  trial.record([&] { ASSERT_TRUE(trial.world().store().erase(id_of("a"), 0)); },
               [&] { (void)trial.make("b", 8); });
  auto& stores = trial.stores();
  const auto look = std::ranges::find(stores, kLooksAt, &sim::Store::at);
  ASSERT_NE(look, stores.end());
  std::rotate(stores.begin(), look, look + 1);
  EXPECT_NE(trial.outcomes(false).wrong, std::nullopt);
}

TEST(ObjectInterleaving, a_reader_that_does_not_look_again_is_found) {
  Trial trial;
  (void)trial.make("a", 7);
  trial.record([&] { ASSERT_TRUE(trial.world().store().erase(id_of("a"), 0)); },
               [&] { (void)trial.make("b", 8); });
  EXPECT_NE(trial.outcomes(false, hold_carelessly).wrong, std::nullopt);
}

TEST(ObjectInterleaving, a_seal_before_the_last_byte_is_found) {
  Trial trial;
  const Creation made = needed(trial.world().create("a", 8, kBodyBytes));
  auto& readers = trial.world().readers;
  const auto note = readers.at_look;
  trial.record(
      [&] {
        ASSERT_TRUE(trial.world().store().seal(id_of("a"), 8));
        trial.world().fill(made);
        note();
      },
      [] {});
  EXPECT_NE(trial.outcomes(false).wrong, std::nullopt);
}

}  // namespace
}  // namespace refract::object::object_interleaving_test
