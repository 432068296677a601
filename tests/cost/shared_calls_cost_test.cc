// SPDX-License-Identifier: Apache-2.0
// What operations cost that share calls (docs/design/037-shared-calls.md), at both ends together: a provider
// in the same thread, no socket and no clock, so that the count is the same in each run.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "tests/cost/expect_cost.h"

#include "refract/kv/calls/rpc_client_attempts.h"
#include "refract/kv/testing/test_service.h"

namespace refract::test::shared_calls_cost_test {
namespace {

using kv::RpcClient;
using kv::test::bytes_of;
using runtime::Task;

constexpr size_t kLanes = 16;
const std::string kKey = "user:0000000042!";  // 16 bytes.
const std::string kValue(64, 'v');

// Into memory of its own, as AsyncClient::get_into.
class Buffer final : public kv::ValueSink {
 public:
  [[nodiscard]] std::byte* room(uint64_t bytes) override {
    return bytes <= bytes_.size() ? bytes_.data() : nullptr;
  }

 private:
  std::array<std::byte, 64> bytes_;
};

// As many coroutines as are in flight, each of which makes one operation after the other.
class Lanes {
 public:
  using Lane = Task<> (*)(Lanes&);

  explicit Lanes(Lane lane) {
    ready_ = peer_.client->put_and_wait(bytes_of(kKey), bytes_of(kValue)).has_value();
    for (size_t i = 0; i < kLanes; ++i) {
      lanes_[i] = lane(*this);
      lanes_[i].start();
    }
  }
  ~Lanes() { lanes_ = {}; }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // One operation of each lane.
  [[nodiscard]] bool run_round() {
    const uint64_t aim = done_ + kLanes;
    return ready_ && served_.run_until([&] { return done_ >= aim; }) && failed_ == 0;
  }

  static Task<> get(Lanes& lanes) {
    Buffer buffer;
    for (;;) {
      RpcClient::GetAttempt attempt(*lanes.peer_.client, bytes_of(kKey), buffer);
      const std::optional<Result<kv::Got>> got = co_await attempt;
      lanes.note(got && *got && (*got)->value_bytes == kValue.size());
    }
  }
  static Task<> put(Lanes& lanes) {
    for (;;) {
      RpcClient::PutAttempt attempt(*lanes.peer_.client, {.key = bytes_of(kKey), .value = bytes_of(kValue)});
      const std::optional<Result<uint64_t>> version = co_await attempt;
      lanes.note(version && version->has_value());
    }
  }

 private:
  void note(bool is_right) {
    ++done_;
    failed_ += is_right ? 0 : 1;
  }

  kv::test::Served served_{{.link = {.depth = 64, .message_bytes_max = 8 * 1024}}};
  kv::test::Served::Peer peer_ = served_.connect();
  bool ready_ = false;
  uint64_t done_ = 0;
  uint64_t failed_ = 0;
  std::array<Task<>, kLanes> lanes_;
};

std::function<Operations()> rounds_of(Lanes::Lane lane) {
  return [lane] {
    const auto lanes = std::make_shared<Lanes>(lane);
    return repeated([lanes] { return lanes->run_round(); });
  };
}

TEST(SharedCallCost, sixteen_gets_in_one_call_are_no_longer_than_they_were) {
  expect_cost({"16 gets in a call, both ends", 10'697, rounds_of(&Lanes::get)});
}

TEST(SharedCallCost, nor_are_sixteen_puts) {
  expect_cost({"16 puts in a call, both ends", 17'839, rounds_of(&Lanes::put)});
}

}  // namespace
}  // namespace refract::test::shared_calls_cost_test
