// SPDX-License-Identifier: Apache-2.0
// The judge of shared objects convicts what no history explains, and nothing else.
#include "tests/cluster/shared_history.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace refract::test {
namespace {

constexpr uint64_t kBirth = 77;

// One object, sealed between 1 and 2 through node 0.
class JudgedObject : public testing::Test {
 protected:
  JudgedObject() : number_(history_.begin_put("id", 0, 1)) {
    EXPECT_FALSE(history_.sealed(number_, kBirth, 2));
  }
  [[nodiscard]] bool is_wrong_to_find(size_t node, uint64_t begun_ns) {
    return history_.found("id", {number_, kBirth}, node, begun_ns, begun_ns + 1).has_value();
  }
  void remove(const std::set<size_t>& missed) {
    const auto target = history_.begin_removal("id", 10);
    ASSERT_TRUE(target);
    EXPECT_EQ(target->birth, kBirth);
    history_.removed(target->number, missed, 20);
  }

  SharedHistory history_;
  uint64_t number_;
};

TEST_F(JudgedObject, is_found_from_its_seal_until_its_removal_begins) {
  EXPECT_FALSE(is_wrong_to_find(1, 3));
  EXPECT_FALSE(history_.missing("id", 1, 3)) << "the get began before the seal";
  EXPECT_TRUE(history_.missing("id", 3, 4));
  remove({});
  EXPECT_FALSE(history_.missing("id", 3, 11));
}

TEST_F(JudgedObject, is_not_found_behind_its_removal_but_where_that_was_missed) {
  remove({2});
  EXPECT_FALSE(is_wrong_to_find(1, 15)) << "the removal was under way";
  EXPECT_TRUE(is_wrong_to_find(1, 21));
  EXPECT_FALSE(is_wrong_to_find(2, 21));
  EXPECT_TRUE(history_.is_removed(number_));
}

TEST_F(JudgedObject, is_the_only_one_of_its_id) {
  const uint64_t other = history_.begin_put("id", 1, 5);
  EXPECT_TRUE(history_.sealed(other, kBirth + 1, 6));
  EXPECT_TRUE(history_.found("id", {number_, kBirth + 1}, 0, 7, 8)) << "with another birth";
  EXPECT_TRUE(history_.found("other", {number_, kBirth}, 0, 7, 8)) << "as another one";
  EXPECT_TRUE(history_.found("id", {99, kBirth}, 0, 7, 8)) << "without a put";
}

TEST_F(JudgedObject, explains_a_refusal_until_it_is_removed) {
  EXPECT_FALSE(history_.refused(history_.begin_put("id", 1, 5), 6));
  remove({});
  EXPECT_FALSE(history_.refused(history_.begin_put("id", 1, 15), 25));
  const uint64_t later = history_.begin_put("id", 1, 30);
  EXPECT_TRUE(history_.refused(later, 31));
  EXPECT_TRUE(history_.found("id", {later, kBirth + 1}, 1, 32, 33)) << "it was refused";
}

TEST_F(JudgedObject, may_be_lost_with_the_node_that_made_it) {
  history_.lose(1);
  EXPECT_TRUE(history_.missing("id", 3, 4));
  history_.lose(0);
  EXPECT_FALSE(history_.missing("id", 3, 4));
}

}  // namespace
}  // namespace refract::test
