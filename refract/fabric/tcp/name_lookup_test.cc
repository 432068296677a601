// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/name_lookup.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>

#include "refract/base/testing/needed.h"
#include "refract/base/units.h"

namespace refract::fabric::tcp {
namespace {

// Only something broken ever waits for so long.
constexpr int kPatience_ms = 60'000;

bool becomes_readable(int fd) {
  pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, kPatience_ms) == 1 && (wanted.revents & POLLIN) != 0;
}

TEST(NameLookup, tells_its_end_by_a_descriptor_and_hands_out_once_what_it_found) {
  auto lookup = test::needed(NameLookup::begin({.host = "localhost", .port = "7400"}));
  ASSERT_TRUE(becomes_readable(lookup.descriptor()));
  const auto found = lookup.take();
  ASSERT_TRUE(found.has_value());
  ASSERT_TRUE(found->has_value()) << found->error().to_string();
  EXPECT_TRUE(std::ranges::all_of(
      **found, [](const SocketAddress& each) { return each.is_loopback() && each.port() == 7400; }));
  EXPECT_FALSE((*found)->empty());
  EXPECT_FALSE(lookup.take().has_value());
}

TEST(NameLookup, of_a_name_that_no_host_has_ends_too) {
  auto lookup = test::needed(NameLookup::begin({.host = "no-such-host.invalid", .port = "7400"}));
  ASSERT_TRUE(becomes_readable(lookup.descriptor()));
  const auto found = lookup.take();
  ASSERT_TRUE(found.has_value());
  ASSERT_FALSE(found->has_value());
  EXPECT_EQ(found->error().code, Code::kUnavailable);
  EXPECT_NE(found->error().what.find("no-such-host.invalid"), std::string::npos);
}

TEST(NameLookup, that_is_given_up_has_no_effect) {
  for (int i = 0; i < 20; ++i) {
    auto lookup = test::needed(NameLookup::begin({.host = "localhost", .port = "1"}));
    if (i % 2 == 0) (void)lookup.take();
  }
  auto lookup = test::needed(NameLookup::begin({.host = "localhost", .port = "2"}));
  ASSERT_TRUE(becomes_readable(lookup.descriptor()));
  EXPECT_EQ(lookup.take().value().value().front().port(), 2);
}

TEST(ResolveWithin, takes_numbers_and_names) {
  for (const char* const host : {"127.0.0.1", "localhost", "::1"}) {
    const auto found = resolve_within({.host = host, .port = "1"}, 60 * kSecond_ns);
    ASSERT_TRUE(found.has_value()) << host;
    EXPECT_TRUE(found->front().is_loopback());
  }
}

}  // namespace
}  // namespace refract::fabric::tcp
