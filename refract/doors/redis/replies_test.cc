// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/replies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <string>
#include <utility>

#include "refract/client/testing/test_node.h"

namespace refract::doors::redis {
namespace {

// As a socket takes it: so many bytes each time.
std::string sent(Replies& replies, size_t step) {
  std::string all;
  std::array<iovec, 4> pieces;
  while (!replies.is_empty()) {
    std::string now;
    const size_t count = replies.gather(pieces, step);
    for (const iovec& piece : std::span(pieces).first(count)) {
      now.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    }
    EXPECT_FALSE(now.empty());
    EXPECT_LE(now.size(), step);
    // The kernel may take fewer.
    now.resize(std::min(now.size(), step));
    all += now;
    replies.sent(now.size());
  }
  return all;
}

TEST(Replies, leave_in_their_order_with_values_that_stay_where_they_are) {
  const test::TestNode node;
  Client client = node.connect();
  const std::string value(20'000, 'v');
  const std::string other(30'000, 'w');
  ASSERT_TRUE(client.put("v", value));
  ASSERT_TRUE(client.put("w", other));
  for (const size_t step : {1UL, 7UL, 19'999UL, 1UL << 20}) {
    for (const bool is_copied : {false, true}) {
      Replies first;
      first.text() += "a";
      first.append(*client.view("v"));
      first.append(*client.view("w"));
      Replies second;
      second.text() += "b";
      second.append(*client.view("v"));
      second.text() += "c";
      first.append(second);
      EXPECT_TRUE(second.is_empty());
      EXPECT_EQ(first.pinned(), 3u);
      EXPECT_EQ(first.bytes(), 70'003u);
      first.sent(2);
      if (is_copied) first.copy_pinned();
      EXPECT_EQ(first.pinned(), is_copied ? 0u : 3u);
      EXPECT_EQ(sent(first, step), value.substr(1) + other + "b" + value + "c");
      EXPECT_EQ(first.pinned(), 0u);
      EXPECT_TRUE(first.text().empty());
    }
  }
}

// Claim: what is shared leaves in its place, is counted apart from what the connection has for itself, and is
// let go of once it is sent; too many of them are copied.
TEST(Replies, share_messages_with_others) {
  std::atomic<size_t> tally = 0;
  const std::string text(5000, 's');
  for (const size_t step : {1UL, 4999UL, 1UL << 20}) {
    Replies replies;
    std::string wanted;
    {
      const SharedText shared(text, tally);
      for (size_t i = 0; i < Replies::kSharedMax + 10; ++i) {
        replies.text() += ">";
        replies.append(shared);
        wanted += ">" + text;
      }
    }
    EXPECT_EQ(tally.load(), text.size());
    EXPECT_EQ(replies.bytes(), wanted.size());
    EXPECT_EQ(replies.shared_bytes(), Replies::kSharedMax * text.size());
    EXPECT_EQ(replies.pinned(), 0u);
    EXPECT_LT(replies.own_bytes(), 40 * text.size());
    EXPECT_EQ(sent(replies, step), wanted);
    EXPECT_EQ(replies.shared_bytes(), 0u);
    EXPECT_EQ(tally.load(), 0u);
  }
}

}  // namespace
}  // namespace refract::doors::redis
