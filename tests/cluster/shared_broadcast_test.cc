// SPDX-License-Identifier: Apache-2.0
// An object that is brought to three nodes at once, for programs in C++ and C, by shared memory and TCP.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/shared_nodes.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

class SharedBroadcast : public AgreedNodes {
 protected:
  // "a:ok c:away"
  [[nodiscard]] static std::string outcome(const Result<ObjectBroadcast>& done) {
    if (!done) return std::string(text(done.code()));
    std::string all;
    for (const BroadcastNode& one : done->nodes) {
      all += (all.empty() ? "" : " ") + one.node + ":" + std::string(text(one.code));
    }
    return all;
  }
};

TEST_F(SharedBroadcast, brings_an_object_to_all_nodes_for_clients_of_each_way) {
  ObjectClient a = nodes_.open(kA);
  for (const bool is_tcp : {false, true}) {
    ObjectClient c = nodes_.open(kC, is_tcp);
    const std::string id = nodes_.id_at(kB, is_tcp ? "tcp" : "shared memory");
    const std::string body(5 * kMiB + 3, is_tcp ? 't' : 's');
    ASSERT_TRUE(a.objects.put(id, body, "meta"));
    ASSERT_EQ(outcome(c.objects.broadcast(id, {}, kPatience_ms)), "a:ok b:ok c:ok")
        << c.objects.trouble().to_string();
    const auto places = c.objects.where(id);
    ASSERT_TRUE(places);
    EXPECT_EQ(places->nodes.size(), 3U);
    for (const size_t node : {kA, kB, kC}) {
      ObjectClient reader = nodes_.open(node);
      const auto object = reader.objects.get(id);
      ASSERT_TRUE(object) << node << ": " << text(object.code());
      EXPECT_TRUE(body_text(*object) == body);
      EXPECT_EQ(object->metadata().size(), 4U);
    }
    EXPECT_EQ(outcome(c.objects.broadcast(id, std::array<std::string, 2>{"c", "b"}, kPatience_ms)),
              "c:ok b:ok");
    EXPECT_EQ(outcome(c.objects.broadcast(nodes_.id_at(kA, "none"), {}, kPatience_ms)), "not_found");
    EXPECT_EQ(outcome(c.objects.broadcast("", {})), "invalid_argument");
    EXPECT_EQ(outcome(c.objects.broadcast(id, std::vector<std::string>(256, "b"))), "invalid_argument");
    EXPECT_EQ(outcome(c.objects.broadcast(id, std::array<std::string, 1>{""})), "invalid_argument");
    EXPECT_EQ(outcome(c.objects.broadcast(id, std::array<std::string, 3>{"x", "b", "y"})),
              "invalid_argument");
    EXPECT_EQ(c.objects.trouble().what, "no node of the list is called 'x', 'y'");
  }
}

TEST_F(SharedBroadcast, is_there_for_programs_in_c) {
  ObjectClient a = nodes_.open(kA);
  const std::string id = nodes_.id_at(kB, "id");
  ASSERT_TRUE(a.objects.put(id, "12345"));
  refract_objects* const objects = open_in_c(kC);
  ASSERT_NE(objects, nullptr);
  using Seen = std::vector<std::pair<std::string, int>>;
  Seen seen;
  const auto visit = [](void* context, const refract_brought* node) {
    static_cast<Seen*>(context)->emplace_back(node->node, node->code);
  };
  const std::array<const char*, 2> names{"b", "a"};
  uint64_t missed = 7;
  EXPECT_EQ(refract_object_broadcast(objects, id.data(), id.size(), names.data(), names.size(), kPatience_ms,
                                     &missed, visit, &seen),
            REFRACT_OK);
  EXPECT_EQ(seen, (Seen{{"b", REFRACT_OK}, {"a", REFRACT_OK}}));
  EXPECT_EQ(missed, 0U);
  seen.clear();
  EXPECT_EQ(refract_object_broadcast(objects, id.data(), id.size(), nullptr, 0, kPatience_ms, nullptr, visit,
                                     &seen),
            REFRACT_OK);
  EXPECT_EQ(seen, (Seen{{"a", REFRACT_OK}, {"b", REFRACT_OK}, {"c", REFRACT_OK}}));
  seen.clear();
  EXPECT_EQ(refract_object_broadcast(objects, "none", 4, nullptr, 0, kPatience_ms, nullptr, visit, &seen),
            REFRACT_NOT_FOUND);
  EXPECT_TRUE(seen.empty());
  refract_objects_close(objects);
}

}  // namespace
}  // namespace refract::test
