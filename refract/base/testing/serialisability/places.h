// SPDX-License-Identifier: Apache-2.0
// Where in the order of a key's versions something can stand of which no version was told: an absence that
// was found, an entry of which only the value is known, an erase, a write whose version is not known.
//
// A key's versions cut time into intervals: the one of version i begins when i is written and ends when the
// next version is. In it a reader finds first the version, then, if that was erased or replaced by a write of
// unknown version, an absence or an entry without a version. So a place is an interval and one of three
// spots, and each place has a transaction that must come before and one that must come after.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "refract/base/testing/serialisability/evidence.h"
#include "refract/base/testing/serialisability/graph.h"

namespace refract::serialisability {

enum class Spot : uint8_t {
  kVersion,  // The interval's version itself.
  kAbsent,   // Behind it, the key is absent.
  kOther,    // Behind it, there is an entry of unknown version, or the item writes or erases there itself.
};

struct Place {
  uint32_t interval = 0;
  Spot spot = Spot::kVersion;
  uint32_t before = kUnset;  // Node.
  uint32_t after = kUnset;

  // It is what the interval begins with: a version, or the absence before everything.
  [[nodiscard]] bool is_first() const noexcept {
    return spot == (interval == 0 ? Spot::kAbsent : Spot::kVersion);
  }
};

// What is looked for a place: the claim of an access, or its effect.
struct Item {
  uint32_t access = 0;
  bool is_effect = false;
};

struct Places {
  std::vector<Place> all;  // In the order of the key. Of many, the first and the last one.
  bool is_complete = true;
  // The accesses of which one must have made what was found, as far as they are known to be few.
  std::vector<uint32_t> makers;
};

// Items of the transactions that happened, those of a transaction together.
[[nodiscard]] std::vector<Item> items_of(const Evidence& evidence);

class PlaceFinder {
 public:
  // `steps`: is added to.
  PlaceFinder(const Evidence& evidence, const Graph& graph, const CheckOptions& options, uint64_t& steps)
      : evidence_(&evidence), graph_(&graph), options_(&options), steps_(&steps) {}

  // Those that no edge of the graph refuses.
  [[nodiscard]] Places possible(const Item& item) const;
  // Those that there would be if the graph had no edges, some of them if there are many: each one that is not
  // possible makes a circle.
  [[nodiscard]] std::vector<Place> thinkable(const Item& item) const;
  // A transaction that is known to have replaced what is found at that place, and to come before the item;
  // kUnset: none.
  [[nodiscard]] uint32_t replaced_by(const Item& item, const Place& place) const;

 private:
  struct Bounds {
    uint32_t low = 0;
    uint32_t high = 0;
  };
  struct Query {
    const Access* access = nullptr;
    bool is_effect = false;
    bool by_graph = true;
    std::vector<uint32_t>* makers = nullptr;  // Of the place, if they are few.
  };
  [[nodiscard]] bool reaches(uint32_t one, uint32_t other) const {
    ++*steps_;
    return graph_->reaches(one, other);
  }
  [[nodiscard]] const KeyEvidence& key_of(const Query& query) const {
    return evidence_->keys[query.access->key];
  }
  struct Window {
    std::span<const uint32_t> loose;
    bool is_whole = true;
  };
  // Those that may have happened before the end of this transaction, as far as they are few; the last of
  // them.
  [[nodiscard]] Window window(uint32_t transaction, const std::vector<uint32_t>& loose) const;
  [[nodiscard]] Place place_at(const Query& query, uint32_t interval, Spot spot) const;
  [[nodiscard]] Bounds bounds(const Query& query) const;
  [[nodiscard]] bool fits(const Query& query, const Place& place) const;
  [[nodiscard]] bool fits_claim(const Query& query, const Place& place) const;
  [[nodiscard]] bool fits_effect(const Query& query, const Place& place) const;
  [[nodiscard]] bool fits_graph(const Query& query, const Place& place) const;
  // `behind`: the maker does not come before this one; `until`: and not after this one.
  [[nodiscard]] bool can_be_made(const Query& query, const Place& place, const std::vector<uint32_t>& loose,
                                 uint32_t behind, uint32_t until) const;
  [[nodiscard]] uint32_t replacer(const Query& query, const Place& place,
                                  const std::vector<uint32_t>& loose) const;
  [[nodiscard]] bool is_maker(const Query& query, const Place& place, const Access& loose) const;

  const Evidence* evidence_;
  const Graph* graph_;
  const CheckOptions* options_;
  uint64_t* steps_;
};

}  // namespace refract::serialisability
