// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/linearizability/search.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/prng.h"
#include "refract/base/testing/linearizability/state.h"

namespace refract::linearizability {
namespace {

constexpr uint32_t kNoPlace = UINT32_MAX;

struct Configuration {
  State state;
  uint32_t chain_next = 0;      // The first put of known version that has not taken effect (R1).
  bool unnoticed = false;       // The last operation was optional, and must be noticed by the next (R3).
  std::vector<uint32_t> taken;  // What else has taken effect: under way, or optional. Sorted.

  bool operator==(const Configuration&) const = default;
  [[nodiscard]] bool has_taken(uint32_t item) const { return std::ranges::binary_search(taken, item); }
  void take(uint32_t item) { taken.insert(std::ranges::lower_bound(taken, item), item); }
};

struct Hash {
  size_t operator()(const Configuration& configuration) const noexcept {
    const State& state = configuration.state;
    uint64_t hash = mix(state.value ^ mix(state.version) ^ mix(mix(state.highest)) ^ state.floor_ns);
    hash = mix(hash ^ configuration.chain_next ^ static_cast<uint64_t>(state.presence) << 40);
    for (const uint32_t item : configuration.taken) hash = mix(hash ^ item);
    return hash;
  }
};

class Search {
 public:
  Search(std::span<const Item> items, const Start& start, uint64_t steps_max)
      : items_(items),
        rules_(start, has_expiry(items, start)),
        steps_max_(steps_max),
        place_in_chain_(items.size(), kNoPlace),
        is_anonymous_(items.size()) {
    find_anonymous();
    for (uint32_t i = 0; i < items.size(); ++i) {
      if (items[i].operation->kind == Kind::kPut && items[i].operation->changes() && items[i].version != 0) {
        chain_.push_back(i);
      }
    }
    std::ranges::sort(chain_, {}, [&](uint32_t item) { return std::pair(items_[item].version, item); });
    for (uint32_t place = 0; place < chain_.size(); ++place) place_in_chain_[chain_[place]] = place;
    Configuration first;
    if (start.anything) first.state.presence = State::Presence::kAnything;
    configurations_.push_back(first);
  }

  [[nodiscard]] Answer run() {
    std::vector<uint32_t> returns;
    for (uint32_t i = 0; i < items_.size(); ++i) {
      if (items_[i].ended != kNever) returns.push_back(i);
    }
    std::ranges::sort(returns, {}, [&](uint32_t item) { return std::pair(items_[item].ended, item); });
    for (const uint32_t item : returns) {
      // What began at the same moment is concurrent.
      while (begun_ < items_.size() && items_[begun_].operation->began <= items_[item].ended) {
        pending_.push_back(begun_++);
      }
      explain(item);
      if (steps_ >= steps_max_)
        return {.verdict = Answer::Verdict::kUndecided, .item = item, .steps = steps_};
      if (configurations_.empty()) {
        return {.verdict = Answer::Verdict::kBad, .item = item, .steps = steps_};
      }
      std::erase(pending_, item);
    }
    return {.steps = steps_, .excluded_max = excluded_max_};
  }

 private:
  static bool has_expiry(std::span<const Item> items, const Start& start) {
    const auto expires = [](const Item& item) { return item.operation->may_expire(); };
    return std::ranges::any_of(items, expires) || std::ranges::any_of(start.earlier, expires);
  }

  [[nodiscard]] bool is_taken(const Configuration& configuration, uint32_t item) const {
    const uint32_t place = place_in_chain_[item];
    return place != kNoPlace ? place < configuration.chain_next : configuration.has_taken(item);
  }

  // The configurations in which the item that returns now has taken effect.
  void explain(uint32_t item) {
    goal_ = item;
    now_ns_ = items_[item].operation->ended_ns;
    visited_.clear();
    const std::vector<Configuration> before = std::exchange(configurations_, {});
    for (const Configuration& configuration : before) extend(configuration);
    for (Configuration& configuration : configurations_) {
      std::erase(configuration.taken, item);
      configuration.unnoticed = false;
      const State& state = configuration.state;
      excluded_max_ = std::max({excluded_max_, state.excluded.size(), state.excluded_values.size()});
    }
    forget_dominated();
  }

  void extend(Configuration configuration) {
    if (steps_ >= steps_max_) return;
    absorb(configuration);
    if (is_taken(configuration, goal_)) {
      configurations_.push_back(std::move(configuration));
      return;
    }
    if (is_hopeless(configuration) || !visited_.insert(configuration).second) return;
    for (uint32_t place = configuration.chain_next; place < chain_.size(); ++place) {
      const uint32_t item = chain_[place];
      if (item < begun_) try_next(configuration, item);
      if (!items_[item].optional) break;
    }
    std::vector<uint32_t> tried;  // Of writes of which only the kind is known.
    for (const uint32_t item : pending_) {
      if (place_in_chain_[item] != kNoPlace || configuration.has_taken(item)) continue;
      if (is_anonymous_[item]) {
        const auto is_same = [&](uint32_t other) { return are_alike(item, other); };
        if (std::ranges::any_of(tried, is_same)) continue;
        tried.push_back(item);
      }
      try_next(configuration, item);
    }
  }

  [[nodiscard]] bool are_alike(uint32_t one, uint32_t other) const {
    const Operation& a = *items_[one].operation;
    const Operation& b = *items_[other].operation;
    return a.kind == b.kind && a.if_absent == b.if_absent && a.if_version == b.if_version &&
           a.if_value == b.if_value;
  }

  // Optional writes whose effect cannot be told from that of another: one is as good as the next (R3).
  void find_anonymous() {
    std::unordered_set<uint64_t> read;
    for (const Item& item : items_) {
      if (item.operation->kind == Kind::kGet) read.insert(item.operation->value);
      if (item.operation->if_value != 0) read.insert(item.operation->if_value);
    }
    for (uint32_t i = 0; i < items_.size(); ++i) {
      const Operation& operation = *items_[i].operation;
      const bool is_unread = operation.kind == Kind::kErase || !read.contains(operation.value);
      is_anonymous_[i] = items_[i].optional && items_[i].version == 0 && !operation.may_expire() && is_unread;
    }
  }

  // (R2)
  void absorb(Configuration& configuration) {
    for (const uint32_t item : pending_) {
      if (items_[item].operation->changes() || configuration.has_taken(item)) continue;
      State after = configuration.state;
      ++steps_;
      if (!rules_.apply(items_[item], after)) continue;
      if (!rules_.is_free(items_[item], configuration.state, after, now_ns_)) continue;
      configuration.state = after;
      configuration.take(item);
      configuration.unnoticed = false;
    }
  }

  // The one that returns named a version that has been passed.
  [[nodiscard]] bool is_hopeless(const Configuration& configuration) const {
    const Item& goal = items_[goal_];
    const bool names_version = goal.operation->outcome == Outcome::kDone && goal.version != 0;
    return names_version && goal.version < configuration.state.highest;
  }

  void try_next(const Configuration& before, uint32_t item) {
    const Operation& operation = *items_[item].operation;
    const bool is_blind = operation.changes() && !operation.if_absent && operation.if_version == 0 &&
                          operation.if_value == 0 &&
                          (operation.kind == Kind::kPut || operation.outcome == Outcome::kUnknown);
    // (R3)
    if (before.unnoticed && is_blind) return;
    Configuration after = before;
    ++steps_;
    if (!rules_.apply(items_[item], after.state)) return;
    const uint32_t place = place_in_chain_[item];
    if (place == kNoPlace) {
      after.take(item);
    } else {
      after.chain_next = place + 1;
    }
    if (!pass_chain(after)) return;
    after.unnoticed = items_[item].optional;
    extend(std::move(after));
  }

  // A version that was told late may have overtaken puts that must still come: then it cannot be.
  [[nodiscard]] bool pass_chain(Configuration& configuration) const {
    while (configuration.chain_next < chain_.size()) {
      const Item& next = items_[chain_[configuration.chain_next]];
      if (next.version > configuration.state.highest) return true;
      if (!next.optional) return false;
      ++configuration.chain_next;
    }
    return true;
  }

  // (R4)
  [[nodiscard]] bool dominates(const Configuration& better, const Configuration& worse) const {
    if (better.chain_next != worse.chain_next || better.state.floor_ns > worse.state.floor_ns ||
        !better.state.looks_like(worse.state) || better.taken.size() > worse.taken.size()) {
      return false;
    }
    auto next = better.taken.begin();
    for (const uint32_t item : worse.taken) {
      if (next != better.taken.end() && *next == item) {
        ++next;
      } else if (!items_[item].optional) {
        return false;
      }
    }
    return next == better.taken.end();
  }

  void forget_dominated() {
    constexpr size_t kPairwiseMax = 512;
    if (configurations_.size() > kPairwiseMax) {
      std::unordered_set<Configuration, Hash> different(configurations_.begin(), configurations_.end());
      configurations_.assign(different.begin(), different.end());
      return;
    }
    std::vector<Configuration> kept;
    for (Configuration& one : configurations_) {
      const auto better = [&](const Configuration& other) { return dominates(other, one); };
      if (std::ranges::any_of(kept, better)) continue;
      std::erase_if(kept, [&](const Configuration& other) { return dominates(one, other); });
      kept.push_back(std::move(one));
    }
    configurations_ = std::move(kept);
  }

  std::span<const Item> items_;
  Rules rules_;
  uint64_t steps_max_;
  std::vector<uint32_t> chain_;  // Puts of known version, by version.
  std::vector<uint32_t> place_in_chain_;
  std::vector<bool> is_anonymous_;
  std::vector<Configuration> configurations_;
  std::unordered_set<Configuration, Hash> visited_;  // While one return is explained.
  std::vector<uint32_t> pending_;                    // Begun, and not returned.
  uint32_t begun_ = 0;
  uint32_t goal_ = 0;  // The item that returns now.
  uint64_t now_ns_ = 0;
  uint64_t steps_ = 0;
  size_t excluded_max_ = 0;
};

}  // namespace

std::vector<Item> items_of(std::span<const Operation* const> operations) {
  std::unordered_map<uint64_t, uint64_t> version_of_value;
  std::unordered_map<uint64_t, int> puts_of_value;
  for (const Operation* operation : operations) {
    if (operation->value == 0) continue;
    if (operation->kind == Kind::kPut && operation->changes()) ++puts_of_value[operation->value];
    if (operation->kind == Kind::kGet && operation->outcome == Outcome::kDone && operation->version != 0) {
      version_of_value.try_emplace(operation->value, operation->version);
    }
  }
  std::vector<Item> items;
  for (const Operation* operation : operations) {
    if (operation->outcome == Outcome::kRefused) continue;
    Item item{.operation = operation, .ended = operation->ended, .version = operation->version};
    if (operation->outcome == Outcome::kUnknown) {
      item.ended = kNever;
      item.optional = true;
    }
    if (operation->kind == Kind::kPut && operation->changes() && item.version == 0) {
      const auto told = version_of_value.find(operation->value);
      if (told != version_of_value.end() && puts_of_value[operation->value] == 1) {
        item.version = told->second;
        item.optional = false;
      }
    }
    items.push_back(item);
  }
  std::ranges::sort(items, {},
                    [](const Item& item) { return std::pair(item.operation->began, item.operation); });
  return items;
}

Answer find_order(std::span<const Item> items, const Start& start, uint64_t steps_max) {
  return Search(items, start, steps_max).run();
}

}  // namespace refract::linearizability
