// SPDX-License-Identifier: Apache-2.0
// What a transaction as a whole found of a key, and what it left: its operations on that key in one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/testing/serialisability/history.h"

namespace refract::serialisability {

// What is known of the entry before the transaction.
struct Claim {
  Found found = Found::kNotTold;
  uint64_t version = 0;                       // Not 0: present, with this one.
  Value value = {};                           // If it is present.
  bool absent_is_zero = false;                // An add's: it may have been absent, too, if `value` is 0.
  std::vector<uint64_t> other_versions = {};  // If it is present, its version is none of these,
  std::vector<int64_t> other_values = {};     // and its value none of these.

  [[nodiscard]] bool says_something() const noexcept {
    return found != Found::kNotTold || value || !other_versions.empty() || !other_values.empty();
  }
  [[nodiscard]] bool allows_absent() const noexcept {
    return found != Found::kPresent && version == 0 && (!value || (absent_is_zero && *value == 0));
  }
  // A present entry; 0 and nothing: not known.
  [[nodiscard]] bool allows(uint64_t present_version, const Value& present_value) const;
};

inline constexpr uint32_t kUnset = UINT32_MAX;

enum class Effect : uint8_t { kNone, kPut, kErase, kAdd };

struct Access {
  uint32_t transaction = 0;
  uint32_t key = 0;
  Claim claim = {};
  Effect effect = Effect::kNone;
  uint64_t version = 0;  // Of what it left; 0: not known.
  Value value = {};      // Of what it left.
  int64_t delta = 0;     // Of an add: the sum of the amounts.
  // Once there is an order of the key's versions, the numbers of `version` and of what was found for certain;
  // kUnset: not known. 0 is the absence before everything.
  uint32_t place = kUnset;
  uint32_t found_place = kUnset;
  std::vector<std::pair<uint64_t, Value>> passing = {};  // What it wrote and replaced itself.

  [[nodiscard]] bool leaves_entry() const noexcept {
    return effect == Effect::kPut || effect == Effect::kAdd;
  }
  // It changes the key, and no version is known of what it left.
  [[nodiscard]] bool is_loose() const noexcept {
    return effect == Effect::kErase || (leaves_entry() && version == 0);
  }
};

// Counters wrap around.
[[nodiscard]] int64_t sum_of(int64_t one, int64_t other);
[[nodiscard]] int64_t difference_of(int64_t one, int64_t other);

// Adds the accesses of one transaction to `accesses`. Returns what the transaction contradicts itself in;
// empty: nothing.
[[nodiscard]] std::string append_accesses(const History& history, uint32_t transaction,
                                          std::vector<Access>& accesses);

}  // namespace refract::serialisability
