// SPDX-License-Identifier: Apache-2.0
// Histories of a store that is right by construction: every operation takes effect at one chosen moment of
// its call. And ways to spoil them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/linearizability/history.h"

namespace refract::linearizability::test {

struct Recipe {
  uint64_t seed = 1;
  uint32_t clients = 3;
  uint32_t keys = 1;
  size_t operations = 7;
  uint64_t call_ns = 100;  // Half of a call, at most; as long as the pause between two.
  uint64_t pause_ns = 50;
  double unknown_chance = 0.1;  // Of a write: no client learns its outcome.
  double expiring_chance = 0;   // Of a put.
  double condition_chance = 0.4;
  bool tells_versions = true;         // Else gets and puts say nothing of versions.
  uint64_t values = 0;                // So few values, which come again; 0: all are different.
  double value_condition_chance = 0;  // Of a put: compare-and-set by value. REQUIRES: values.
};

// The true store: what each operation finds and leaves.
class TrueStore {
 public:
  TrueStore(const Recipe& recipe, Prng& prng) : recipe_(recipe), prng_(prng), entries_(recipe.keys) {}

  void execute(Operation& one, uint64_t moment_ns) {
    Entry& entry = entries_[one.key];
    const bool is_there = entry.version != 0 && moment_ns < entry.expires_ns;
    const uint64_t version = is_there ? entry.version : 0;
    if (one.kind == Kind::kGet) {
      one.outcome = is_there ? Outcome::kDone : Outcome::kAbsent;
      if (is_there) one.value = prng_.chance(0.1) ? 0 : entry.value;
      one.version = version;
      return;
    }
    choose_condition(one, entry.version);
    if (recipe_.value_condition_chance > 0 && one.kind == Kind::kPut &&
        prng_.chance(recipe_.value_condition_chance)) {
      one.if_absent = false;
      one.if_version = 0;
      one.if_value = 1 + prng_.below(recipe_.values);
    }
    one.outcome = Outcome::kDone;
    if (one.if_absent && is_there) one.outcome = Outcome::kExists;
    const bool wants_one = one.if_version != 0 || one.if_value != 0 || one.kind == Kind::kErase;
    if (wants_one && !is_there) one.outcome = Outcome::kAbsent;
    if (one.if_version != 0 && is_there && one.if_version != version) one.outcome = Outcome::kMismatch;
    if (one.if_value != 0 && is_there && one.if_value != entry.value) one.outcome = Outcome::kMismatch;
    // Other systems say no more than that.
    if (one.if_value != 0 && one.outcome != Outcome::kDone && prng_.chance(0.7))
      one.outcome = Outcome::kUnmet;
    if (one.outcome != Outcome::kDone) return;
    if (one.kind == Kind::kErase) {
      one.version = version;
      entry = {};
      return;
    }
    one.version = ++versions_;
    entry = {.value = one.value, .version = one.version};
    if (!prng_.chance(recipe_.expiring_chance)) return;
    const uint64_t ttl_ns = 1 + prng_.below(6 * recipe_.call_ns);
    entry.expires_ns = moment_ns + ttl_ns;
    one.expires_from_ns = one.began_ns + ttl_ns;
    one.expires_until_ns = one.ended_ns == kNever ? kNever : one.ended_ns + ttl_ns;
  }

 private:
  struct Entry {
    uint64_t value = 0;
    uint64_t version = 0;
    uint64_t expires_ns = kNever;
  };

  void choose_condition(Operation& one, uint64_t version) {
    if (!recipe_.tells_versions || !prng_.chance(recipe_.condition_chance)) return;
    if (one.kind == Kind::kPut && prng_.chance(0.5)) {
      one.if_absent = true;
      return;
    }
    one.if_version = prng_.chance(0.6) && version != 0 ? version : 1 + prng_.below(versions_ + 1);
  }

  const Recipe& recipe_;
  Prng& prng_;
  std::vector<Entry> entries_;
  uint64_t versions_ = 0;
};

[[nodiscard]] inline History right_history(const Recipe& recipe) {
  Prng prng(recipe.seed);
  History history;
  for (uint32_t i = 0; i < recipe.clients; ++i) history.clients.push_back("c" + std::to_string(i));
  for (uint32_t i = 0; i < recipe.keys; ++i) history.keys.push_back("k" + std::to_string(i));
  std::vector<uint64_t> free_ns(recipe.clients, 1);
  std::vector<std::pair<uint64_t, size_t>> moments;
  for (size_t i = 0; i < recipe.operations; ++i) {
    Operation one{.client = static_cast<uint32_t>(prng.below(recipe.clients)),
                  .key = static_cast<uint32_t>(prng.below(recipe.keys))};
    const uint64_t draw = prng.below(10);
    one.kind = draw < 5 ? Kind::kGet : draw < 9 ? Kind::kPut : Kind::kErase;
    if (one.kind == Kind::kPut) one.value = recipe.values == 0 ? 1000 + i : 1 + prng.below(recipe.values);
    one.began_ns = one.began = free_ns[one.client];
    uint64_t moment_ns = one.began + prng.below(recipe.call_ns + 1);
    uint64_t end_ns = moment_ns + prng.below(recipe.call_ns + 1);
    if (one.is_write() && prng.chance(recipe.unknown_chance)) {
      // It happens at once, much later, or never.
      one.outcome = Outcome::kUnknown;
      moment_ns = prng.chance(0.3) ? kNever : one.began + prng.below(20 * recipe.call_ns);
    } else {
      one.ended_ns = one.ended = end_ns;
    }
    free_ns[one.client] = end_ns + 1 + prng.below(recipe.pause_ns + 1);
    moments.emplace_back(moment_ns, i);
    history.operations.push_back(one);
  }
  std::ranges::sort(moments);
  TrueStore store(recipe, prng);
  for (const auto& [moment_ns, i] : moments) {
    Operation& one = history.operations[i];
    const bool is_unknown = one.outcome == Outcome::kUnknown;
    if (moment_ns != kNever) store.execute(one, moment_ns);
    if (is_unknown) one.outcome = Outcome::kUnknown;
    if (is_unknown || !recipe.tells_versions) one.version = 0;
  }
  return history;
}

// Changes one answer, or the time of one call, at random; often, not always, to a history that cannot be.
inline void spoil(History& history, Prng& prng) {
  std::vector<Operation>& all = history.operations;
  Operation& one = all[prng.below(all.size())];
  const Operation& other = all[prng.below(all.size())];
  switch (prng.below(6)) {
    case 0:
      one.version = other.version;
      break;
    case 1:
      if (one.kind == Kind::kGet) one.value = other.value;
      break;
    case 2:
      // An answer that never came is none.
      if (one.ended != kNever) one.outcome = other.is_write() ? one.outcome : other.outcome;
      break;
    case 3:
      if (one.is_write()) one.outcome = Outcome::kRefused;
      break;
    case 4:
      if (one.kind == Kind::kGet && one.outcome == Outcome::kDone) {
        one.outcome = Outcome::kAbsent;
        one.value = one.version = 0;
      }
      break;
    default: {
      const uint64_t by = prng.below(400);
      one.began += by;
      one.began_ns += by;
      if (one.ended != kNever) one.ended = one.ended_ns = one.ended + by;
      break;
    }
  }
}

}  // namespace refract::linearizability::test
