// SPDX-License-Identifier: Apache-2.0
#include "refract/client/transactions/reads.h"

#include <fmt/format.h>

#include <utility>

#include "refract/base/units.h"
#include "refract/client/paths/peers.h"
#include "refract/kv/layout/contract.h"

namespace refract::client {

Report too_large() {
  return {Code::kTooLarge,
          fmt::format(
              "this is more than one transaction may have: at most {} keys, and {} MiB of keys and values",
              kv::kBatchKeysMax, kv::kBatchBytesMax / kMiB),
          "divide it. A key has up to 65,535 bytes; at a node with a log the writes to one shard have some 4 "
          "MiB"};
}

std::vector<GetItem> to_ask(const txn::Changes& changes, std::span<const GetItem> items) {
  std::vector<GetItem> asked;
  asked.reserve(items.size());
  for (const GetItem& item : items) {
    if (!changes.has_at_once(item.key.text())) asked.push_back({.key = item.key});
  }
  return asked;
}

void take_reads(txn::Changes& changes, std::span<GetItem> asked, std::span<GetItem> items) {
  auto answer = asked.begin();
  for (GetItem& item : items) {
    const std::string_view key = item.key.text();
    auto value = changes.at_once(key);
    if (!value) {
      const Result<Got>& got = answer->result;
      value = changes.take_read(key, got.code(), got ? got->version : 0, std::move(answer->value));
      ++answer;
    }
    if (*value) {
      const txn::Changes::Item* const noted = changes.find(key);
      item.value = **std::move(value);
      item.result = Got{.version = noted->read.value_or(0), .value_bytes = item.value.size()};
    } else {
      item.result = fail(value->error());
    }
  }
}

std::vector<std::string> keys_read(const txn::Changes& changes) {
  std::vector<std::string> keys;
  keys.reserve(changes.reads());
  changes.each_read([&](std::string_view key, uint64_t) { keys.emplace_back(key); });
  return keys;
}

bool take_known(txn::Changes& changes, std::span<GetItem> items, txn::Changes::Known& known) {
  uint64_t bytes = 0;
  for (GetItem& item : items) {
    const Result<Got>& got = item.result;
    if (!got && got.code() != Code::kNotFound) return false;
    bytes += item.value.size();
    if (bytes > kv::kBatchBytesMax) return false;
    const uint64_t version = got ? got->version : 0;
    if (!changes.note_read(item.key.text(), version)) return false;
    known.emplace(item.key.text(), txn::Changes::Found{.version = version, .value = std::move(item.value)});
  }
  return true;
}

bool are_read_directly(const Peers& peers, const txn::Changes& changes) {
  bool is_so = true;
  changes.each_read([&](std::string_view key, uint64_t) {
    const Connection* const connection = is_so ? peers.at({.key = {Bytes(key)}}) : nullptr;
    if (connection != nullptr && connection->reader() == nullptr) is_so = false;
  });
  return is_so;
}

}  // namespace refract::client
