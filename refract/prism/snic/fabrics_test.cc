// SPDX-License-Identifier: Apache-2.0
// Chains over every provider: the same outcomes, and one round trip for each chain, which is the point of
// them. What is counted is counted by the decorator at the client's end, not by prism.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refract/prism/snic/test_fabrics.h"

namespace refract::prism::snic {
namespace {

using test::bytes_of;
using test::Draft;
using test::text_of;

TEST_P(PrismFabrics, each_chain_takes_one_round_trip) {
  const auto session = connect();
  Client client(*session);
  const auto words = wait(client.attach("words", {ChainRights::kAll}, deadline()));
  ASSERT_TRUE(words.has_value());
  counted_.reset_counts();

  for (uint64_t version = 1; version <= 5; ++version) {
    const std::string value = "value " + std::to_string(version);
    // ALLOCATE, WRITE of a version, and the CAS that installs the buffer: the paper's put.
    const uint64_t old_word = world_.word(8);
    Draft put;
    put->allocate(words->at(0), words->key, bytes_of(value)).redirect(0).owned();
    put->write(words->at(16), words->key, std::as_bytes(std::span(&version, 1))).conditional();
    put->compare_swap({.address = words->at(8),
                       .key = words->key,
                       .compare = Operand::of(old_word),
                       .swap = Operand::at(scratch(0))})
        .conditional()
        .retire();
    const auto installed = wait(client.run(*put, deadline()));
    ASSERT_TRUE(installed.has_value());
    EXPECT_TRUE(installed->all_ok());

    Draft get;
    get->read(words->at(8), words->key, 7).indirect();
    const auto got = wait(client.run(*get, deadline()));
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(text_of(got->bytes(0)), value);
    EXPECT_EQ(counted_.counts().round_trips, 2 * version);
  }
  EXPECT_EQ(world_.free_buffers(), 7u);
  EXPECT_EQ(counted_.counts().requests_of(fabric::Op::kSend), 10u);
  EXPECT_EQ(counted_.counts().messages_received, 10u);
}

TEST_P(PrismFabrics, many_chains_under_way_all_come_back) {
  const auto session = connect();
  Client client(*session);
  const auto words = wait(client.attach("words", {ChainRights::kAll}, deadline()));
  ASSERT_TRUE(words.has_value());
  Draft add;
  add->fetch_add(words->at(8), words->key, 1);
  std::vector<runtime::Task<Result<Reply>>> chains;
  for (int i = 0; i < 200; ++i) chains.push_back(client.run(*add, deadline()));
  shard_.refresh_now();
  for (auto& chain : chains) chain.start();
  for (auto& chain : chains) {
    while (!chain.done()) pump();
    const Result<Reply> reply = chain.take();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->code(0), Code::kOk);
  }
  EXPECT_EQ(world_.word(8), 200u);
}

TEST_P(PrismFabrics, key_does_not_outlive_its_session) {
  auto first = connect();
  const auto words = wait(Client(*first).attach("words", {ChainRights::kAll}, deadline()));
  ASSERT_TRUE(words.has_value());
  first.reset();
  while (server_.session_count() > 0) pump();
  const auto second = connect();
  Client client(*second);
  Draft draft;
  draft->write(words->at(8), words->key, bytes_of("late"));
  const auto reply = wait(client.run(*draft, deadline()));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->code(0), Code::kAccessDenied);
  EXPECT_EQ(world_.word(8), 0u);
}

}  // namespace
}  // namespace refract::prism::snic
