// SPDX-License-Identifier: Apache-2.0
// The connections to a Redis: real ones that are killed, stopped and guarded by a password, and servers that
// answer anything else. Whatever comes, calls end in time, the reason is told in words, and no password is in
// them.
#include "refract/node/redis/node_redis.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/testing/processes/files.h"
#include "refract/object/testing/redis_process.h"
#include "refract/runtime/shard.h"

namespace refract::node::node_redis_test {
namespace {

using object::RedisReply;
using object::test::free_port;
using object::test::RedisProcess;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kPassword = "a long password of a test";
constexpr uint64_t kPatience_ns = 60 * kSecond_ns;

fabric::tcp::Secret secret_of(std::string_view text) {
  auto secret = fabric::tcp::Secret::copy_of(std::as_bytes(std::span(text)));
  EXPECT_TRUE(secret);
  return std::move(*secret);
}

Descriptor listening_socket(uint16_t& port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)), 0);
  EXPECT_EQ(::listen(socket.get(), 8), 0);
  port = fabric::tcp::local_address(socket.get()).port();
  return socket;
}

// Answers each thing that it reads by this text.
class FalseServer final : public runtime::Poller {
 public:
  FalseServer(runtime::Shard& shard, std::string answer)
      : shard_(shard), answer_(std::move(answer)), listener_(listening_socket(port_)) {
    shard_.add(*this);
  }
  ~FalseServer() override { shard_.remove(*this); }
  size_t poll() noexcept override {
    if (Descriptor next(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)); next) {
      clients_.push_back(std::move(next));
    }
    size_t count = 0;
    std::erase_if(clients_, [&](const Descriptor& client) {
      std::array<char, 4096> bytes;
      const ssize_t got = ::recv(client.get(), bytes.data(), bytes.size(), 0);
      if (got <= 0) return got == 0;
      heard_.append(bytes.data(), static_cast<size_t>(got));
      ++count;
      return ::send(client.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL) < 0;
    });
    return count + 1;
  }
  [[nodiscard]] bool prepare_sleep() noexcept override { return false; }
  [[nodiscard]] std::string_view name() const noexcept override { return "false server"; }
  [[nodiscard]] uint16_t port() const noexcept { return port_; }
  [[nodiscard]] const std::string& heard() const noexcept { return heard_; }

 private:
  runtime::Shard& shard_;
  std::string answer_;
  uint16_t port_ = 0;
  Descriptor listener_;
  std::vector<Descriptor> clients_;
  std::string heard_;
};

class NodeRedisTest : public testing::Test, protected object::RedisLine::Watcher {
 protected:
  // What a watcher may begin by itself.
  void line_opened(const std::string& run) noexcept override {
    run_ = run;
    ++opened_;
  }
  void line_closed() noexcept override {
    run_.clear();
    ++closed_;
  }
  void line_news(std::string_view message) noexcept override { news_.emplace_back(message); }

  void reach(uint16_t port, const fabric::tcp::Secret* password = nullptr, const std::string& further = "") {
    auto address = parse_redis_address(fmt::format("redis://127.0.0.1:{}{}", port, further));
    ASSERT_TRUE(address) << address.error().what;
    line_ = std::make_unique<NodeRedis>(shard_, *address, password,
                                        NodeRedis::Options{.connect_timeout_ns = 300 * kMillisecond_ns,
                                                           .call_timeout_ns = 500 * kMillisecond_ns});
    line_->open("channel", *this);
  }
  [[nodiscard]] bool becomes(const std::function<bool()>& condition) {
    return shard_.run_until(condition, shard_.refresh_now() + kPatience_ns);
  }
  [[nodiscard]] RedisReply call(std::vector<std::string> arguments) {
    return runtime::block_on(shard_, line_->call(std::move(arguments)));
  }
  // Why it cannot be reached.
  [[nodiscard]] std::string trouble_at(uint16_t port, const fabric::tcp::Secret* password = nullptr) {
    reach(port, password);
    EXPECT_TRUE(becomes([&] { return line_->trouble().what.find("not reached yet") == std::string::npos; }));
    EXPECT_EQ(opened_, 0);
    const std::string trouble = line_->trouble().to_line();
    line_.reset();
    return trouble;
  }

  runtime::Shard shard_{system_clock()};
  std::unique_ptr<NodeRedis> line_;
  std::string run_;
  std::vector<std::string> news_;
  int opened_ = 0;
  int closed_ = 0;
};

TEST_F(NodeRedisTest, carries_commands_and_news) {
  RedisProcess redis(free_port(), std::string(kPassword));
  const auto password = secret_of(kPassword);
  reach(redis.port(), &password, "/3");
  ASSERT_TRUE(becomes([&] { return opened_ == 1; })) << line_->trouble().to_line();
  EXPECT_EQ(run_.size(), 40U);
  EXPECT_EQ(line_->trouble().code, Code::kOk);
  EXPECT_EQ(call({"SET", "key", std::string("a\0b\r\n", 5)}).text, "OK");
  EXPECT_EQ(call({"GET", "key"}).text, std::string("a\0b\r\n", 5));
  EXPECT_EQ(call({"GET", "none"}).kind, RedisReply::Kind::kNil);
  EXPECT_EQ(call({"STRLEN", "key"}).number, 5);
  EXPECT_EQ(call({"NO", "COMMAND"}).kind, RedisReply::Kind::kError);
  const RedisReply list = call({"MGET", "key", "none"});
  ASSERT_TRUE(list.is_list_of(2));
  EXPECT_EQ(list.items[1].kind, RedisReply::Kind::kNil);
  EXPECT_EQ(call({"PUBLISH", "channel", "message"}).number, 1);
  EXPECT_TRUE(becomes([&] { return news_.size() == 1; }));
  EXPECT_EQ(news_, std::vector<std::string>{"message"});
  // Longer than a socket takes at once.
  const std::string large(20 * kMiB, 'x');
  EXPECT_EQ(call({"SET", "large", large}).text, "OK");
  EXPECT_TRUE(call({"GET", "large"}).text == large);
  EXPECT_EQ(redis.ask({"EXISTS", "key"}).number, 0) << "it is in another database";
}

TEST_F(NodeRedisTest, comes_back_to_the_next_run) {
  RedisProcess redis(free_port());
  reach(redis.port());
  ASSERT_TRUE(becomes([&] { return opened_ == 1; }));
  const std::string first = run_;
  redis.kill();
  ASSERT_TRUE(becomes([&] { return closed_ == 1; }));
  EXPECT_EQ(call({"PING"}).kind, RedisReply::Kind::kNone);
  EXPECT_THAT(line_->trouble().what, HasSubstr(fmt::format("redis://127.0.0.1:{}", redis.port())));
  redis.start();
  ASSERT_TRUE(becomes([&] { return opened_ == 2; }));
  EXPECT_NE(run_, first);
  EXPECT_EQ(call({"PING"}).text, "PONG");
}

// Also where only the connection for news has died.
TEST_F(NodeRedisTest, one_that_is_stopped_is_dropped) {
  RedisProcess redis(free_port());
  reach(redis.port());
  ASSERT_TRUE(becomes([&] { return opened_ == 1; }));
  redis.stop();
  EXPECT_EQ(call({"PING"}).kind, RedisReply::Kind::kNone);
  ASSERT_TRUE(becomes([&] { return closed_ == 1; }));
  EXPECT_THAT(line_->trouble().what, HasSubstr("no answer within"));
  redis.go_on();
  ASSERT_TRUE(becomes([&] { return opened_ == 2; }));
  // The pause doubles meanwhile: no call, and yet it is noticed.
  redis.stop();
  ASSERT_TRUE(becomes([&] { return closed_ == 2; }));
  redis.go_on();
  ASSERT_TRUE(becomes([&] { return opened_ == 3; }));
  EXPECT_EQ(redis.ask({"CLIENT", "KILL", "TYPE", "pubsub"}).number, 1);
  ASSERT_TRUE(becomes([&] { return closed_ == 3; }));
  ASSERT_TRUE(becomes([&] { return opened_ == 4; }));
}

TEST_F(NodeRedisTest, calls_end_with_the_line) {
  RedisProcess redis(free_port());
  reach(redis.port());
  ASSERT_TRUE(becomes([&] { return opened_ == 1; }));
  std::vector<runtime::Task<RedisReply>> calls;
  for (int i = 0; i < 100; ++i) {
    calls.push_back(line_->call({"PING"}));
    calls.back().start();
  }
  line_->open("another", *this);
  EXPECT_TRUE(std::ranges::all_of(calls, [](const auto& one) { return one.done(); }));
  for (auto& one : calls) EXPECT_EQ(one.take().kind, RedisReply::Kind::kNone);
  ASSERT_TRUE(becomes([&] { return opened_ == 2; }));
  EXPECT_EQ(closed_, 0) << "the watcher has begun it itself";
}

TEST_F(NodeRedisTest, a_password_is_refused_in_words_that_do_not_repeat_it) {
  RedisProcess redis(free_port(), std::string(kPassword));
  const auto wrong = secret_of("another password of a test");
  const std::string refused = trouble_at(redis.port(), &wrong);
  EXPECT_THAT(refused, HasSubstr("it refuses the password (WRONGPASS); see objects.directory_secret_file"));
  EXPECT_THAT(trouble_at(redis.port()), HasSubstr("NOAUTH"));
  EXPECT_THAT(trouble_at(redis.port()), HasSubstr("see objects.directory_secret_file"));
  // A server that repeats what it was sent, as old ones do.
  const auto password = secret_of(kPassword);
  FalseServer echo(shard_,
                   fmt::format("-ERR unknown command 'AUTH', with args beginning with: '{}'\r\n", kPassword));
  const std::string echoed = trouble_at(echo.port(), &password);
  EXPECT_THAT(echo.heard(), HasSubstr(kPassword)) << "so that the test sees something";
  EXPECT_THAT(echoed, Not(HasSubstr(kPassword)));
  EXPECT_THAT(echoed, HasSubstr("it refuses the password (ERR)"));
}

TEST_F(NodeRedisTest, another_service_is_told_from_a_redis) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"HTTP/1.1 400 Bad Request\r\n\r\n", "not Redis's protocol"},
      {std::string(64, '\0') + "\r\n", "not Redis's protocol"},
      {"$5\r\nhello\r\n", "does not say which run it is"},
      {"+OK\r\n", "does not say which run it is"},
      {":7\r\n", "does not say which run it is"},
      {"$-1\r\n", "does not say which run it is"},
      {"*3\r\n+a\r\n+b\r\n+c\r\n", "does not say which run it is"},
      {"*-1\r\n", "does not say which run it is"},
      {"*2000000000\r\n", "more than"},
      {"*99999999999999999999\r\n", "not Redis's protocol"},
      {"$99999999999999999999\r\n", "not Redis's protocol"},
      {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "not Redis's protocol"},
      {"-LOADING Redis is loading the dataset in memory\r\n", "it refuses: LOADING"},
      {"-MOVED \x1b[31m 3999 127.0.0.1:6381\r\n", "it refuses: MOVED ?[31m"},
      {"$1000000\r\nnever comes", "no answer within"},
      {"+", "no answer within"},
      {"", "no answer within"},
  };
  for (const auto& [answer, wanted] : cases) {
    FalseServer server(shard_, answer);
    EXPECT_THAT(trouble_at(server.port()), HasSubstr(wanted)) << answer.substr(0, 30);
  }
  EXPECT_THAT(trouble_at(free_port()), HasSubstr("cannot connect: Connection refused"));
}

// What comes behind a sound greeting.
TEST_F(NodeRedisTest, nonsense_ends_the_connection_and_nothing_else) {
  const std::string greeting =
      "$22\r\n# Server\r\nrun_id:abc\r\n\r\n*3\r\n$9\r\nsubscribe\r\n$7\r\nchannel\r\n:1\r\n";
  // To the first one it answers more than was asked, to the other one what is no message.
  FalseServer server(shard_, greeting);
  reach(server.port());
  ASSERT_TRUE(becomes([&] { return line_->trouble().what.find("what was not asked") != std::string::npos; }))
      << line_->trouble().to_line();
  EXPECT_EQ(news_.size(), 0U);
}

}  // namespace
}  // namespace refract::node::node_redis_test
