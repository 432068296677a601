// SPDX-License-Identifier: Apache-2.0
// A Redis for tests, in a process of its own: a socket in a folder, a port if asked for, nothing on a disk.
#pragma once

#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/testing/processes/process.h"
#include "refract/memory/host/descriptor.h"
#include "refract/object/redis/redis_line.h"

namespace refract::object::test {

struct RedisContextDeleter {
  void operator()(redisContext* context) const noexcept { redisFree(context); }
};
using RedisContext = std::unique_ptr<redisContext, RedisContextDeleter>;

[[nodiscard]] inline RedisReply reply_of(const redisReply* from) {
  if (from == nullptr) return {};
  RedisReply reply;
  switch (from->type) {
    case REDIS_REPLY_INTEGER:
      reply.kind = RedisReply::Kind::kNumber;
      reply.number = from->integer;
      break;
    case REDIS_REPLY_NIL:
      reply.kind = RedisReply::Kind::kNil;
      break;
    case REDIS_REPLY_ARRAY:
      reply.kind = RedisReply::Kind::kList;
      for (size_t i = 0; i < from->elements; ++i) reply.items.push_back(reply_of(from->element[i]));
      break;
    default:
      reply.kind = from->type == REDIS_REPLY_ERROR ? RedisReply::Kind::kError : RedisReply::Kind::kText;
      reply.text.assign(from->str, from->len);
  }
  return reply;
}

// No answer: the connection is of no use any more.
[[nodiscard]] inline RedisReply ask_redis(redisContext* context, const std::vector<std::string>& arguments) {
  std::vector<const char*> words;
  std::vector<size_t> bytes;
  for (const std::string& argument : arguments) {
    words.push_back(argument.data());
    bytes.push_back(argument.size());
  }
  auto* const reply = static_cast<redisReply*>(
      redisCommandArgv(context, static_cast<int>(words.size()), words.data(), bytes.data()));
  RedisReply copy = reply_of(reply);
  if (reply != nullptr) freeReplyObject(reply);
  return copy;
}

// One of the loopback that was free just now.
[[nodiscard]] inline uint16_t free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  REFRACT_CHECK(::bind(socket.get(), any, bytes) == 0);
  REFRACT_CHECK(::getsockname(socket.get(), any, &bytes) == 0);
  return ntohs(address.sin_port);
}

class RedisProcess {
 public:
  // Port 0: by its socket alone. Ends the program where there is no server to start.
  explicit RedisProcess(uint16_t port = 0, std::string password = {})
      : port_(port), password_(std::move(password)) {
    // hiredis writes to a connection whose other end was killed.
    (void)std::signal(SIGPIPE, SIG_IGN);
    start();
  }
  // Empty, on the same socket and port.
  void start() {
    // Debian's redis-tools has the server under the name of a tool that it is as well.
    const std::string executable =
        refract::test::is_in_path("redis-server") ? "redis-server" : "redis-check-rdb";
    if (!refract::test::is_in_path(executable)) {
      check_failed("there is no redis-server: scripts/setup test installs it", __FILE__, __LINE__);
    }
    std::vector<std::string> arguments{
        "redis-server",        "--save",       "",          "--daemonize",  "no",     "--port",
        std::to_string(port_), "--bind",       "127.0.0.1", "--unixsocket", socket(), "--dir",
        folder_.path(),        "--appendonly", "no"};
    if (!password_.empty()) arguments.insert(arguments.end(), {"--requirepass", password_});
    process_ = refract::test::Process::execute({.arguments = std::move(arguments),
                                                .output_path = folder_.path() + "/redis.log",
                                                .executable = executable});
    REFRACT_CHECK(refract::test::becomes_true([this] { return connect() != nullptr; }));
  }
  void kill() { process_.kill_now(); }
  void stop() { process_.signal(SIGSTOP); }
  void go_on() { process_.signal(SIGCONT); }

  // Null: it does not answer.
  [[nodiscard]] RedisContext connect() const {
    RedisContext context(redisConnectUnix(socket().c_str()));
    if (context == nullptr || context->err != 0) return nullptr;
    if (!password_.empty() && ask_redis(context.get(), {"AUTH", password_}).text != "OK") return nullptr;
    if (ask_redis(context.get(), {"PING"}).text != "PONG") return nullptr;
    return context;
  }
  [[nodiscard]] RedisReply ask(const std::vector<std::string>& arguments) const {
    const RedisContext context = connect();
    return context == nullptr ? RedisReply{} : ask_redis(context.get(), arguments);
  }
  [[nodiscard]] std::string socket() const { return folder_.path() + "/redis.sock"; }
  [[nodiscard]] uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::string log() const { return refract::test::tail_of(folder_.path() + "/redis.log"); }

 private:
  refract::test::TemporaryFolder folder_;
  uint16_t port_;
  std::string password_;
  refract::test::Process process_;
};

}  // namespace refract::object::test
