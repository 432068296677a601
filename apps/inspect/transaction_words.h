// SPDX-License-Identifier: Apache-2.0
// What a space keeps of transactions (docs/design/062, 066, 070): trailers, decision words, and the list of
// parts of transactions whose home is another node. Like SpaceWords it believes nothing that it reads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/inspect/space_words.h"

#include "refract/kv/layout/decision_words.h"
#include "refract/kv/layout/far_part.h"

namespace refract::inspect {

// REQUIRES, of both: the entry has no fault, and Lengths::kBatch.
[[nodiscard]] kv::Trailer trailer_of(const SpaceWords& words, kv::Slot slot, const SpaceWords::Entry& entry);
// What cannot be of the trailer, or of what a pending entry says that it replaces; null: nothing.
[[nodiscard]] const char* fault_of_trailer(SpaceWords& words, kv::Slot slot, const SpaceWords::Entry& entry);

// Of the words behind the directory.
[[nodiscard]] Offset decision_word_at(const SpaceWords& words, uint64_t index);
[[nodiscard]] const char* fault_of_word(const SpaceWords& words, kv::Decision word);
// Of the owner's own, at kDecisionAt.
[[nodiscard]] const char* fault_of_own_word(const SpaceWords& words, kv::Decision word);
[[nodiscard]] std::string text_of(kv::Decision word);
// Where a decision stands, and what it says, if that is this space's.
[[nodiscard]] std::string text_of(const SpaceWords& words, kv::DecisionPlace place);

struct FarLook {
  Offset at;
  kv::FarPart part{};
  struct Key {
    std::string key;
    bool is_written = false;
  };
  std::vector<Key> keys = {};  // Beside those that pending entries have.

  // A decision that this home has made in an earlier memory.
  [[nodiscard]] bool is_decision() const noexcept { return part.generation == 0; }
  [[nodiscard]] kv::DecisionPlace home() const noexcept { return {part.decision_at}; }
};
// Follows the list to its end, or to what cannot be, which is told.
[[nodiscard]] std::optional<Damage> each_far(SpaceWords& words,
                                             const std::function<void(const FarLook&)>& visit);

}  // namespace refract::inspect
