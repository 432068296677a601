// SPDX-License-Identifier: Apache-2.0
// Sessions and their records: how long they are kept, how many there are, where they lie, and that a restart
// finds them behind a kill at any store.
#include "refract/kv/owner/numbered/session_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/needed.h"
#include "refract/kv/owner/table/eviction.h"
#include "refract/kv/testing/test_growth.h"
#include "refract/kv/testing/test_kills.h"

namespace refract::kv::session_records_test {
namespace {

using refract::test::needed;
using test::bytes_of;
using test::KilledMemory;
using test::KilledOwner;
using test::Space;

constexpr SecretDigest kSecret{11, 12};

class Sessions : public testing::Test {
 protected:
  [[nodiscard]] SessionRecords& sessions() { return space.table().sessions(); }
  [[nodiscard]] NumberedSession& begin(uint64_t connection) {
    return *needed(sessions().begin(connection, kSecret));
  }
  uint16_t write(NumberedSession& session, uint64_t number, Code code = Code::kOk) {
    EXPECT_TRUE(sessions().has_room(session));
    return sessions().write(session, {.number = number, .code = code, .answer = {}, .word_at = {}});
  }
  NumberedSession& resumed(uint64_t id, uint64_t connection) {
    return *needed(sessions().resume(id, kSecret, connection)).session;
  }

 public:
  Space space{{.chunks = 8, .chunks_max = 8}};
};

TEST_F(Sessions, one_is_resumed_by_its_id_and_secret_alone) {
  const uint64_t id = begin(1).id();
  const uint64_t other = begin(2).id();
  EXPECT_NE(id, other);
  EXPECT_EQ(sessions().begin(1, kSecret).code(), Code::kInvalidArgument) << "one a connection";
  EXPECT_EQ(sessions().resume(id, {11, 13}, 3).code(), Code::kInvalidated);
  EXPECT_EQ(sessions().resume(id, {10, 12}, 3).code(), Code::kInvalidated);
  EXPECT_EQ(sessions().resume(id + 1'000, kSecret, 3).code(), Code::kInvalidated);
  EXPECT_EQ(sessions().resume(id, kSecret, 2).code(), Code::kInvalidArgument) << "it has another one";
  const auto resumed = needed(sessions().resume(id, kSecret, 3));
  EXPECT_EQ(resumed.connection_before, 1U);
  EXPECT_EQ(sessions().of(1), nullptr) << "the old connection runs nothing any more";
  EXPECT_EQ(sessions().of(3), resumed.session);
  EXPECT_EQ(needed(sessions().resume(id, kSecret, 3)).connection_before, 0U) << "the answer was lost";
  sessions().end(1);
  EXPECT_EQ(sessions().of(3), resumed.session) << "the end of the old connection is none of the session's";
  sessions().end(3);
  EXPECT_EQ(sessions().of(3), nullptr);
  EXPECT_EQ(needed(sessions().resume(id, kSecret, 4)).connection_before, 0U);
}

TEST_F(Sessions, one_that_has_ended_is_kept_for_a_minute_and_then_gives_its_memory_back) {
  const uint64_t before = space.heap().stats().buffers_live;
  NumberedSession& session = begin(1);
  const uint64_t id = session.id();
  (void)write(session, 7);
  (void)begin(2);
  EXPECT_EQ(sessions().next_drop_ns(), kForever_ns);
  sessions().end(1);
  EXPECT_EQ(sessions().next_drop_ns(), space.clock().now_ns() + SessionRecords::kKept_ns);
  space.clock().advance_ns(SessionRecords::kKept_ns - 1);
  EXPECT_EQ(sessions().drop_ended(), 0U);
  EXPECT_TRUE(sessions().find(resumed(id, 3), 7)) << "it still knows what became of its numbers";
  sessions().end(3);
  space.clock().advance_ns(SessionRecords::kKept_ns);
  EXPECT_EQ(sessions().drop_ended(), 1U);
  EXPECT_EQ(sessions().resume(id, kSecret, 4).code(), Code::kInvalidated);
  EXPECT_EQ(space.heap().stats().buffers_live, before + 1);
  space.restart();
  EXPECT_EQ(sessions().counts().sessions, 1U);
}

TEST_F(Sessions, none_begins_while_as_many_have_ended_as_may_be_kept) {
  sessions().set_ended_max(2);
  std::vector<uint64_t> ids;
  for (uint64_t connection = 1; connection <= 4; ++connection) ids.push_back(begin(connection).id());
  sessions().end(1);
  EXPECT_TRUE(sessions().begin(5, kSecret)) << "one more may end";
  sessions().end(2);
  EXPECT_EQ(sessions().begin(6, kSecret).code(), Code::kOverloaded);
  // A restart ends all: more than may be kept, and none goes before its time.
  space.clock().advance_ns(SessionRecords::kKept_ns - 1);
  space.restart();
  sessions().set_ended_max(2);
  EXPECT_EQ(sessions().counts().ended, 5U);
  space.clock().advance_ns(SessionRecords::kKept_ns - 1);
  EXPECT_EQ(sessions().begin(6, kSecret).code(), Code::kOverloaded);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(resumed(ids[i], 10 + i).id(), ids[i]);
  EXPECT_TRUE(sessions().begin(6, kSecret)) << "one has ended";
}

TEST_F(Sessions, one_grows_to_sixteen_blocks_whose_places_stay) {
  NumberedSession& session = begin(1);
  std::map<uint64_t, uint16_t> places;
  for (uint64_t number = 1; number <= kRecordsPerSession; ++number) places[number] = write(session, number);
  EXPECT_EQ(session.blocks(), kBlocksPerSession);
  EXPECT_EQ(session.records(), kRecordsPerSession);
  EXPECT_FALSE(sessions().has_room(session));
  EXPECT_TRUE(sessions().acknowledge(session, 500, places[500]));
  EXPECT_TRUE(sessions().has_room(session));
  EXPECT_EQ(write(session, 5'000), places[500]) << "the place whose line is in the cache";
  places[5'000] = std::exchange(places[500], kPlaceUnknown);
  const uint64_t id = session.id();
  space.restart();
  NumberedSession& again = resumed(id, 2);
  EXPECT_EQ(again.blocks(), kBlocksPerSession);
  for (const auto& [number, place] : places) {
    const auto told = sessions().find(again, number);
    ASSERT_EQ(told.has_value(), place != kPlaceUnknown) << number;
    if (told) {
      EXPECT_EQ(told->place, place) << number;
    }
  }
  EXPECT_FALSE(sessions().has_room(again));
}

// The first came, and its answer was lost: by then another number has the place.
TEST_F(Sessions, an_acknowledgement_is_of_a_number_and_not_of_a_place) {
  NumberedSession& session = begin(1);
  const uint16_t place = write(session, 1);
  EXPECT_FALSE(sessions().acknowledge(session, 1, place + 1));
  EXPECT_FALSE(sessions().acknowledge(session, 1, kRecordsPerBlock));
  EXPECT_FALSE(sessions().acknowledge(session, 2));
  EXPECT_FALSE(sessions().acknowledge(session, 0, place + 1)) << "a free place has no number";
  EXPECT_TRUE(sessions().acknowledge(session, 1, place));
  EXPECT_FALSE(sessions().find(session, 1));
  EXPECT_EQ(write(session, 2), place);
  EXPECT_FALSE(sessions().acknowledge(session, 1, place));
  EXPECT_TRUE(sessions().find(session, 2));
  EXPECT_TRUE(sessions().acknowledge(session, 2)) << "without the place";
  EXPECT_EQ(session.records(), 0U);
}

TEST_F(Sessions, numbers_are_found_in_whatever_order_they_come_and_go) {
  Prng prng(3);
  uint64_t id = begin(1).id();
  std::map<uint64_t, uint16_t> known;
  for (int round = 0; round < 20'000; ++round) {
    NumberedSession& session = *sessions().of(1);
    const uint64_t number = prng.chance(0.5) ? 1 + prng.below(600) : kNumberMax - prng.below(600) * 4096;
    const auto told = sessions().find(session, number);
    ASSERT_EQ(told.has_value(), known.contains(number));
    if (told) {
      ASSERT_EQ(told->place, known[number]);
      ASSERT_TRUE(sessions().acknowledge(session, number, prng.chance(0.5) ? told->place : kPlaceUnknown));
      known.erase(number);
    } else if (sessions().has_room(session)) {
      known[number] = write(session, number);
    }
    ASSERT_EQ(session.records(), known.size());
    if (round % 5'000 != 4'999) continue;
    space.restart();
    (void)resumed(id, 1);
  }
  EXPECT_GT(known.size(), 300U);
}

TEST_F(Sessions, what_no_kill_leaves_is_damage_and_nothing_is_stored) {
  ASSERT_TRUE(space.table().put(bytes_of("key"), bytes_of("value"), {}));
  const Offset slot_at = space.table().standing(space.table().hashed(bytes_of("key"))).slot_at;
  NumberedSession& session = begin(1);
  (void)begin(2);
  for (uint64_t number = 1; number <= kRecordsPerBlock + 1; ++number) (void)write(session, number);
  Writer& writer = space.writer();
  const Offset second{writer.load(kSessionsAt)};
  const Offset first{writer.load(second.plus(24))};
  const Offset further{writer.load(first.plus(16))};
  const Offset record = first.plus(64);
  const auto open = [&](Offset word_at) {
    return RecordState::open(word_at, RecordState::Word::kSlot, 0).bits;
  };
  const std::vector<std::byte> whole(space.base(), space.base() + space.bytes());
  using Words = std::vector<std::pair<Offset, uint64_t>>;
  const std::vector<std::pair<const char*, Words>> damages{
      {"a ring of sessions", {{first.plus(24), second.value}}},
      {"a ring of blocks", {{further.plus(16), first.value}}},
      {"a session that is a further block", {{kSessionsAt, further.value}}},
      {"another kind", {{second.plus(8), 1}}},
      {"a stamp", {{second, 1}}},
      {"no id", {{second.plus(32), 0}}},
      {"the same id twice", {{second.plus(32), writer.load(first.plus(32))}}},
      {"a place in no class of that length", {{kSessionsAt, slot_at.value / 64 * 64}}},
      {"a place outside", {{kSessionsAt, uint64_t{1} << 45}}},
      {"a code without a number", {{record, uint64_t{5} << 48}}},
      {"the same number twice", {{record, writer.load(record.plus(64))}}},
      {"a state that is none", {{record.plus(8), uint64_t{2} << 56}}},
      {"an answer of more than there is room for",
       {{record.plus(8), (uint64_t{1} << 56) | uint64_t{33} << 48}}},
      {"an open record without a stamp", {{record.plus(8), open(slot_at)}}},
      {"an open record of no slot", {{record.plus(8), open(first)}, {record.plus(16), 9}}},
      {"an open record of a chain's word",
       {{record.plus(8), open({slot_at.value | 56})}, {record.plus(16), 9}}},
      {"two open records",
       {{record.plus(8), open(slot_at)},
        {record.plus(16), 9},
        {record.plus(72), open(slot_at)},
        {record.plus(80), 10}}},
  };
  for (const auto& [name, words] : damages) {
    std::memcpy(space.base(), whole.data(), whole.size());
    for (const auto& [at, word] : words) std::memcpy(space.base() + at.value, &word, sizeof(word));
    const std::vector<std::byte> damaged(space.base(), space.base() + space.bytes());
    EXPECT_EQ(space.try_restart().code(), Code::kCorrupt) << name;
    EXPECT_EQ(std::memcmp(space.base(), damaged.data(), damaged.size()), 0) << name;
  }
  std::memcpy(space.base(), whole.data(), whole.size());
  EXPECT_TRUE(space.try_restart());
}

TEST_F(Sessions, a_full_node_without_eviction_can_begin_one) {
  const std::string value(50'000, 'v');
  for (int number = 0; space.table().put(bytes_of("k" + std::to_string(number)), bytes_of(value), {});
       ++number) {
  }
  ASSERT_FALSE(space.heap().allocate(sizeof(SessionBlock)));
  NumberedSession& session = begin(1);
  (void)write(session, 1);
  const uint64_t id = session.id();
  space.restart();
  EXPECT_TRUE(sessions().find(resumed(id, 1), 1));
}

// A block's first word is no stamp, and its second no entry's lengths.
TEST_F(Sessions, eviction_takes_another_chunk_than_that_of_a_block) {
  test::ManualGrowth growth;
  Eviction eviction({.table = space.table(),
                     .heap = space.heap(),
                     .growth = growth,
                     .policy = EvictionPolicy::kLeastRecentlyUsed,
                     .samples = nullptr});
  NumberedSession& session = begin(1);
  (void)write(session, 1, Code::kExists);
  const Offset block{space.writer().load(kSessionsAt)};
  const std::vector<std::byte> before(space.base() + block.value, space.base() + block.value + 4096);
  const auto put = [&](const std::string& key, uint64_t bytes) {
    for (int tries = 0; tries < 1'000; ++tries) {
      if (space.table().put(bytes_of(key), bytes_of(std::string(bytes, 'v')), {})) return true;
      while (eviction.is_under_way()) eviction.step(Eviction::kStepEntries);
    }
    return false;
  };
  for (int number = 0; space.table().stats().evicted == 0; ++number) {
    ASSERT_TRUE(put("small " + std::to_string(number), 500));
  }
  // Of all chunks the block's has the least in it.
  ASSERT_EQ(space.heap().emptiest_run(1, 0)->first, block.value / kChunkBytes);
  EXPECT_TRUE(put("of another class", 2'000));
  EXPECT_TRUE(put("a long one", 100'000));
  EXPECT_EQ(std::memcmp(space.base() + block.value, before.data(), before.size()), 0);
  EXPECT_EQ(sessions().find(session, 1)->code, Code::kExists);
  EXPECT_FALSE(space.table().validate());
}

// What changes lists: sessions that begin, grow and end.
TEST(SessionKills, lists_are_whole_behind_a_kill_at_any_store) {
  KilledMemory memory;
  KilledMemory before;
  ManualClock clock;
  memory.format();
  KilledOwner owner(memory, clock);
  owner.format();
  SessionRecords& sessions = owner.table().sessions();
  ASSERT_TRUE(sessions.begin(1, kSecret));
  before.copy(memory);
  owner.list().clear();
  std::vector<std::pair<size_t, size_t>> blocks{{0, 2}};  // From which store on there are how many.
  const auto has_done = [&] { blocks.emplace_back(owner.list().stores().size(), sessions.counts().blocks); };
  NumberedSession& third = *needed(sessions.begin(2, kSecret));
  has_done();
  for (uint64_t number = 1; number <= kRecordsPerBlock; ++number) {
    (void)sessions.write(third, {.number = number, .code = Code::kOk, .answer = {}, .word_at = {}});
  }
  ASSERT_TRUE(sessions.has_room(third));
  has_done();
  for (const uint64_t connection : {uint64_t{1}, uint64_t{2}}) {
    sessions.end(connection);
    clock.advance_ns(SessionRecords::kKept_ns);
    EXPECT_EQ(sessions.drop_ended(), 1U);
    has_done();
  }
  const test::Stores stores = owner.list().stores();
  ASSERT_GT(stores.size(), 1'000U);
  memory.copy(before);
  size_t which = 0;
  for (size_t killed = 0; killed <= stores.size(); ++killed) {
    while (which + 1 < blocks.size() && blocks[which + 1].first <= killed) ++which;
    KilledOwner next(memory, clock);
    ASSERT_TRUE(next.try_start(nullptr)) << killed;
    const auto counts = next.table().sessions().counts();
    const size_t then = blocks[std::min(which + 1, blocks.size() - 1)].second;
    EXPECT_TRUE(counts.blocks == blocks[which].second || counts.blocks == then) << killed;
    EXPECT_EQ(next.heap().stats().buffers_live, counts.blocks) << "what is not in the list is free";
    EXPECT_EQ(counts.ended, counts.sessions);
    memory.undo(next.list().stores(), before);
    if (killed == stores.size()) break;
    memory.apply(stores[killed]);
    before.apply(stores[killed]);
  }
  EXPECT_EQ(blocks.back().second, 1U);
}

}  // namespace
}  // namespace refract::kv::session_records_test
