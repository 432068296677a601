// SPDX-License-Identifier: Apache-2.0
#include "bench/txn/txn_plan.h"

#include <algorithm>
#include <cstring>

#include "refract/base/check.h"
#include "refract/base/hash.h"

namespace refract::bench {
namespace {

constexpr double kHotGroups = 0.04;
constexpr double kHotShare = 0.9;
// Cents.
constexpr int64_t kLeast = 1'000'000;
constexpr int64_t kMost = 5'000'000;
constexpr int64_t kDeposited = 130;
constexpr int64_t kSaved = 2'020;
constexpr int64_t kPaid = 500;
constexpr int64_t kPenalty = 100;

struct Share {
  TxnAct act;
  uint64_t percent;
};
constexpr std::array kBankMix = {Share{TxnAct::kSendPayment, 25},     Share{TxnAct::kAmalgamate, 15},
                                 Share{TxnAct::kBalance, 15},         Share{TxnAct::kDepositChecking, 15},
                                 Share{TxnAct::kTransactSavings, 15}, Share{TxnAct::kWriteCheck, 15}};

TxnAct draw_act(Prng& prng) noexcept {
  uint64_t at = prng.below(100);
  for (const Share& share : kBankMix) {
    if (at < share.percent) return share.act;
    at -= share.percent;
  }
  return kBankMix.front().act;
}

constexpr uint64_t savings_of(uint64_t account) noexcept {
  return 2 * account;
}
constexpr uint64_t checking_of(uint64_t account) noexcept {
  return 2 * account + 1;
}

void set_entries(TxnPlan& plan, std::initializer_list<uint64_t> entries) noexcept {
  plan.count = entries.size();
  std::ranges::copy(entries, plan.entries.begin());
}

}  // namespace

std::string_view text(TxnWorkload workload) noexcept {
  return workload == TxnWorkload::kYcsbT ? "ycsb-t" : "smallbank";
}

std::string_view text(TxnAct act) noexcept {
  constexpr std::array<std::string_view, kTxnActs> kNames = {
      "increment",  "balance",     "deposit-checking", "transact-savings",
      "amalgamate", "write-check", "send-payment"};
  return kNames[static_cast<size_t>(act)];
}

TxnEffect apply(const TxnPlan& plan, std::span<int64_t> amounts) noexcept {
  REFRACT_DCHECK(amounts.size() == plan.count);
  switch (plan.act) {
    case TxnAct::kIncrement:
      for (int64_t& amount : amounts) ++amount;
      return {.gained = static_cast<int64_t>(amounts.size())};
    case TxnAct::kBalance:
      return {};
    case TxnAct::kDepositChecking:
      amounts[0] += kDeposited;
      return {.gained = kDeposited};
    case TxnAct::kTransactSavings:
      amounts[0] += kSaved;
      return {.gained = kSaved};
    case TxnAct::kAmalgamate:
      amounts[2] += amounts[0] + amounts[1];
      amounts[0] = amounts[1] = 0;
      return {};
    case TxnAct::kWriteCheck: {
      const int64_t taken = amounts[0] + amounts[1] < kPaid ? kPaid + kPenalty : kPaid;
      amounts[1] -= taken;
      return {.gained = -taken};
    }
    case TxnAct::kSendPayment:
      if (amounts[0] < kPaid) return {.is_refused = true};
      amounts[0] -= kPaid;
      amounts[1] += kPaid;
      return {};
  }
  return {};
}

TxnPlans::TxnPlans(const TxnMix& mix, const NodeOf& node_of)
    : mix_(mix),
      keys_(mix.groups, mix.workload == TxnWorkload::kYcsbT ? mix.skew : 0),
      hot_groups_(std::clamp<uint64_t>(static_cast<uint64_t>(static_cast<double>(mix.groups) * kHotGroups), 2,
                                       mix.groups)) {
  REFRACT_CHECK(mix.groups >= std::max<uint64_t>(2, mix.keys_each) && mix.keys_each <= kTxnEntriesMax);
  if (mix.far_share < 0 || !node_of) return;
  for (uint64_t group = 0; group < mix.groups; ++group) nodes_.push_back(node_of(group));
}

uint64_t TxnPlans::draw(Prng& prng, bool is_hot) const noexcept {
  if (mix_.workload == TxnWorkload::kYcsbT) return keys_.next(prng);
  return prng.below(is_hot ? hot_groups_ : mix_.groups);
}

bool TxnPlans::fits(std::span<const uint64_t> before, uint64_t group, bool is_far) const noexcept {
  if (std::ranges::find(before, group) != before.end()) return false;
  if (nodes_.empty() || before.empty()) return true;
  const bool is_beside = nodes_[group] == nodes_[before.front()];
  return is_beside != is_far;
}

// What is drawn and does not fit is drawn again; a node with few groups of the law's has others.
void TxnPlans::draw_groups(Prng& prng, std::span<uint64_t> groups) const {
  constexpr int kDraws = 1'000;
  const bool is_hot = prng.chance(kHotShare);
  const bool is_far = !nodes_.empty() && prng.chance(mix_.far_share);
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::span<const uint64_t> before = groups.first(i);
    uint64_t group = draw(prng, is_hot);
    for (int left = kDraws; left > 0 && !fits(before, group, is_far); --left) group = draw(prng, is_hot);
    for (uint64_t step = 0; step < mix_.groups && !fits(before, group, is_far); ++step) {
      group = (group + 1) % mix_.groups;
    }
    while (std::ranges::find(before, group) != before.end()) group = (group + 1) % mix_.groups;
    groups[i] = group;
  }
}

TxnPlan TxnPlans::next(Prng& prng) const {
  TxnPlan plan;
  if (mix_.workload == TxnWorkload::kYcsbT) {
    plan.count = mix_.keys_each;
    draw_groups(prng, std::span(plan.entries).first(plan.count));
    return plan;
  }
  plan.act = draw_act(prng);
  std::array<uint64_t, 2> accounts = {};
  const bool is_of_two = plan.act == TxnAct::kAmalgamate || plan.act == TxnAct::kSendPayment;
  draw_groups(prng, std::span(accounts).first(is_of_two ? 2 : 1));
  const auto [first, second] = accounts;
  switch (plan.act) {
    case TxnAct::kDepositChecking:
      set_entries(plan, {checking_of(first)});
      break;
    case TxnAct::kTransactSavings:
      set_entries(plan, {savings_of(first)});
      break;
    case TxnAct::kAmalgamate:
      set_entries(plan, {savings_of(first), checking_of(first), checking_of(second)});
      break;
    case TxnAct::kSendPayment:
      set_entries(plan, {checking_of(first), checking_of(second)});
      break;
    default:
      set_entries(plan, {savings_of(first), checking_of(first)});
  }
  return plan;
}

int64_t initial_amount(const TxnMix& mix, uint64_t entry) noexcept {
  if (mix.workload == TxnWorkload::kYcsbT) return 0;
  return kLeast + static_cast<int64_t>(refract::mix(entry) % (kMost - kLeast));
}

int64_t initial_sum(const TxnMix& mix) noexcept {
  int64_t sum = 0;
  for (uint64_t entry = 0; entry < mix.entries(); ++entry) sum += initial_amount(mix, entry);
  return sum;
}

TxnKey txn_key(const TxnMix& mix, uint64_t entry) noexcept {
  const bool is_bank = mix.workload == TxnWorkload::kSmallBank;
  TxnKey key;
  key.fill('0');
  key[0] = !is_bank ? 'y' : entry % 2 == 0 ? 's' : 'c';
  size_t at = key.size() - 1;
  if (is_bank) {
    key[1] = '{';
    key[at--] = '}';
  }
  for (uint64_t rest = mix.group_of(entry); rest > 0; rest /= 10)
    key[at--] = static_cast<char>('0' + rest % 10);
  return key;
}

void write_amount(std::span<std::byte> value, int64_t amount) noexcept {
  REFRACT_DCHECK(value.size() >= sizeof(amount));
  std::memcpy(value.data(), &amount, sizeof(amount));
  if (value.size() < 2 * sizeof(amount)) return;
  const int64_t complement = ~amount;
  std::memcpy(value.data() + value.size() - sizeof(complement), &complement, sizeof(complement));
}

bool read_amount(std::span<const std::byte> value, size_t value_bytes, int64_t& amount) noexcept {
  if (value.size() != value_bytes) return false;
  std::memcpy(&amount, value.data(), sizeof(amount));
  if (value.size() < 2 * sizeof(amount)) return true;
  int64_t complement = 0;
  std::memcpy(&complement, value.data() + value.size() - sizeof(complement), sizeof(complement));
  return complement == ~amount;
}

}  // namespace refract::bench
