// SPDX-License-Identifier: Apache-2.0
// Ways to spoil a history: each is a change that may or may not make it a bad one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/serialisability/history.h"

namespace refract::serialisability::test {

enum class Spoil : uint8_t { kVersions, kReads, kAbsences, kDrops, kTimes, kOutcomes, kSums, kCount };

inline Operation* any_operation(History& history, Prng& prng, bool (*fits)(const Operation&)) {
  std::vector<Operation*> all;
  for (Transaction& one : history.transactions) {
    for (Operation& operation : one.operations) {
      if (fits(operation)) all.push_back(&operation);
    }
  }
  return all.empty() ? nullptr : all[prng.below(all.size())];
}

inline void spoil(History& history, Spoil how, Prng& prng) {
  const auto wrote = [](const Operation& one) { return one.version != 0; };
  const auto read = [](const Operation& one) { return one.found_version != 0; };
  const auto told = [](const Operation& one) { return one.found != Found::kNotTold; };
  const auto sums = [](const Operation& one) { return one.kind == Kind::kAdd && one.value.has_value(); };
  const auto count = history.transactions.size();
  switch (how) {
    case Spoil::kVersions: {
      Operation* const one = any_operation(history, prng, wrote);
      Operation* const other = any_operation(history, prng, wrote);
      if (one != nullptr) std::swap(one->version, other->version);
      break;
    }
    case Spoil::kReads: {
      // An older or a newer one of the same key.
      Operation* const one = any_operation(history, prng, read);
      if (one == nullptr) break;
      for (int i = 0; i < 20; ++i) {
        const Operation* const other = any_operation(history, prng, i % 2 == 0 ? +wrote : +read);
        if (other == nullptr || other->key != one->key) continue;
        const uint64_t version = i % 2 == 0 ? other->version : other->found_version;
        if (version == one->found_version) continue;
        one->found_version = version;
        one->found_value = i % 2 == 0 ? other->value : other->found_value;
        break;
      }
      break;
    }
    case Spoil::kAbsences: {
      Operation* const one = any_operation(history, prng, told);
      if (one == nullptr) break;
      one->found_version = 0;
      one->found_value.reset();
      one->found = one->found == Found::kAbsent ? Found::kPresent : Found::kAbsent;
      break;
    }
    case Spoil::kDrops:
      history.transactions.erase(history.transactions.begin() + static_cast<ptrdiff_t>(prng.below(count)));
      break;
    case Spoil::kTimes: {
      Transaction& one = history.transactions[prng.below(count)];
      const uint64_t by_ns = prng.below(400);
      const bool is_earlier = prng.chance(0.5) && one.began_ns > by_ns;
      one.began_ns += is_earlier ? 0 - by_ns : by_ns;
      if (one.ended_ns != kNever) one.ended_ns += is_earlier ? 0 - by_ns : by_ns;
      break;
    }
    case Spoil::kOutcomes: {
      Transaction& one = history.transactions[prng.below(count)];
      one.outcome = one.outcome == Outcome::kCommitted ? Outcome::kRefused : Outcome::kCommitted;
      one.is_validated = prng.chance(0.5);
      if (one.ended_ns == kNever) one.ended_ns = one.began_ns + 100;
      break;
    }
    case Spoil::kSums: {
      Operation* const one = any_operation(history, prng, sums);
      if (one != nullptr) one->value = *one->value + (prng.chance(0.5) ? 1 : -1);
      break;
    }
    case Spoil::kCount:
      break;
  }
}

}  // namespace refract::serialisability::test
