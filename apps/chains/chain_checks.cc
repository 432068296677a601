// SPDX-License-Identifier: Apache-2.0
// What an executor would refuse without looking at any memory, said with the place where it stands.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "apps/chains/chain_parser.h"
#include "apps/chains/words.h"

#include "refract/memory/slot_word.h"

namespace refract::chains {

using prism::ChainRights;
using prism::Flag;
using prism::Opcode;

bool ChainParser::check() {
  return check_flags() && check_lengths() && check_target() && check_alignment() && check_stores();
}

bool ChainParser::check_flags() {
  if (now_.has(Flag::kConditional) && chain_.statements.empty()) {
    return fail(flag_at(Flag::kConditional), "there is no operation before the first to be conditional on");
  }
  if (now_.has(Flag::kBounded) && !now_.has(Flag::kIndirect)) {
    return fail(flag_at(Flag::kBounded), "a bound stands behind a pointer: bounded needs indirect");
  }
  if (now_.has(Flag::kBounded) && now_.has(Flag::kSlotWord)) {
    return fail(flag_at(Flag::kBounded),
                "a slot word has no bound behind it: bounded and slot exclude each other");
  }
  if (now_.has(Flag::kOwned) && !now_.has(Flag::kRedirect)) {
    return fail(flag_at(Flag::kOwned),
                "a chain owns what its scratch leads to: owned needs redirect scratch+N");
  }
  if (now_.has(Flag::kSlotWord) && now_.opcode != Opcode::kAllocate && !now_.has(Flag::kIndirect) &&
      !now_.has(Flag::kRetire)) {
    return fail(flag_at(Flag::kSlotWord),
                "a slot word is followed or retired: slot needs indirect or retire");
  }
  if (now_.opcode == Opcode::kAllocate && now_.number != 0) {
    constexpr uint64_t kExecutors = SlotWord::kGranuleMask | (SlotWord::kStampMask << SlotWord::kStampShift);
    if (!now_.has(Flag::kSlotWord)) return fail(now_.at, "only a slot word has a template: add slot");
    if ((now_.number & kExecutors) != 0) {
      return fail(now_.at, fmt::format("the template's bits {:#x} are the executor's: place and stamp",
                                       now_.number & kExecutors));
    }
  }
  return true;
}

bool ChainParser::check_lengths() {
  if (now_.has(Flag::kRetire) && now_.bytes % 8 != 0) {
    return fail(flag_at(Flag::kRetire),
                "what is retired is led to by a whole word: the operands need 8, 16, 24 or 32 bytes");
  }
  return true;
}

// What the given addresses reach, before any pointer is followed.
bool ChainParser::check_target() {
  if (now_.opcode == Opcode::kAllocate) return true;
  const auto fits = [this](const Value& place, uint64_t bytes) {
    if (!place.is_scratch() ||
        (place.offset <= prism::kScratchBytes && bytes <= prism::kScratchBytes - place.offset)) {
      return true;
    }
    return fail(place.at, fmt::format("{} bytes from scratch+{} on do not fit: the scratch has {}", bytes,
                                      place.offset, prism::kScratchBytes));
  };
  const uint64_t touched = !now_.has(Flag::kIndirect) ? now_.bytes : now_.has(Flag::kBounded) ? 16 : 8;
  if (!fits(now_.address, touched)) return false;
  for (const std::optional<Value>* place :
       {&std::as_const(now_).from, &std::as_const(now_).compare.pointer, &std::as_const(now_).swap.pointer}) {
    if (*place && !fits(**place, now_.bytes)) return false;
  }
  if (now_.has(Flag::kRetire) && now_.address.is_scratch() && !now_.has(Flag::kIndirect)) {
    return fail(flag_at(Flag::kRetire), "what stands in the scratch is no store's: nothing is retired there");
  }
  return true;
}

bool ChainParser::check_alignment() {
  // Where a root lies is known later.
  if (now_.address.from_root || now_.opcode == Opcode::kAllocate) return true;
  const uint64_t offset = now_.address.offset;
  if (now_.has(Flag::kIndirect)) {
    if (offset % 8 == 0) return true;
    return fail(now_.address.at, "a pointer stands at a multiple of 8");
  }
  if (now_.opcode != Opcode::kCompareSwap && now_.opcode != Opcode::kFetchAdd) return true;
  if (now_.bytes >= 8 && offset % 8 != 0) {
    return fail(now_.address.at, "operands of 8 bytes and more stand at a multiple of 8");
  }
  if (offset % 8 + now_.bytes > 8 && now_.bytes < 8) {
    return fail(now_.address.at, fmt::format("{} bytes from here on cross a multiple of 8", now_.bytes));
  }
  return true;
}

// One key opens all that an operation touches beside the scratch.
bool ChainParser::check_stores() {
  const Value* places[] = {&now_.address, now_.from ? &*now_.from : nullptr,
                           now_.compare.pointer ? &*now_.compare.pointer : nullptr,
                           now_.swap.pointer ? &*now_.swap.pointer : nullptr};
  for (const Value* place : places) {
    if (place == nullptr || place->is_scratch()) continue;
    if (now_.store.empty()) now_.store = place->store;
    if (place->store != now_.store) {
      return fail(place->at, fmt::format("one operation touches one store, and this is '{}' beside '{}'",
                                         place->store, now_.store));
    }
  }
  if (now_.store.empty() && now_.has(Flag::kIndirect)) now_.store = last_store_;
  if (!now_.store.empty()) last_store_ = now_.store;
  uint8_t rights = 0;
  const bool in_store = !now_.address.is_scratch() || now_.has(Flag::kIndirect);
  if (now_.has(Flag::kIndirect) && !now_.address.is_scratch()) rights |= ChainRights::kRead;
  if (in_store && now_.opcode == Opcode::kRead) rights |= ChainRights::kRead;
  if (in_store && now_.opcode == Opcode::kWrite) rights |= ChainRights::kWrite;
  if (in_store && (now_.opcode == Opcode::kCompareSwap || now_.opcode == Opcode::kFetchAdd)) {
    rights |= ChainRights::kAtomic;
  }
  if (now_.opcode == Opcode::kAllocate || now_.has(Flag::kRetire)) rights |= ChainRights::kAllocate;
  for (const Value* place : {places[1], places[2], places[3]}) {
    if (place != nullptr && !place->is_scratch()) rights |= ChainRights::kRead;
  }
  if (!now_.store.empty()) {
    Value named = now_.address;
    named.store = now_.store;
    if (!use(named, rights)) return false;
  }
  return use_all(now_.data) && use_all(now_.compare.data) && use_all(now_.swap.data) &&
         (!now_.compare_mask || use_all(now_.compare_mask->data)) &&
         (!now_.swap_mask || use_all(now_.swap_mask->data));
}

bool ChainParser::use(const Value& place, uint8_t rights) {
  auto known = std::ranges::find(chain_.stores, place.store, &StoreUse::name);
  if (known == chain_.stores.end()) {
    chain_.stores.push_back({.name = place.store, .rights = {}, .at = place.at});
    known = std::prev(chain_.stores.end());
  }
  known->rights.bits |= rights;
  if (chain_.stores.size() <= prism::kGrantsMax) return true;
  return fail(place.at, fmt::format("a chain names at most {} stores", prism::kGrantsMax));
}

// Pointers to a store that are written down: its region must be known.
bool ChainParser::use_all(const Data& data) {
  return std::ranges::all_of(data.pieces, [this](const Data::Piece& piece) {
    return !piece.pointer || piece.pointer->is_scratch() || use(*piece.pointer, 0);
  });
}

}  // namespace refract::chains
