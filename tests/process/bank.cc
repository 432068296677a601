// SPDX-License-Identifier: Apache-2.0
#include "tests/process/bank.h"

#include <unistd.h>

#include <array>
#include <string>

#include "tests/process/node_process.h"

#include "refract/base/testing/needed.h"

namespace refract::test::bank {
namespace {

// So long that a cache of some MiB has few: what is put takes the place of others of the same size, and not
// of all that lies in some piece of memory.
std::string value_of(int64_t amount) {
  std::string value = std::to_string(amount);
  value.resize(20'000, ' ');
  return value;
}

std::string account(uint64_t i) {
  return "account/" + std::to_string(i);
}

}  // namespace

Result<> open(Client& client) {
  return client.transaction([](Transaction& t) -> Result<> {
    for (uint64_t i = 0; i < kAccounts; ++i) {
      if (auto put = t.put(account(i), value_of(kStart)); !put) return put;
    }
    return {};
  });
}

Result<> move(Client& client, Prng& prng) {
  const uint64_t from = prng.below(kAccounts);
  const uint64_t to = (from + 1 + prng.below(kAccounts - 1)) % kAccounts;
  const auto amount = static_cast<int64_t>(prng.below(20));
  return client.transaction([&](Transaction& t) -> Result<> {
    const Result<std::string> there = t.get(account(from));
    if (!there) return fail(there.error());
    const Result<std::string> here = t.get(account(to));
    if (!here) return fail(here.error());
    if (auto put = t.put(account(from), value_of(std::stoll(*there) - amount)); !put) return put;
    return t.put(account(to), value_of(std::stoll(*here) + amount));
  });
}

Result<int64_t> sum(Client& client) {
  int64_t sum = 0;
  const Result<> read = client.read_only([&](Transaction& t) -> Result<> {
    sum = 0;
    std::array<std::string, kAccounts> keys;
    std::array<GetItem, kAccounts> items;
    for (size_t i = 0; i < kAccounts; ++i) {
      keys[i] = account(i);
      items[i].key = keys[i];
    }
    t.multi_get(items);
    for (const GetItem& item : items) {
      if (item.result.code() != Code::kOk) return fail(item.result.error());
      sum += std::stoll(item.value);
    }
    return {};
  });
  if (!read) return fail(read.error());
  return sum;
}

int run_mover(const std::string& address, Ledger& ledger, int client) {
  Client own = needed(Client::connect(address, {.timeout_ns = kPatience_ns}));
  Prng prng(static_cast<uint64_t>(client) + 1);
  while (!ledger.stop) {
    if (move(own, prng)) ++ledger.clients[client].operations;
    // So that all accounts can be read together now and then.
    ::usleep(500);
  }
  return 0;
}

int run_filler(const std::string& address, Ledger& ledger, int client) {
  Client own = needed(Client::connect(address, {.timeout_ns = kPatience_ns}));
  const std::string value = value_of(kStart);
  for (uint64_t i = 0; !ledger.stop;) {
    std::array<std::string, 16> keys;
    std::array<PutItem, 16> items;
    for (size_t j = 0; j < items.size(); ++j) {
      keys[j] = "filler/" + std::to_string(i++);
      items[j] = {.key = keys[j], .value = value};
    }
    own.multi_put(items);
    for (const PutItem& item : items) ledger.clients[client].operations += item.result ? 1 : 0;
  }
  return 0;
}

}  // namespace refract::test::bank
