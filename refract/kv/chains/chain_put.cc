// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/chains/chain_put.h"

#include <cstring>

#include "refract/base/units.h"
#include "refract/prism/operation.h"

namespace refract::kv {

namespace {

// The operations of a swap, in their order. Without a known stamp the first one is not there.
enum : size_t { kCompareStamp, kAllocate, kSwap, kReadWord, kReadStamp };

constexpr uint32_t kStampBytes = sizeof(BufferHeader::stamp);
constexpr uint64_t kHeader = sizeof(prism::OperationHeader);
constexpr uint64_t kCompareStampBytes = kHeader + 4 * sizeof(uint64_t);
constexpr uint64_t kSwapBytes = kHeader + 2 * sizeof(uint64_t);

// The bits of a slot's word that do not come from where the buffer lies and which stamp it carries.
uint64_t slot_template(uint64_t hash, uint64_t bytes) noexcept {
  return Slot::of({.hash = hash, .stamp = 0, .bytes = bytes, .expires = false, .buffer = {}}).bits;
}

Lengths lengths_of(const ChainPut::Wanted& wanted) noexcept {
  return {.value_bytes = static_cast<uint32_t>(wanted.value.size()),
          .key_bytes = static_cast<uint16_t>(wanted.key.size()),
          .flags = 0};
}

}  // namespace

ChainPut::ChainPut(ChainLink& link, const Wanted& wanted) noexcept
    : link_(link),
      wanted_(wanted),
      search_(link, {.key = wanted.key, .hash = wanted.hash, .value = false, .word = true}) {}

uint64_t ChainPut::entry_bytes() const noexcept {
  return lengths_of(wanted_).total_bytes() - kStampBytes;
}

uint64_t ChainPut::chain_bytes() const noexcept {
  return sizeof(prism::ChainHeader) + kCompareStampBytes + kHeader + prism::padded(entry_bytes()) +
         kSwapBytes + 2 * kHeader;
}

ChainPut::State ChainPut::end(const Result<uint64_t>& result) noexcept {
  result_ = result;
  return State::kDone;
}

ChainPut::State ChainPut::begin() noexcept {
  const KnownSlot* known = link_.slots.find(wanted_.hash);
  const bool is_enough =
      known != nullptr && known->word != 0 && (wanted_.if_version == 0 || wanted_.if_version == known->stamp);
  if (!is_enough) {
    // A put that does not know what it replaces takes the slot whose fingerprint fits.
    must_look_ = wanted_.if_version != 0;
    return follow(search_.begin());
  }
  was_known_ = true;
  return install({.slot_at = known->at, .slot = {known->word}, .stamp = known->stamp});
}

ChainPut::State ChainPut::follow(ChainSearch::State state) noexcept {
  is_installing_ = false;
  switch (state) {
    case ChainSearch::State::kAsks: {
      const auto candidates = search_.candidates();
      if (must_look_ || candidates.size() != 1) return State::kAsks;
      return install({.slot_at = candidates[0].slot_at, .slot = candidates[0].slot, .stamp = 0});
    }
    case ChainSearch::State::kFound: {
      const ChainSearch::Match& found = search_.found();
      if (wanted_.if_version != 0 && found.stamp != wanted_.if_version) {
        return end(fail(Code::kVersionMismatch));
      }
      if (found.word == 0) return look_again();
      return install({.slot_at = found.slot_at, .slot = {found.word}, .stamp = found.stamp});
    }
    case ChainSearch::State::kAbsent:
      if (wanted_.if_version == 0) return give_up(ByRpc::kAbsent);
      return end(fail(Code::kNotFound));
    case ChainSearch::State::kByRpc:
      break;
  }
  return give_up(search_.why());
}

ChainPut::State ChainPut::look_again() noexcept {
  if (++attempts_ > kAttempts) return give_up(ByRpc::kContended);
  must_look_ = true;
  return follow(search_.begin());
}

ChainPut::State ChainPut::install(const Target& target) noexcept {
  // What is there may expire, which only the owner's clock tells; its guard refuses such a swap.
  if (target.slot.expires()) return give_up(ByRpc::kExpires);
  target_ = target;
  if (!wanted_.compares_stamp) target_.stamp = 0;
  is_installing_ = true;
  return State::kAsks;
}

void ChainPut::build(prism::Chain& chain) noexcept {
  if (is_installing_) return build_install(chain);
  search_.build(chain);
}

void ChainPut::build_install(prism::Chain& chain) const noexcept {
  const prism::Operand none = prism::Operand::of(0);
  const prism::Masks only_compare = {.compare = prism::Operand::of(~uint64_t{0}), .swap = none};
  const RemotePointer list = RemotePointer::at(link_.region, 0);
  const std::span<const std::byte> entry = fill_entry();
  const uint64_t bits = slot_template(wanted_.hash, kStampBytes + entry.size());
  if (target_.stamp != 0) {
    chain.compare_swap({.address = link_.at(target_.slot.buffer()),
                        .key = link_.key,
                        .bytes = sizeof(uint64_t),
                        .compare = prism::Operand::of(target_.stamp),
                        .swap = none,
                        .masks = &only_compare});
    chain.allocate(list, link_.key, entry).redirect(0).owned().as_slot_word(bits).conditional();
  } else {
    chain.allocate(list, link_.key, entry).redirect(0).owned().as_slot_word(bits);
  }
  chain
      .compare_swap({.address = link_.at(target_.slot_at),
                     .key = link_.key,
                     .bytes = sizeof(uint64_t),
                     .compare = prism::Operand::of(target_.slot.bits),
                     .swap = prism::Operand::at(prism::scratch(0))})
      .conditional()
      .retire()
      .by_slot_word();
  chain.read(prism::scratch(0), link_.key, sizeof(uint64_t)).conditional();
  chain.read(prism::scratch(0), link_.key, kStampBytes).conditional().indirect().by_slot_word();
}

std::span<const std::byte> ChainPut::fill_entry() const noexcept {
  const Lengths lengths = lengths_of(wanted_);
  link_.entry.resize(lengths.total_bytes() - kStampBytes);
  std::byte* const entry = link_.entry.data();
  const uint64_t word = lengths.word();
  const uint64_t key_at = lengths.key_at() - kStampBytes;
  const uint64_t value_at = lengths.value_at() - kStampBytes;
  std::memcpy(entry, &word, sizeof(word));
  std::memcpy(entry + key_at, wanted_.key.data(), wanted_.key.size());
  const uint64_t key_end = key_at + wanted_.key.size();
  if (value_at > key_end) std::memset(entry + key_end, 0, value_at - key_end);
  if (!wanted_.value.empty()) std::memcpy(entry + value_at, wanted_.value.data(), wanted_.value.size());
  return link_.entry;
}

ChainPut::State ChainPut::take(const prism::Reply& reply) noexcept {
  if (is_installing_) return take_install(reply);
  const State state = follow(search_.take(reply));
  was_known_ = search_.was_known();
  return state;
}

ChainPut::State ChainPut::take_install(const prism::Reply& reply) noexcept {
  const size_t skipped = target_.stamp == 0 ? 1 : 0;
  const size_t swap = kSwap - skipped;
  if (reply.code(swap) == Code::kOk) {
    // Nothing can fail behind it. If it did, the put would have happened, with a version that was not told.
    if (!reply.all_ok()) return end(fail(Code::kIndeterminate));
    const uint64_t stamp = reply.word(kReadStamp - skipped);
    link_.slots.learn({.hash = wanted_.hash,
                       .at = target_.slot_at,
                       .word = reply.word(kReadWord - skipped),
                       .stamp = stamp,
                       .bytes = round_up(lengths_of(wanted_).total_bytes(), 64)});
    return end(stamp);
  }
  if (skipped == 0 && reply.code(kCompareStamp) != Code::kOk) {
    ++link_.counts.conflicts;
    return look_again();
  }
  switch (reply.code(kAllocate - skipped)) {
    case Code::kOk:
      return take_refused_swap(reply.code(swap), Slot{reply.word(swap)});
    case Code::kNoSpace:
      return give_up(ByRpc::kNoSpace);
    case Code::kTooLarge:
      return give_up(ByRpc::kLarge);
    default:
      return give_up(ByRpc::kRefused);
  }
}

ChainPut::State ChainPut::take_refused_swap(Code code, Slot now) noexcept {
  // The owner's log has no room: a call waits for it, or learns why.
  if (code == Code::kOverloaded || code == Code::kReadOnly) return give_up(ByRpc::kRefused);
  if (code != Code::kCompareFailed) {
    // The owner's guard: another key's entry, whose fingerprint is the same.
    if (must_look_) return give_up(ByRpc::kRefused);
    must_look_ = true;
    link_.slots.forget(wanted_.hash);
    return follow(search_.begin_at_bucket());
  }
  ++link_.counts.conflicts;
  const bool may_be_it = now && now.fingerprint() == Slot::fingerprint_of(wanted_.hash);
  if (wanted_.if_version != 0 || !may_be_it) return look_again();
  // Another client has just written the entry: this put replaces that one.
  if (++attempts_ > kAttempts) return give_up(ByRpc::kContended);
  return install({.slot_at = target_.slot_at, .slot = now, .stamp = 0});
}

}  // namespace refract::kv
