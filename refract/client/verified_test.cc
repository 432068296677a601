// SPDX-License-Identifier: Apache-2.0
// What is put with a checksum comes back as it was, or not at all.
#include "refract/client/verified.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "refract/client/testing/test_node.h"

namespace refract {
namespace {

using test::TestNode;

TEST(Verified, every_flipped_bit_of_what_is_stored_is_found) {
  for (const std::string& value : {std::string(), std::string("v"), std::string(300, 'v')}) {
    const std::string stored = with_checksum("key", value);
    ASSERT_EQ(stored.size(), value.size() + kChecksumBytes);
    for (size_t bit = 0; bit < stored.size() * 8; ++bit) {
      std::string flipped = stored;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      const auto sound = verify("key", flipped);
      ASSERT_FALSE(sound) << "bit " << bit;
      const bool is_in_mark = bit / 8 >= value.size() && bit / 8 < value.size() + 8;
      EXPECT_EQ(sound.code(), is_in_mark ? Code::kMalformed : Code::kCorrupt) << "bit " << bit;
    }
    EXPECT_EQ(verify("key", stored).value().text(), value);
  }
}

TEST(Verified, bytes_that_are_missing_or_too_many_are_found) {
  const std::string stored = with_checksum("key", "a value of some length");
  for (size_t bytes = 0; bytes < stored.size(); ++bytes) {
    EXPECT_FALSE(verify("key", std::string_view(stored).substr(0, bytes))) << bytes;
    EXPECT_FALSE(verify("key", std::string_view(stored).substr(bytes + 1))) << bytes;
  }
  EXPECT_FALSE(verify("key", stored + '\0'));
}

TEST(Verified, another_entrys_value_is_found_out) {
  const std::string stored = with_checksum("key", "value");
  EXPECT_EQ(verify("kez", stored).code(), Code::kCorrupt);
  EXPECT_EQ(verify("", stored).code(), Code::kCorrupt);
  // The same bytes, cut into key and value elsewhere.
  EXPECT_NE(with_checksum("k", "eyvalue").substr(7), stored.substr(5));
}

// Stored values outlive programs.
TEST(Verified, the_checksum_of_given_bytes_is_the_same_for_ever) {
  const std::string stored = with_checksum("key", "value");
  constexpr std::array<unsigned char, 21> kStored = {'v',  'a',  'l',  'u',  'e',  'R',  'v',
                                                     'e',  'r',  'i',  'f',  'y',  '1',  0xED,
                                                     0x0F, 0xCB, 0x34, 0x0D, 0x46, 0x2B, 0x8D};
  EXPECT_EQ(stored, std::string(kStored.begin(), kStored.end()));
}

TEST(Verified, what_was_put_comes_back_by_every_call) {
  const TestNode node;
  Client client = node.connect();
  VerifyingClient verifying(client);
  const std::string large(100'000, 'l');
  const auto version = verifying.put("key", "value");
  ASSERT_TRUE(version);
  ASSERT_TRUE(verifying.put("large", large));
  std::string value;
  const Result<Got> got = verifying.get("key", value);
  ASSERT_TRUE(got);
  EXPECT_EQ(value, "value");
  EXPECT_EQ(got->version, *version);
  EXPECT_EQ(got->value_bytes, 5U);
  EXPECT_EQ(verifying.get("large").value_or(""), large);
  EXPECT_EQ(verifying.get("absent").code(), Code::kNotFound);
  EXPECT_EQ(verifying.put("key", "v", {.if_absent = true}).code(), Code::kExists);

  std::array<PutItem, 2> puts = {PutItem{.key = "one", .value = "1"}, PutItem{.key = "two", .value = large}};
  verifying.multi_put(puts);
  EXPECT_TRUE(puts[0].result && puts[1].result);
  ASSERT_TRUE(client.put("plain", "without a checksum, and long enough for one"));
  std::array<GetItem, 4> gets = {GetItem{.key = "one"}, GetItem{.key = "two"}, GetItem{.key = "absent"},
                                 GetItem{.key = "plain"}};
  verifying.multi_get(gets);
  EXPECT_TRUE(gets[0].result && gets[1].result);
  EXPECT_EQ(gets[0].value, "1");
  EXPECT_EQ(gets[1].value, large);
  EXPECT_EQ(gets[2].result.code(), Code::kNotFound);
  EXPECT_EQ(gets[3].result.code(), Code::kMalformed);
  const auto view = client.view("large");
  ASSERT_TRUE(view);
  EXPECT_EQ(verify("large", view->bytes()).value().text(), large);
}

TEST(Verified, a_value_that_another_program_changed_is_not_believed) {
  const TestNode node;
  Client client = node.connect();
  VerifyingClient verifying(client);
  ASSERT_TRUE(verifying.put("key", "value"));
  std::string stored = client.get("key").value_or("");
  stored[0] = 'V';
  ASSERT_TRUE(client.put("key", stored));
  EXPECT_EQ(verifying.get("key").code(), Code::kCorrupt);
  ASSERT_TRUE(client.put("key", with_checksum("other", "value")));
  EXPECT_EQ(verifying.get("key").code(), Code::kCorrupt);
  ASSERT_TRUE(client.put("key", "value"));
  EXPECT_EQ(verifying.get("key").code(), Code::kMalformed);
}

}  // namespace
}  // namespace refract
