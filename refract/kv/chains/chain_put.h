// SPDX-License-Identifier: Apache-2.0
// How the value of an entry that is there is replaced by chains: a state machine between requests and
// replies.
//
//   one round trip    where slot, word and stamp are known:
//                       compare the buffer's stamp and change nothing   (not an older word come back)
//                       ALLOCATE the new buffer, its word to the scratch
//                       compare-and-swap the slot to that word, and retire what it replaced
//                       READ the word and, through it, the new stamp: the version
//   two round trips   READ bucket and count first; where one slot's fingerprint fits, swap that one
//
// The word that is compared has 16 bits of the stamp only. Without a known stamp an older word could come
// back unnoticed; then the swap replaces a younger value of the same key (the owner's guard compares keys),
// which is what a put does. Only a put with a condition must know which one it replaces, and so looks first.
//
// A put that is given up has changed nothing: the owner's call does it then. Threads: one.
#pragma once

#include <cstdint>
#include <span>

#include "refract/base/result.h"
#include "refract/kv/chains/chain_link.h"
#include "refract/kv/chains/chain_search.h"
#include "refract/prism/chain.h"
#include "refract/prism/reply.h"

namespace refract::kv {

class ChainPut {
 public:
  struct Wanted {
    std::span<const std::byte> key;
    uint64_t hash = 0;
    std::span<const std::byte> value;
    uint64_t if_version = 0;  // 0: any.
    // For tests of what the compared stamp is needed for.
    bool compares_stamp = true;
  };
  // All outlive the put. REQUIRES: lengths within the contract's limits.
  ChainPut(ChainLink& link, const Wanted& wanted) noexcept;

  enum class State : uint8_t {
    kAsks,   // build() the next chain, and take() its reply.
    kDone,   // result() has the version, or why there is none.
    kByRpc,  // why() says what the owner must be asked for.
  };
  [[nodiscard]] State begin() noexcept;

  // REQUIRES, for these: the state is kAsks.
  void build(prism::Chain& chain) noexcept;
  // Whether the chain that build() made may change the entry: without a reply it is not known.
  [[nodiscard]] bool may_change() const noexcept { return is_installing_; }
  [[nodiscard]] State take(const prism::Reply& reply) noexcept;
  [[nodiscard]] State give_up(ByRpc why) noexcept {
    why_ = why;
    return State::kByRpc;
  }

  [[nodiscard]] const Result<uint64_t>& result() const noexcept { return result_; }
  [[nodiscard]] ByRpc why() const noexcept { return why_; }
  [[nodiscard]] bool was_known() const noexcept { return was_known_; }
  // How long its longest chain is, and the data of the buffer in it.
  [[nodiscard]] uint64_t chain_bytes() const noexcept;
  [[nodiscard]] uint64_t entry_bytes() const noexcept;

 private:
  static constexpr int kAttempts = 4;

  // What is swapped for the new buffer's word.
  struct Target {
    Offset slot_at;
    Slot slot{};
    uint64_t stamp = 0;  // 0: unknown, and not compared.
  };

  [[nodiscard]] State install(const Target& target) noexcept;
  void build_install(prism::Chain& chain) const noexcept;
  // The buffer behind its stamp; valid until the next one is filled.
  [[nodiscard]] std::span<const std::byte> fill_entry() const noexcept;
  [[nodiscard]] State take_install(const prism::Reply& reply) noexcept;
  [[nodiscard]] State take_refused_swap(Code code, Slot now) noexcept;
  [[nodiscard]] State end(const Result<uint64_t>& result) noexcept;
  [[nodiscard]] State look_again() noexcept;
  [[nodiscard]] State follow(ChainSearch::State state) noexcept;

  ChainLink& link_;
  Wanted wanted_;
  ChainSearch search_;
  Target target_;
  bool is_installing_ = false;
  bool must_look_ = false;  // At the buffer, before its slot is swapped.
  bool was_known_ = false;
  int attempts_ = 0;
  ByRpc why_ = ByRpc::kContended;
  Result<uint64_t> result_ = fail(Code::kUnavailable);
};

}  // namespace refract::kv
