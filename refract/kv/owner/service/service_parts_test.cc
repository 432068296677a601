// SPDX-License-Identifier: Apache-2.0
// What a part leaves on a shard that is asked for nothing afterwards: an entry that expires, and what was
// replaced.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/calls/transaction_calls.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

using refract::test::needed;
using test::bytes_of;
using test::patterned;
using test::Served;

class ServiceParts : public testing::Test {
 protected:
  // One write, of a part and then decided; `settles`: by a message, else its session closes.
  void write(RpcBatchWrite write, bool settles) {
    Served::Peer peer = served_.connect();
    TransactionCalls calls(*peer.session, served_.shard);
    const uint64_t deadline_ns = served_.shard.refresh_now() + kSecond_ns;
    const TransactionCalls::Terms terms{.name = needed(served_.wait(calls.begin(deadline_ns))),
                                        .begun_ns = served_.shard.now_ns(),
                                        .deadline_ns = deadline_ns};
    std::vector<RpcBatchWrite> writes{write};
    RpcBatch part{.conditions = {}, .writes = writes};
    ASSERT_TRUE(served_.wait(calls.prepare(part, terms)));
    RpcBatch home{.conditions = {}, .writes = {}};
    ASSERT_TRUE(served_.wait(calls.decide(home, terms)));
    EXPECT_EQ(served_.parts.count(), 1U);
    if (settles) calls.settle(terms.name);
    served_.settle();
    EXPECT_EQ(served_.parts.count(), settles ? 0U : 1U);
  }
  void pass(uint64_t ns) {
    (void)served_.shard.run_until([] { return false; }, served_.shard.refresh_now() + ns);
  }
  Served served_;
};

TEST_F(ServiceParts, an_entry_that_came_as_a_part_is_swept_when_its_time_is_over) {
  for (const bool settles : {true, false}) {
    write({.key = bytes_of("brief"), .value = bytes_of("1"), .ttl_ns = kSecond_ns}, settles);
    ASSERT_FALSE(HasFatalFailure());
    pass(600 * kSecond_ns);
    EXPECT_EQ(served_.space.table().stats().entries, 0U) << settles;
    EXPECT_EQ(served_.space.heap().stats().bytes_retired, 0U) << settles;
  }
}

TEST_F(ServiceParts, what_a_part_has_replaced_is_given_back) {
  const std::string old = patterned(100'000);
  for (const bool settles : {true, false}) {
    {
      Served::Peer peer = served_.connect();
      ASSERT_TRUE(peer.client->put_and_wait(bytes_of("key"), bytes_of(old)));
    }
    // Nothing is left to be looked after.
    pass(600 * kSecond_ns);
    ASSERT_EQ(served_.space.heap().stats().bytes_retired, 0U);
    write({.key = bytes_of("key"), .value = bytes_of("short")}, settles);
    ASSERT_FALSE(HasFatalFailure());
    pass(0);
    EXPECT_GT(served_.space.heap().stats().bytes_retired, old.size()) << settles;
    pass(kSecond_ns);
    EXPECT_EQ(served_.space.heap().stats().bytes_retired, 0U) << settles;
  }
}

}  // namespace
}  // namespace refract::kv
