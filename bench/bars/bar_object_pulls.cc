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

namespace refract::bench::bar_object_pulls {
namespace {

// Two nodes of a list: the objects are a's, the copies b's.
class TwoNodes {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<TwoNodes>> start(const BarRun& run, uint64_t bytes,
                                                                 const DelayedPath* path = nullptr) {
    Reported<ListedNodes> listed = start_listed_nodes(run, 2, bytes + 64 * kMiB, path);
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
  // Seconds until all of them are here, one after the other. They stay until forget().
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
    return static_cast<double>(taken_ns) / 1e9;
  }
  // Of one that pull() brought.
  [[nodiscard]] Reported<> check(uint64_t number, uint64_t bytes) {
    std::vector<std::byte> body(bytes);
    fill_body(body, number);
    return check_object(puller(), number, Bytes(std::span<const std::byte>(body)));
  }
  // Behind each pull and its check: a get behind it would bring the object, and the next pull find it there.
  [[nodiscard]] Reported<> forget() { return forget_copies(puller()); }

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
  uint64_t rounds = 1;  // In a turn.
};
Shape shape_of(const BarRun& run, uint64_t bytes) {
  constexpr uint64_t kWalkBytes = 128 * kMiB;
  if (!run.options.judged) return {.bytes = bytes / 16, .count = 2};
  return {.bytes = bytes, .count = kWalkBytes / bytes};
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
        if (const Reported<> right = (*nodes)->check(0, shape.bytes); !right) return report(right.error());
        if (const Reported<> gone = (*nodes)->forget(); !gone) return report(gone.error());
        const Reported<double> theirs = rate(raw ? raw->run() : redis->run());
        return ratio_of({.ours = {"pull", ours},
                         .theirs = {raw ? "raw exchange" : redis->name(), theirs},
                         .unit = "GB/s",
                         .scale = 1e-9});
      },
      {.over = Over::kTcp});
}

// The holder is here, and the puller at the far end, 10 ms away.
Reported<Outcome> measure_far(BarRun& run) {
  const DelayedPath::Options path_options;
  const Reported<DelayedPath> path = DelayedPath::create(path_options);
  if (!path) return report(path.error());
  const Shape shape =
      run.options.judged ? Shape{.bytes = 256 * kMiB, .count = 1} : Shape{.bytes = kMiB, .count = 1};
  Reported<std::unique_ptr<TwoNodes>> nodes = TwoNodes::start(run, shape.bytes, &*path);
  if (!nodes) return report(nodes.error());
  if (const Reported<> made = (*nodes)->make(0, shape.count, shape.bytes); !made) return report(made.error());
  const auto bandwidth = static_cast<double>(path_options.bytes_per_s);
  return in_turns(
      run,
      fmt::format(
          "an object of {} MiB, from look-up to seal; {} ms there and back, {:.2g} GB/s each way, headers "
          "included; a thread of this program holds the packets back",
          shape.bytes / kMiB, path_options.round_trip_ns / kMillisecond_ns, bandwidth * 1e-9),
      [&](uint64_t) -> Reported<Turn> {
        const Reported<double> stream = path->stream_rate(run.options.path_seconds);
        if (!stream) return report(stream.error());
        // What was sent on the plain connection until its end is still on the path, some round trips long.
        sleep_ns(20 * path_options.round_trip_ns);
        const Reported<double> seconds = (*nodes)->pull(0, shape.count, Transfer::kAuto);
        if (!seconds) return report(seconds.error());
        if (const Reported<> right = (*nodes)->check(0, shape.bytes); !right) return report(right.error());
        if (const Reported<> gone = (*nodes)->forget(); !gone) return report(gone.error());
        const double rate = static_cast<double>(shape.bytes) / *seconds;
        return Turn{rate / *stream,
                    {{"pull", rate * 1e-9, "GB/s"}, {"one plain connection", *stream * 1e-9, "GB/s"}}};
      },
      {.over = Over::kTcp});
}

// Of pulls of one size by each way: seconds, the mean of a turn.
struct WayTimes {
  std::array<double, 3> taken{};  // As kWays.
  [[nodiscard]] double share() const noexcept { return std::min(taken[0], taken[1]) / taken[2]; }
};
constexpr std::array<Transfer, 3> kWays = {Transfer::kSend, Transfer::kRead, Transfer::kAuto};
constexpr std::array<std::string_view, 3> kWayNames = {"send", "read", "auto"};

// One pull after the other goes another way, so that what else the machine does meets all of them; and each
// object goes each way, in turns. `shape.count` objects for each way and round.
Reported<WayTimes> pull_each_way(TwoNodes& nodes, uint64_t first, const Shape& shape, uint64_t turn) {
  WayTimes times;
  for (uint64_t round = 0; round < shape.rounds; ++round) {
    for (uint64_t i = 0; i < shape.count * kWays.size(); ++i) {
      const size_t way = (i + round + turn) % kWays.size();
      const Reported<double> seconds = nodes.pull(first + i, 1, kWays[way]);
      if (!seconds) return report(seconds.error());
      times.taken[way] += *seconds / static_cast<double>(shape.count * shape.rounds);
    }
    if (const Reported<> gone = nodes.forget(); !gone) return report(gone.error());
  }
  return times;
}

std::string size_text(uint64_t bytes) {
  return bytes < kMiB ? fmt::format("{} KiB", bytes / kKiB) : fmt::format("{} MiB", bytes / kMiB);
}

std::vector<Shape> shapes_of_auto(const BarRun& run) {
  std::vector<Shape> shapes;
  for (uint64_t bytes = kKiB; bytes <= 64 * kMiB; bytes *= 4) {
    if (!run.options.judged && bytes > kMiB) break;
    constexpr uint64_t kPullsMin = 8;  // By each way in a turn.
    const uint64_t count = std::clamp<uint64_t>(16 * kMiB / bytes, 1, run.options.judged ? 64 : 2);
    const uint64_t rounds = run.options.judged ? (kPullsMin + count - 1) / count : 1;
    shapes.push_back({.bytes = bytes, .count = count, .rounds = rounds});
  }
  return shapes;
}

// At each size: auto beside the better of the two ways. The samples are those of the size with the lowest
// median: the lowest share of a turn tells what else the machine did in one of 27 measurements.
Reported<Outcome> measure_auto(BarRun& run) {
  const std::vector<Shape> shapes = shapes_of_auto(run);
  uint64_t all_bytes = 0;
  for (const Shape& shape : shapes) all_bytes += shape.bytes * shape.count * kWays.size();
  Reported<std::unique_ptr<TwoNodes>> nodes = TwoNodes::start(run, all_bytes);
  if (!nodes) return report(nodes.error());
  uint64_t first = 0;
  for (const Shape& shape : shapes) {
    const uint64_t count = shape.count * kWays.size();
    if (const Reported<> made = (*nodes)->make(first, count, shape.bytes); !made) return report(made.error());
    first += count;
  }
  std::vector<std::vector<double>> shares;  // By size: the turns that count.
  Reported<Outcome> outcome =
      in_turns(run, "objects of 1 KiB, 4 KiB and so on to 64 MiB",
               [&](uint64_t turn) -> Reported<Turn> {
                 if (turn == 0) shares.assign(shapes.size(), {});
                 Turn found;
                 uint64_t at = 0;
                 for (size_t i = 0; i < shapes.size(); ++i) {
                   const Shape& shape = shapes[i];
                   const Reported<WayTimes> times = pull_each_way(**nodes, at, shape, turn);
                   if (!times) return report(times.error());
                   if (turn > 0) shares[i].push_back(times->share());
                   const std::string size = size_text(shape.bytes);
                   for (size_t way = 0; way < kWays.size(); ++way) {
                     found.details.push_back(
                         {fmt::format("{} {}", size, kWayNames[way]), times->taken[way] * 1e6, "us"});
                   }
                   found.details.push_back({size + " share", times->share(), "x"});
                   at += shape.count * kWays.size();
                 }
                 return found;
               },
               {.over = Over::kTcp});
  if (!outcome) return outcome;
  const auto worst = std::ranges::min_element(
      shares, {}, [](const std::vector<double>& of_size) { return spread_of(of_size).median; });
  outcome->note += "; the worst is " + size_text(shapes[static_cast<size_t>(worst - shares.begin())].bytes);
  outcome->samples = *worst;
  return outcome;
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
    {"object-pull-far", "pull of 256 MiB, 10 ms away / one plain connection", "at least 0.85",
     Sense::kAtLeast, 0.85, "x", measure_far},
    {"object-pull-auto", "the better of send and read over tcp / auto, worst size", "at least 0.90",
     Sense::kAtLeast, 0.9, "x", measure_auto},
};

}  // namespace
}  // namespace refract::bench::bar_object_pulls
