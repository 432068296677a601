// SPDX-License-Identifier: Apache-2.0
// Values that are built in memory which the node reads: what any put promises, on every transport.
#include "refract/client/reservation.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/client/testing/test_node.h"
#include "refract/memory/testing/child_process.h"

namespace refract {
namespace {

using test::TestNode;
using test::value_of;

constexpr uint64_t kBytes = 3'000'000;

void build(const Reservation& reservation, uint64_t number) {
  const std::string value = value_of(number, reservation.bytes().size());
  std::memcpy(reservation.bytes().data(), value.data(), value.size());
}

class Reservations : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] Client connect() const {
    return TestNode::connect_to(GetParam() == "tcp" ? "tcp:" + node_.tcp() : node_.socket());
  }

  TestNode node_{{"--listen-address", "127.0.0.1:0", "--server-shards", "2", "--memory-limit", "384MiB"}};
  Client client_ = connect();
};
INSTANTIATE_TEST_SUITE_P(Transports, Reservations, testing::Values("shm", "tcp"),
                         [](const auto& way) { return way.param; });

TEST_P(Reservations, are_put_whole_whatever_their_lengths_and_again_with_other_bytes) {
  uint64_t number = 0;
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{4'096}, uint64_t{33'000}, uint64_t{262'145}, kBytes}) {
    Result<Reservation> reservation = client_.reserve(bytes);
    ASSERT_TRUE(reservation) << bytes;
    ASSERT_EQ(reservation->bytes().size(), bytes);
    for (int again = 0; again < 3; ++again) {
      build(*reservation, ++number);
      const std::string key = "key" + std::to_string(number % 4);
      ASSERT_TRUE(client_.put(key, *reservation)) << bytes;
      EXPECT_EQ(client_.get(key).value(), value_of(number, bytes)) << bytes;
    }
  }
}

TEST_P(Reservations, can_be_cut_to_what_was_built_and_no_further_than_they_are) {
  Reservation reservation = test::needed(client_.reserve(kBytes));
  EXPECT_EQ(reservation.resize(kBytes + 1), Code::kTooLarge);
  ASSERT_EQ(reservation.resize(100'000), Code::kOk);
  build(reservation, 1);
  ASSERT_TRUE(client_.put("key", reservation));
  EXPECT_EQ(client_.get("key").value(), value_of(1, 100'000));
  ASSERT_EQ(reservation.resize(kBytes), Code::kOk);
  build(reservation, 2);
  ASSERT_TRUE(client_.put("key", reservation));
  EXPECT_EQ(client_.get("key").value(), value_of(2, kBytes));
  ASSERT_EQ(reservation.resize(0), Code::kOk);
  ASSERT_TRUE(client_.put("key", reservation));
  EXPECT_EQ(client_.get("key").value(), "");
}

TEST_P(Reservations, obey_conditions_and_lifetimes_as_every_put) {
  const Reservation reservation = test::needed(client_.reserve(kBytes));
  build(reservation, 1);
  const uint64_t version = test::needed(client_.put("key", reservation, {.if_absent = true}));
  EXPECT_EQ(client_.put("key", reservation, {.if_absent = true}).code(), Code::kExists);
  EXPECT_EQ(client_.put("key", reservation, {.if_version = version + 1}).code(), Code::kVersionMismatch);
  build(reservation, 2);
  EXPECT_TRUE(client_.put("key", reservation, {.if_version = version, .ttl_ns = 3600 * kSecond_ns}));
  EXPECT_NE(client_.exists("key").value().expires_wall_ns, 0U);
  EXPECT_EQ(client_.get("key").value(), value_of(2, kBytes));
  EXPECT_EQ(client_.put("", reservation).code(), Code::kInvalidArgument);
}

TEST_P(Reservations, are_parts_of_batches_too) {
  const Reservation reservation = test::needed(client_.reserve(kBytes));
  build(reservation, 7);
  std::vector<PutItem> items;
  for (const char* key : {"a", "b", "c", "d"})
    items.push_back({.key = key, .value = Bytes(reservation.bytes()), .options = {.built_in = &reservation}});
  client_.multi_put(items);
  for (const PutItem& item : items) {
    ASSERT_TRUE(item.result);
    EXPECT_EQ(client_.get(item.key).value(), value_of(7, kBytes));
  }
}

TEST_P(Reservations, follow_the_server_that_comes_after_one_that_was_killed) {
  const Reservation reservation = test::needed(client_.reserve(kBytes));
  for (uint64_t round = 1; round < 5; ++round) {
    build(reservation, round);
    const std::string key = "key" + std::to_string(round);
    ASSERT_TRUE(client_.put(key, reservation)) << round;
    EXPECT_EQ(client_.get(key).value(), value_of(round, kBytes));
    if (const pid_t server = test::server_of(TestNode::connect_to(node_.socket())); server > 0)
      ::kill(server, SIGKILL);
    ASSERT_TRUE(test::becomes_true([&] { return client_.put("probe", "x").has_value(); }));
  }
}

TEST_P(Reservations, that_do_not_fit_the_node_are_no_space) {
  const Reservation reservation = test::needed(client_.reserve(400 * kMiB));
  EXPECT_EQ(client_.put("key", reservation).code(), Code::kNoSpace);
  EXPECT_EQ(client_.get("key").code(), Code::kNotFound);
  EXPECT_EQ(client_.reserve(0).code(), Code::kInvalidArgument);
  EXPECT_EQ(client_.reserve(513 * kMiB).code(), Code::kTooLarge);
}

class OnTheNodesHost : public testing::Test {
 protected:
  TestNode node_{{"--listen-address", "127.0.0.1:0"}};
  Client client_ = node_.connect();
};

TEST_F(OnTheNodesHost, a_put_of_a_reservation_is_one_message_each_way) {
  const Reservation reservation = test::needed(client_.reserve(kBytes));
  build(reservation, 1);
  ASSERT_TRUE(client_.put("key", reservation));
  const uint64_t before = client_.counters().messages_sent;
  ASSERT_TRUE(client_.put("key", reservation));
  EXPECT_EQ(client_.counters().messages_sent - before, 1U);
  const std::string copied = value_of(1, kBytes);
  ASSERT_TRUE(client_.put("key", copied));
  EXPECT_GT(client_.counters().messages_sent - before, 2U) << "else this test shows nothing";
}

TEST_F(OnTheNodesHost, what_the_options_call_built_but_is_elsewhere_is_copied) {
  const Reservation reservation = test::needed(client_.reserve(kBytes));
  const std::string elsewhere = value_of(3, kBytes);
  ASSERT_TRUE(client_.put("key", elsewhere, {.built_in = &reservation}));
  EXPECT_EQ(client_.get("key").value(), elsewhere);
  ASSERT_TRUE(
      client_.put("part", Bytes(reservation.bytes().subspan(1'000, 100'000)), {.built_in = &reservation}));
  EXPECT_EQ(client_.get("part").value().size(), 100'000U);
}

TEST_F(OnTheNodesHost, any_thread_puts_and_ends_them_and_clients_end_before) {
  std::optional<Reservation> reservation = test::needed(client_.reserve(kBytes));
  build(*reservation, 1);
  ASSERT_TRUE(client_.put("mine", *reservation));
  std::thread([&] {
    ASSERT_TRUE(client_.put("its", *reservation));
    reservation.reset();
  }).join();
  EXPECT_EQ(client_.get("its").value(), value_of(1, kBytes));
  std::optional<Client> brief = node_.connect();
  Reservation left = test::needed(brief->reserve(kBytes));
  build(left, 2);
  ASSERT_TRUE(brief->put("brief", left));
  brief.reset();
  ASSERT_TRUE(client_.put("after", left)) << "of another client, that has ended";
  EXPECT_EQ(client_.get("after").value(), value_of(2, kBytes));
}

TEST_F(OnTheNodesHost, memory_is_used_again_and_what_is_beyond_the_shelf_given_back) {
  const std::byte* first = nullptr;
  for (int i = 0; i < 100; ++i) {
    const Reservation reservation = test::needed(client_.reserve(kBytes));
    if (i == 0) first = reservation.bytes().data();
    EXPECT_EQ(reservation.bytes().data(), first);
    build(reservation, 1);
    ASSERT_TRUE(client_.put("key", reservation));
  }
  // More at once than the server maps of one client, in bytes and in number.
  for (int round = 0; round < 3; ++round) {
    std::vector<Reservation> many;
    for (int i = 0; i < 70; ++i) {
      many.push_back(test::needed(client_.reserve(100'000)));
      build(many.back(), static_cast<uint64_t>(i));
      ASSERT_TRUE(client_.put("many", many.back())) << i;
      EXPECT_EQ(client_.get("many").value(), value_of(static_cast<uint64_t>(i), 100'000));
    }
  }
}

TEST_F(OnTheNodesHost, a_child_can_neither_reserve_nor_spoil_its_parents) {
  Reservation reservation = test::needed(client_.reserve(kBytes));
  build(reservation, 1);
  ASSERT_TRUE(client_.put("key", reservation));
  EXPECT_EQ(test::in_child([&] {
              if (client_.reserve(10).code() != Code::kForked) return 1;
              if (client_.put("key", reservation).code() != Code::kForked) return 2;
              const Reservation ended = std::move(reservation);
              return 0;
            }),
            0);
  ASSERT_TRUE(client_.put("key", reservation));
  EXPECT_EQ(client_.get("key").value(), value_of(1, kBytes));
}

TEST_F(OnTheNodesHost, one_without_a_client_is_put_by_any) {
  const Reservation reservation = test::needed(Reservation::make(kBytes));
  build(reservation, 4);
  ASSERT_TRUE(client_.put("key", reservation));
  EXPECT_EQ(client_.get("key").value(), value_of(4, kBytes));
}

}  // namespace
}  // namespace refract
