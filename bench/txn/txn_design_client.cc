// SPDX-License-Identifier: Apache-2.0
#include "bench/txn/txn_design_client.h"

#include <fmt/core.h>

#include <array>

#include "refract/base/units.h"

namespace refract::bench {

using runtime::Task;
using txn::designs::Transaction;

DesignTxnClient::DesignTxnClient(const Parts& parts)
    : TryingTxnClient(parts.shard, parts.number), mix_(parts.mix), value_(parts.mix.value_bytes) {
  std::vector<rpc::Session*> sessions;
  for (fabric::Channel* channel : parts.channels) {
    sessions_.push_back(std::make_unique<rpc::Session>(*channel, parts.shard));
    sessions.push_back(sessions_.back().get());
  }
  client_ = parts.design.make_client(
      {.sessions = sessions, .shard = parts.shard, .clock = parts.clock, .number = parts.number});
}

Task<Code> DesignTxnClient::attach(uint64_t patience_ns) {
  const uint64_t deadline_ns = shard().refresh_now() + patience_ns;
  for (const auto& session : sessions_) {
    while (session->state() == rpc::Session::State::kOpening) {
      if (shard().refresh_now() >= deadline_ns) co_return Code::kDeadlineExceeded;
      co_await shard().sleep_for(kMicrosecond_ns);
    }
  }
  const Result<> attached = co_await client_->attach(deadline_ns);
  co_return attached.code();
}

Task<Code> DesignTxnClient::fetch(Transaction& transaction, std::span<const uint64_t> entries,
                                  std::span<int64_t> amounts, uint64_t deadline_ns) {
  std::array<TxnKey, txn::designs::kKeysMax> keys;
  std::array<txn::designs::Bytes, txn::designs::kKeysMax> asked;
  for (size_t i = 0; i < entries.size(); ++i) {
    keys[i] = txn_key(mix_, entries[i]);
    asked[i] = bytes_of(keys[i]);
  }
  const Result<> read = co_await transaction.read(std::span(asked).first(entries.size()), deadline_ns);
  if (!read) co_return read.code();
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool is_whole = read_amount(transaction.find(asked[i])->found, mix_.value_bytes, amounts[i]);
    if (!is_whole) co_return Code::kCorrupt;
  }
  co_return Code::kOk;
}

Task<Code> DesignTxnClient::attempt(const TxnPlan& plan, Try& tried, TxnEffect& effect) {
  const std::unique_ptr<Transaction> transaction = client_->begin();
  std::array<int64_t, kTxnEntriesMax> amounts = {};
  const std::span<int64_t> read = std::span(amounts).first(plan.count);
  const Code fetched = co_await fetch(*transaction, plan.read(), read, tried.deadline_ns);
  if (fetched != Code::kOk) co_return fetched;
  effect = apply(plan, read);
  for (size_t i = 0; i < plan.count; ++i) {
    if (effect.is_refused || !plan.writes(i)) continue;
    const TxnKey key = txn_key(mix_, plan.entries[i]);
    write_amount(value_, amounts[i]);
    const Result<> written = transaction->write(bytes_of(key), value_);
    if (!written) co_return written.code();
  }
  // Without a write it says whether what was read stood together.
  const Result<> committed = co_await transaction->commit(tried.deadline_ns);
  co_return committed.code();
}

Task<Code> DesignTxnClient::read(std::span<const uint64_t> entries, std::span<int64_t> amounts) {
  const uint64_t deadline_ns = shard().refresh_now() + 5 * kSecond_ns;
  for (;;) {
    const std::unique_ptr<Transaction> transaction = client_->begin();
    const Code code = co_await fetch(*transaction, entries, amounts, deadline_ns);
    // What the last ones have left unfinished goes by itself.
    if (code != Code::kConflict || shard().refresh_now() >= deadline_ns) co_return code;
    co_await shard().sleep_for(10 * kMicrosecond_ns);
  }
}

Reported<> load_txn_share(TxnProcess& process, const TxnMix& mix, size_t server, size_t servers) {
  std::vector<std::byte> value(mix.value_bytes);
  for (uint64_t entry = 0; entry < mix.entries(); ++entry) {
    const TxnKey key = txn_key(mix, entry);
    if (txn::designs::server_of(bytes_of(key), servers) != server) continue;
    write_amount(value, initial_amount(mix, entry));
    if (const Result<> loaded = process.load(bytes_of(key), value); !loaded) {
      return report(loaded.code(), fmt::format("filling: {}", info(loaded.code()).sentence));
    }
  }
  return {};
}

// For writes under way, and what clients are slow to give back.
txn::designs::Capacity txn_capacity(const TxnLoad& load) {
  return {.keys_max = load.mix.entries(),
          .key_bytes_max = kTxnKeyBytes,
          .value_bytes_max = static_cast<uint32_t>(load.mix.value_bytes),
          .spare_values = static_cast<uint32_t>(1024 + 64 * load.clients * kTxnEntriesMax)};
}

}  // namespace refract::bench
