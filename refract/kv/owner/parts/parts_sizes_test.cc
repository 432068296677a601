// SPDX-License-Identifier: Apache-2.0
// Of values around every size of a buffer: what a part takes of the heap when it is prepared, applied,
// undone, and taken over by another owner in between, counted to the byte.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/layout/far_part.h"
#include "refract/kv/owner/parts/home_words.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/testing/test_space.h"
#include "refract/memory/size_class.h"

namespace refract::kv::parts_sizes_test {
namespace {

using refract::test::needed;
using test::bytes_of;
using test::Space;
using test::text_of;
using Fate = wire::Fate;

constexpr uint64_t kSession = 9;
constexpr std::string_view kReplaced = "replaced";
constexpr std::string_view kErased = "erased!!";
constexpr std::string_view kFresh = "fresh!!!";
constexpr size_t kKeyBytes = kFresh.size();
constexpr uint16_t kPendingFlags = Lengths::kPending | Lengths::kBatch;

uint64_t total_bytes(uint64_t value_bytes, uint16_t flags) {
  return Lengths{.value_bytes = static_cast<uint32_t>(value_bytes), .key_bytes = kKeyBytes, .flags = flags}
      .total_bytes();
}

// Those with which an entry, with or without a trailer, just fits a buffer of some class, and their
// neighbours; and some of large ones.
std::set<uint64_t> lengths_around_every_limit() {
  std::set<uint64_t> lengths{0, 1, kChunkBytes, kChunkBytes + 1, 2 * kChunkBytes};
  for (const uint64_t limit : kClassBytes) {
    for (const uint16_t flags : {uint16_t{0}, kPendingFlags}) {
      if (total_bytes(0, flags) > limit) continue;
      uint64_t most = 0;
      for (uint64_t step = kChunkBytes; step != 0; step /= 2) {
        if (total_bytes(most + step, flags) <= limit) most += step;
      }
      for (const uint64_t length : {most - (most != 0 ? 1 : 0), most, most + 1}) lengths.insert(length);
    }
  }
  return lengths;
}

// An owner over a memory, which it has recovered.
struct Owner {
  explicit Owner(Space& space)
      : heap(space.writer(), pins),
        table(space.writer(), heap, system_clock()),
        decisions(std::vector<Decisions::Home>{{.space = space.base()}}),
        parts(table, decisions) {
    heap.add({0}, space.bytes());
    EXPECT_TRUE(table.recover());
    parts.take_up(std::nullopt);
  }
  [[nodiscard]] std::string value(std::string_view key) {
    const Result<Table::Entry> entry = table.find(bytes_of(key));
    return entry ? text_of(entry->value) : "none";
  }
  [[nodiscard]] uint64_t live() {
    heap.reclaim();
    EXPECT_EQ(heap.stats().bytes_retired, 0U);
    return heap.stats().bytes_live;
  }

  test::NoPins pins;
  Heap heap;
  Table table;
  Decisions decisions;
  Table::Parts parts;
};

struct Case {
  bool is_far = false;
  bool has_happened = false;
  bool is_taken_over = false;  // By another owner, between prepare and the end.
};

class Sizes {
 public:
  // Puts the old entries, as plain puts make them, and then changes all three keys by two transactions: the
  // second one replaces what the first has left.
  void run(uint64_t length, const Case& a_case) {
    const std::string old(length, 'o');
    for (const std::string_view key : {kReplaced, kErased}) {
      (void)needed(owner_->table.put(bytes_of(key), bytes_of(old), {}));
    }
    (void)owner_->table.erase(bytes_of(kFresh), 0);
    const uint64_t plain = Heap::footprint(total_bytes(length, 0));
    const uint64_t with_trailer = Heap::footprint(total_bytes(length, kPendingFlags));
    const uint64_t empty = owner_->live() - 2 * plain;
    change(old, std::string(length, 'a'), a_case);
    // Not a byte more, and not one less, than what is there.
    EXPECT_EQ(owner_->live(), empty + (a_case.has_happened ? 2 * with_trailer : 2 * plain));
    const std::string there = a_case.has_happened ? std::string(length, 'a') : old;
    EXPECT_TRUE(owner_->value(kReplaced) == there);
    change(there, std::string(length, 'b'), a_case);
    EXPECT_EQ(owner_->live(), empty + (a_case.has_happened ? 2 * with_trailer : 2 * plain));
    const auto damage = owner_->table.validate();
    EXPECT_FALSE(damage) << damage->what;
    // What recovery counts is what was counted all the way.
    const uint64_t counted = owner_->live();
    take_over();
    EXPECT_EQ(owner_->live(), counted);
  }

 private:
  void take_over() { owner_.emplace(space_); }

  [[nodiscard]] PartOf part(bool is_far) {
    PartOf part{.name = {}, .session = kSession, .now_ns = 1};
    if (is_far) {
      part.name = {.place = DecisionPlace::of(1, Offset{0x5000}).seen_from_afar(2), .number = ++numbers_};
      part.generation = 77;
      return part;
    }
    // Of a session that comes when no word is kept any more for those before.
    HomeWords words(owner_->decisions, 0, 0);
    const std::vector<HomeWords::Given> given = words.give(kSession, 1, HomeWords::kKept_ns);
    part.name = {.place = given.at(0).place, .number = given.at(0).first};
    return part;
  }

  void change(const std::string& there, const std::string& wanted, const Case& a_case) {
    const uint64_t before = owner_->live();
    const bool has_fresh = owner_->value(kFresh) != "none";
    std::vector<BatchWrite> writes{
        {.key = owner_->table.hashed(bytes_of(kReplaced)), .value = bytes_of(wanted)},
        {.key = owner_->table.hashed(bytes_of(kFresh)), .value = bytes_of(wanted)},
        {.key = owner_->table.hashed(bytes_of(kErased)), .kind = WriteKind::kErase}};
    TableBatch batch{.conditions = {}, .writes = writes};
    const PartOf from = part(a_case.is_far);
    ASSERT_TRUE(owner_->parts.prepare(batch, from));
    uint64_t pending = 2 * Heap::footprint(total_bytes(wanted.size(), kPendingFlags));
    if (owner_->value(kErased) != "none") {
      pending += Heap::footprint(total_bytes(0, kPendingFlags | Lengths::kTombstone));
    }
    if (a_case.is_far) {
      const Offset record{space_.writer().load(kFarPartsAt)};
      pending += Heap::footprint(sizeof(FarPart) + uint64_t{space_.writer().view<FarPart>(record).bytes});
    }
    EXPECT_EQ(owner_->live(), before + pending) << "prepared";
    EXPECT_TRUE(owner_->value(kReplaced) == there);
    if (a_case.has_happened && !a_case.is_far) {
      const Decision wanted_word = Decision::committed(from.name.number);
      ASSERT_EQ(owner_->decisions.decide(from.name.place, wanted_word).bits, wanted_word.bits);
    }
    const Fate fate = a_case.has_happened ? Fate::kHappened : Fate::kNever;
    if (a_case.is_taken_over) {
      const uint64_t counted = owner_->live();
      take_over();
      // A far part waits for its home; another one has ended by now.
      if (a_case.is_far) {
        EXPECT_EQ(owner_->live(), counted) << "taken over";
      }
      for (const Table::Parts::Question& question : owner_->parts.questions()) {
        owner_->parts.take_fate(question, fate, owner_->parts.far_tick());
      }
    } else if (a_case.is_far) {
      EXPECT_NE(owner_->parts.settle_far(from.name, kSession, fate), Code::kOverloaded);
    } else {
      EXPECT_NE(owner_->parts.settle(from.name), Code::kOverloaded);
    }
    EXPECT_EQ(owner_->parts.count(), 0U);
    EXPECT_TRUE(owner_->value(kReplaced) == (a_case.has_happened ? wanted : there));
    EXPECT_EQ(owner_->value(kFresh) != "none", a_case.has_happened || has_fresh);
    EXPECT_EQ(owner_->value(kErased) != "none", !a_case.has_happened);
  }

  Space space_{{.chunks = 24, .chunks_max = 24}};
  std::optional<Owner> owner_{std::in_place, space_};
  uint64_t numbers_ = 0;
};

TEST(PartsOfEverySize, take_of_the_heap_what_their_entries_do_and_give_it_all_back) {
  Sizes sizes;
  const std::set<uint64_t> lengths = lengths_around_every_limit();
  ASSERT_GT(lengths.size(), 3 * kSizeClasses);
  for (const uint64_t length : lengths) {
    for (const bool is_far : {false, true}) {
      for (const bool has_happened : {false, true}) {
        for (const bool is_taken_over : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << length << " bytes" << (is_far ? ", far" : "")
                       << (has_happened ? ", happened" : ", never") << (is_taken_over ? ", taken over" : ""));
          sizes.run(length, {.is_far = is_far, .has_happened = has_happened, .is_taken_over = is_taken_over});
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace refract::kv::parts_sizes_test
