// SPDX-License-Identifier: Apache-2.0
// What a home's table is for, held against what members really have, through any order of makes, pulls,
// evictions, deletes, cut streams, lost memories and starts of the home.
//
// Method: the truth is a map of what each member has, claims and refuses. A member whose stream is open says
// each of its changes at once; one that is cut off changes what it has without a word, and reports it when it
// comes back. After each step, what the table says must follow from the truth.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/object/directory/home_table.h"
#include "refract/object/testing/rows_table.h"

namespace refract::object::home_table_random_test {
namespace {

constexpr size_t kMembers = 4;
constexpr size_t kIds = 3;
constexpr ObjectParts kParts{.body_bytes = 3, .metadata_bytes = 0, .id_bytes = 1};

struct Member {
  std::array<uint64_t, 2> memory{};
  bool is_open = false;       // Its stream,
  bool has_reported = false;  // and its report has ended.
  // This memory has dropped all that was deleted before: without the home it may only then take copies.
  bool was_reported_to = false;
  std::map<std::string, uint64_t> has;
  std::map<std::string, uint64_t> makes;  // Granted.
  std::set<HomeTable::Named> refuses;
};

template <typename Table>
class World {
 public:
  explicit World(uint64_t seed) : prng_(seed) {
    for (Member& member : members_) member.memory = {prng_.next(), 1};
    start_home();
  }

  void step() {
    const auto index = static_cast<MemberIndex>(prng_.below(kMembers));
    const std::string id(1, static_cast<char>('x' + prng_.below(kIds)));
    switch (prng_.below(16)) {
      case 0:
        return prng_.below(8) == 0 ? start_home() : cut(index);
      case 1:
        return prng_.below(4) == 0 ? lose_memory(index) : cut(index);
      case 2:
      case 3:
      case 4:
        return members_[index].is_open ? report_more(index) : begin_stream(index);
      case 5:
      case 6:
      case 7:
        return claim(index, id);
      case 8:
        return seal(index, id);
      case 9:
        return prng_.below(4) == 0 ? abort(index, id) : seal(index, id);
      case 10:
      case 11:
      case 12:
        return pull(index, id);
      case 13:
      case 14:
        return evict(index, id);
      default:
        return remove(id);
    }
  }

  // What holds at any time.
  void check() {
    ASSERT_TRUE(table_.losers().empty()) << "no id had two births";
    for (size_t i = 0; i < kIds; ++i) {
      const std::string id(1, static_cast<char>('x' + i));
      const HomeTable::Found found = table_.look_up(id);
      HomeTable::MemberSet told = found.doubtful;
      for (const MemberIndex holder : found.holders) told.set(holder);
      HomeTable::MemberSet holders;
      for (size_t member = 0; member < kMembers; ++member) {
        const auto has = members_[member].has.find(id);
        if (has == members_[member].has.end() || table_.is_buried(id, has->second)) continue;
        holders.set(member);
      }
      // One that pulled while its stream was closed is named by the one that passed the copy on.
      ASSERT_TRUE(holders.none() || told.any()) << "it is somewhere, and there is no member to ask";
      if (table_.unknown().any()) continue;
      told &= ~found.doubtful;
      ASSERT_EQ(told, holders) << "all are known, so that holders are told exactly";
      ASSERT_EQ(table_.counts().lingering, 0U);
    }
  }

  size_t granted = 0;
  size_t refused = 0;
  size_t lingered = 0;
  size_t forgotten = 0;

 private:
  // It forgets all but its memory: tombstones.
  void start_home() {
    for (Member& member : members_) member.is_open = member.has_reported = false;
    table_.begin(kMembers);
    begin_stream(0);
    report_more(0);
  }
  void cut(MemberIndex index) {
    if (index == 0) return;
    if (members_[index].is_open) table_.close_stream(index);
    members_[index].is_open = members_[index].has_reported = false;
  }
  void lose_memory(MemberIndex index) {
    if (index == 0) return;
    cut(index);
    members_[index] = {.memory = {prng_.next(), 1}, .has = {}, .makes = {}, .refuses = {}};
  }
  void begin_stream(MemberIndex index) {
    members_[index].is_open = true;
    table_.open_stream(index, members_[index].memory);
  }
  void report_more(MemberIndex index) {
    Member& member = members_[index];
    if (member.has_reported) return;
    const auto refuses = member.refuses;
    for (const auto& [id, birth] : refuses) {
      table_.bury(id, birth);
      acknowledge(index, {id, birth});
    }
    const auto makes = member.makes;
    for (const auto& [id, birth] : makes) {
      const Code code = table_.claims(index, id, birth, true);
      ASSERT_TRUE(code == Code::kOk || code == Code::kCancelled);
    }
    const auto has = member.has;
    for (const auto& [id, birth] : has) {
      const Code code = table_.holds(index, id, birth, kParts);
      ASSERT_TRUE(code == Code::kOk || code == Code::kCancelled) << "no id had two births";
    }
    if (prng_.below(4) == 0 && index != 0) return;
    table_.end_report(index);
    member.has_reported = true;
    for (const HomeTable::Named& named : table_.unacknowledged(index)) drop(index, named);
    member.was_reported_to = true;
  }

  void claim(MemberIndex index, const std::string& id) {
    Member& member = members_[index];
    if (!member.has_reported || member.has.contains(id) || member.makes.contains(id)) return;
    const uint64_t birth = ++last_birth_;
    const Code code = table_.claims(index, id, birth, false);
    lingered += table_.counts().lingering > 0 ? 1 : 0;
    if (code != Code::kOk) {
      ++refused;
      ASSERT_TRUE(code == Code::kExists || code == Code::kUnavailable);
      if (table_.unknown().none()) {
        ASSERT_TRUE(is_anywhere(id)) << "all are known, and none has it";
      }
      return;
    }
    ++granted;
    ASSERT_FALSE(is_anywhere(id)) << "another birth has the id";
    member.makes[id] = birth;
  }
  // Of any birth that is not deleted.
  bool is_anywhere(const std::string& id) {
    return std::ranges::any_of(members_, [&](const Member& member) {
      for (const auto* some : {&member.has, &member.makes}) {
        const auto at = some->find(id);
        if (at != some->end() && !table_.is_buried(id, at->second)) return true;
      }
      return false;
    });
  }
  void seal(MemberIndex index, const std::string& id) {
    Member& member = members_[index];
    const auto making = member.makes.find(id);
    if (making == member.makes.end()) return;
    const uint64_t birth = making->second;
    member.makes.erase(making);
    member.has[id] = birth;
    if (member.is_open) {
      const Code code = table_.holds(index, id, birth, kParts);
      ASSERT_EQ(code, table_.is_buried(id, birth) ? Code::kCancelled : Code::kOk);
    }
  }
  void abort(MemberIndex index, const std::string& id) {
    Member& member = members_[index];
    const auto making = member.makes.find(id);
    if (making == member.makes.end()) return;
    if (member.is_open) table_.unclaims(index, id, making->second);
    member.makes.erase(making);
  }
  // From any member that has it, as the home says, or without the home.
  void pull(MemberIndex index, const std::string& id) {
    const Member& member = members_[index];
    if (member.has.contains(id) || member.makes.contains(id)) return;
    const Member& from = members_[prng_.below(kMembers)];
    const auto at = from.has.find(id);
    if (at == from.has.end()) return;
    const bool is_told = member.is_open && table_.look_up(id).birth == at->second;
    // Without the home's word: only while there is no stream.
    if ((member.was_reported_to && !member.is_open) || is_told) take(index, id, at->second);
  }
  void take(MemberIndex index, const std::string& id, uint64_t birth) {
    Member& member = members_[index];
    if (member.refuses.contains({id, birth})) return;
    if (member.is_open) table_.comes(index, id, birth, kParts);
    if (prng_.below(8) == 0) {
      if (member.is_open) table_.gone(index, id, birth);
      return;
    }
    if (member.is_open) {
      const Code code = table_.holds(index, id, birth, kParts);
      ASSERT_EQ(code, table_.is_buried(id, birth) ? Code::kCancelled : Code::kOk);
    }
    member.has[id] = birth;
  }
  void evict(MemberIndex index, const std::string& id) {
    Member& member = members_[index];
    const auto at = member.has.find(id);
    if (at == member.has.end()) return;
    if (member.is_open) table_.gone(index, id, at->second);
    member.has.erase(at);
  }

  void remove(const std::string& id) {
    const uint64_t birth = table_.look_up(id).birth;
    if (birth == 0) return;
    table_.bury(id, birth);
    for (size_t i = 0; i < kMembers; ++i) {
      if (members_[i].has_reported) drop(static_cast<MemberIndex>(i), {id, birth});
    }
  }
  void drop(MemberIndex index, const HomeTable::Named& named) {
    Member& member = members_[index];
    member.refuses.insert(named);
    for (auto* some : {&member.has, &member.makes}) {
      const auto at = some->find(named.first);
      if (at != some->end() && at->second == named.second) some->erase(at);
    }
    table_.gone(index, named.first, named.second);
    acknowledge(index, named);
  }
  void acknowledge(MemberIndex index, const HomeTable::Named& named) {
    if (!table_.acknowledge(index, named.first, named.second)) return;
    ++forgotten;
    for (Member& member : members_) {
      const auto at = member.has.find(named.first);
      ASSERT_FALSE(at != member.has.end() && at->second == named.second) << "it was deleted";
      member.refuses.erase(named);
    }
  }

  Prng prng_;
  Table table_;
  std::array<Member, kMembers> members_;
  uint64_t last_birth_ = 0;
};

// In the home's memory, and as rows that lie elsewhere.
template <typename Table>
class HomeTableRandom : public testing::Test {};
using Tables = testing::Types<HomeTable, test::RowsTable>;
TYPED_TEST_SUITE(HomeTableRandom, Tables);

TYPED_TEST(HomeTableRandom, what_it_says_follows_from_what_members_have) {
  size_t granted = 0;
  size_t refused = 0;
  size_t lingered = 0;
  size_t forgotten = 0;
  for (uint64_t seed = 1; seed <= 700; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World<TypeParam> world(seed);
    for (int i = 0; i < 400; ++i) {
      world.step();
      world.check();
      ASSERT_FALSE(testing::Test::HasFatalFailure()) << "in step " << i;
    }
    granted += world.granted;
    refused += world.refused;
    lingered += world.lingered;
    forgotten += world.forgotten;
  }
  EXPECT_GT(granted, 1000U);
  EXPECT_GT(refused, 1000U);
  EXPECT_GT(lingered, 100U);
  EXPECT_GT(forgotten, 100U);
}

}  // namespace
}  // namespace refract::object::home_table_random_test
