// SPDX-License-Identifier: Apache-2.0
// The transactions of YCSB-T and of SmallBank: which entries one reads, and what it makes of them. Every
// entry holds one number, so that all entries together have a sum that only what comes in or goes out
// changes.
//
// YCSB-T: each transaction reads some keys and writes each, one more than it has read.
//
// SmallBank: accounts with savings and checking, an entry each, in cents. The mix, the amounts and the hot
// accounts are those of H-Store's benchmark as FaSST (OSDI 2016) and DrTM (SOSP 2015) run it: SendPayment
// 25 %, the five others 15 % each; 90 % of the transactions take all their accounts from 4 % of them, the
// others from all. A payment that its account has no money for ends without a change.
//
// Threads: a TxnPlans may be read by any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "bench/load/skewed_keys.h"

#include "refract/base/prng.h"

namespace refract::bench {

enum class TxnWorkload : uint8_t { kYcsbT, kSmallBank };
[[nodiscard]] std::string_view text(TxnWorkload workload) noexcept;

enum class TxnAct : uint8_t {
  kIncrement,  // Of YCSB-T alone; the others are SmallBank's.
  kBalance,
  kDepositChecking,
  kTransactSavings,
  kAmalgamate,
  kWriteCheck,
  kSendPayment,
};
inline constexpr size_t kTxnActs = 7;
[[nodiscard]] std::string_view text(TxnAct act) noexcept;

inline constexpr size_t kTxnEntriesMax = 16;  // Of one transaction.
inline constexpr size_t kTxnKeyBytes = 16;

// One transaction, before it runs.
struct TxnPlan {
  TxnAct act = TxnAct::kIncrement;
  size_t count = 0;  // Entries that are read.
  std::array<uint64_t, kTxnEntriesMax> entries = {};

  [[nodiscard]] bool writes(size_t i) const noexcept {
    return act != TxnAct::kBalance && (act != TxnAct::kWriteCheck || i == 1);
  }
  [[nodiscard]] std::span<const uint64_t> read() const noexcept { return std::span(entries).first(count); }
};

// What a transaction does to the sum of all entries.
struct TxnEffect {
  bool is_refused = false;  // Nothing: there is too little money.
  int64_t gained = 0;
};
// `amounts` are what was read, and become what is to be written. REQUIRES: one for each entry.
[[nodiscard]] TxnEffect apply(const TxnPlan& plan, std::span<int64_t> amounts) noexcept;

struct TxnMix {
  TxnWorkload workload = TxnWorkload::kYcsbT;
  uint64_t groups = 100'000;  // Keys or accounts.
  uint64_t keys_each = 2;     // Of a transaction of YCSB-T.
  double skew = 0;            // Likewise, of a Zipf law.
  size_t value_bytes = 64;    // At least 8.
  double far_share = -1;  // Of transactions of several groups, those over several nodes; below 0: as drawn.
  [[nodiscard]] uint64_t entries() const noexcept {
    return workload == TxnWorkload::kSmallBank ? 2 * groups : groups;
  }
  [[nodiscard]] uint64_t group_of(uint64_t entry) const noexcept {
    return workload == TxnWorkload::kSmallBank ? entry / 2 : entry;
  }
};

class TxnPlans {
 public:
  // The node that has a group's entries; null: there is one.
  using NodeOf = std::function<uint32_t(uint64_t group)>;
  explicit TxnPlans(const TxnMix& mix, const NodeOf& node_of = nullptr);

  [[nodiscard]] TxnPlan next(Prng& prng) const;

 private:
  [[nodiscard]] uint64_t draw(Prng& prng, bool is_hot) const noexcept;
  void draw_groups(Prng& prng, std::span<uint64_t> groups) const;
  // Whether `group` may stand beside those before it.
  [[nodiscard]] bool fits(std::span<const uint64_t> before, uint64_t group, bool is_far) const noexcept;

  TxnMix mix_;
  SkewedKeys keys_;
  uint64_t hot_groups_;
  std::vector<uint32_t> nodes_;  // Of the groups; empty: it does not matter.
};

// What stands in an entry before the first transaction.
[[nodiscard]] int64_t initial_amount(const TxnMix& mix, uint64_t entry) noexcept;
[[nodiscard]] int64_t initial_sum(const TxnMix& mix) noexcept;

// The key of an entry. Both of an account have one tag, so that a store that heeds tags has them together.
using TxnKey = std::array<char, kTxnKeyBytes>;
[[nodiscard]] TxnKey txn_key(const TxnMix& mix, uint64_t entry) noexcept;
[[nodiscard]] inline std::span<const std::byte> bytes_of(const TxnKey& key) noexcept {
  return std::as_bytes(std::span(key));
}

// A value has the amount at its beginning and, where there is room, its complement at the end.
void write_amount(std::span<std::byte> value, int64_t amount) noexcept;
// False: no one has written these bytes as a value.
[[nodiscard]] bool read_amount(std::span<const std::byte> value, size_t value_bytes,
                               int64_t& amount) noexcept;

}  // namespace refract::bench
