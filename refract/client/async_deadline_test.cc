// SPDX-License-Identifier: Apache-2.0
// The timeout is that of a call, not of each of its attempts: against a real node that is stopped, killed and
// kept from coming back, on a clock that the test moves on by minutes while a machine needs milliseconds.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <optional>
#include <string>

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/client/async_client.h"
#include "refract/client/testing/test_node.h"

namespace refract::client {
namespace {

using runtime::Shard;
using runtime::Task;
using test::becomes_true;
using test::TestNode;

constexpr uint64_t kTimeout_ns = 1'000 * kSecond_ns;

// The system's time, and what the test has added.
class MovedClock final : public Clock {
 public:
  [[nodiscard]] uint64_t now_ns() const noexcept override { return system_clock().now_ns() + added_ns_; }
  [[nodiscard]] uint64_t wall_ns() const noexcept override { return system_clock().wall_ns() + added_ns_; }
  [[nodiscard]] uint64_t boot_ns() const noexcept override { return system_clock().boot_ns() + added_ns_; }
  void add(uint64_t ns) noexcept { added_ns_ += ns; }

 private:
  uint64_t added_ns_ = 0;
};

struct Operation {
  std::string name;
  Paths paths = Paths::kRpc;
  bool writes = false;
};
void PrintTo(const Operation& operation, std::ostream* out) {
  *out << operation.name;
}

Task<> get_key(AsyncClient& client, std::optional<Code>& code) {
  std::string value;
  const auto got = co_await client.get("key", value);
  code = got.code();
}
// With an identity: sent again although its outcome is unknown.
Task<> put_key(AsyncClient& client, std::optional<Code>& code) {
  const RequestId request = client.new_request();
  const auto put = co_await client.put("key", "other", {.request = request});
  code = put.code();
}

class AsyncDeadline : public testing::TestWithParam<Operation> {
 protected:
  void SetUp() override {
    Client local = node_.connect();
    ASSERT_TRUE(local.put("key", "value").has_value());
    server_ = test::server_of(local);
    auto connected =
        block_on(shard_, AsyncClient::connect(shard_, "tcp:" + node_.tcp(),
                                              {.timeout_ns = kTimeout_ns, .paths = GetParam().paths}));
    ASSERT_TRUE(connected.has_value()) << connected.error().to_string();
    client_ = std::move(*connected);
    // Whatever a first call has to learn is known.
    ASSERT_TRUE(block_on(shard_, client_->exists("key")).has_value());
  }
  void TearDown() override {
    shard_.drop_tasks();
    if (node_.keeper() > 0) ::kill(node_.keeper(), SIGCONT);
  }
  // Without waiting for what lies far ahead.
  void poll() { (void)shard_.poll_once(); }

  TestNode node_{{"--listen-address", "127.0.0.1:0"}};
  MovedClock clock_;
  Shard shard_{clock_};
  std::unique_ptr<AsyncClient> client_;
  pid_t server_ = -1;
};

INSTANTIATE_TEST_SUITE_P(Operations, AsyncDeadline,
                         testing::Values(Operation{.name = "Get"},
                                         Operation{.name = "GetByChain", .paths = Paths::kChain},
                                         Operation{.name = "Put", .writes = true}),
                         [](const auto& row) { return row.param.name; });

TEST_P(AsyncDeadline, a_call_whose_connection_is_cut_ends_with_the_timeout_of_its_first_attempt) {
  ASSERT_EQ(::kill(server_, SIGSTOP), 0);
  ASSERT_EQ(::kill(node_.keeper(), SIGSTOP), 0);
  std::optional<Code> code;
  const uint64_t sent = client_->messages_sent();
  shard_.spawn(GetParam().writes ? put_key(*client_, code) : get_key(*client_, code));
  ASSERT_TRUE(becomes_true([&] {
    poll();
    return client_->messages_sent() > sent;
  }));
  clock_.add(kTimeout_ns / 10 * 6);
  poll();
  ASSERT_FALSE(code.has_value());
  // Its socket goes with it, and the keeper, being stopped, starts no other.
  ASSERT_EQ(::kill(server_, SIGKILL), 0);
  ASSERT_TRUE(becomes_true([&] {
    poll();
    return client_->route().server != "serving";
  })) << client_->route().server;
  ASSERT_FALSE(code.has_value()) << "there is time left: " << text(*code);
  clock_.add(kTimeout_ns / 10 * 5);
  // Were the second attempt's timeout a whole one, it would go on for as long again.
  EXPECT_TRUE(becomes_true([&] {
    poll();
    return code.has_value();
  }));
  clock_.add(kTimeout_ns);
  ASSERT_TRUE(becomes_true([&] {
    poll();
    return code.has_value();
  }));
  EXPECT_EQ(*code, GetParam().writes ? Code::kIndeterminate : Code::kUnavailable);
}

}  // namespace
}  // namespace refract::client
