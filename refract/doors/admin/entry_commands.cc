// SPDX-License-Identifier: Apache-2.0
// OBJECT and MEMORY: how an entry is kept.
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "refract/doors/admin/entry_bytes.h"
#include "refract/doors/admin/handlers.h"
#include "refract/doors/admin/node_look.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {

using runtime::Task;

namespace {

// The third word's entry. Nothing: there is none, or it is not known, and the reply is there.
Task<std::optional<Got>> entry_of(Store& store, Pending& command) {
  const Result<Got> got = co_await store.client->exists(command.words[2]);
  if (got) co_return *got;
  if (got.code() == Code::kNotFound) {
    command.reply().null();
  } else {
    fail_with(command, got.code(), *store.client);
  }
  co_return std::nullopt;
}

}  // namespace

// Every value is a string of bytes here. What is told is what Redis makes of such a string when it is SET.
Task<> object_encoding(Store& store, Pending& command) {
  constexpr size_t kIntegerBytesMax = 20;
  constexpr size_t kShortBytesMax = 44;
  std::array<std::byte, kShortBytesMax> value{};
  const Result<Got> got = co_await store.client->get_into(command.words[2], value);
  if (!got && got.code() == Code::kTooLarge) co_return command.reply().bulk("raw");
  if (!got && got.code() == Code::kNotFound) co_return command.reply().null();
  if (!got) co_return fail_with(command, got.code(), *store.client);
  const std::string_view text = Bytes(std::span(value).first(got->value_bytes)).text();
  command.reply().bulk(text.size() <= kIntegerBytesMax && integer_of(text) ? "int" : "embstr");
}

Task<> object_freq(Store& store, Pending& command) {
  const std::optional<Got> got = co_await entry_of(store, command);
  if (!got) co_return;
  if (store.facts.eviction == "allkeys-lfu") {
    co_return command.reply().error("ERR access frequencies are the node's own, and it does not tell them");
  }
  command.reply().error(
      "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when "
      "switching between policies at runtime LRU and LFU data will take some time to adjust.");
}

Task<> object_idletime(Store& store, Pending& command) {
  const std::optional<Got> got = co_await entry_of(store, command);
  if (!got) co_return;
  command.reply().error(
      "ERR idle times are not tracked: a read is a load from memory, and leaves no time behind");
}

// No two entries share a value.
Task<> object_refcount(Store& store, Pending& command) {
  const std::optional<Got> got = co_await entry_of(store, command);
  if (got) command.reply().number(1);
}

Task<> memory_usage(Store& store, Pending& command) {
  const auto& words = command.words;
  for (size_t i = 3; i < words.size(); i += 2) {
    if (!is(words[i], "samples") || i + 1 == words.size()) co_return command.reply().error(kSyntaxError);
    const auto samples = integer_of(words[i + 1]);
    if (!samples) co_return command.reply().error(kNoInteger);
    if (*samples < 0) co_return command.reply().error(kSyntaxError);
  }
  const std::optional<Got> got = co_await entry_of(store, command);
  if (got) command.reply().number(static_cast<int64_t>(entry_bytes(words[2].size(), *got)));
}

// Of the node's memory, as INFO tells of it. What the doors hold for their clients is not in it.
Task<> memory_stats(Store& store, Pending& command) {
  const NodeStat* const stat = co_await look_at_node(store);
  if (stat == nullptr) co_return command.reply().error("ERR the node's server does not answer");
  const auto ratio = [](uint64_t part, uint64_t whole) {
    return static_cast<double>(part) / static_cast<double>(std::max<uint64_t>(whole, 1));
  };
  const uint64_t used = stat->bytes_live;
  const uint64_t taken = stat->bytes_total - std::min(stat->bytes_free, stat->bytes_total);
  const uint64_t of_entries = used - std::min(stat->bytes_retired, used);
  const auto whole = [](uint64_t number) { return static_cast<int64_t>(number); };
  Reply reply = command.reply();
  reply.map(8);
  reply.bulk("total.allocated");
  reply.number(whole(used));
  reply.bulk("overhead.total");
  reply.number(whole(used - of_entries));
  reply.bulk("keys.count");
  reply.number(whole(stat->entries));
  reply.bulk("keys.bytes-per-key");
  reply.number(whole(stat->entries == 0 ? 0 : of_entries / stat->entries));
  reply.bulk("dataset.bytes");
  reply.number(whole(of_entries));
  reply.bulk("dataset.percentage");
  reply.real(100 * ratio(of_entries, used));
  reply.bulk("fragmentation");
  reply.real(ratio(taken, used));
  reply.bulk("fragmentation.bytes");
  reply.number(whole(taken) - whole(used));
}

bool memory_doctor(Call& call) {
  call.reply.text(
      "The node's memory is its server's: `refract stat` shows it, and `refract doctor` checks it.\n");
  return true;
}

// What the node can give back it does give back by itself.
bool memory_purge(Call& call) {
  call.reply.ok();
  return true;
}

}  // namespace refract::doors::redis
