// SPDX-License-Identifier: Apache-2.0
#include "bench/ranks/broadcast_ranks.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "bench/measure/measure.h"
#include "bench/ranks/rank_node.h"

namespace refract::bench {
namespace {

// What rank 0 has the others do: this number, then that of the object. All of them answer by gather().
enum class Order : uint64_t {
  kEnd,
  kCheck,  // Compare the copy that came, and let it go.
  kPull,   // Rank 1: bring a copy, and say how many ns that took.
  kMpi,    // Take part in MPI_Bcast; each says "it is here" by a message, before and behind it.
};

RankNodeOptions node_of(const RanksOptions& options) {
  return {.program = options.node_program,
          .objects_bytes = std::accumulate(options.sizes.begin(), options.sizes.end(), uint64_t{0}),
          .spin = options.spin};
}

std::vector<std::byte> body_of(const RanksOptions& options, uint64_t number) {
  std::vector<std::byte> body(options.sizes[number]);
  fill_body(body, number);
  return body;
}

// One word to rank 0, or all others' there.
Reported<> say_here(Ranks& ranks) {
  const std::byte here{1};
  return ranks.send(0, {&here, 1});
}
Reported<> hear_all(Ranks& ranks) {
  for (size_t rank = 1; rank < ranks.count(); ++rank) {
    std::byte here{};
    if (const Reported<> came = ranks.receive(rank, {&here, 1}); !came) return came;
  }
  return {};
}

// Rank 0.
class BroadcastRoot {
 public:
  BroadcastRoot(Ranks& ranks, const RanksOptions& options, Objects& objects)
      : ranks_(ranks), options_(options), objects_(objects) {}

  [[nodiscard]] Reported<> make();
  [[nodiscard]] Reported<std::vector<BroadcastPoint>> measure();

 private:
  [[nodiscard]] Reported<> tell_all(Order order, uint64_t number);
  // What rank 1 says.
  [[nodiscard]] Reported<std::string> ask_all(Order order, uint64_t number);
  // Seconds, likewise the others.
  [[nodiscard]] Reported<double> measure_once(uint64_t number, BroadcastWay way);
  [[nodiscard]] Reported<double> by_objects(uint64_t number);
  [[nodiscard]] Reported<double> by_mpi(uint64_t number);
  [[nodiscard]] Reported<double> by_pull(uint64_t number);

  Ranks& ranks_;
  const RanksOptions& options_;
  Objects& objects_;
};

Reported<> BroadcastRoot::make() {
  for (uint64_t number = 0; number < options_.sizes.size(); ++number) {
    if (const Reported<> made = put_listed(objects_, number, body_of(options_, number)); !made) return made;
  }
  return await_others(objects_, options_.sizes.size());
}

Reported<> BroadcastRoot::tell_all(Order order, uint64_t number) {
  for (size_t rank = 1; rank < ranks_.count(); ++rank) {
    if (const Reported<> told = ranks_.tell(rank, static_cast<uint64_t>(order)); !told) return told;
    if (const Reported<> told = ranks_.tell(rank, number); !told) return told;
  }
  return {};
}

Reported<std::string> BroadcastRoot::ask_all(Order order, uint64_t number) {
  if (const Reported<> told = tell_all(order, number); !told) return report(told.error());
  const Reported<std::vector<std::string>> said = ranks_.gather("");
  if (!said) return report(said.error());
  return (*said)[1];
}

Reported<double> BroadcastRoot::by_objects(uint64_t number) {
  Reported<double> seconds = seconds_of_broadcast(objects_, number);
  if (!seconds) return seconds;
  if (const auto checked = ask_all(Order::kCheck, number); !checked) return report(checked.error());
  return seconds;
}

Reported<double> BroadcastRoot::by_mpi(uint64_t number) {
  std::vector<std::byte> body = body_of(options_, number);
  if (const Reported<> told = tell_all(Order::kMpi, number); !told) return report(told.error());
  // They slept; from here on they poll.
  if (const Reported<> awake = hear_all(ranks_); !awake) return report(awake.error());
  const uint64_t start_ns = now_ns();
  if (const Reported<> sent = ranks_.broadcast(body); !sent) return report(sent.error());
  if (const Reported<> there = hear_all(ranks_); !there) return report(there.error());
  const double seconds = static_cast<double>(now_ns() - start_ns) / 1e9;
  if (const auto said = ranks_.gather(""); !said) return report(said.error());
  return seconds;
}

Reported<double> BroadcastRoot::by_pull(uint64_t number) {
  const Reported<std::string> said = ask_all(Order::kPull, number);
  if (!said) return report(said.error());
  uint64_t ns = 0;
  (void)std::from_chars(said->data(), said->data() + said->size(), ns);
  return static_cast<double>(ns) / 1e9;
}

Reported<double> BroadcastRoot::measure_once(uint64_t number, BroadcastWay way) {
  switch (way) {
    case BroadcastWay::kObjects:
      return by_objects(number);
    case BroadcastWay::kMpi:
      return by_mpi(number);
    default:
      return by_pull(number);
  }
}

Reported<std::vector<BroadcastPoint>> BroadcastRoot::measure() {
  std::vector<BroadcastPoint> points;
  for (uint64_t number = 0; number < options_.sizes.size(); ++number) {
    BroadcastPoint& point =
        points.emplace_back(BroadcastPoint{.bytes = options_.sizes[number], .seconds = {}});
    for (int turn = 0; turn <= options_.turns; ++turn) {
      for (const BroadcastWay way : kBroadcastWays) {
        if (way == BroadcastWay::kMpi && !ranks_.has_messages()) continue;
        const Reported<double> seconds = measure_once(number, way);
        if (!seconds) return report(seconds.error());
        if (turn > 0) point.seconds[static_cast<size_t>(way)].push_back(*seconds);
      }
    }
  }
  if (const Reported<> told = tell_all(Order::kEnd, 0); !told) return report(told.error());
  return points;
}

// --- The others ---

Reported<> check(Objects& objects, uint64_t number, std::span<const std::byte> body) {
  if (const Reported<> right = check_object(objects, number, body); !right) return right;
  return forget_copies(objects);
}

Reported<std::string> pull(Objects& objects, uint64_t number) {
  const Reported<double> seconds = seconds_of_pull(objects, number);
  if (!seconds) return report(seconds.error());
  if (const Reported<> empty = forget_copies(objects); !empty) return report(empty.error());
  return std::to_string(std::llround(*seconds * 1e9));
}

Reported<> take_by_mpi(Ranks& ranks, std::span<const std::byte> body) {
  std::vector<std::byte> into(body.size());
  if (const Reported<> said = say_here(ranks); !said) return said;
  if (const Reported<> came = ranks.broadcast(into); !came) return came;
  if (const Reported<> said = say_here(ranks); !said) return said;
  if (std::memcmp(into.data(), body.data(), body.size()) == 0) return {};
  return report(Code::kCorrupt, "MPI_Bcast brought other bytes");
}

// What it has to say about it.
Reported<std::string> follow(Ranks& ranks, Objects& objects, Order order, uint64_t number,
                             std::span<const std::byte> body) {
  if (order == Order::kPull) {
    if (ranks.index() == 1) return pull(objects, number);
    return "";
  }
  const Reported<> done = order == Order::kMpi ? take_by_mpi(ranks, body) : check(objects, number, body);
  if (!done) return report(done.error());
  return "";
}

}  // namespace

std::string_view text(BroadcastWay way) noexcept {
  constexpr std::array<std::string_view, kBroadcastWays.size()> kNames = {"broadcast", "MPI_Bcast",
                                                                          "one pull"};
  return kNames[static_cast<size_t>(way)];
}

Reported<std::vector<BroadcastPoint>> measure_broadcasts(Ranks& ranks, const RanksOptions& options) {
  Reported<RankNode> node = start_rank_node(ranks, node_of(options));
  if (!node) return report(node.error());
  BroadcastRoot root(ranks, options, node->ends.objects);
  if (const Reported<> made = root.make(); !made) return report(made.error());
  return root.measure();
}

Reported<> take_broadcasts(Ranks& ranks, const RanksOptions& options) {
  Reported<RankNode> node = start_rank_node(ranks, node_of(options));
  if (!node) return report(node.error());
  for (;;) {
    const Reported<uint64_t> order = ranks.hear();
    if (!order) return report(order.error());
    const Reported<uint64_t> number = ranks.hear();
    if (!number) return report(number.error());
    if (static_cast<Order>(*order) == Order::kEnd) return {};
    const Reported<std::string> said =
        follow(ranks, node->ends.objects, static_cast<Order>(*order), *number, body_of(options, *number));
    if (!said) return report(said.error());
    if (const auto all = ranks.gather(*said); !all) return report(all.error());
  }
}

}  // namespace refract::bench
