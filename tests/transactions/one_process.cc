// SPDX-License-Identifier: Apache-2.0
#include "tests/transactions/one_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "refract/kv/owner/parts/parts.h"
#include "refract/memory/space.h"

namespace refract::campaign {

OneProcess::OneProcess(sim::World& world, std::span<sim::Host* const> hosts, const Options& options)
    : world_(world), hosts_(hosts.begin(), hosts.end()), options_(options) {
  for (sim::Host* host : hosts_) host->on_crash([this](sim::Host&) { die(); });
}

void OneProcess::add(Keeper& keeper) {
  const auto shard = static_cast<uint32_t>(keepers_.size());
  keepers_.push_back(&keeper);
  if (logs_.size() == shard) {
    logs_.emplace_back(*this, shard);
    wrappers_.emplace_back();
  }
  // What an earlier process has committed by a word that it still needs.
  const std::span<std::byte> words = words_of(shard).subspan(options_.words * sizeof(uint64_t));
  const uint64_t committed = kv::Decision::committed(1).bits;
  for (size_t at = 0; at < words.size(); at += sizeof(committed)) {
    std::memcpy(&words[at], &committed, sizeof(committed));
  }
  sim::VisibleMemory& memory = keeper.memory();
  memory.stored(Offset{static_cast<uint64_t>(words.data() - memory.owner())}, words);
  memory.fenced();
}

std::span<std::byte> OneProcess::words_of(uint32_t shard) noexcept {
  std::byte* const space = keepers_[shard]->memory().owner();
  return {space + kv::Decisions::first_word(space).value, kv::kDecisionWords * sizeof(uint64_t)};
}

// At the same moment: of the others, too, nothing happens behind it.
void OneProcess::die() {
  is_dead_ = true;
  is_taken_back_ = false;
  for (sim::Host* host : hosts_) world_.crash(*host);
}

// The memories are as the crash left them.
void OneProcess::take_back() {
  if (node_logs_ != nullptr && !std::exchange(is_taken_back_, true)) node_logs_->process_died();
}

void OneProcess::lose_memory() {
  take_back();
  keepers_.clear();
  ++life_;
}

kv::Decisions& OneProcess::begin() {
  if (!is_dead_) return *decisions_;
  take_back();
  tables_.assign(keepers_.size(), nullptr);
  unconfirmed_.clear();
  std::vector<kv::Decisions::Home> homes;
  for (uint32_t shard = 0; shard < keepers_.size(); ++shard) {
    logs_[shard].begin();
    homes.push_back({.space = keepers_[shard]->memory().owner(), .log = &logs_[shard]});
  }
  decisions_.emplace(homes);
  take_words_away();
  is_dead_ = false;
  return *decisions_;
}

// A committed word that a part counts on is never given.
void OneProcess::take_words_away() {
  for (uint32_t shard = 0; shard < keepers_.size(); ++shard) {
    for (uint64_t i = options_.words; i < kv::kDecisionWords; ++i) {
      decisions_->begin_part(decisions_->place_of(shard, i));
    }
  }
}

uint64_t OneProcess::parts_counted() const {
  uint64_t parts = 0;
  for (uint32_t shard = 0; shard < keepers_.size(); ++shard) {
    for (uint64_t i = 0; i < options_.words; ++i) parts += decisions_->parts(decisions_->place_of(shard, i));
  }
  return parts;
}

void OneProcess::WordLog::begin() {
  const std::span<const std::byte> words = process_.words_of(shard_);
  words_.resize(kv::kDecisionWords);
  std::memcpy(words_.data(), words.data(), words.size());
}

void OneProcess::WordLog::stored(Offset at, std::span<const std::byte> bytes) noexcept {
  const uint64_t first = static_cast<uint64_t>(process_.words_of(shard_).data() - memory().owner());
  uint64_t& word = words_[(at.value - first) / sizeof(uint64_t)];
  if (process_.is_dead_) {
    std::memcpy(memory().owner() + at.value, &word, sizeof(word));
    return;
  }
  if (process_.is_deaf_) return;
  std::memcpy(&word, bytes.data(), sizeof(word));
  const kv::Decision decision{word};
  const uint64_t place = kv::DecisionPlace::of(shard_, at).bits;
  process_.on_word({place}, decision);
  if (decision.is_unconfirmed()) {
    process_.unconfirmed_.insert(place);
  } else {
    process_.unconfirmed_.erase(place);
  }
  if (!decision.commits(decision.number()) && !decision.is_claimed()) {
    for (Keeper* keeper : process_.keepers_) keeper->memory().fenced();
  } else if (process_.holds_words_) {
    process_.held_.emplace_back(shard_, at);
    return;
  }
  memory().stored(at, bytes);
  memory().fenced();
}

void OneProcess::hold_words(bool held) {
  holds_words_ = held && options_.mutation == Mutation::kWordLast;
  for (const auto& [shard, at] : std::exchange(held_, {})) {
    sim::VisibleMemory& memory = keepers_[shard]->memory();
    memory.stored(at, {memory.owner() + at.value, sizeof(uint64_t)});
  }
}

Result<> OneProcess::recover_now(uint32_t shard, kv::Table& table) {
  if (node_logs_ == nullptr) {
    Result<> recovered = table.recover();
    if (recovered) table.parts()->take_up(std::nullopt);
    return recovered;
  }
  MemoryLog& log = node_logs_->log(shard);
  log.take_up(keepers_[shard]->memory());
  Result<> recovered = table.recover(log.last_change());
  if (!recovered) return recovered;
  const std::optional<kv::TransactionName> decided = log.last_decided();
  table.log_to(&log);
  table.parts()->log_to(&log);
  table.parts()->take_up(decided);
  tables_[shard] = &table;
  look_whether_memory_is_log();
  return recovered;
}

// When all have taken up what is theirs: a word that one has claimed is another's transaction.
void OneProcess::look_whether_memory_is_log() {
  if (is_dead_ || std::ranges::count(tables_, nullptr) != 0) return;
  for (uint32_t shard = 0; shard < tables_.size(); ++shard) {
    const std::string difference = node_logs_->compare(shard, *tables_[shard]);
    if (difference.empty()) continue;
    options_.complain(fmt::format("after a restart of shard {} {}", shard, difference));
  }
}

// As a mutation.
void OneProcess::settle_unconfirmed(uint32_t shard) {
  FalseWords words(*this);
  for (const uint64_t place : unconfirmed_) {
    const kv::Decision now = words.look({place});
    if (kv::DecisionPlace{place}.shard() != shard && now.is_unconfirmed()) {
      words.set({place}, kv::Decision::committed(now.number()));
    }
  }
  if (tables_[shard]->parts()->count() != 0) (void)tables_[shard]->parts()->settle_decided();
}

bool OneProcess::has_progressed(uint32_t shard) {
  if (options_.mutation == Mutation::kSettleUnconfirmed && !is_dead_) settle_unconfirmed(shard);
  return node_logs_ != nullptr && !is_dead_ && node_logs_->log(shard).has_progressed();
}

// As a mutation, all words look undecided meanwhile, and stay as they were.
Result<> OneProcess::recover(uint32_t shard, kv::Table& table) {
  if (options_.mutation != Mutation::kForgetWords) return recover_now(shard, table);
  std::vector<std::vector<std::byte>> saved;
  for (uint32_t home = 0; home < keepers_.size(); ++home) {
    const std::span<std::byte> words = words_of(home);
    saved.emplace_back(words.begin(), words.end());
    std::memset(words.data(), 0, words.size());
  }
  is_deaf_ = true;
  Result<> recovered = recover_now(shard, table);
  is_deaf_ = false;
  for (uint32_t home = 0; home < keepers_.size(); ++home) {
    std::ranges::copy(saved[home], words_of(home).begin());
  }
  return recovered;
}

rpc::Service& OneProcess::round_table(const Shard& shard, rpc::Service& service) {
  const bool is_its_own =
      options_.mutation == Mutation::kDropHeld || options_.mutation == Mutation::kRowsTwice;
  if (!is_its_own) return service;
  return wrappers_[shard.index].table.emplace(options_.mutation, shard, service, *this);
}

rpc::Service& OneProcess::round_transactions(const Shard& shard, rpc::Service& service) {
  if (options_.mutation == Mutation::kNone) return service;
  return wrappers_[shard.index].parts.emplace(options_.mutation, shard, service, *this);
}

void OneProcess::answer_through(uint32_t shard, rpc::Server& server) {
  if (wrappers_[shard].parts) wrappers_[shard].parts->answer_through(&server);
}

}  // namespace refract::campaign
