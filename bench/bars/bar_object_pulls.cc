// SPDX-License-Identifier: Apache-2.0
// How fast a node gets objects that another one has, over TCP on loopback.
#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/bars/object_node.h"
#include "bench/measure/tcp_socket.h"
#include "bench/sides/private_node.h"
#include "bench/sides/redis.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

// Two nodes of a list: the objects are a's, the copies b's.
class TwoNodes {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<TwoNodes>> start(const BarRun& run, uint64_t bytes) {
    Reported<ListedNodes> listed = start_listed_nodes(run, 2, bytes + 64 * kMiB);
    if (!listed) return report(listed.error());
    return std::unique_ptr<TwoNodes>(new TwoNodes(std::move(*listed)));
  }

  [[nodiscard]] Objects& maker() { return listed_.nodes[0].objects; }
  [[nodiscard]] Objects& puller() { return listed_.nodes[1].objects; }
  // Under a name of their own, once the nodes have heard from each other.
  [[nodiscard]] Reported<> make(uint64_t first, uint64_t count, uint64_t bytes) {
    std::vector<std::byte> body(bytes);
    for (uint64_t i = 0; i < count; ++i) {
      fill_body(body, first + i);
      if (const Reported<> made = put_listed(maker(), first + i, body); !made) return made;
    }
    return {};
  }
  // Seconds until all of them are here, one after the other; then they are not any more.
  [[nodiscard]] Reported<double> pull(uint64_t first, uint64_t count, Transfer way) {
    uint64_t taken_ns = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const std::string id = object_id(first + i);
      const Bytes bytes(id);
      const uint64_t start_ns = now_ns();
      const Code code = puller().prefetch({&bytes, 1}, 0, {.transfer = way}).front();
      taken_ns += now_ns() - start_ns;
      if (code != Code::kOk) return failed("prefetch", code);
    }
    if (const Reported<> empty = forget_copies(puller()); !empty) return report(empty.error());
    return static_cast<double>(taken_ns) / 1e9;
  }
  [[nodiscard]] Reported<> check(uint64_t number, uint64_t bytes) {
    std::vector<std::byte> body(bytes);
    fill_body(body, number);
    return check_object(puller(), number, Bytes(std::span<const std::byte>(body)));
  }

 private:
  explicit TwoNodes(ListedNodes listed) : listed_(std::move(listed)) {}
  ListedNodes listed_;
};

// The same bytes asked for with one short message each, and sent by a thread that has them in memory.
class RawExchange {
 public:
  RawExchange(uint64_t count, uint64_t bytes)
      : count_(count), bytes_(bytes), from_(count * bytes), to_(from_.size()) {
    fill_body(from_, 1);
  }
  RawExchange(const RawExchange&) = delete;
  RawExchange& operator=(const RawExchange&) = delete;
  ~RawExchange() {
    socket_ = {};
    if (peer_.joinable()) peer_.join();
  }
  [[nodiscard]] Reported<> begin() {
    Reported<Descriptor> listening = listen_on("127.0.0.1");
    if (!listening) return report(listening.error());
    const uint16_t port = port_of(*listening);
    peer_ = std::thread([this, at = std::move(*listening)] { serve(at); });
    Reported<Descriptor> socket = connect_tcp("127.0.0.1", port);
    if (!socket) return report(socket.error());
    socket_ = std::move(*socket);
    return {};
  }
  // Seconds.
  [[nodiscard]] Reported<double> run() {
    const uint64_t start_ns = now_ns();
    for (uint64_t i = 0; i < count_; ++i) {
      if (::write(socket_.get(), &i, sizeof(i)) != sizeof(i) ||
          !take(std::span(to_).subspan(i * bytes_, bytes_)))
        return report(Code::kSystem, "the raw exchange broke");
    }
    const double taken = static_cast<double>(now_ns() - start_ns) / 1e9;
    if (std::memcmp(from_.data(), to_.data(), from_.size()) != 0)
      return report(Code::kCorrupt, "the raw exchange brought other bytes");
    std::ranges::fill(to_, std::byte{0});
    return taken;
  }

 private:
  void serve(const Descriptor& listening) {
    const Descriptor socket(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) return;
    send_at_once(socket);
    uint64_t number = 0;
    while (::recv(socket.get(), &number, sizeof(number), MSG_WAITALL) == sizeof(number) && number < count_) {
      std::span<const std::byte> left = std::span<const std::byte>(from_).subspan(number * bytes_, bytes_);
      while (!left.empty()) {
        const ssize_t sent = ::send(socket.get(), left.data(), left.size(), MSG_NOSIGNAL);
        if (sent <= 0) return;
        left = left.subspan(static_cast<size_t>(sent));
      }
    }
  }
  [[nodiscard]] bool take(std::span<std::byte> into) {
    while (!into.empty()) {
      const ssize_t got = ::recv(socket_.get(), into.data(), into.size(), 0);
      if (got <= 0) return false;
      into = into.subspan(static_cast<size_t>(got));
    }
    return true;
  }

  uint64_t count_;
  uint64_t bytes_;
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
  Descriptor socket_;
  std::thread peer_;
};

// GETs of Redis into memory of this process, one after the other.
class RedisGets {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<RedisGets>> start(uint64_t count, uint64_t bytes) {
    Reported<Redis> redis = Redis::start({.over_tcp = true});
    if (!redis) return report(redis.error());
    auto gets = std::unique_ptr<RedisGets>(new RedisGets(std::move(*redis), count, bytes));
    Reported<Descriptor> socket = connect_tcp("127.0.0.1", gets->redis_.port());
    if (!socket) return report(socket.error());
    gets->socket_ = std::move(*socket);
    std::vector<std::byte> body(bytes);
    for (uint64_t i = 0; i < count; ++i) {
      fill_body(body, i);
      const std::string key = object_id(i);
      const std::string head = fmt::format("*3\r\n$3\r\nSET\r\n${}\r\n{}\r\n${}\r\n", key.size(), key, bytes);
      if (!gets->send(std::as_bytes(std::span(head))) || !gets->send(body) ||
          !gets->send(std::as_bytes(std::span("\r\n", 2))) || gets->line() != "+OK") {
        return report(Code::kSystem, "Redis did not take a value");
      }
    }
    return gets;
  }
  [[nodiscard]] std::string name() const { return "Redis " + redis_.version(); }
  // Seconds.
  [[nodiscard]] Reported<double> run() {
    const uint64_t start_ns = now_ns();
    for (uint64_t i = 0; i < count_; ++i) {
      const std::string key = object_id(i);
      const std::string call = fmt::format("*2\r\n$3\r\nGET\r\n${}\r\n{}\r\n", key.size(), key);
      if (!send(std::as_bytes(std::span(call))) || line() != fmt::format("${}", bytes_) ||
          !take(std::span(to_).subspan(i * bytes_, bytes_)) || !line().empty()) {
        return report(Code::kSystem, "Redis did not give a value");
      }
    }
    return static_cast<double>(now_ns() - start_ns) / 1e9;
  }

 private:
  RedisGets(Redis redis, uint64_t count, uint64_t bytes)
      : redis_(std::move(redis)), count_(count), bytes_(bytes), to_(count * bytes) {}
  [[nodiscard]] bool send(std::span<const std::byte> left) {
    while (!left.empty()) {
      const ssize_t sent = ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      left = left.subspan(static_cast<size_t>(sent));
    }
    return true;
  }
  // What stands in the socket behind the line's end is left there.
  [[nodiscard]] std::string line() {
    std::string text;
    char letter = 0;
    while (!text.ends_with("\r\n")) {
      if (::recv(socket_.get(), &letter, 1, 0) != 1) return "nothing";
      text.push_back(letter);
    }
    text.resize(text.size() - 2);
    return text;
  }
  [[nodiscard]] bool take(std::span<std::byte> into) {
    while (!into.empty()) {
      const ssize_t got = ::recv(socket_.get(), into.data(), into.size(), 0);
      if (got <= 0) return false;
      into = into.subspan(static_cast<size_t>(got));
    }
    return true;
  }

  Redis redis_;
  uint64_t count_;
  uint64_t bytes_;
  std::vector<std::byte> to_;
  Descriptor socket_;
};

struct Shape {
  uint64_t bytes;
  uint64_t count;
};
Shape shape_of(const BarRun& run, uint64_t bytes) {
  constexpr uint64_t kWalkBytes = 128 * kMiB;
  if (!run.options.judged) return {bytes / 16, 2};
  return {bytes, kWalkBytes / bytes};
}

enum class Rival : uint8_t { kRaw, kRedis };

Reported<Outcome> measure(BarRun& run, uint64_t bytes, Rival rival) {
  const Shape shape = shape_of(run, bytes);
  Reported<std::unique_ptr<TwoNodes>> nodes = TwoNodes::start(run, shape.bytes * shape.count);
  if (!nodes) return report(nodes.error());
  if (const Reported<> made = (*nodes)->make(0, shape.count, shape.bytes); !made) return report(made.error());
  std::optional<RawExchange> raw;
  std::unique_ptr<RedisGets> redis;
  if (rival == Rival::kRaw) {
    raw.emplace(shape.count, shape.bytes);
    if (const Reported<> begun = raw->begin(); !begun) return report(begun.error());
  } else {
    Reported<std::unique_ptr<RedisGets>> started = RedisGets::start(shape.count, shape.bytes);
    if (!started) return report(started.error());
    redis = std::move(*started);
  }
  const double all_bytes = static_cast<double>(shape.bytes * shape.count);
  const auto rate = [&](const Reported<double>& seconds) -> Reported<double> {
    if (!seconds) return report(seconds.error());
    return all_bytes / *seconds;
  };
  return in_turns(
      run,
      fmt::format(
          "{} objects of {} KiB, one after the other, from look-up to seal; node to node over loopback",
          shape.count, shape.bytes / kKiB),
      [&](uint64_t) -> Reported<Turn> {
        const Reported<double> ours = rate((*nodes)->pull(0, shape.count, Transfer::kAuto));
        const Reported<double> theirs = rate(raw ? raw->run() : redis->run());
        if (const Reported<> right = (*nodes)->check(0, shape.bytes); !right) return report(right.error());
        return ratio_of({.ours = {"pull", ours},
                         .theirs = {raw ? "raw exchange" : redis->name(), theirs},
                         .unit = "GB/s",
                         .scale = 1e-9});
      },
      {.over = Over::kTcp});
}

// At each size: auto beside the better of the two ways.
Reported<Outcome> measure_auto(BarRun& run) {
  std::vector<Shape> shapes;
  uint64_t all_bytes = 0;
  for (uint64_t bytes = kKiB; bytes <= 64 * kMiB; bytes *= 4) {
    if (!run.options.judged && bytes > kMiB) break;
    const uint64_t count = std::clamp<uint64_t>(16 * kMiB / bytes, 2, run.options.judged ? 64 : 4);
    shapes.push_back({bytes, count});
    all_bytes += bytes * count;
  }
  Reported<std::unique_ptr<TwoNodes>> nodes = TwoNodes::start(run, all_bytes);
  if (!nodes) return report(nodes.error());
  uint64_t first = 0;
  for (const Shape& shape : shapes) {
    if (const Reported<> made = (*nodes)->make(first, shape.count, shape.bytes); !made)
      return report(made.error());
    first += shape.count;
  }
  return in_turns(run, "objects of 1 KiB, 4 KiB and so on to 64 MiB; the sample is the worst size",
                  [&](uint64_t) -> Reported<Turn> {
                    Turn turn{.sample = 1e9};
                    uint64_t at = 0;
                    for (const Shape& shape : shapes) {
                      std::array<double, 3> seconds{};
                      // In turns, so that what else the machine does meets all.
                      for (const Transfer way : {Transfer::kSend, Transfer::kRead, Transfer::kAuto}) {
                        const Reported<double> taken = (*nodes)->pull(at, shape.count, way);
                        if (!taken) return report(taken.error());
                        const size_t index = way == Transfer::kSend ? 0 : way == Transfer::kRead ? 1 : 2;
                        seconds[index] = *taken / static_cast<double>(shape.count) * 1e6;
                      }
                      const double share = std::min(seconds[0], seconds[1]) / seconds[2];
                      turn.sample = std::min(turn.sample, share);
                      const std::string size = shape.bytes < kMiB ? fmt::format("{} KiB", shape.bytes / kKiB)
                                                                  : fmt::format("{} MiB", shape.bytes / kMiB);
                      turn.details.push_back({size + " send", seconds[0], "us"});
                      turn.details.push_back({size + " read", seconds[1], "us"});
                      turn.details.push_back({size + " auto", seconds[2], "us"});
                      at += shape.count;
                    }
                    return turn;
                  },
                  {.over = Over::kTcp});
}

const BarRows kRows = {
    {"object-pull-4m", "pull of 4 MiB over tcp / raw exchange", "at least 0.90", Sense::kAtLeast, 0.9, "x",
     [](BarRun& run) { return measure(run, 4 * kMiB, Rival::kRaw); }},
    {"object-pull-64m", "the same of 64 MiB", "at least 0.90", Sense::kAtLeast, 0.9, "x",
     [](BarRun& run) { return measure(run, 64 * kMiB, Rival::kRaw); }},
    {"object-pull-4m-redis", "pull of 4 MiB over tcp / Redis GET", "at least 1.20", Sense::kAtLeast, 1.2, "x",
     [](BarRun& run) { return measure(run, 4 * kMiB, Rival::kRedis); }},
    {"object-pull-64m-redis", "the same of 64 MiB", "at least 1.20", Sense::kAtLeast, 1.2, "x",
     [](BarRun& run) { return measure(run, 64 * kMiB, Rival::kRedis); }},
    {"object-pull-auto", "the better of send and read over tcp / auto, worst size", "at least 0.90",
     Sense::kAtLeast, 0.9, "x", measure_auto},
};

}  // namespace
}  // namespace refract::bench
