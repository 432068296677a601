// SPDX-License-Identifier: Apache-2.0
// Objects of a node that is reached by the machine's devices: the node READs what a client fills, and what is
// got is READ by the client.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/objects/object_node.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

NodeOptions listening_with_objects(const std::string& limit) {
  NodeOptions options = with_objects(limit, {.name = "over_verbs", .shards = 1, .is_tcp = true});
  return options;
}

ObjectClient open_by_verbs(const Node& node) {
  auto client = Client::connect("verbs:" + node.tcp_address(), {.timeout_ns = kPatience_ns});
  EXPECT_TRUE(client.has_value()) << client.error().to_string();
  EXPECT_EQ(client->route().transport, "verbs");
  auto objects = client->objects();
  EXPECT_TRUE(objects.has_value()) << objects.error().to_string();
  return {.client = std::move(*client), .objects = std::move(*objects)};
}

// Of both sides of what fits a message, of what is READ in one piece, and across regions.
constexpr uint64_t kLengths[] = {0,      1,        64,   4'000,    4'096,    65'535,       65'536,
                                 65'537, kMiB - 1, kMiB, kMiB + 1, 4 * kMiB, 9 * kMiB + 5, 40 * kMiB};

TEST(VerbsObjects, of_every_length_are_made_and_got) {
  Node node(listening_with_objects("256MiB"));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_by_verbs(node);
  ObjectClient other = open_by_verbs(node);
  for (const uint64_t bytes : kLengths) {
    const std::string id = "object of " + std::to_string(bytes);
    ASSERT_TRUE(put_sealed(opened.objects, id, bytes + 1, bytes))
        << bytes << opened.objects.trouble().to_string();
    const auto got = other.objects.get(id);
    ASSERT_TRUE(got) << bytes << info(got.code()).sentence << other.objects.trouble().to_string();
    EXPECT_TRUE(got->is_copy());
    ASSERT_EQ(got->body().size(), opened.objects.get(id)->body().size());
    EXPECT_EQ(got->digest(), opened.objects.get(id)->digest()) << bytes;
    if (bytes < 64) continue;  // Too short to name itself.
    EXPECT_EQ(number_of(*got), bytes + 1) << bytes;
  }
  EXPECT_EQ(leak_after_removing_all(opened.objects), "");
  EXPECT_EQ(node.stop(), 0);
}

TEST(VerbsObjects, are_filled_piece_by_piece_and_change_no_more_once_they_are_sealed) {
  Node node(listening_with_objects("64MiB"));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_by_verbs(node);
  constexpr uint64_t kBytes = 12 * kMiB;
  auto made = opened.objects.create("object", kBytes, 3);
  ASSERT_TRUE(made) << opened.objects.trouble().to_string();
  std::byte* const body = made->body().data();
  for (uint64_t at = 0; at < kBytes; at += 4 * kMiB) {
    std::fill_n(body + at, 4 * kMiB, static_cast<std::byte>('a' + at / (4 * kMiB)));
    ASSERT_EQ(made->filled(at + 4 * kMiB), Code::kOk);
  }
  std::ranges::fill(made->metadata(), std::byte{'m'});
  const auto sealed = made->seal();
  ASSERT_TRUE(sealed) << opened.objects.trouble().to_string();
  const auto before = opened.objects.get("object");
  ASSERT_TRUE(before);
  EXPECT_EQ(before->body()[0], std::byte{'a'});
  EXPECT_EQ(before->body()[4 * kMiB], std::byte{'b'});
  EXPECT_EQ(before->body()[kBytes - 1], std::byte{'c'});
  EXPECT_EQ(Bytes(before->metadata()).text(), "mmm");
  // Not allowed, and it changes nothing at the node.
  if (sealed->is_copy()) std::fill_n(body, kMiB, std::byte{'X'});
  EXPECT_EQ(opened.objects.get("object")->digest(), before->digest());
  EXPECT_EQ(node.stop(), 0);
}

TEST(VerbsObjects, of_a_killed_server_are_sealed_and_got_from_the_next_one) {
  Node node(listening_with_objects("64MiB"));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_by_verbs(node);
  ASSERT_TRUE(put_sealed(opened.objects, "before", 1, 3 * kMiB));
  auto made = opened.objects.create("during", 5 * kMiB);
  ASSERT_TRUE(made) << opened.objects.trouble().to_string();
  std::ranges::fill(made->body(), std::byte{'d'});
  const pid_t server = node.server();
  send_signal(server, SIGKILL);
  ASSERT_GT(node.next_server(server), 0);
  const auto sealed = made->seal();
  ASSERT_TRUE(sealed) << info(sealed.code()).sentence << opened.objects.trouble().to_string();
  const auto during = opened.objects.get("during");
  ASSERT_TRUE(during) << opened.objects.trouble().to_string();
  EXPECT_TRUE(std::ranges::all_of(during->body(), [](std::byte byte) { return byte == std::byte{'d'}; }));
  const auto first = opened.objects.get("before");
  ASSERT_TRUE(first) << opened.objects.trouble().to_string();
  EXPECT_EQ(number_of(*first), 1U);
  EXPECT_EQ(leak_after_removing_all(opened.objects), "");
  EXPECT_EQ(node.stop(), 0);
}

}  // namespace
}  // namespace refract::test
