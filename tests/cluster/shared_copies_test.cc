// SPDX-License-Identifier: Apache-2.0
// Copies that are kept, on three nodes in processes of their own: nodes die with their memory, and what had
// two copies is there.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/cluster/shared_nodes.h"
#include "tests/process/sealed.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

class SharedCopies : public AgreedNodes {
 protected:
  [[nodiscard]] Result<uint64_t> put(Objects& objects, const std::string& id, uint64_t number,
                                     uint32_t copies) {
    return objects.put(id, sealed_value(id, number, 100'000), "", {.copies = copies});
  }
  // Until a node says that there are so many of so many.
  [[nodiscard]] static bool come(Objects& objects, const std::string& id, uint32_t copies, uint32_t wanted) {
    return becomes_true([&] {
      const auto places = objects.where(id);
      return places && places->copies == copies && places->copies_wanted == wanted;
    });
  }
};

TEST_F(SharedCopies, are_made_by_a_put_and_counted_for_its_program) {
  for (size_t home = 0; home < SharedNodes::kNodes; ++home) {
    for (const bool is_tcp : {false, true}) {
      ObjectClient a = nodes_.open(kA, is_tcp);
      const std::string id = nodes_.id_at(home, fmt::format("kept{}", is_tcp));
      const auto birth = put(a.objects, id, 1, 2);
      ASSERT_TRUE(birth) << a.objects.trouble().to_string();
      EXPECT_EQ(a.objects.copies_made(), 2U);
      const auto places = a.objects.where(id);
      ASSERT_TRUE(places);
      EXPECT_EQ(places->nodes.size(), 2U);
      EXPECT_EQ(places->copies, 2U);
      EXPECT_EQ(places->copies_wanted, 2U);

      auto made = a.objects.set_copies(id, 3);
      ASSERT_TRUE(made) << text(made.code());
      EXPECT_EQ(made->copies, 3U);
      EXPECT_EQ(made->birth, *birth);
      made = a.objects.set_copies(id, 0);
      ASSERT_TRUE(made) << text(made.code());
      EXPECT_EQ(made->copies, 0U);
      // Of a put without a wish nothing is said.
      ASSERT_TRUE(put(a.objects, id + "more", 2, 0));
      EXPECT_EQ(a.objects.copies_made(), 0U);
    }
  }
  ObjectClient b = nodes_.open(kB);
  EXPECT_EQ(b.objects.set_copies("nothing", 2).code(), Code::kNotFound);
  EXPECT_EQ(b.objects.set_copies("nothing", Objects::kCopiesMax + 1).code(), Code::kInvalidArgument);
  EXPECT_EQ(put(b.objects, "too many", 1, Objects::kCopiesMax + 1).code(), Code::kInvalidArgument);
  EXPECT_EQ(b.objects.get("too many").code(), Code::kNotFound);
}

TEST_F(SharedCopies, outlive_a_node_and_are_replaced_where_the_list_goes_on_without_it) {
  ObjectClient a = nodes_.open(kA);
  std::vector<std::string> ids;
  for (uint64_t number = 0; number < 12; ++number) {
    ids.push_back(nodes_.id_at(number % 2 == 0 ? kA : kB, fmt::format("outlives{}", number)));
    ObjectClient maker = nodes_.open(kC, number % 3 == 0);
    ASSERT_TRUE(put(maker.objects, ids.back(), number, 2));
    ASSERT_EQ(maker.objects.copies_made(), 2U);
  }
  nodes_.node(kC).kill_everything();
  for (uint64_t number = 0; number < ids.size(); ++number) {
    for (const size_t reader : {kA, kB}) {
      ObjectClient client = nodes_.open(reader);
      const auto got = client.objects.get(ids[number]);
      ASSERT_TRUE(got) << ids[number] << ": " << client.objects.trouble().to_string();
      EXPECT_EQ(number_of(*got), number);
    }
    EXPECT_TRUE(come(a.objects, ids[number], 1, 2)) << "it may be back at once";
  }
  // An operator says that it will not be.
  std::string list;
  std::istringstream lines(nodes_.set().true_list(3));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("c")) list += line + "\n";
  }
  nodes_.set().write_list(list);
  for (const size_t one : {kA, kB}) send_signal(nodes_.node(one).keeper(), SIGHUP);
  for (const std::string& id : ids) EXPECT_TRUE(come(a.objects, id, 2, 2)) << id;
}

TEST_F(SharedCopies, of_a_server_that_is_killed_stay_and_a_node_without_memory_gets_its_own_again) {
  ObjectClient a = nodes_.open(kA);
  const std::string id = nodes_.id_at(kA, "stays");
  ASSERT_TRUE(put(a.objects, id, 7, 3));
  ASSERT_EQ(a.objects.copies_made(), 3U);
  Node& node = nodes_.node(kB);
  const pid_t server = node.server();
  send_signal(server, SIGKILL);
  EXPECT_GT(node.next_server(server), 0);
  EXPECT_TRUE(come(a.objects, id, 3, 3));
  node.kill_everything();
  nodes_.set().start_again(kB);
  EXPECT_TRUE(come(a.objects, id, 3, 3)) << "another memory";
  // The home, and with it who knew of the wish.
  nodes_.node(kA).kill_everything();
  nodes_.set().start_again(kA);
  ObjectClient b = nodes_.open(kB);
  EXPECT_TRUE(come(b.objects, id, 3, 3));
}

}  // namespace
}  // namespace refract::test
