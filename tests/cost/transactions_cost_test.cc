// SPDX-License-Identifier: Apache-2.0
// What an owner does for several puts at one moment, beside as many single ones.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tests/cost/expect_cost.h"

#include "refract/kv/calls/batch_body.h"
#include "refract/kv/owner/service/batch_call.h"
#include "refract/kv/testing/test_space.h"

namespace refract::test::transactions_cost_test {
namespace {

using kv::test::bytes_of;

constexpr size_t kKeys = 4;

const std::array<std::string, kKeys> kNames{"user:0000000042!", "user:0000000043!", "user:0000000044!",
                                            "user:0000000045!"};
const std::string kValue(64, 'v');

// From the call's bytes to those of its answer.
std::function<Operations()> in_a_batch() {
  return [] {
    const auto space = std::make_shared<kv::test::Space>();
    std::vector<kv::RpcBatchWrite> writes;
    for (const std::string& name : kNames)
      writes.push_back({.key = bytes_of(name), .value = bytes_of(kValue)});
    const kv::RpcBatch batch{.conditions = {}, .writes = writes};
    const auto body = std::make_shared<std::vector<std::byte>>(kv::body_of_batch(batch));
    return repeated([space, body] {
      const kv::wire::BatchRequest request{
          .conditions = 0, .writes = kKeys, .staged_bytes = 0, .identity = {}};
      kv::BatchCall call;
      const Code decoded = call.decode(request, *body, space->table(), space->clock());
      const bool done = decoded == Code::kOk && space->table().change_at_once(call.batch());
      space->heap().reclaim();
      return done && call.answer(Code::kOk).size() == call.answer_bytes();
    });
  };
}

// Without their decoding and their answers, which take less than a tenth.
std::function<Operations()> one_by_one() {
  return [] {
    const auto space = std::make_shared<kv::test::Space>();
    return repeated([space] {
      bool is_done = true;
      for (const std::string& name : kNames) {
        is_done = space->table().put(bytes_of(name), bytes_of(kValue), {}).has_value() && is_done;
      }
      space->heap().reclaim();
      return is_done;
    });
  };
}

TEST(TransactionCost, of_an_owner_for_four_puts_at_one_moment_is_no_longer_than_it_was) {
  expect_cost({"4 puts at one moment", 6'015, in_a_batch()});
}

TEST(TransactionCost, beside_four_single_puts) {
  expect_cost({"4 puts", 2'215, one_by_one()});
}

}  // namespace
}  // namespace refract::test::transactions_cost_test
