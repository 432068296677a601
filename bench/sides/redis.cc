// SPDX-License-Identifier: Apache-2.0
#include "bench/sides/redis.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "bench/measure/measure.h"
#include "bench/measure/tcp_socket.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr uint64_t kRedisBatch = 1'000;
constexpr std::string_view kOk = "+OK\r\n";

void append_set(std::string& batch, const Key& key, const Value& value) {
  batch += "*3\r\n$3\r\nSET\r\n$16\r\n";
  batch.append(reinterpret_cast<const char*>(&key), sizeof(key));
  batch += "\r\n$64\r\n";
  batch.append(reinterpret_cast<const char*>(&value), sizeof(value));
  batch += "\r\n";
}

// The line of INFO that starts with "name:", behind the colon.
std::string_view field_of(std::string_view text, const std::string& name) {
  const size_t at = text.find("\n" + name + ":");
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + name.size() + 2);
  return text.substr(0, text.find_first_of("\r\n"));
}

}  // namespace

Reported<Redis> Redis::start(const Options& options) {
  // Debian's redis-tools has the server under the name of a tool that it is as well; which one it is, it
  // learns from the name that it is called by.
  const char* const executable = test::is_in_path("redis-server")      ? "redis-server"
                                 : test::is_in_path("redis-check-rdb") ? "redis-check-rdb"
                                                                       : nullptr;
  if (executable == nullptr) {
    return report(
        Code::kUnsupported, "there is no redis-server here to compare with",
        "install it: 'make bars' and 'scripts/setup bars' do (Debian: apt-get install redis-tools)");
  }
  Reported<test::TemporaryFolder> folder = test::TemporaryFolder::make();
  if (!folder) return report(folder.error());
  const std::string path = folder->path();
  uint16_t port = 0;
  if (options.over_tcp) {
    const Reported<uint16_t> free = free_port();
    if (!free) return report(free.error());
    port = *free;
  }
  test::Process::Program program{
      .arguments = {"redis-server", "--save", "", "--daemonize", "no", "--io-threads", "1", "--port",
                    fmt::format("{}", port), "--bind", "127.0.0.1", "--unixsocket", path + "/redis.sock",
                    "--dir", path, "--appendonly", options.append_fsync.empty() ? "no" : "yes"},
      .output_path = path + "/redis.log",
      .executable = executable};
  if (!options.append_fsync.empty()) {
    // Without rewriting the file, for which it would fork in the middle of a measurement.
    program.arguments.insert(program.arguments.end(),
                             {"--appendfsync", options.append_fsync, "--auto-aof-rewrite-percentage", "0"});
  }
  if (options.clients_max != 0) {
    program.arguments.insert(program.arguments.end(),
                             {"--maxclients", fmt::format("{}", options.clients_max)});
  }
  if (options.cpu >= 0) {
    program.arguments.insert(program.arguments.end(), {"--server_cpulist", fmt::format("{}", options.cpu)});
  }
  Reported<test::Process> process = start_beside(program);
  if (!process) return report(process.error());
  Redis redis(std::move(*folder), std::move(program), std::move(*process));
  redis.port_ = port;
  if (const Reported<> connected = redis.connect(); !connected) return report(connected.error());
  const Reported<std::string> text = redis.info_text();
  if (!text) return report(text.error());
  redis.version_ = field_of(*text, "redis_version");
  return redis;
}

Reported<> Redis::connect() {
  socket_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = folder_.path() + "/redis.sock";
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const uint64_t end_ns = now_ns() + 5 * kSecond_ns;
  while (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (!process_.is_running() || now_ns() > end_ns) {
      return report(Code::kUnavailable,
                    "redis-server did not start: " + test::tail_of(folder_.path() + "/redis.log"));
    }
    sleep_ns(5 * kMillisecond_ns);
  }
  return {};
}

Reported<> Redis::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return report(Code::kUnavailable, "redis-server went away: " + errno_text(errno));
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

Reported<> Redis::expect_oks(uint64_t count) {
  std::array<char, 8192> buffer = {};
  const uint64_t wanted = count * kOk.size();
  for (uint64_t seen = 0; seen < wanted;) {
    const size_t room = std::min<uint64_t>(buffer.size(), wanted - seen);
    const ssize_t got = ::recv(socket_.get(), buffer.data(), room, 0);
    if (got <= 0) return report(Code::kUnavailable, "redis-server went away: " + errno_text(errno));
    for (ssize_t i = 0; i < got; ++i, ++seen) {
      if (buffer[static_cast<size_t>(i)] == kOk[seen % kOk.size()]) continue;
      const std::string_view text(buffer.data(), static_cast<size_t>(got));
      return report(Code::kMalformed, fmt::format("redis-server refused a SET: {}", text.substr(0, 120)));
    }
  }
  return {};
}

Reported<> Redis::load(uint64_t entries) {
  std::string batch;
  for (uint64_t start = 0; start < entries; start += kRedisBatch) {
    const uint64_t end = std::min(entries, start + kRedisBatch);
    batch.clear();
    for (uint64_t i = start; i < end; ++i) append_set(batch, Key::of(i), Value::of(i));
    if (const Reported<> sent = send(batch); !sent) return report(sent.error());
    if (const Reported<> taken = expect_oks(end - start); !taken) return report(taken.error());
  }
  return {};
}

Reported<> Redis::save() {
  if (const Reported<> sent = send("SAVE\r\n"); !sent) return report(sent.error());
  return expect_oks(1);
}

void Redis::stop() {
  socket_ = {};
  process_.stop();
}

Reported<> Redis::start_again(uint64_t entries) {
  Reported<test::Process> process = start_beside(program_);
  if (!process) return report(process.error());
  process_ = std::move(*process);
  if (const Reported<> connected = connect(); !connected) return report(connected.error());
  while (true) {
    const Reported<std::string> text = info_text();
    if (!text) return report(text.error());
    if (field_of(*text, "loading") != "0") {
      sleep_ns(kMillisecond_ns);
      continue;
    }
    // "keys=N,expires=..."; nothing where there is none.
    if (field_of(*text, "db0").starts_with(fmt::format("keys={},", entries))) return {};
    return report(Code::kCorrupt,
                  fmt::format("redis-server loaded {} instead of {} keys", field_of(*text, "db0"), entries));
  }
}

Reported<std::string> Redis::info_text() {
  if (const Reported<> sent = send("INFO\r\n"); !sent) return report(sent.error());
  std::string text;
  std::array<char, 8192> buffer = {};
  // "$<bytes>\r\n<text>\r\n"
  while (true) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) return report(Code::kUnavailable, "redis-server went away: " + errno_text(errno));
    text.append(buffer.data(), static_cast<size_t>(got));
    const size_t line = text.find("\r\n");
    uint64_t bytes = 0;
    if (line == std::string::npos || text[0] != '$') continue;
    std::from_chars(text.data() + 1, text.data() + line, bytes);
    if (text.size() >= line + 2 + bytes + 2) return text;
  }
}

Reported<uint64_t> Redis::info(const std::string& name) {
  const Reported<std::string> text = info_text();
  if (!text) return report(text.error());
  const std::string_view field = field_of(*text, name);
  uint64_t number = 0;
  if (std::from_chars(field.data(), field.data() + field.size(), number).ec != std::errc()) {
    return report(Code::kMalformed, "redis-server's INFO has no number " + name);
  }
  return number;
}

}  // namespace refract::bench
