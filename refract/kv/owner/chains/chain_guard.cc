// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/chains/chain_guard.h"

#include <algorithm>

#include "refract/runtime/fault.h"

namespace refract::kv {

using prism::snic::Swap;

bool ChainGuard::may_write(Offset /*at*/, uint64_t /*bytes*/) noexcept {
  ++refused_count_;
  return false;
}

bool ChainGuard::may_allocate_unowned() noexcept {
  return false;
}

Code ChainGuard::may_swap(const Swap& swap) noexcept {
  if (!swap.retires && std::ranges::equal(swap.before, swap.after)) return Code::kOk;
  Code code = Code::kAccessDenied;
  // Last: what the log has been told is made.
  if (is_install(swap)) code = table_.before_install(swap.installs.at, swap.installs.stamp);
  if (code != Code::kOk) {
    ++refused_count_;
    return code;
  }
  ++installed_count_;
  table_.depart(Slot{swap.before.front()});
  table_.was_used(swap.at);
  REFRACT_FAULT("kv.chain.before_install");
  return Code::kOk;
}

bool ChainGuard::is_install(const Swap& swap) const noexcept {
  if (!swap.retires || !swap.installs.at || swap.before.size() != 1) return false;
  const prism::snic::Buffers::Fresh& fresh = swap.installs;
  // A chain could store a buffer, have it replaced and so retired, and store it again.
  if (!buffers_.is_out(fresh.at)) return false;
  // The buffer is complete and its owner's alone: what is read here no longer changes.
  const Lengths lengths = Lengths::from_word(writer_.load(fresh.at.plus(offsetof(BufferHeader, lengths))));
  if (fresh.bytes < sizeof(BufferHeader) || !lengths.is_sound() || lengths.flags != 0) return false;
  if (lengths.total_bytes() != fresh.bytes) return false;
  const Table::HashedKey key =
      table_.hashed({writer_.at(fresh.at.plus(lengths.key_at())), lengths.key_bytes});
  const Slot before{swap.before.front()};
  const Slot after = Slot::of(
      {.hash = key.hash, .stamp = fresh.stamp, .bytes = fresh.bytes, .expires = false, .buffer = fresh.at});
  if (swap.after.front() != after.bits || before.expires()) return false;
  // The key's own slot, found from the table's root: a word that merely looks like it, in a line that is out
  // of use or in a value, leads to no entry.
  const Table::Standing standing = table_.standing(key);
  if (standing.slot_at.value != swap.at.value || standing.slot.bits != before.bits) return false;
  // A buffer has its stamp since its allocation. A chain that allocates twice could install the younger one
  // first, and the key's version would go back.
  return writer_.load(before.buffer()) < fresh.stamp;
}

}  // namespace refract::kv
