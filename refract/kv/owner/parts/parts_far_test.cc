// SPDX-License-Identifier: Apache-2.0
// Parts whose home is another node: what they hold, which session they believe, and what the next owner makes
// of a kill at any store, whatever the home says then. docs/design/070.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/testing/needed.h"
#include "refract/kv/layout/far_part.h"
#include "refract/kv/owner/parts/home_words.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv::parts_far_test {
namespace {

using refract::test::needed;
using test::bytes_of;
using test::Space;
using test::text_of;
using Fate = wire::Fate;

constexpr uint64_t kGeneration = 77;
constexpr uint64_t kSession = 9;
constexpr TransactionName kName{
    .place = DecisionPlace{uint64_t{1} << DecisionPlace::kShardShift | 0x5000}.seen_from_afar(2),
    .number = 5};

using Image = std::vector<std::byte>;

// Takes a picture of the memory behind each store.
class Camera final : public StoreLog {
 public:
  void stored(Offset, std::span<const std::byte>) noexcept override {
    if (space != nullptr) images.emplace_back(space->base(), space->base() + space->bytes());
  }
  void fenced() noexcept override {}

  Space* space = nullptr;  // Null: not now.
  std::vector<Image> images;
};

// An owner over a memory, which it has recovered.
class Owner {
 public:
  explicit Owner(Space& space)
      : space_(space),
        heap(space.writer(), pins_),
        table(space.writer(), heap, system_clock()),
        decisions(std::vector<Decisions::Home>{{.space = space.base()}}),
        parts(table, decisions) {
    heap.add({0}, space.bytes());
    EXPECT_TRUE(table.recover());
    parts.take_up(std::nullopt);
  }
  [[nodiscard]] Code prepare() {
    const std::vector<BatchCondition> conditions{{.key = key("read")}};
    std::vector<BatchWrite> writes{{.key = key("old"), .value = bytes_of("new")},
                                   {.key = key("fresh"), .value = bytes_of("new")},
                                   {.key = key("gone"), .kind = WriteKind::kErase},
                                   {.key = key("nothing"), .kind = WriteKind::kErase}};
    TableBatch batch{.conditions = conditions, .writes = writes};
    return parts.prepare(batch, {.name = kName, .session = kSession, .now_ns = 1, .generation = kGeneration})
        .code();
  }
  [[nodiscard]] TableKey key(std::string_view text) const { return table.hashed(bytes_of(text)); }
  [[nodiscard]] std::string value(std::string_view text) {
    const Result<Table::Entry> entry = table.find(bytes_of(text));
    return entry ? text_of(entry->value) : "none";
  }
  [[nodiscard]] std::string all() {
    return value("old") + " " + value("fresh") + " " + value("gone") + " " + value("read");
  }
  void answer(Fate fate) {
    for (const Table::Parts::Question& question : parts.questions()) {
      EXPECT_EQ(question.generation, kGeneration);
      parts.take_fate(question, fate, parts.far_tick());
    }
  }
  void expect_nothing_left() {
    EXPECT_EQ(parts.count(), 0U);
    EXPECT_EQ(space_.writer().load(kFarPartsAt), 0U);
    for (const char* text : {"old", "fresh", "gone", "nothing", "read"}) {
      EXPECT_TRUE(table.put(bytes_of(text), bytes_of("plain"), {})) << text;
    }
    const auto damage = table.validate();
    EXPECT_FALSE(damage) << damage->what;
  }

 private:
  Space& space_;
  test::NoPins pins_;

 public:
  Heap heap;
  Table table;
  Decisions decisions;
  Table::Parts parts;
};

void fill(Space& space) {
  for (const char* text : {"old", "gone", "read"}) {
    (void)needed(space.table().put(bytes_of(text), bytes_of("was"), {}));
  }
}

class FarParts : public testing::Test {
 protected:
  FarParts() : space_({}, &camera_) {
    fill(space_);
    owner_.emplace(space_);
  }
  Camera camera_;
  Space space_;
  std::optional<Owner> owner_;
};

TEST_F(FarParts, hold_their_keys_until_they_are_told_by_the_session_that_prepared_them) {
  ASSERT_EQ(owner_->prepare(), Code::kOk);
  EXPECT_EQ(owner_->all(), "was none was was");
  for (const char* text : {"old", "fresh", "gone", "nothing", "read"}) {
    EXPECT_EQ(owner_->table.put(bytes_of(text), bytes_of("plain"), {}).code(), Code::kOverloaded) << text;
  }
  // Another session is not believed; its word has the home asked.
  EXPECT_TRUE(owner_->parts.questions().empty());
  EXPECT_EQ(owner_->parts.settle_far(kName, kSession + 1, Fate::kNever), Code::kOverloaded);
  EXPECT_EQ(owner_->parts.questions().size(), 1U);
  EXPECT_FALSE(owner_->parts.is_gone(kName));
  EXPECT_EQ(owner_->parts.settle_far(kName, kSession, Fate::kHappened), Code::kOk);
  EXPECT_EQ(owner_->all(), "new new none was");
  EXPECT_TRUE(owner_->parts.is_gone(kName));
  owner_->expect_nothing_left();
}

TEST_F(FarParts, of_a_session_that_has_closed_are_asked_about_and_never_undone_by_the_owner_alone) {
  ASSERT_EQ(owner_->prepare(), Code::kOk);
  (void)owner_->parts.settle_of(kSession);
  EXPECT_EQ(owner_->parts.count(), 1U);
  owner_->answer(Fate::kOpen);
  owner_->answer(Fate::kUnconfirmed);
  EXPECT_EQ(owner_->parts.count(), 1U);
  EXPECT_EQ(owner_->all(), "new new none was") << "readers see what is not confirmed yet";
  owner_->answer(Fate::kNever);
  EXPECT_EQ(owner_->all(), "was none was was");
  owner_->expect_nothing_left();
}

TEST_F(FarParts, let_a_read_wait_for_a_look_that_leaves_behind_it) {
  ASSERT_EQ(owner_->prepare(), Code::kOk);
  Table::Parts& parts = owner_->parts;
  const uint64_t hash = owner_->key("old").hash;
  EXPECT_FALSE(parts.is_unclear(owner_->key("read").hash, parts.far_tick())) << "it is not written";
  const uint64_t first = parts.far_tick();
  EXPECT_TRUE(parts.is_unclear(hash, first));
  const Table::Parts::Question question = parts.questions().at(0);
  EXPECT_FALSE(question.is_demanded) << "a look records nothing";
  const uint64_t left = parts.far_tick();
  const uint64_t second = parts.far_tick();
  EXPECT_TRUE(parts.is_unclear(std::nullopt, second));
  parts.take_fate(question, Fate::kOpen, left);
  EXPECT_FALSE(parts.is_unclear(hash, first));
  EXPECT_TRUE(parts.is_unclear(hash, second)) << "that look had left before";
  // Of another memory of the home, or of none that is asked about: no answer.
  Table::Parts::Question other = question;
  other.generation = kGeneration + 1;
  parts.take_fate(other, Fate::kHappened, parts.far_tick());
  EXPECT_EQ(parts.count(), 1U);
}

TEST_F(FarParts, of_one_home_have_a_share_of_the_places) {
  for (uint64_t i = 0; i < Table::Parts::kPartsOfHome; ++i) {
    const std::string text = "k" + std::to_string(i);
    std::vector<BatchWrite> writes{{.key = owner_->key(text), .value = bytes_of("1")}};
    TableBatch batch{.conditions = {}, .writes = writes};
    const TransactionName name{.place = kName.place, .number = 100 + i};
    ASSERT_TRUE(owner_->parts.prepare(
        batch, {.name = name, .session = i / 200, .now_ns = 1, .generation = kGeneration}));
  }
  EXPECT_EQ(owner_->prepare(), Code::kOverloaded);
  EXPECT_EQ(owner_->all(), "was none was was");
}

// Its owner is killed, and the keys are held as before: those that it only reads, and those that were not
// there, too.
TEST_F(FarParts, hold_their_keys_over_a_kill) {
  ASSERT_EQ(owner_->prepare(), Code::kOk);
  owner_.emplace(space_);
  EXPECT_EQ(owner_->all(), "was none was was");
  for (const char* text : {"old", "fresh", "gone", "nothing", "read"}) {
    EXPECT_EQ(owner_->table.put(bytes_of(text), bytes_of("plain"), {}).code(), Code::kOverloaded) << text;
  }
  owner_->answer(Fate::kHappened);
  EXPECT_EQ(owner_->all(), "new new none was");
  owner_->expect_nothing_left();
}

// What the next owner makes of the memory as it was behind a store.
void recover(const Image& image, Fate fate, std::string_view wanted, size_t store) {
  Space space;
  std::memcpy(space.base(), image.data(), image.size());
  Owner owner(space);
  if (owner.parts.count() != 0) {
    EXPECT_TRUE(owner.parts.questions().empty() || owner.parts.questions().at(0).is_demanded);
  }
  owner.answer(fate);
  EXPECT_EQ(owner.all(), wanted) << "behind store " << store;
  owner.expect_nothing_left();
}

// A kill behind any store of prepare, and of the end; until that begins the home may say either.
TEST_F(FarParts, are_whole_or_not_there_after_a_kill_at_any_store) {
  for (const Fate fate : {Fate::kHappened, Fate::kNever}) {
    Camera camera;
    Space space({}, &camera);
    fill(space);
    Owner owner(space);
    camera.space = &space;
    ASSERT_EQ(owner.prepare(), Code::kOk);
    const size_t prepared = camera.images.size();
    ASSERT_NE(owner.parts.settle_far(kName, kSession, fate), Code::kOverloaded);
    camera.space = nullptr;
    ASSERT_GT(prepared, 10U);
    ASSERT_GT(camera.images.size(), prepared + 4);
    const std::string is_new = "new new none was";
    const std::string is_old = "was none was was";
    for (size_t i = 0; i < camera.images.size(); ++i) {
      // What was not answered is not decided for.
      if (i + 1 < prepared) recover(camera.images[i], Fate::kNever, is_old, i);
      if (i + 1 == prepared) recover(camera.images[i], Fate::kHappened, is_new, i);
      if (i + 1 == prepared) recover(camera.images[i], Fate::kNever, is_old, i);
      // Once its end has begun, the home is not asked any more: another answer would leave a half.
      const bool is_fate_stored = i > prepared;
      const Fate other = fate == Fate::kHappened ? Fate::kNever : Fate::kHappened;
      if (i >= prepared) {
        recover(camera.images[i], is_fate_stored ? other : fate, fate == Fate::kHappened ? is_new : is_old,
                i);
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

// What a log leaves open is held again in a new memory, and so is what an earlier memory has decided.
TEST_F(FarParts, come_back_from_a_log_and_are_held) {
  Table::Parts& parts = owner_->parts;
  const auto generation = std::as_bytes(std::span(&kGeneration, 1));
  using Change = ChangeLog::Change;
  using Kind = ChangeLog::Kind;
  const Table::Parts::Restored part{
      .name = kName,
      .changes = {Change{.kind = Kind::kPut, .stamp = 901, .key = bytes_of("old"), .value = bytes_of("new")},
                  Change{.kind = Kind::kErase, .stamp = 902, .key = bytes_of("gone")},
                  Change{.kind = Kind::kMark,
                         .stamp = 903,
                         .expires_wall_ns = ChangeLog::kMarkGeneration,
                         .key = generation},
                  Change{.kind = Kind::kMark, .stamp = 904, .key = bytes_of("read")},
                  Change{.kind = Kind::kMark,
                         .stamp = 905,
                         .expires_wall_ns = ChangeLog::kMarkWritten,
                         .key = bytes_of("gone")},
                  Change{.kind = Kind::kMark,
                         .stamp = 906,
                         .expires_wall_ns = ChangeLog::kMarkWritten,
                         .key = bytes_of("nothing")}}};
  ASSERT_EQ(parts.restore(part), Code::kOk);
  const TransactionName decided{.place = kName.place, .number = 3};
  ASSERT_EQ(parts.restore_decision(decided), Code::kOk);
  EXPECT_TRUE(parts.has_decided_before(decided));
  EXPECT_FALSE(parts.has_decided_before(kName));
  for (const char* text : {"old", "gone", "nothing", "read"}) {
    EXPECT_EQ(owner_->table.put(bytes_of(text), bytes_of("plain"), {}).code(), Code::kOverloaded) << text;
  }
  // As the next snapshot has them: what a log has, with the stamps.
  const std::vector<Table::Parts::Prepared> prepared = parts.prepared();
  ASSERT_EQ(prepared.size(), 1U);
  EXPECT_EQ(std::ranges::count(prepared[0].changes, Kind::kMark, &Change::kind), 4);
  EXPECT_EQ(std::ranges::count(prepared[0].changes, uint64_t{901}, &Change::stamp), 1);

  // Over a kill, too.
  owner_.emplace(space_);
  EXPECT_TRUE(owner_->parts.has_decided_before(decided));
  ASSERT_EQ(owner_->parts.questions().size(), 1U);
  owner_->answer(Fate::kHappened);
  EXPECT_EQ(owner_->value("old"), "new");
  EXPECT_EQ(owner_->value("gone"), "none");
  EXPECT_EQ(needed(owner_->table.find(bytes_of("old"))).version, 901U);
  EXPECT_TRUE(owner_->parts.forget_far(decided));
  EXPECT_FALSE(owner_->parts.has_decided_before(decided));
  owner_->expect_nothing_left();
}

// Damage is found, and not followed.
TEST_F(FarParts, that_make_no_sense_are_damage) {
  ASSERT_EQ(owner_->prepare(), Code::kOk);
  const Offset at{space_.writer().load(kFarPartsAt)};
  const Image good(space_.base(), space_.base() + space_.bytes());
  const auto is_refused = [&](auto spoil) {
    Space space;
    std::memcpy(space.base(), good.data(), good.size());
    spoil(space.writer());
    test::NoPins pins;
    Heap heap(space.writer(), pins);
    heap.add({0}, space.bytes());
    Table table(space.writer(), heap, system_clock());
    Decisions decisions(std::vector<Decisions::Home>{{.space = space.base()}});
    const Table::Parts parts(table, decisions);
    return table.recover().code() == Code::kCorrupt;
  };
  EXPECT_FALSE(is_refused([](Writer&) {}));
  EXPECT_TRUE(is_refused([](Writer& writer) { writer.publish(kFarPartsAt, 24); }));
  EXPECT_TRUE(is_refused([](Writer& writer) { writer.publish(kFarPartsAt, uint64_t{1} << 60); }));
  EXPECT_TRUE(
      is_refused([&](Writer& writer) { writer.publish(at.plus(offsetof(FarPart, next)), at.value); }));
  EXPECT_TRUE(
      is_refused([&](Writer& writer) { writer.publish(at.plus(offsetof(FarPart, decision_at)), 7); }));
  EXPECT_TRUE(is_refused([&](Writer& writer) { writer.publish(at.plus(offsetof(FarPart, fate)), 9); }));
  EXPECT_TRUE(
      is_refused([&](Writer& writer) { writer.publish(at.plus(offsetof(FarPart, keys)), 1U << 30); }));
  EXPECT_TRUE(is_refused([&](Writer& writer) { writer.publish(at.plus(sizeof(FarPart)), UINT32_MAX); }));
}

}  // namespace
}  // namespace refract::kv::parts_far_test
