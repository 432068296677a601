// SPDX-License-Identifier: Apache-2.0
// Which of three nodes could have some objects soonest, for programs in C++ and C, by shared memory and TCP.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/shared_nodes.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

class SharedRank : public AgreedNodes {
 protected:
  [[nodiscard]] static std::string order(const Result<ObjectRank>& rank) {
    if (!rank) return std::string(text(rank.code()));
    std::string names;
    for (const RankedNode& one : rank->nodes) names += one.node;
    return names;
  }
};

TEST_F(SharedRank, orders_nodes_by_what_they_lack_for_clients_of_each_way) {
  ObjectClient a = nodes_.open(kA);
  ObjectClient b = nodes_.open(kB);
  const std::string one = nodes_.id_at(kC, "one");
  const std::string other = nodes_.id_at(kB, "other");
  const std::string none = nodes_.id_at(kA, "none");
  ASSERT_TRUE(b.objects.put(one, std::string(kMiB, 'x'), "meta"));
  ASSERT_TRUE(b.objects.put(other, "12345"));
  ASSERT_EQ(a.objects.prefetch(std::array<Bytes, 2>{one, other}), (std::vector<Code>{Code::kOk, Code::kOk}));
  for (const bool is_tcp : {false, true}) {
    ObjectClient c = nodes_.open(kC, is_tcp);
    const auto rank = c.objects.rank(std::array<Bytes, 3>{one, none, other}, kPatience_ms);
    ASSERT_EQ(order(rank), "abc") << c.objects.trouble().to_string();
    EXPECT_EQ(rank->ids, (std::vector<Code>{Code::kOk, Code::kNotFound, Code::kOk}));
    EXPECT_EQ(rank->nodes[1].missing_objects, 0U);
    EXPECT_EQ(rank->nodes[1].time_ns, 0U);
    const RankedNode& last = rank->nodes[2];
    EXPECT_EQ(last.code, Code::kOk);
    EXPECT_EQ(last.missing_objects, 2U);
    EXPECT_EQ(last.missing_bytes, kMiB + 9);
    EXPECT_GT(last.time_ns, 0U);
    EXPECT_TRUE(last.is_guessed);
    EXPECT_EQ(c.objects.rank({}).code(), Code::kInvalidArgument);
    EXPECT_EQ(c.objects.rank(std::array<Bytes, 1>{""}).code(), Code::kInvalidArgument);
    EXPECT_EQ(c.objects.rank(std::vector<Bytes>(257, Bytes("x"))).code(), Code::kInvalidArgument);
    // Of the longest ids fewer fit a message.
    const std::string long_id(255, 'x');
    EXPECT_EQ(c.objects.rank(std::vector<Bytes>(200, Bytes(long_id))).code(), Code::kTooLarge);
    EXPECT_EQ(c.objects.trouble().next, "rank fewer at once");
    EXPECT_EQ(order(c.objects.rank(std::vector<Bytes>(100, Bytes(long_id)), kPatience_ms)), "abc");
  }
}

TEST_F(SharedRank, is_there_for_programs_in_c) {
  ObjectClient a = nodes_.open(kA);
  const std::string id = nodes_.id_at(kB, "id");
  ASSERT_TRUE(a.objects.put(id, "12345"));
  refract_objects* const objects = open_in_c(kC);
  ASSERT_NE(objects, nullptr);
  std::array<refract_rank_id, 2> ids{
      {{.id = id.data(), .id_bytes = id.size(), .code = -1}, {.id = "none", .id_bytes = 4, .code = -1}}};
  std::vector<std::pair<std::string, refract_ranked>> seen;
  const auto visit = [](void* context, const refract_ranked* node) {
    static_cast<std::vector<std::pair<std::string, refract_ranked>>*>(context)->emplace_back(node->node,
                                                                                             *node);
  };
  ASSERT_EQ(refract_objects_rank(objects, ids.data(), ids.size(), kPatience_ms, visit, &seen), REFRACT_OK);
  EXPECT_EQ(ids[0].code, REFRACT_OK);
  EXPECT_EQ(ids[1].code, REFRACT_NOT_FOUND);
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].first, "a");
  EXPECT_EQ(seen[0].second.missing_objects, 0U);
  for (const size_t i : {size_t{1}, size_t{2}}) {
    EXPECT_EQ(seen[i].second.code, REFRACT_OK);
    EXPECT_EQ(seen[i].second.missing_objects, 1U);
    EXPECT_EQ(seen[i].second.missing_bytes, 5U);
    EXPECT_GT(seen[i].second.time_ns, 0U);
    EXPECT_EQ(seen[i].second.unreachable_objects, 0U);
    EXPECT_EQ(seen[i].second.is_guessed, 1);
  }
  EXPECT_EQ(refract_objects_rank(objects, ids.data(), 0, 0, visit, &seen), REFRACT_INVALID_ARGUMENT);
  EXPECT_EQ(seen.size(), 3U);
  refract_objects_close(objects);
}

}  // namespace
}  // namespace refract::test
