// SPDX-License-Identifier: Apache-2.0
#include "apps/inspect/transaction_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "refract/kv/layout/transaction_wire.h"

namespace refract::inspect {

using kv::Decision;
using kv::DecisionPlace;
using kv::FarKey;
using kv::FarPart;
using kv::Lengths;
using kv::Slot;
using kv::Trailer;

namespace {

uint64_t stamp_limit(const SpaceWords& words) {
  return words.observe({offsetof(SpaceHeader, stamp_limit)});
}

struct Shards {
  uint32_t index = 0;
  uint32_t count = 1;
};
Shards shards_of(const SpaceWords& words) {
  const uint64_t word = words.observe({offsetof(SpaceHeader, shard_index)});
  return {.index = static_cast<uint32_t>(word),
          .count = std::max<uint32_t>(static_cast<uint32_t>(word >> 32), 1)};
}

bool is_own_word(const SpaceWords& words, DecisionPlace place) {
  const uint64_t begin = decision_word_at(words, 0).value;
  const uint64_t at = place.at().value;
  return place.is_word() && !place.is_far() && place.shard() == shards_of(words).index && at % 8 == 0 &&
         at >= begin && at < begin + kv::kDecisionWords * sizeof(uint64_t);
}

// Only other spaces have the words of other shards.
bool can_be(const SpaceWords& words, DecisionPlace place) {
  if (!place.is_word()) return place.bits == kv::kDecisionAt.value;
  const bool is_aligned = place.at().value % sizeof(uint64_t) == 0 && place.at().value != 0;
  if (place.is_far()) return is_aligned;
  const Shards shards = shards_of(words);
  if (place.shard() >= shards.count) return false;
  return place.shard() == shards.index ? is_own_word(words, place) : is_aligned;
}

const char* fault_of_replaced(SpaceWords& words, Slot replaced, const SpaceWords::Entry& entry) {
  constexpr const char* kFault = "what the pending entry replaces is not sound";
  if (!words.is_inside(replaced.buffer(), sizeof(kv::BufferHeader))) return kFault;
  const SpaceWords::Entry old = words.entry_of(replaced);
  if (old.fault != nullptr || old.lengths.is_pending()) return kFault;
  return old.key == entry.key ? nullptr : "what the pending entry replaces has another key";
}

// Nothing: they are not what the part says.
std::optional<std::vector<FarLook::Key>> keys_of(const SpaceWords& words, Offset at, const FarPart& part) {
  const std::vector<std::byte> all = words.copy(at.plus(sizeof(FarPart)), part.bytes);
  std::vector<FarLook::Key> keys;
  uint64_t used = 0;
  for (uint32_t i = 0; i < part.keys; ++i) {
    FarKey head{};
    if (used + sizeof(head) > all.size()) return std::nullopt;
    std::memcpy(&head, all.data() + used, sizeof(head));
    const uint64_t bytes = kv::far_key_bytes(head.bytes);
    if (head.bytes == 0 || head.bytes > kv::kKeyBytesMax || head.is_written > 1 || bytes > all.size() - used)
      return std::nullopt;
    const auto* const key = reinterpret_cast<const char*>(all.data() + used + sizeof(head));
    keys.push_back({.key = std::string(key, head.bytes), .is_written = head.is_written != 0});
    used += bytes;
  }
  if (used != all.size()) return std::nullopt;
  return keys;
}

bool is_buffer(SpaceWords& words, Offset at) {
  if (at.value % kGranuleBytes != 0 || !words.is_inside(at, sizeof(FarPart))) return false;
  const ChunkWord chunk = words.chunk_of(at);
  return chunk.is_sound() && (chunk.kind() == ChunkKind::kSlab || chunk.kind() == ChunkKind::kExtent);
}

// REQUIRES: it is a buffer.
const char* fault_of_far(SpaceWords& words, FarLook& look) {
  const Offset at = look.at;
  copy_possibly_torn(&look.part, words.at(at), sizeof(FarPart));
  const FarPart& part = look.part;
  if (!look.home().is_far() || look.home().at().value % sizeof(uint64_t) != 0)
    return "the part's home is no other node's word";
  if (part.fate > static_cast<uint64_t>(kv::wire::Fate::kNever)) return "the part's fate is none";
  if (look.is_decision() && (part.keys != 0 || part.bytes != 0)) return "a decision holds no keys";
  if (!words.is_inside(at, sizeof(FarPart) + uint64_t{part.bytes})) return "the part's keys lie outside";
  auto keys = keys_of(words, at, part);
  if (!keys) return "the part's keys are not what it says";
  look.keys = std::move(*keys);
  return nullptr;
}

}  // namespace

Trailer trailer_of(const SpaceWords& words, Slot slot, const SpaceWords::Entry& entry) {
  const Offset at = slot.buffer().plus(entry.lengths.trailer_at());
  return {.number = words.observe(at.plus(offsetof(Trailer, number))),
          .generation = words.observe(at.plus(offsetof(Trailer, generation))),
          .decision_at = words.observe(at.plus(offsetof(Trailer, decision_at))),
          .replaced = words.observe(at.plus(offsetof(Trailer, replaced)))};
}

const char* fault_of_trailer(SpaceWords& words, Slot slot, const SpaceWords::Entry& entry) {
  const Trailer trailer = trailer_of(words, slot, entry);
  const DecisionPlace place{trailer.decision_at};
  if (!can_be(words, place)) return "the trailer's decision stands at no word";
  if ((trailer.generation != 0) != place.is_far()) return "the trailer's generation is not its decision's";
  if (!place.is_word() && trailer.number >= entry.stamp) return "the trailer's number is above the stamp";
  if (!entry.lengths.is_pending()) return nullptr;
  const Decision own{words.observe(kv::kDecisionAt)};
  if (!place.is_word() && own.number() > trailer.number)
    return "a later batch than the pending one has happened";
  const Slot replaced{trailer.replaced};
  return replaced ? fault_of_replaced(words, replaced, entry) : nullptr;
}

Offset decision_word_at(const SpaceWords& words, uint64_t index) {
  return words.directory_word_at(0).plus((words.chunks_max() + index) * sizeof(uint64_t));
}

// Numbers that are given are those of a range but its first, in the life of a memory whose stamps were given.
const char* fault_of_word(const SpaceWords& words, Decision word) {
  if (word.bits == 0 || (word.bits & 3) == Decision::kAborted) return nullptr;
  const uint64_t in_range = word.number() % (uint64_t{1} << kv::kNumbersShift);
  const bool is_given = in_range != 0 && word.number() >> kv::kLivesShift <=
                                             kv::first_number(stamp_limit(words)) >> kv::kLivesShift;
  return is_given ? nullptr : "the decision word has a number that was never given";
}

const char* fault_of_own_word(const SpaceWords& words, Decision word) {
  const bool can_be = word.bits == 0 || ((word.bits & 3) == Decision::kCommitted && word.number() != 0 &&
                                         word.number() < stamp_limit(words));
  return can_be ? nullptr : "the decision of the last batch is none";
}

std::string text_of(Decision word) {
  if (word.bits == 0) return "it was never used";
  switch (word.bits & 3) {
    case Decision::kCommitted:
      return "this transaction has happened";
    case Decision::kUnconfirmed:
      return "this transaction has happened, which the home's log has not confirmed yet";
    case Decision::kClaimed:
      return "undecided: its home has claimed it, and tells its log";
    default:
      return "none up to this number has happened";
  }
}

std::string text_of(const SpaceWords& words, DecisionPlace place) {
  const std::string where =
      fmt::format("as the decision word at {:#x} of shard {}", place.at().value, place.shard());
  if (place.is_far())
    return fmt::format("{} of member {} says, which is another node", where, place.member());
  if (!is_own_word(words, place)) return where + " says";
  const Decision word{words.observe(place.at())};
  return fmt::format("{} says: number {}, {}", where, word.number(), text_of(word));
}

std::optional<Damage> each_far(SpaceWords& words, const std::function<void(const FarLook&)>& visit) {
  Offset link = kv::kFarPartsAt;
  RingFinder ring;
  for (;;) {
    FarLook look{.at = {words.observe(link)}};
    if (!look.at) return std::nullopt;
    if (ring.was_at(look.at)) return Damage{link.value, "the list of other nodes' parts does not end"};
    if (!is_buffer(words, look.at))
      return Damage{link.value, "the list of other nodes' parts continues at no buffer"};
    if (const char* const fault = fault_of_far(words, look)) return Damage{look.at.value, fault};
    visit(look);
    link = look.at.plus(offsetof(FarPart, next));
  }
}

}  // namespace refract::inspect
