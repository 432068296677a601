// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/serialisability/settle.h"

#include <algorithm>
#include <optional>
#include <span>

#include "refract/base/testing/serialisability/places.h"

namespace refract::serialisability {
namespace {

// Rounds of what follows from what followed. Each is sound alone, and the first ones find nearly everything.
constexpr int kRoundsMax = 12;
constexpr int kRoundsMaxOfLarge = 2;
constexpr size_t kReadersLinked = 16;
constexpr size_t kRivalsMax = 64;

// What versions tell: linear in what was read and written.
void add_told(const Evidence& evidence, Graph& graph) {
  for (uint32_t key = 0; key < evidence.keys.size(); ++key) {
    const std::vector<State>& states = evidence.keys[key].states;
    for (size_t i = 0; i < states.size(); ++i) {
      const State& state = states[i];
      const State* const next = i + 1 < states.size() ? &states[i + 1] : nullptr;
      const bool is_replaced = state.overwriter != kUnset;
      const auto link = [&](uint32_t from, uint32_t to, EdgeKind kind, uint64_t version) {
        if (from == kUnset || to == kUnset) return;
        graph.add({.from = from, .to = to, .kind = kind, .key = key, .version = version});
      };
      if (is_replaced) link(state.writer, state.overwriter, EdgeKind::kWriteWrite, state.version);
      // That the overwriter comes before the next version follows from what it has read.
      if (next != nullptr && is_replaced) {
        link(state.overwriter, next->writer, EdgeKind::kReadWrite, state.version);
      } else if (next != nullptr) {
        link(state.writer, next->writer, EdgeKind::kWriteWrite, state.version);
      }
      const uint32_t after = is_replaced ? state.overwriter : next != nullptr ? next->writer : kUnset;
      for (const uint32_t reader : state.readers) {
        link(state.writer, reader, EdgeKind::kWriteRead, state.version);
        link(reader, after, EdgeKind::kReadWrite, state.version);
      }
    }
  }
}

// All items of one transaction, with where they may stand.
struct Group {
  std::vector<Item> items;
  std::vector<Places> places;
};

class Settler {
 public:
  Settler(const Evidence& evidence, Graph& graph, const CheckOptions& options, uint64_t& steps)
      : evidence_(evidence),
        graph_(graph),
        options_(options),
        steps_(steps),
        finder_(evidence, graph, options, steps) {}

  [[nodiscard]] Settled run() {
    add_told(evidence_, graph_);
    const std::vector<Item> items = items_of(evidence_);
    std::vector<bool> is_done(items.size(), false);
    const bool is_large = evidence_.nodes > options_.all_pairs_max;
    const int rounds = is_large ? kRoundsMaxOfLarge : kRoundsMax;
    for (int round = 0; round < rounds; ++round) {
      steps_ += graph_.links().size();
      if (!graph_.sort()) return {.kind = Settled::Kind::kCircle};
      const size_t links_before = graph_.links().size();
      for (size_t i = 0; i < items.size();) {
        Group group;
        const uint32_t transaction = transaction_of(items[i]);
        const size_t first = i;
        for (; i < items.size() && transaction_of(items[i]) == transaction; ++i)
          group.items.push_back(items[i]);
        // Where each had one place, the graph has nearly all that follows. The last round looks again.
        if (is_large && is_done[first] && round + 1 < rounds) continue;
        if (auto wrong = look(group)) return *wrong;
        is_done[first] = std::ranges::all_of(
            group.places, [](const Places& places) { return places.is_complete && places.all.size() == 1; });
      }
      if (graph_.links().size() == links_before) break;
    }
    if (!graph_.sort()) return {.kind = Settled::Kind::kCircle};
    const auto make_unique = [](auto& all) {
      std::ranges::sort(all);
      const auto repeated = std::ranges::unique(all);
      all.erase(repeated.begin(), repeated.end());
    };
    make_unique(inferred_.seen);
    make_unique(inferred_.found);
    const bool is_new = !inferred_.seen.empty() || !inferred_.found.empty();
    return {.kind = is_new ? Settled::Kind::kInferred : Settled::Kind::kGood,
            .inferred = std::move(inferred_)};
  }

 private:
  [[nodiscard]] const Access& access_of(const Item& item) const { return evidence_.accesses[item.access]; }
  [[nodiscard]] uint32_t transaction_of(const Item& item) const { return access_of(item).transaction; }

  [[nodiscard]] std::optional<Settled> look(Group& group) {
    for (const Item& item : group.items) {
      group.places.push_back(finder_.possible(item));
      if (group.places.back().all.empty()) return contradiction(item);
    }
    if (group.items.size() > 1) {
      const std::vector<Places> before = group.places;
      if (!make_consistent(group)) {
        group.places = before;
        return contradiction(group);
      }
    }
    for (size_t i = 0; i < group.items.size(); ++i) follow(group.items[i], group.places[i]);
    return std::nullopt;
  }

  // Whether one transaction can stand at both.
  [[nodiscard]] bool agree(const Item& one, const Place& place, const Item& other, const Place& second) {
    ++steps_;
    // What it found and what it left are next to each other.
    if (access_of(one).key == access_of(other).key && place.interval != second.interval) return false;
    const uint32_t mine = transaction_of(one);
    const auto crosses = [&](uint32_t after, uint32_t before) {
      return after != kUnset && before != kUnset && after != mine && before != mine &&
             (after == before || graph_.reaches(after, before));
    };
    return !crosses(place.after, second.before) && !crosses(second.after, place.before);
  }

  // Takes away what agrees with no place of another item, until nothing changes. False: nothing is left.
  [[nodiscard]] bool make_consistent(Group& group) {
    for (bool is_changed = true; is_changed;) {
      is_changed = false;
      for (size_t i = 0; i < group.items.size(); ++i) {
        for (size_t j = 0; j < group.items.size(); ++j) {
          if (i == j || !group.places[i].is_complete || !group.places[j].is_complete) continue;
          const auto is_refused = [&](const Place& place) {
            return std::ranges::none_of(group.places[j].all, [&](const Place& second) {
              return agree(group.items[i], place, group.items[j], second);
            });
          };
          is_changed = std::erase_if(group.places[i].all, is_refused) > 0 || is_changed;
          if (group.places[i].all.empty()) return false;
        }
      }
    }
    return true;
  }

  void link(uint32_t from, uint32_t to, EdgeKind kind, const Item& item, uint64_t version, bool is_forced) {
    if (from == kUnset || to == kUnset || from == to) return;
    if (!is_forced && graph_.reaches(from, to)) return;
    graph_.add({.from = from,
                .to = to,
                .kind = kind,
                .is_inferred = true,
                .key = access_of(item).key,
                .version = version});
  }

  void link_before(const Item& item, const Place& place, bool is_forced) {
    const std::vector<State>& states = evidence_.keys[access_of(item).key].states;
    const State& state = states[place.interval];
    const uint32_t mine = transaction_of(item);
    link(place.before, mine, item.is_effect ? EdgeKind::kWriteWrite : EdgeKind::kWriteRead, item,
         state.version, is_forced);
    if (place.is_first() || state.overwriter != kUnset) return;
    for (size_t i = 0; i < std::min(state.readers.size(), kReadersLinked); ++i) {
      link(state.readers[i], mine, EdgeKind::kReadWrite, item, state.version, false);
    }
  }

  void link_after(const Item& item, const Place& place, bool is_forced) {
    const std::vector<State>& states = evidence_.keys[access_of(item).key].states;
    link(transaction_of(item), place.after, item.is_effect ? EdgeKind::kWriteWrite : EdgeKind::kReadWrite,
         item, states[place.interval].version, is_forced);
  }

  // Whichever of its places is the right one, it is not before the first, and not behind the last.
  void follow(const Item& item, const Places& places) {
    link_before(item, places.all.front(), false);
    link_after(item, places.all.back(), false);
    const Place& first = places.all.front();
    const bool is_version = places.all.size() == 1 && places.is_complete && first.spot == Spot::kVersion;
    if (is_version && !item.is_effect) {
      const State& state = evidence_.keys[access_of(item).key].states[first.interval];
      inferred_.found.emplace_back(item.access, state.version);
    }
    if (places.makers.size() != 1) return;
    const uint32_t maker = evidence_.accesses[places.makers.front()].transaction;
    link(maker, transaction_of(item), EdgeKind::kWriteRead, item, 0, false);
    if (!evidence_.has_happened[maker]) inferred_.seen.push_back(maker);
  }

  void force(const Item& item, const Place& place) {
    const State& state = evidence_.keys[access_of(item).key].states[place.interval];
    link(transaction_of(item), finder_.replaced_by(item, place), EdgeKind::kReadWrite, item, state.version,
         true);
    link_before(item, place, true);
    link_after(item, place, true);
  }

  [[nodiscard]] size_t circle_length(uint32_t node) {
    const size_t length = find_way(graph_, node, node, steps_).size();
    return length == 0 ? SIZE_MAX : length;
  }

  // Each place makes a circle: the graph gets the shortest one.
  [[nodiscard]] Settled contradiction(const Item& item) {
    const std::vector<Place> places = finder_.thinkable(item);
    const Place* best = nullptr;
    size_t best_length = SIZE_MAX;
    for (const Place& place : std::span(places).first(std::min<size_t>(places.size(), 24))) {
      const size_t links = graph_.links().size();
      force(item, place);
      const size_t length = circle_length(transaction_of(item));
      while (graph_.links().size() > links) graph_.remove_last();
      if (length >= best_length) continue;
      best = &place;
      best_length = length;
    }
    if (best == nullptr) return {.kind = Settled::Kind::kUnexplained, .access = item.access};
    force(item, *best);
    return {.kind = Settled::Kind::kCircle, .access = item.access};
  }

  // Each two places make a circle: those of the first places of all, or of the last ones.
  [[nodiscard]] Settled contradiction(const Group& group) {
    const auto force_all = [&](bool is_first) {
      for (size_t i = 0; i < group.items.size(); ++i) {
        const std::vector<Place>& places = group.places[i].all;
        force(group.items[i], is_first ? places.front() : places.back());
      }
      return circle_length(transaction_of(group.items[0]));
    };
    const size_t links = graph_.links().size();
    const size_t first = force_all(true);
    while (graph_.links().size() > links) graph_.remove_last();
    const size_t last = force_all(false);
    if (first < last) {
      while (graph_.links().size() > links) graph_.remove_last();
      (void)force_all(true);
    }
    const bool has_circle = std::min(first, last) != SIZE_MAX;
    return {.kind = has_circle ? Settled::Kind::kCircle : Settled::Kind::kUnexplained,
            .access = group.items[0].access};
  }

  const Evidence& evidence_;
  Graph& graph_;
  const CheckOptions& options_;
  uint64_t& steps_;
  PlaceFinder finder_;
  Inferred inferred_;
};

// Whether what a version was added to is known, so far as other writes of unknown version do not come
// between.
bool has_rival(const Evidence& evidence, const std::vector<uint32_t>& loose, const State& state,
               const CheckOptions& options, bool by_time) {
  if (loose.size() > kRivalsMax) return true;
  const std::vector<Transaction>& all = evidence.history->transactions;
  return std::ranges::any_of(loose, [&](uint32_t index) {
    const uint32_t other = evidence.accesses[index].transaction;
    return !by_time || !precedes(all[state.writer], all[other], options);
  });
}

}  // namespace

void settle_sums(Evidence& evidence, const CheckOptions& options, bool by_time) {
  for (KeyEvidence& key : evidence.keys) {
    for (size_t i = 1; i < key.states.size(); ++i) {
      State& state = key.states[i];
      if (state.access == kUnset) continue;
      Access& writer = evidence.accesses[state.access];
      if (writer.effect != Effect::kAdd) continue;
      Claim& claim = writer.claim;
      // A reader was told the sum, though the one that added was not.
      if (state.value && claim.version == 0 && claim.found != Found::kAbsent && !claim.value) {
        claim.value = difference_of(*state.value, writer.delta);
        claim.absent_is_zero = claim.found != Found::kPresent;
      }
      const State& last = key.states[i - 1];
      if (state.value || (last.overwriter != kUnset && !last.is_erased)) continue;
      if (has_rival(evidence, key.loose_writes, state, options, by_time)) continue;
      if (i == 1 || last.overwriter != kUnset) {
        state.value = writer.delta;
      } else if (last.value && !has_rival(evidence, key.loose_erases, state, options, by_time)) {
        state.value = sum_of(*last.value, writer.delta);
      }
    }
  }
}

Settled settle(const Evidence& evidence, Graph& graph, const CheckOptions& options, uint64_t& steps) {
  return Settler(evidence, graph, options, steps).run();
}

}  // namespace refract::serialisability
