// SPDX-License-Identifier: Apache-2.0
#include "bench/txn/txn_load.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "bench/txn/txn_side.h"

namespace refract::bench {
namespace {

using Sides = std::vector<std::unique_ptr<TxnSide>>;

std::unexpected<Report> refuse_load(std::string what, std::string next) {
  return report(Code::kInvalidArgument, std::move(what), std::move(next));
}

StartedTxnSide start_side(const TxnLoad& load, const std::string& name, bool is_bound) {
  if (load.provider == TxnProvider::kSim) return start_simulated_txn_side(load, name);
  if (name == kTxnOurs) return start_our_txn_side(load, is_bound);
  return name == kTxnRedis ? start_txn_redis(load, is_bound) : start_txn_design(load, name, is_bound);
}

// Processes before threads: they are forked from this one.
Reported<Sides> start_sides(const TxnLoad& load, bool is_bound) {
  Sides sides;
  std::vector<std::string> names = load.designs;
  if (load.is_beside_redis)
    names.insert(names.begin() + (load.has(kTxnOurs) ? 1 : 0), std::string(kTxnRedis));
  for (const std::string& name : names) {
    StartedTxnSide side = start_side(load, name, is_bound);
    if (!side) return report(side.error());
    sides.push_back(std::move(*side));
  }
  return sides;
}

void note(TxnSideResult& side, const TxnTurn& turn) {
  const auto us_at = [&turn](double share) { return static_cast<double>(turn.latency_ns.quantile(share)); };
  const auto ended = static_cast<double>(turn.ended());
  const auto attempts = static_cast<double>(turn.attempts);
  side.rates.push_back(turn.per_second());
  side.p50_ns.push_back(us_at(0.5));
  side.p99_ns.push_back(us_at(0.99));
  side.p999_ns.push_back(us_at(0.999));
  side.attempts.push_back(attempts / ended);
  side.conflicts_percent.push_back(100 * (attempts - ended) / attempts);
  side.all.add(turn);
}

Reported<> take_turn(TxnSide& side, const TxnPlans& plans, uint64_t seed, TxnSideResult& result) {
  const Reported<TxnTurn> turn = side.take_turn(plans, seed);
  if (!turn) return report(turn.error());
  if (turn->uncommitted > 0) {
    return report(Code::kConflict,
                  fmt::format("{}: {} of {} transactions did not commit within their time", side.name(),
                              turn->uncommitted, turn->uncommitted + turn->ended()));
  }
  if (turn->committed == 0) {
    return report(Code::kSystem, fmt::format("{}: no transaction committed in a turn", side.name()),
                  "give --seconds more of them");
  }
  note(result, *turn);
  return {};
}

// No transaction is under way.
Reported<> compare_sum(const TxnLoad& load, TxnSide& side, TxnSideResult& result) {
  if (load.before_sum) {
    if (const Reported<> done = load.before_sum(side); !done) return done;
  }
  const Reported<int64_t> sum = side.sum();
  if (!sum) return report(sum.error());
  const int64_t expected = initial_sum(load.mix) + result.all.gained;
  result.sum = *sum;
  if (*sum == expected) return {};
  return report(
      Code::kCorrupt,
      fmt::format("{}: its entries add up to {}, but what was there and what transactions have brought "
                  "and taken is {}",
                  side.name(), *sum, expected),
      "some transaction took effect in part, twice or not at all");
}

bool is_published(const std::string& name) noexcept {
  return name != kTxnOurs;
}

// FaRM's servers are told all new values of a transaction in one message each.
Reported<> check_designs(const TxnLoad& load) {
  constexpr uint64_t kMessageBytesMax = 30 * kKiB;
  constexpr uint64_t kBankEntriesMax = 3;
  constexpr uint64_t kBesideBytes = 32;  // Of each entry, the key among them.
  const TxnMix& mix = load.mix;
  const uint64_t entries = mix.workload == TxnWorkload::kSmallBank ? kBankEntriesMax : mix.keys_each;
  if (std::ranges::none_of(load.designs, is_published)) return {};
  if (entries * (mix.value_bytes + kBesideBytes) <= kMessageBytesMax) return {};
  return refuse_load(
      fmt::format("--value-bytes {}: published protocols write the {} of a transaction by one message "
                  "of up to 30 KiB",
                  mix.value_bytes, entries),
      "lower it, or give --design ours");
}

// What only the simulator has.
Reported<> check_nodes(const TxnLoad& load) {
  const bool is_bank = load.mix.workload == TxnWorkload::kSmallBank;
  if (load.nodes > 1 && load.provider != TxnProvider::kSim) {
    return refuse_load(
        fmt::format("--nodes {}: over {} there is one node, with which the clients share this machine",
                    load.nodes, text(load.provider)),
        "give --provider sim");
  }
  if (load.mix.far_share < 0) return {};
  if (load.nodes == 1) {
    return refuse_load(fmt::format("--far {:g}: one node has all keys", load.mix.far_share * 100),
                       "give --nodes of at least 2, and --provider sim");
  }
  if (!is_bank && load.mix.keys_each == 1) {
    return refuse_load("--far: a transaction of one key is at one node", "give --keys-each of at least 2");
  }
  if (is_bank && std::ranges::any_of(load.designs, is_published)) {
    return refuse_load(
        "--far with smallbank: published protocols do not place both entries of an account together",
        "leave --far out, or give --design ours");
  }
  return {};
}

}  // namespace

std::string_view text(TxnProvider provider) noexcept {
  constexpr std::array<std::string_view, 3> kNames = {"shm", "tcp", "sim"};
  return kNames[static_cast<size_t>(provider)];
}

bool TxnLoad::has(std::string_view design) const noexcept {
  return std::ranges::find(designs, design) != designs.end();
}

void TxnTurn::add(const TxnTurn& other) noexcept {
  committed += other.committed;
  refused += other.refused;
  attempts += other.attempts;
  attempts_most = std::max(attempts_most, other.attempts_most);
  seconds += other.seconds;
  latency_ns.merge(other.latency_ns);
  uncommitted += other.uncommitted;
  gained += other.gained;
}

Reported<> check(const TxnLoad& load) {
  const TxnMix& mix = load.mix;
  const bool is_bank = mix.workload == TxnWorkload::kSmallBank;
  if (!is_bank && mix.groups < mix.keys_each) {
    return refuse_load(
        fmt::format("--keys {} are fewer than the {} of one transaction", mix.groups, mix.keys_each),
        "raise --keys or lower --keys-each");
  }
  if (load.is_beside_redis && load.provider != TxnProvider::kTcp) {
    return refuse_load(fmt::format("--beside redis: there is no Redis over {}", text(load.provider)),
                       "give --provider tcp");
  }
  if (const Reported<> possible = check_designs(load); !possible) return possible;
  return check_nodes(load);
}

Reported<TxnResult> run_txn_load(const TxnLoad& load) {
  if (const Reported<> possible = check(load); !possible) return report(possible.error());
  TxnResult result;
  result.has_references = load.provider != TxnProvider::kSim;
  std::unique_ptr<References> references;
  if (result.has_references) {
    // Forks, so it comes before everything that grows or starts threads.
    Reported<std::unique_ptr<References>> started = References::start(Timer::calibrate());
    if (!started) return report(started.error());
    references = std::move(*started);
    result.is_bound = core_count() >= 1 + load.shards;
    if (result.is_bound) pin_to_core(0);
  }
  const Reported<Sides> sides = start_sides(load, result.is_bound);
  if (!sides) return report(sides.error());
  std::vector<TxnPlans> plans;
  plans.reserve(sides->size());
  for (const auto& side : *sides) {
    plans.emplace_back(load.mix, side->nodes());
    result.sides.emplace_back();
    result.sides.back().name = side->name();
    result.sides.back().how = side->how();
  }
  if (references) result.before = references->measure();
  for (int round = 0; round < load.rounds; ++round) {
    for (size_t i = 0; i < sides->size(); ++i) {
      const auto seed = static_cast<uint64_t>(round) + 1;
      const Reported<> done = take_turn(*(*sides)[i], plans[i], seed, result.sides[i]);
      if (!done) return report(done.error());
    }
  }
  if (references) result.after = references->measure();
  for (size_t i = 0; i < sides->size(); ++i) {
    if (const Reported<> same = compare_sum(load, *(*sides)[i], result.sides[i]); !same)
      return report(same.error());
  }
  return result;
}

}  // namespace refract::bench
