// SPDX-License-Identifier: Apache-2.0
// bank: money moved by transactions, and counted all the while.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <mutex>
#include <thread>
#include <vector>

#include "apps/refract/commands.h"
#include "apps/refract/terminal.h"

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/units.h"

namespace refract::cli {
namespace {

constexpr int64_t kStart = 1'000;
constexpr int kPause_ms = 5;

int64_t amount_in(const std::string& value) noexcept {
  int64_t amount = 0;
  (void)std::from_chars(value.data(), value.data() + value.size(), amount);
  return amount;
}

class Bank {
 public:
  Bank(Client& client, const Invocation& invocation)
      : client_(client), until_ns_(0), threads_(invocation.threads) {
    // Over all shards, and over all nodes where several share out their keys.
    const std::string name = fmt::format("bank:{}-{:x}", ::getpid(), system_clock().wall_ns());
    for (uint64_t i = 0; i < invocation.accounts; ++i) accounts_.push_back(fmt::format("{}:{}", name, i));
    duration_ns_ = invocation.duration_ns;
    patience_ns_ = invocation.timeout_ns;
  }
  Bank(const Bank&) = delete;
  Bank& operator=(const Bank&) = delete;
  // At one moment, or not at all: a bank that is half there is one that has lost money.
  ~Bank() {
    Batch all;
    for (const std::string& account : accounts_) all.erase(account);
    (void)client_.commit(all);
  }

  [[nodiscard]] Result<> open() {
    Batch all;
    for (const std::string& account : accounts_) all.put(account, std::to_string(kStart));
    return client_.commit(all);
  }

  void run() {
    answered_ns_ = system_clock().now_ns();
    until_ns_ = answered_ns_ + duration_ns_;
    std::vector<std::thread> threads;
    threads.reserve(threads_);
    for (uint64_t i = 0; i < threads_; ++i) threads.emplace_back([this, i] { move(i); });
    count_all();
    for (std::thread& thread : threads) thread.join();
    // And behind them all.
    until_ns_ = UINT64_MAX;
    count();
  }

  std::atomic<uint64_t> moved = 0;
  std::atomic<uint64_t> runs = 0;      // Of bodies: more than moves, where there were conflicts.
  std::atomic<uint64_t> in_doubt = 0;  // The server died while it had them.
  std::atomic<uint64_t> conflicts = 0;
  uint64_t counts = 0;
  uint64_t wrong = 0;
  Code failed = Code::kOk;

  [[nodiscard]] int64_t all_money() const noexcept { return kStart * static_cast<int64_t>(accounts_.size()); }

 private:
  [[nodiscard]] bool is_over() const noexcept { return system_clock().now_ns() >= until_ns_; }

  void move(uint64_t seed) {
    Prng prng(seed ^ system_clock().now_ns());
    while (!is_over()) {
      const size_t from = prng.below(accounts_.size());
      const size_t to = (from + 1 + prng.below(accounts_.size() - 1)) % accounts_.size();
      const auto amount = static_cast<int64_t>(1 + prng.below(100));
      const Result<> done = client_.transaction([&](Transaction& t) -> Result<> {
        ++runs;
        const Result<std::string> has = t.get(accounts_[from]);
        if (!has) return fail(has.error());
        if (amount_in(*has) < amount) return {};
        if (const Result<> taken = t.add(accounts_[from], -amount); !taken) return taken;
        return t.add(accounts_[to], amount);
      });
      note(done.code());
    }
  }
  void note(Code code) {
    const uint64_t now_ns = system_clock().now_ns();
    if (code == Code::kOk || code == Code::kConflict) answered_ns_ = now_ns;
    if (code == Code::kOk) {
      ++moved;
    } else if (code == Code::kUnavailable && now_ns < answered_ns_ + patience_ns_) {
      // Nothing was changed. A server that is killed again and again is not there for a while.
      (void)::poll(nullptr, 0, kPause_ms);
    } else if (code == Code::kIndeterminate) {
      ++in_doubt;
    } else if (code == Code::kConflict) {
      ++conflicts;
    } else {
      const std::lock_guard lock(mutex_);
      failed = code;
      until_ns_ = 0;
    }
  }

  void count_all() {
    while (!is_over()) count();
  }
  void count() {
    int64_t sum = 0;
    const Result<> read = client_.read_only([&](Transaction& t) -> Result<> {
      sum = 0;
      std::vector<GetItem> items(accounts_.size());
      for (size_t i = 0; i < items.size(); ++i) items[i].key = accounts_[i];
      t.multi_get(items);
      for (const GetItem& item : items) {
        if (item.result.code() != Code::kOk) return fail(item.result.error());
        sum += amount_in(item.value);
      }
      return {};
    });
    if (!read) return note(read.code());
    answered_ns_ = system_clock().now_ns();
    ++counts;
    wrong += sum == all_money() ? 0 : 1;
  }

  Client& client_;
  std::vector<std::string> accounts_;
  std::atomic<uint64_t> until_ns_;
  std::atomic<uint64_t> answered_ns_ = 0;  // The last time.
  uint64_t duration_ns_ = 0;
  uint64_t patience_ns_ = 0;  // So long none may be given.
  uint64_t threads_;
  std::mutex mutex_;
};

int tell(const Invocation& invocation, const Bank& bank) {
  if (invocation.json) {
    documents::Value figures;
    figures.append_member("moved", bank.moved.load());
    figures.append_member("runs", bank.runs.load());
    figures.append_member("in_doubt", bank.in_doubt.load());
    figures.append_member("conflicts", bank.conflicts.load());
    figures.append_member("counts", bank.counts);
    figures.append_member("wrong", bank.wrong);
    if (const int written = write_json(figures); written != kDone) return written;
  } else {
    const std::string text = fmt::format(
        "{} transactions, in {} runs of their bodies; {} in doubt, {} given up\n"
        "{} counts of {} accounts: {}\n",
        bank.moved.load(), bank.runs.load(), bank.in_doubt.load(), bank.conflicts.load(), bank.counts,
        invocation.accounts,
        bank.wrong == 0 ? fmt::format("{} each time", bank.all_money())
                        : fmt::format("{} WRONG", bank.wrong));
    if (const int written = write_out(text); written != kDone) return written;
  }
  return bank.wrong == 0 ? kDone : kNotDone;
}

}  // namespace

int run_bank(const Invocation& invocation) {
  Reported<Client> client = connect(invocation);
  if (!client) return complain(client.error());
  Bank bank(*client, invocation);
  const Result<> opened = bank.open();
  if (opened.code() == Code::kUnsupported) {
    const Report why = client->trouble();
    if (why.code == Code::kUnsupported) return complain(kFailed, why.what, why.next);
    return complain(
        kFailed, "the node cannot change these accounts at one moment",
        "it is of an earlier release, which has no transactions over several shards: start a newer "
        "refractd, or one with one shard");
  }
  if (!opened) return complain(explain(*client, opened.code(), "cannot open the accounts"));
  bank.run();
  if (bank.failed != Code::kOk) return complain(explain(*client, bank.failed, "the bank had to close"));
  return tell(invocation, bank);
}

}  // namespace refract::cli
