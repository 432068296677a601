// SPDX-License-Identifier: Apache-2.0
// MGET: all values stand at one moment, which takes no message while other writers are not in between.
#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/doors/exec/handlers.h"
#include "refract/doors/exec/look_together.h"
#include "refract/doors/redis/handlers.h"
#include "refract/txn/attempts.h"

namespace refract::doors::redis {

using runtime::Task;
using txn::Attempts;

namespace {

// Of one MGET: what it answers, and how many keys are looked at together, each with so much room.
constexpr size_t kGetBytesMax = size_t{512} << 20;
constexpr size_t kKeysTogether = 1024;
constexpr size_t kRoomBytes = 1024;
// More is not read while the owners hold it.
constexpr size_t kHeldBytesMax = size_t{16} << 20;

void answer(Pending& command, std::optional<std::string_view> value) {
  Reply reply = command.reply();  // NOLINT(misc-const-correctness)
  if (value) {
    reply.bulk(*value);
  } else {
    reply.null();
  }
}

void fail_whole(Store& store, Pending& command, Code code) {
  command.answer = {};
  fail_with(command, code, *store.client);
}

// False: it is too long, and that was replied.
bool has_room(Pending& command) {
  if (command.answer.bytes() <= kGetBytesMax) return true;
  command.answer = {};
  command.reply().error(kLongAnswer);
  return false;
}

// What did not fit: it may be long, and its reply is sent from where it lies. Says whether all is well.
Task<bool> get_longer(Store& store, Pending& command, std::string_view key, std::vector<Watch>& reads) {
  Result<View> view = co_await store.client->view(key);
  if (!view && view.code() != Code::kNotFound) {
    fail_whole(store, command, view.code());
    co_return false;
  }
  reads.push_back({.key = key, .version = view ? view->version() : 0});
  if (view) {
    command.reply().bulk(std::move(*view));
  } else {
    command.reply().null();
  }
  co_return true;
}

// The values of some keys, behind what is answered already. Says whether all is well.
Task<bool> get_some(Store& store, Pending& command, Words keys, std::vector<Watch>& reads) {
  std::vector<GetIntoItem> items(keys.size());
  const auto room = std::make_unique_for_overwrite<std::byte[]>(keys.size() * kRoomBytes);
  for (size_t i = 0; i < items.size(); ++i) {
    items[i] = {.key = keys[i], .buffer = std::span(room.get() + i * kRoomBytes, kRoomBytes)};
  }
  co_await store.client->multi_get_into(items);
  for (const GetIntoItem& item : items) {
    const Code code = item.result ? Code::kOk : item.result.code();
    const std::string_view key = item.key.text();
    if (code == Code::kTooLarge) {
      const bool is_well = co_await get_longer(store, command, key, reads);
      if (!is_well) co_return false;
    } else if (code == Code::kOk) {
      answer(command, Bytes(item.buffer.first(item.result->value_bytes)).text());
      reads.push_back({.key = key, .version = item.result->version});
    } else if (code == Code::kNotFound) {
      answer(command, std::nullopt);
      reads.push_back({.key = key, .version = 0});
    } else {
      fail_whole(store, command, code);
      co_return false;
    }
    if (!has_room(command)) co_return false;
  }
  co_return true;
}

Task<bool> get_all(Store& store, Pending& command, std::vector<Watch>& reads) {
  Words keys = Words(command.words).subspan(1);
  command.answer = {};
  command.reply().array(keys.size());
  reads.clear();
  while (!keys.empty()) {
    const Words some = keys.first(std::min(keys.size(), kKeysTogether));
    const bool is_well = co_await get_some(store, command, some, reads);
    if (!is_well) co_return false;
    keys = keys.subspan(some.size());
  }
  co_return true;
}

Task<Result<>> get_in(AsyncTransaction& transaction, std::vector<GetItem>& items) {
  co_await transaction.multi_get(items);
  for (const GetItem& item : items) {
    if (!item.result && item.result.code() != Code::kNotFound) co_return fail(item.result.error());
  }
  co_return Result<>();
}

// What writers overtake again and again is read while the owners hold it.
Task<> get_held(Store& store, Pending& command, std::vector<Watch>& reads) {
  const Words keys = Words(command.words).subspan(1);
  std::vector<GetItem> items(keys.size());
  for (size_t i = 0; i < items.size(); ++i) items[i].key = keys[i];
  const Result<> held = co_await store.client->read_only(
      [&items](AsyncTransaction& transaction) { return get_in(transaction, items); });
  if (!held) co_return fail_whole(store, command, held.code());
  command.answer = {};
  command.reply().array(keys.size());
  for (size_t i = 0; i < items.size(); ++i) {
    reads[i].version = items[i].result ? items[i].result->version : 0;
    answer(command, items[i].result ? std::optional<std::string_view>(items[i].value) : std::nullopt);
    if (!has_room(command)) co_return;
  }
}

// Whether the values stood together; nothing: that cannot be said, and why is replied.
Task<std::optional<bool>> stood_together(Store& store, Pending& command, const std::vector<Watch>& reads) {
  // More is not one moment.
  if (reads.size() < 2 || reads.size() > kTransactionKeysMax) co_return true;
  Looked looked = look_together_at_once(store, reads);
  if (looked.code == Code::kInvalidated) looked = co_await look_together(store, reads);
  if (looked.code == Code::kOk) co_return true;
  if (looked.code == Code::kConflict) co_return false;
  fail_whole(store, command, looked.code);
  co_return std::nullopt;
}

void count_reads(Store& store, const std::vector<Watch>& reads) {
  for (const Watch& read : reads) count_read(store, read.version != 0);
}

}  // namespace

Task<> mget(Store& store, Pending& command) {
  const uint64_t begun_ns = store.shard.now_ns();
  std::vector<Watch> reads;
  reads.reserve(command.words.size() - 1);
  std::optional<Attempts> attempts;
  for (;;) {
    const bool is_well = co_await get_all(store, command, reads);
    if (!is_well) co_return;
    const std::optional<bool> is_done = co_await stood_together(store, command, reads);
    if (!is_done) co_return;
    if (*is_done) break;
    if (!attempts)
      attempts.emplace(begun_ns, kDoorTimeout_ns, store.client->new_request().sequence ^ begun_ns);
    const std::optional<uint64_t> pause_ns = attempts->pause(store.shard.refresh_now());
    if (!pause_ns) co_return fail_whole(store, command, Code::kConflict);
    if (attempts->is_overtaken() && command.answer.bytes() <= kHeldBytesMax) {
      co_await get_held(store, command, reads);
      break;
    }
    co_await store.shard.sleep_for(*pause_ns);
  }
  count_reads(store, reads);
}

}  // namespace refract::doors::redis
