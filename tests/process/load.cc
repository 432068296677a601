// SPDX-License-Identifier: Apache-2.0
#include "tests/process/load.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <vector>

#include "tests/process/node_process.h"
#include "tests/process/sealed.h"

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/kv/layout/layout.h"

namespace refract::test {
namespace {

std::string key_of(int client, int key) {
  return fmt::format("client-{}-key-{}", client, key);
}

class Load {
 public:
  Load(Client& client, Ledger& ledger, const LoadOptions& options)
      : client_(client), ledger_(ledger), own_(ledger.clients[options.client]), options_(options) {}

  [[nodiscard]] int run() {
    for (int key = 0; key < kLoadKeys; ++key) {
      const uint64_t last = own_.entries[key].settled.load();
      if (last > number_) number_ = last;
      const auto there = patiently([&] { return client_.exists(key_of(options_.client, key)); });
      if (there) versions_[key] = there->version;
    }
    while (!ledger_.stop.load() && trouble_.empty()) {
      step();
      own_.operations.fetch_add(1);
      own_.server_losses.store(client_.counters().server_losses);
      if (options_.pause_ns > 0) sleep_ms(options_.pause_ns / kMillisecond_ns);
    }
    for (int key = 0; key < kLoadKeys && trouble_.empty(); ++key) {
      while (!perhaps_[key].empty() && trouble_.empty()) put(key, kSealedBytesMin);
    }
    if (trouble_.empty()) return 0;
    (void)std::fprintf(stderr, "client %d: %s\n", options_.client, trouble_.c_str());
    return 1;
  }

 private:
  // While there is no node nothing is changed, and nothing known.
  template <typename Call>
  [[nodiscard]] std::invoke_result_t<Call&> patiently(Call&& call) {
    auto result = call();
    while (options_.node_may_end && result.code() == Code::kUnavailable) {
      sleep_ms(10);
      result = call();
    }
    return result;
  }

  void step() {
    const uint64_t die = prng_.below(100);
    const int key = static_cast<int>(prng_.below(kLoadKeys));
    if (die < 60) {
      put(key, kSealedBytesMin + prng_.below(400));
    } else if (die < 65) {
      put(key, options_.large_bytes / 8 + prng_.below(options_.large_bytes));
    } else if (die < 82) {
      erase(key);
    } else if (die < 90) {
      raise_counter();
    } else {
      look_at_another();
    }
  }

  void put(int key, uint64_t bytes) {
    Ledger::Entry& entry = own_.entries[key];
    const uint64_t number = ++number_;
    const std::string name = key_of(options_.client, key);
    const uint64_t before = entry.settled.load();
    PutOptions condition;
    if (perhaps_[key].empty() && prng_.below(2) == 0) {
      condition.if_absent = before == 0;
      if (before != 0) condition.if_version = versions_[key];
    }
    entry.pending.store(number);
    const std::string value = sealed_value(name, number, bytes);
    const auto result = patiently([&] { return client_.put(name, value, condition); });
    settle(key, result, number);
  }

  void erase(int key) {
    Ledger::Entry& entry = own_.entries[key];
    const uint64_t before = entry.settled.load();
    entry.pending.store(0);
    const auto result = patiently([&] { return client_.erase(key_of(options_.client, key)); });
    if (result.code() == Code::kNotFound && (before == 0 || !perhaps_[key].empty())) {
      entry.settled.store(0);
      entry.pending.store(kNothingPending);
      perhaps_[key].clear();
      return;
    }
    settle(key, result, 0);
  }

  void settle(int key, const Result<uint64_t>& result, uint64_t number) {
    Ledger::Entry& entry = own_.entries[key];
    if (result) {
      entry.settled.store(number);
      versions_[key] = *result;
      perhaps_[key].clear();
    } else if (result.code() == Code::kIndeterminate) {
      own_.indeterminate.fetch_add(1);
      if (options_.node_may_end) perhaps_[key].push_back(number);
    } else if (result.code() != Code::kNoSpace || !options_.may_fill_up) {
      trouble_ = fmt::format("key {} number {} was answered with {}; {}", key, number,
                             info(result.code()).text, client_.trouble().what);
      return;
    }
    look_at_own(key, result.code() == Code::kIndeterminate ? number : entry.settled.load());
  }

  // What is there must be what was acknowledged last, or `perhaps`.
  void look_at_own(int key, uint64_t perhaps) {
    Ledger::Entry& entry = own_.entries[key];
    const std::string name = key_of(options_.client, key);
    const auto got = patiently([&] { return client_.get(name, value_); });
    uint64_t number = 0;
    if (got) {
      const auto sealed = number_in(name, value_);
      if (!sealed) {
        trouble_ = fmt::format("key {} has a broken value of {} B", key, value_.size());
        return;
      }
      number = *sealed;
      versions_[key] = got->version;
    } else if (got.code() != Code::kNotFound) {
      trouble_ = fmt::format("get of key {} was answered with {}", key, info(got.code()).text);
      return;
    }
    if (std::ranges::find(perhaps_[key], number) != perhaps_[key].end()) return;
    if (number != entry.settled.load() && number != perhaps) {
      trouble_ =
          fmt::format("key {} has number {}, but {} was acknowledged", key, number, entry.settled.load());
      return;
    }
    entry.settled.store(number);
    entry.pending.store(kNothingPending);
  }

  void raise_counter() {
    const auto got = patiently([&] { return client_.get(kCounterKey, value_); });
    if (!got && got.code() != Code::kNotFound) {
      trouble_ = fmt::format("get of the counter was answered with {}", info(got.code()).text);
      return;
    }
    const uint64_t count = got ? std::strtoull(value_.c_str(), nullptr, 10) : 0;
    const PutOptions condition = got ? PutOptions{.if_version = got->version} : PutOptions{.if_absent = true};
    own_.maybe_raised.fetch_add(1);
    const std::string next = std::to_string(count + 1);
    const auto put = patiently([&] { return client_.put(kCounterKey, next, condition); });
    if (put.code() == Code::kIndeterminate) return;
    if (put) own_.raised.fetch_add(1);
    own_.maybe_raised.fetch_sub(1);
    const bool is_refused = put.code() == Code::kVersionMismatch || put.code() == Code::kExists ||
                            (put.code() == Code::kNoSpace && options_.may_fill_up);
    if (!put && !is_refused) {
      trouble_ = fmt::format("the counter was answered with {}", info(put.code()).text);
    }
  }

  void look_at_another() {
    const int client = static_cast<int>(prng_.below(kLoadClientsMax));
    const std::string name = key_of(client, static_cast<int>(prng_.below(kLoadKeys)));
    const auto got = patiently([&] { return client_.get(name, value_); });
    if (got && !number_in(name, value_)) trouble_ = "another's value is broken: " + name;
    if (!got && got.code() != Code::kNotFound) {
      trouble_ = fmt::format("get of {} was answered with {}", name, info(got.code()).text);
    }
  }

  Client& client_;
  Ledger& ledger_;
  Ledger::Of& own_;
  LoadOptions options_;
  Prng prng_{secure_random_u64()};
  uint64_t number_ = 0;
  uint64_t versions_[kLoadKeys] = {};
  // Of a node that may end: what may have been stored since the last answer. That a read finds it says
  // nothing: a large value is seen before it is anywhere but in memory.
  std::vector<uint64_t> perhaps_[kLoadKeys];
  std::string value_;
  std::string trouble_;
};

// What a shard may keep of the small entries below: those of one batch.
constexpr uint64_t kRetiredBytesMost = 64 * 64;

// Of the tables themselves, when they hold nothing: each shard's is in chunks of its own.
uint64_t table_bytes(const NodeStat& stat, uint64_t shards) {
  const uint64_t chunks = (stat.buckets + kv::kBucketsPerChunk - 1) / kv::kBucketsPerChunk;
  return std::max(chunks, shards) * kChunkBytes + stat.overflow_lines * kLineBytes;
}

}  // namespace

SharedLedger::SharedLedger() {
  void* memory = ::mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  ledger_ = new (memory) Ledger;
  for (Ledger::Of& of : ledger_->clients) {
    for (Ledger::Entry& entry : of.entries) entry.pending.store(kNothingPending);
  }
}

SharedLedger::~SharedLedger() {
  (void)::munmap(ledger_, sizeof(Ledger));
}

uint64_t SharedLedger::operations() const {
  uint64_t sum = 0;
  for (const Ledger::Of& of : ledger_->clients) sum += of.operations.load();
  return sum;
}

int run_load(const std::string& address, Ledger& ledger, const LoadOptions& options) {
  auto client = Client::connect(address, {.timeout_ns = kPatience_ns});
  if (!client) {
    (void)std::fprintf(stderr, "client %d: %s\n", options.client, client.error().to_string().c_str());
    return 1;
  }
  return Load(*client, ledger, options).run();
}

bool put_in_the_end(Client& client, const std::string& key, const std::string& value) {
  return becomes_true([&] { return client.put(key, value).code() == Code::kOk; });
}

std::string differences_of(Client& client, const Ledger& ledger, int of) {
  std::string found;
  for (int key = 0; key < kLoadKeys; ++key) {
    const Ledger::Entry& entry = ledger.clients[of].entries[key];
    const std::string name = key_of(of, key);
    const auto value = client.get(name);
    if (!value && value.code() != Code::kNotFound) {
      found += fmt::format("{}: {}\n", name, info(value.code()).text);
      continue;
    }
    const auto number = value ? number_in(name, *value) : 0;
    if (number && (*number == entry.settled.load() || *number == entry.pending.load())) continue;
    found += number ? fmt::format("{} has number {} instead of {} (pending {})\n", name, *number,
                                  entry.settled.load(), entry.pending.load())
                    : fmt::format("{} has a broken value\n", name);
  }
  return found;
}

std::string differences(Client& client, const Ledger& ledger, int clients) {
  std::string found;
  uint64_t raised = 0;
  uint64_t maybe_raised = 0;
  for (int of = 0; of < clients; ++of) {
    raised += ledger.clients[of].raised.load();
    maybe_raised += ledger.clients[of].maybe_raised.load();
    found += differences_of(client, ledger, of);
  }
  const auto counter = client.get(kCounterKey);
  const uint64_t count = counter ? std::strtoull(counter->c_str(), nullptr, 10) : 0;
  if (count < raised || count > raised + maybe_raised) {
    found +=
        fmt::format("the counter is {}, with {} acknowledged and {} open\n", count, raised, maybe_raised);
  }
  return found;
}

void settle_pending(Client& client, Ledger& ledger, int of) {
  for (int key = 0; key < kLoadKeys; ++key) {
    Ledger::Entry& entry = ledger.clients[of].entries[key];
    const std::string name = key_of(of, key);
    const auto value = client.get(name);
    entry.settled.store(value ? number_in(name, *value).value_or(0) : 0);
    entry.pending.store(kNothingPending);
  }
}

std::string leak_after_erasing_all(Client& client) {
  uint64_t cursor = 0;
  do {
    const auto page = client.scan(cursor);
    if (!page) return fmt::format("scan was answered with {}", info(page.code()).text);
    for (const ScanEntry& entry : page->entries) {
      const auto erased = client.erase(entry.key);
      if (!erased && erased.code() != Code::kNotFound)
        return fmt::format("erase was answered with {}", info(erased.code()).text);
    }
    cursor = page->next;
  } while (cursor != 0);
  NodeStat stat;
  const uint64_t shards = client.route().shards;
  // Erased buffers are looked through in batches, so it takes further erasures until the last is free again.
  // One shard comes to that point now and then; several never do at once, and keep some of these last buffers
  // each.
  const uint64_t retired_most = shards == 1 ? 0 : shards * kRetiredBytesMost;
  const bool is_clean = becomes_true([&] {
    for (int i = 0; i < 2'000; ++i) {
      const std::string key = "erased again " + std::to_string(i % 64);
      (void)client.put(key, "x");
      (void)client.erase(key);
      const auto now = client.stat();
      if (!now) return false;
      stat = *now;
      if (stat.bytes_retired <= retired_most) break;
    }
    return stat.entries == 0 && stat.bytes_retired <= retired_most &&
           stat.bytes_live - stat.bytes_retired == table_bytes(stat, shards);
  });
  if (is_clean) return {};
  return fmt::format("{} entries, {} buffers, {} B retired, {} B live where the tables have {} B",
                     stat.entries, stat.buffers_live, stat.bytes_retired, stat.bytes_live,
                     table_bytes(stat, shards));
}

}  // namespace refract::test
