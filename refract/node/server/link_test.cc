// SPDX-License-Identifier: Apache-2.0
// What keeper and server say to each other arrives whole and in order with its descriptors, or the end of the
// other is seen; a keeper waits for no server that does not read. Real sockets.
#include "refract/node/server/link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "refract/base/testing/needed.h"

namespace refract::node {
namespace {

class Link : public testing::Test {
 protected:
  Link() : ends_(test::needed(make_link())) {}

  [[nodiscard]] std::optional<LinkEnd::Received> receive() { return ends_.server.receive(ended_); }
  // As a process of another build would.
  void send_bytes(size_t count) {
    const std::string bytes(count, 'x');
    ASSERT_EQ(::send(ends_.keeper.descriptor(), bytes.data(), count, 0), static_cast<ssize_t>(count));
  }

  LinkPair ends_;
  bool ended_ = false;
};

TEST_F(Link, has_nothing_until_something_was_said) {
  EXPECT_FALSE(receive());
  EXPECT_FALSE(ended_) << "no message now is not the end";
}

TEST_F(Link, messages_come_in_their_order_with_every_field) {
  ASSERT_TRUE(ends_.keeper.send(
      {.kind = LinkKind::kRegionReady, .code = 1, .id = 2, .region = 3, .base = 4, .bytes = 5, .key = 6}));
  ASSERT_TRUE(ends_.keeper.send({.kind = LinkKind::kRefused, .bytes = 7}));
  const LinkMessage first = test::needed(receive()).message;
  EXPECT_EQ(first.kind, LinkKind::kRegionReady);
  EXPECT_EQ(first.code, 1U);
  EXPECT_EQ(first.id, 2U);
  EXPECT_EQ(first.region, 3U);
  EXPECT_EQ(first.base, 4U);
  EXPECT_EQ(first.bytes, 5U);
  EXPECT_EQ(first.key, 6U);
  EXPECT_EQ(test::needed(receive()).message.bytes, 7U);
  EXPECT_FALSE(receive());
}

TEST_F(Link, a_descriptor_leads_to_the_same_file_and_does_not_outlive_an_exec) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  ASSERT_TRUE(ends_.keeper.send({.kind = LinkKind::kMapRegion}, {pipe[1]}));
  ::close(pipe[1]);
  {
    const auto received = test::needed(receive());
    EXPECT_FALSE(received.descriptors[1]) << "one was sent";
    EXPECT_NE(::fcntl(received.descriptors[0].get(), F_GETFD) & FD_CLOEXEC, 0);
    ASSERT_EQ(::write(received.descriptors[0].get(), "x", 1), 1);
    char byte = 0;
    EXPECT_EQ(::read(pipe[0], &byte, 1), 1);
  }
  char byte = 0;
  EXPECT_EQ(::read(pipe[0], &byte, 1), 0) << "it is closed with the message";
  ::close(pipe[0]);
}

TEST_F(Link, what_was_said_before_the_end_is_heard_and_then_the_end) {
  ASSERT_TRUE(ends_.keeper.send({.kind = LinkKind::kDetach, .id = 9}));
  ends_.keeper.close();
  EXPECT_EQ(test::needed(receive()).message.id, 9U);
  EXPECT_FALSE(ended_);
  EXPECT_FALSE(receive());
  EXPECT_TRUE(ended_);
}

TEST_F(Link, a_message_of_another_length_ends_it) {
  for (const size_t bytes : {sizeof(LinkMessage) - 1, sizeof(LinkMessage) + 1, sizeof(LinkMessage) + 100}) {
    ended_ = false;
    send_bytes(bytes);
    EXPECT_FALSE(receive());
    EXPECT_TRUE(ended_) << bytes;
  }
}

TEST_F(Link, sending_does_not_wait_for_an_end_that_does_not_read_or_is_gone) {
  int sent = 0;
  while (ends_.keeper.send({.kind = LinkKind::kDetach}) && sent < 1'000'000) ++sent;
  EXPECT_GT(sent, 0);
  EXPECT_LT(sent, 1'000'000) << "the socket is bounded";
  EXPECT_TRUE(errno == EAGAIN || errno == EWOULDBLOCK) << errno;
  ends_.server.close();
  EXPECT_FALSE(ends_.keeper.send({.kind = LinkKind::kDetach}));
  EXPECT_TRUE(errno == EPIPE || errno == ECONNRESET) << "and no SIGPIPE came";
}

}  // namespace
}  // namespace refract::node
