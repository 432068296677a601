// SPDX-License-Identifier: Apache-2.0
#include "bench/ranks/object_ranks.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "bench/measure/measure.h"
#include "bench/ranks/rank_node.h"
#include "bench/ranks/socket_pieces.h"

namespace refract::bench {
namespace {

constexpr uint64_t kNumbersOfSize = 1000;   // Objects of the next size have numbers from there on.
constexpr uint64_t kPlainNumber = 999'999;  // The body of what goes without a node.

struct RankShape {
  uint64_t first = 0;
  uint64_t bytes = 0;
  uint64_t count = 0;
};

std::vector<RankShape> shapes_of(const Ranks& ranks, const RanksOptions& options) {
  constexpr uint64_t kCountMax = 64;
  std::vector<RankShape> shapes;
  for (const uint64_t bytes : options.sizes) {
    const uint64_t least = std::max<uint64_t>(2, ranks.count() - 1);
    shapes.push_back({.first = shapes.size() * kNumbersOfSize,
                      .bytes = bytes,
                      .count = std::clamp(options.turn_bytes / bytes, least, std::max(least, kCountMax))});
  }
  return shapes;
}

size_t holder_of(const Ranks& ranks, uint64_t place) noexcept {
  return 1 + place % (ranks.count() - 1);
}

// How many objects of a shape a rank holds.
uint64_t held_by(const Ranks& ranks, const RankShape& shape, size_t rank) noexcept {
  uint64_t held = 0;
  for (uint64_t i = 0; i < shape.count; ++i) held += holder_of(ranks, i) == rank ? 1 : 0;
  return held;
}

std::vector<std::byte> plain_body(std::span<const RankShape> shapes) {
  std::vector<std::byte> body(std::ranges::max(shapes, {}, &RankShape::bytes).bytes);
  fill_body(body, kPlainNumber);
  return body;
}

uint64_t bytes_of(std::span<const RankShape> shapes) noexcept {
  uint64_t bytes = 0;
  for (const RankShape& shape : shapes) bytes += shape.bytes * shape.count;
  return bytes;
}

RankNodeOptions node_of(const RanksOptions& options, std::span<const RankShape> shapes) {
  return {.program = options.node_program,
          .objects_bytes = bytes_of(shapes),
          .spin = options.spin,
          .is_apart = options.is_apart};
}

Reported<> make(Objects& objects, uint64_t number, uint64_t bytes) {
  std::vector<std::byte> body(bytes);
  fill_body(body, number);
  return put_listed(objects, number, body);
}

// Rank 0.
class RankPuller {
 public:
  RankPuller(Ranks& ranks, const RanksOptions& options)
      : ranks_(ranks), options_(options), shapes_(shapes_of(ranks, options)), plain_(plain_body(shapes_)) {}

  [[nodiscard]] Reported<> start();
  [[nodiscard]] Reported<std::vector<RanksPoint>> measure();

 private:
  // Seconds of all objects of a shape.
  [[nodiscard]] Reported<double> pull(const RankShape& shape, PullWay way);
  [[nodiscard]] Reported<double> pull_objects(const RankShape& shape, Transfer by);
  [[nodiscard]] Reported<double> pull_plain(const RankShape& shape, bool by_mpi);
  [[nodiscard]] Reported<> pull_one(size_t holder, std::span<std::byte> into, bool by_mpi);

  Ranks& ranks_;
  const RanksOptions& options_;
  const std::vector<RankShape> shapes_;
  const std::vector<std::byte> plain_;
  std::vector<std::byte> target_;
  std::optional<RankNode> node_;
  std::deque<PiecePuller> sockets_;  // By rank, from 1 on.
};

Reported<> RankPuller::start() {
  target_.resize(plain_.size());
  Reported<RankNode> node = start_rank_node(ranks_, node_of(options_, shapes_));
  if (!node) return report(node.error());
  node_.emplace(std::move(*node));
  const Reported<std::vector<std::string>> ports = ranks_.gather("0");
  if (!ports) return report(ports.error());
  for (size_t rank = 1; rank < ranks_.count(); ++rank) {
    const std::string& text = (*ports)[rank];
    uint16_t port = 0;
    (void)std::from_chars(text.data(), text.data() + text.size(), port);
    if (const Reported<> there = sockets_.emplace_back().connect(node_->addresses[rank], port); !there)
      return there;
  }
  if (const auto made = ranks_.gather("made"); !made) return report(made.error());
  return {};
}

Reported<> RankPuller::pull_one(size_t holder, std::span<std::byte> into, bool by_mpi) {
  if (!by_mpi) return sockets_[holder - 1].pull(into);
  const uint64_t request = into.size();
  if (const Reported<> sent = ranks_.send(holder, std::as_bytes(std::span(&request, 1))); !sent) return sent;
  return ranks_.receive(holder, into);
}

Reported<double> RankPuller::pull_plain(const RankShape& shape, bool by_mpi) {
  for (size_t rank = 1; rank < ranks_.count() && by_mpi; ++rank) {
    if (const Reported<> told = ranks_.tell(rank, shape.bytes); !told) return report(told.error());
    if (const Reported<> told = ranks_.tell(rank, held_by(ranks_, shape, rank)); !told)
      return report(told.error());
    // It slept; from here on it polls.
    std::byte awake{};
    if (const Reported<> came = ranks_.receive(rank, {&awake, 1}); !came) return report(came.error());
  }
  const std::span<std::byte> into = std::span(target_).first(shape.bytes);
  const uint64_t start_ns = now_ns();
  for (uint64_t i = 0; i < shape.count; ++i) {
    if (const Reported<> came = pull_one(holder_of(ranks_, i), into, by_mpi); !came)
      return report(came.error());
  }
  const double taken_s = static_cast<double>(now_ns() - start_ns) / 1e9;
  if (std::memcmp(into.data(), plain_.data(), into.size()) != 0)
    return report(Code::kCorrupt, "other bytes came than were sent");
  std::ranges::fill(into, std::byte{0});
  return taken_s;
}

Reported<double> RankPuller::pull_objects(const RankShape& shape, Transfer by) {
  Objects& objects = node_->ends.objects;
  const uint64_t start_ns = now_ns();
  for (uint64_t i = 0; i < shape.count; ++i) {
    const std::string id = object_id(shape.first + i);
    const Bytes bytes(id);
    const Code code = objects.prefetch({&bytes, 1}, 0, {.transfer = by}).front();
    if (code != Code::kOk) return failed("prefetch", code);
  }
  const double taken_s = static_cast<double>(now_ns() - start_ns) / 1e9;
  const uint64_t last = shape.first + shape.count - 1;
  std::vector<std::byte> body(shape.bytes);
  fill_body(body, last);
  if (const Reported<> right = check_object(objects, last, Bytes(std::span<const std::byte>(body))); !right)
    return report(right.error());
  if (const Reported<> empty = forget_copies(objects); !empty) return report(empty.error());
  return taken_s;
}

Reported<double> RankPuller::pull(const RankShape& shape, PullWay way) {
  switch (way) {
    case PullWay::kSend:
      return pull_objects(shape, Transfer::kSend);
    case PullWay::kRead:
      return pull_objects(shape, Transfer::kRead);
    case PullWay::kAuto:
      return pull_objects(shape, Transfer::kAuto);
    default:
      return pull_plain(shape, way == PullWay::kMpi);
  }
}

Reported<std::vector<RanksPoint>> RankPuller::measure() {
  std::vector<RanksPoint> points;
  for (const RankShape& shape : shapes_) {
    RanksPoint& point =
        points.emplace_back(RanksPoint{.bytes = shape.bytes, .objects = shape.count, .rates = {}});
    const auto bytes = static_cast<double>(shape.bytes * shape.count);
    for (int turn = 0; turn <= options_.turns; ++turn) {
      for (const PullWay way : kPullWays) {
        if (way == PullWay::kMpi && !ranks_.has_messages()) continue;
        const Reported<double> taken_s = pull(shape, way);
        if (!taken_s) return report(taken_s.error());
        if (turn > 0) point.rates[static_cast<size_t>(way)].push_back(bytes / *taken_s);
      }
    }
  }
  for (size_t rank = 1; rank < ranks_.count(); ++rank) {
    if (const Reported<> told = ranks_.tell(rank, 0); !told) return report(told.error());
  }
  return points;
}

// What rank 0 asks for by messages.
Reported<> answer(Ranks& ranks, std::span<const std::byte> bytes, uint64_t times) {
  const std::byte awake{};
  if (const Reported<> sent = ranks.send(0, {&awake, 1}); !sent) return sent;
  for (uint64_t i = 0; i < times; ++i) {
    uint64_t wanted = 0;
    if (const Reported<> came = ranks.receive(0, std::as_writable_bytes(std::span(&wanted, 1))); !came)
      return came;
    if (wanted != bytes.size()) return report(Code::kMalformed, "rank 0 asks for other bytes than it said");
    if (const Reported<> sent = ranks.send(0, bytes); !sent) return sent;
  }
  return {};
}

}  // namespace

std::string_view text(PullWay way) noexcept {
  constexpr std::array<std::string_view, kPullWays.size()> kNames = {"socket", "send", "read", "auto",
                                                                     "MPI_Recv"};
  return kNames[static_cast<size_t>(way)];
}

Reported<std::vector<RanksPoint>> measure_pulls(Ranks& ranks, const RanksOptions& options) {
  RankPuller puller(ranks, options);
  if (const Reported<> started = puller.start(); !started) return report(started.error());
  return puller.measure();
}

Reported<> hold_objects(Ranks& ranks, const RanksOptions& options) {
  const std::vector<RankShape> shapes = shapes_of(ranks, options);
  const std::vector<std::byte> plain = plain_body(shapes);
  Reported<RankNode> node = start_rank_node(ranks, node_of(options, shapes));
  if (!node) return report(node.error());
  PieceHolder pieces;
  const Reported<uint16_t> port = pieces.start(node->addresses[ranks.index()], plain);
  if (!port) return report(port.error());
  if (const auto ports = ranks.gather(std::to_string(*port)); !ports) return report(ports.error());
  for (const RankShape& shape : shapes) {
    for (uint64_t i = 0; i < shape.count; ++i) {
      if (holder_of(ranks, i) != ranks.index()) continue;
      if (const Reported<> made = make(node->ends.objects, shape.first + i, shape.bytes); !made) return made;
    }
  }
  if (const auto made = ranks.gather("made"); !made) return report(made.error());
  for (;;) {
    const Reported<uint64_t> bytes = ranks.hear();
    if (!bytes) return report(bytes.error());
    if (*bytes == 0) return {};
    const Reported<uint64_t> times = ranks.hear();
    if (!times) return report(times.error());
    if (const Reported<> done = answer(ranks, std::span(plain).first(*bytes), *times); !done) return done;
  }
}

}  // namespace refract::bench
