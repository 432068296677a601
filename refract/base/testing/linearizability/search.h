// SPDX-License-Identifier: Apache-2.0
// Whether the operations on one key have an order that respects real time and explains every answer.
//
// The search of Wing and Gong, just in time and with memory as Lowe made it: the returns are gone through in
// their order, and at each the set of all *configurations* is known that explain the answers so far: a state
// of the entry, and which of the operations under way have taken effect. A return of an operation that has
// not taken effect in a configuration is explained by a sequence of operations under way that ends with it.
// The first return that no configuration survives is the contradiction.
//
// What is known of the results keeps the set small, mostly at one:
//   (R1) Puts whose version is known take effect in the order of versions, so only one of them can be next.
//   (R2) A read (and a write that failed) changes nothing, so it takes effect as soon as its answer is right.
//   (R3) A write of unknown fate takes effect only right before an operation that notices it: not having used
//        it permits more later.
//   (R4) Of two configurations of equal state, the one that has used less of what is optional is enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/base/testing/linearizability/history.h"

namespace refract::linearizability {

// An operation as the search takes it.
struct Item {
  const Operation* operation = nullptr;
  uint64_t ended = kNever;
  uint64_t version = 0;   // Of a put: told by its answer or by a read of its value.
  bool optional = false;  // It may as well never take effect.
};

// Where the search begins: at an entry that was never written, or in the middle of a history, where the entry
// may be whatever was put before. `earlier` are the puts that can have made it.
struct Start {
  bool anything = false;
  std::span<const Item> earlier = {};
};

struct Answer {
  enum class Verdict : uint8_t { kGood, kBad, kUndecided };
  Verdict verdict = Verdict::kGood;
  size_t item = 0;          // kBad: the one whose return cannot be explained.
  uint64_t steps = 0;       // Operations tried.
  size_t excluded_max = 0;  // So many versions or values an unknown one was said not to be.
};

// The items of one key: what had no effect is left out, a put of unknown fate gets the version of the reader
// of its value, and so on. In the order in which they began.
[[nodiscard]] std::vector<Item> items_of(std::span<const Operation* const> operations);

// kUndecided: after `steps_max`.
[[nodiscard]] Answer find_order(std::span<const Item> items, const Start& start = {},
                                uint64_t steps_max = 4'000'000);

}  // namespace refract::linearizability
