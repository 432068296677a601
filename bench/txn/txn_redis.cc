// SPDX-License-Identifier: Apache-2.0
// Redis under the same transactions over TCP: WATCH and MGET together, then MULTI, MSET and EXEC together. A
// connection watches for one transaction, so each client has its own; one thread serves all.
#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure/tcp_socket.h"
#include "bench/sides/redis.h"
#include "bench/sides/redis_commands.h"
#include "bench/txn/txn_side.h"

#include "refract/base/units.h"

namespace refract::bench {

using runtime::Task;

namespace {

// How many bytes the answer at the beginning of `text` has; 0: it is not whole yet.
size_t answer_bytes(std::string_view text) {
  const size_t line = text.find("\r\n");
  if (line == std::string_view::npos) return 0;
  size_t end = line + 2;
  int64_t number = 0;
  std::from_chars(text.data() + 1, text.data() + line, number);
  if (text.front() == '$' && number >= 0) {
    end += static_cast<size_t>(number) + 2;
    return end <= text.size() ? end : 0;
  }
  for (int64_t i = 0; text.front() == '*' && i < number; ++i) {
    const size_t part = end < text.size() ? answer_bytes(text.substr(end)) : 0;
    if (part == 0) return 0;
    end += part;
  }
  return end;
}

// One connection, with the answers to what was sent last.
struct RedisTxnConnection {
  Descriptor socket;
  std::string in;
  size_t awaited = 0;           // Answers.
  std::vector<size_t> answers;  // Where those that are whole end.
  runtime::Token waiter = 0;
  bool is_gone = false;

  [[nodiscard]] std::string_view answer(size_t i) const {
    const size_t begin = i == 0 ? 0 : answers[i - 1];
    return std::string_view(in).substr(begin, answers[i] - begin);
  }
  // Whether all have come, or never will.
  [[nodiscard]] bool receive() {
    std::array<char, 4096> piece;
    for (;;) {
      const ssize_t bytes = ::recv(socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
      if (bytes == 0) is_gone = true;
      if (bytes <= 0) break;
      in.append(piece.data(), static_cast<size_t>(bytes));
    }
    while (answers.size() < awaited) {
      const size_t begin = answers.empty() ? 0 : answers.back();
      const size_t bytes = begin < in.size() ? answer_bytes(std::string_view(in).substr(begin)) : 0;
      if (bytes == 0) return is_gone;
      answers.push_back(begin + bytes);
    }
    return true;
  }
};

// All connections of a side, as its shard polls them.
class RedisTxnPoller final : public runtime::Poller {
 public:
  explicit RedisTxnPoller(runtime::Shard& shard) : shard_(shard), poll_(::epoll_create1(EPOLL_CLOEXEC)) {
    shard_.add(*this);
    is_watched_ = shard_.watch(poll_.get());
  }
  RedisTxnPoller(const RedisTxnPoller&) = delete;
  RedisTxnPoller& operator=(const RedisTxnPoller&) = delete;
  ~RedisTxnPoller() override {
    if (is_watched_) shard_.unwatch(poll_.get());
    shard_.remove(*this);
  }

  [[nodiscard]] bool add(RedisTxnConnection& connection) {
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &connection}};
    return is_watched_ && ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, connection.socket.get(), &event) == 0;
  }
  size_t poll() noexcept override {
    std::array<epoll_event, 64> events;
    const int ready = ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), 0);
    size_t done = 0;
    for (int i = 0; i < ready; ++i) {
      auto& connection = *static_cast<RedisTxnConnection*>(events[static_cast<size_t>(i)].data.ptr);
      if (!connection.receive()) continue;
      ++done;
      const runtime::Token waiter = std::exchange(connection.waiter, 0);
      if (waiter != 0) (void)shard_.ops().complete(waiter, {.code = Code::kOk});
    }
    return done;
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "connections to Redis"; }

 private:
  runtime::Shard& shard_;
  Descriptor poll_;
  bool is_watched_ = false;
};

class RedisTxnClient final : public TryingTxnClient {
 public:
  RedisTxnClient(runtime::Shard& shard, const TxnMix& mix, uint64_t seed)
      : TryingTxnClient(shard, seed), mix_(mix) {}
  [[nodiscard]] RedisTxnConnection& connection() noexcept { return connection_; }

  [[nodiscard]] size_t read_max() const noexcept override { return 64; }
  [[nodiscard]] Task<Code> read(std::span<const uint64_t> entries, std::span<int64_t> amounts) override {
    append_keys("MGET", entries);
    const Code code = co_await ask(1, shard().refresh_now() + 5 * kSecond_ns);
    co_return code == Code::kOk ? take(connection_.answer(0), amounts) : code;
  }

 private:
  [[nodiscard]] Task<Code> attempt(const TxnPlan& plan, Try& tried, TxnEffect& effect) override {
    append_keys("WATCH", plan.read());
    append_keys("MGET", plan.read());
    const Code asked = co_await ask(2, tried.deadline_ns);
    if (asked != Code::kOk) co_return asked;
    std::array<int64_t, kTxnEntriesMax> amounts = {};
    const std::span<int64_t> read = std::span(amounts).first(plan.count);
    const Code taken = take(connection_.answer(1), read);
    if (taken != Code::kOk) co_return taken;
    effect = apply(plan, read);
    append_commit(plan, effect, read);
    const Code committed = co_await ask(3, tried.deadline_ns);
    if (committed != Code::kOk) co_return committed;
    const std::string_view executed = connection_.answer(2);
    if (executed == "*-1\r\n") co_return Code::kConflict;
    co_return executed.starts_with('*') ? Code::kOk : Code::kMalformed;
  }

  void append_array(size_t parts) { out_ += fmt::format("*{}\r\n", parts); }
  void append_part(std::string_view part) {
    out_ += fmt::format("${}\r\n", part.size());
    out_ += part;
    out_ += "\r\n";
  }
  void append_key(uint64_t entry) {
    const TxnKey key = txn_key(mix_, entry);
    append_part({key.data(), key.size()});
  }
  void append_keys(std::string_view command, std::span<const uint64_t> entries) {
    append_array(1 + entries.size());
    append_part(command);
    for (const uint64_t entry : entries) append_key(entry);
  }
  // Where nothing is written an EXEC says whether what was read stood together.
  void append_commit(const TxnPlan& plan, const TxnEffect& effect, std::span<const int64_t> amounts) {
    append_command(out_, {"MULTI"});
    size_t writes = 0;
    for (size_t i = 0; i < plan.count; ++i) writes += !effect.is_refused && plan.writes(i) ? 1 : 0;
    if (writes == 0) {
      append_command(out_, {"PING"});
    } else {
      append_array(1 + 2 * writes);
      append_part("MSET");
    }
    std::string value(mix_.value_bytes, '\0');
    for (size_t i = 0; i < plan.count && writes > 0; ++i) {
      if (!plan.writes(i)) continue;
      append_key(plan.entries[i]);
      write_amount(std::as_writable_bytes(std::span(value)), amounts[i]);
      append_part(value);
    }
    append_command(out_, {"EXEC"});
  }

  // Sends what was appended, and waits for so many answers.
  [[nodiscard]] Task<Code> ask(size_t answers, uint64_t deadline_ns) {
    connection_.in.clear();
    connection_.answers.clear();
    connection_.awaited = answers;
    const std::string out = std::exchange(out_, {});
    const ssize_t sent = ::send(connection_.socket.get(), out.data(), out.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(out.size())) co_return Code::kUnavailable;
    // Awaiting changes it, which the check does not see.
    runtime::Pending come = shard().ops().begin(deadline_ns);  // NOLINT(misc-const-correctness)
    connection_.waiter = come.token();
    const runtime::OpResult result = co_await come;
    connection_.waiter = 0;
    if (result.code != Code::kOk) co_return result.code;
    if (connection_.is_gone || connection_.answers.size() < answers) co_return Code::kUnavailable;
    for (size_t i = 0; i < answers; ++i) {
      if (connection_.answer(i).starts_with('-')) co_return Code::kMalformed;
    }
    co_return Code::kOk;
  }
  // The values of an array.
  [[nodiscard]] Code take(std::string_view answer, std::span<int64_t> amounts) const {
    answer.remove_prefix(answer.find("\r\n") + 2);
    for (int64_t& amount : amounts) {
      const size_t bytes = answer_bytes(answer);
      const size_t begin = answer.find("\r\n") + 2;
      if (bytes < begin + 2) return Code::kNotFound;
      const std::string_view value = answer.substr(begin, bytes - begin - 2);
      if (!read_amount(std::as_bytes(std::span(value)), mix_.value_bytes, amount)) return Code::kCorrupt;
      answer.remove_prefix(bytes);
    }
    return Code::kOk;
  }

  const TxnMix mix_;
  RedisTxnConnection connection_;
  std::string out_;
};

class RedisTxnSide final : public TxnSide {
 public:
  RedisTxnSide(const TxnLoad& load, Redis redis)
      : TxnSide(std::string(kTxnRedis), load), redis_(std::move(redis)) {
    set_how(
        fmt::format("redis-server {}, one thread; WATCH and MGET, then MULTI, MSET, EXEC", redis_.version()));
  }
  ~RedisTxnSide() override { shard_.drop_tasks(); }

  [[nodiscard]] Reported<> fill() {
    Reported<RedisPipeline> pipeline = RedisPipeline::connect(redis_.port());
    if (!pipeline) return report(pipeline.error());
    const TxnMix& mix = load().mix;
    std::string value(mix.value_bytes, '\0');
    return pipeline->run({.count = mix.entries(),
                          .depth = 64,
                          .append =
                              [&](std::string& to, uint64_t entry) {
                                const TxnKey key = txn_key(mix, entry);
                                write_amount(std::as_writable_bytes(std::span(value)),
                                             initial_amount(mix, entry));
                                append_command(to, {"SET", {key.data(), key.size()}, value});
                              },
                          .answer_like = "+OK\r\n"});
  }
  [[nodiscard]] Reported<> connect() {
    for (size_t i = 0; i < load().clients; ++i) {
      clients_.push_back(std::make_unique<RedisTxnClient>(shard_, load().mix, i + 1));
      RedisTxnConnection& connection = clients_.back()->connection();
      Reported<Descriptor> socket = connect_tcp("127.0.0.1", redis_.port());
      if (!socket) return report(socket.error());
      connection.socket = std::move(*socket);
      if (!poller_.add(connection)) return failed("watching a connection", Code::kSystem);
    }
    return {};
  }

  [[nodiscard]] size_t clients() const noexcept override { return clients_.size(); }
  [[nodiscard]] TxnClient& client(size_t i) noexcept override { return *clients_[i]; }
  [[nodiscard]] runtime::Shard& shard_of(size_t /*i*/) noexcept override { return shard_; }
  void spawn(size_t /*i*/, Task<> task) override { shard_.spawn(std::move(task)); }
  [[nodiscard]] bool run_until(const std::function<bool()>& done) override { return shard_.run_until(done); }

 private:
  Redis redis_;
  runtime::Shard shard_{system_clock()};
  RedisTxnPoller poller_{shard_};
  std::vector<std::unique_ptr<RedisTxnClient>> clients_;
};

}  // namespace

StartedTxnSide start_txn_redis(const TxnLoad& load, bool is_bound) {
  Reported<Redis> redis = Redis::start({.over_tcp = true, .cpu = is_bound ? core_number(1) : -1});
  if (!redis) return report(redis.error());
  auto side = std::make_unique<RedisTxnSide>(load, std::move(*redis));
  if (const Reported<> filled = side->fill(); !filled) return report(filled.error());
  if (const Reported<> connected = side->connect(); !connected) return report(connected.error());
  return side;
}

}  // namespace refract::bench
