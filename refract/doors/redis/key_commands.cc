// SPDX-License-Identifier: Apache-2.0
// Commands of keys and of their strings.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "refract/base/units.h"
#include "refract/doors/redis/changing.h"
#include "refract/doors/redis/handlers.h"
#include "refract/doors/writes/key_write.h"

namespace refract::doors::redis {

using runtime::Task;

namespace {

// What there is of one key; `answer` replies of that, or of nothing.
template <typename Answer>
bool look_at_once(Call& call, Answer answer) {
  const Result<Got> got = call.store.client->exists_at_once(call.words[1]);
  if (!got && got.code() != Code::kNotFound) return false;
  count_read(call.store, got.has_value());
  answer(call.store, call.words, got ? &*got : nullptr, call.reply);
  return true;
}
template <typename Answer>
Task<> look(Store& store, Pending& command, Answer answer) {
  const Result<Got> got = co_await store.client->exists(command.words[1]);
  if (!got && got.code() != Code::kNotFound) co_return fail_with(command, got.code(), *store.client);
  count_read(store, got.has_value());
  // What answers changes it, which the check does not see.
  Reply reply = command.reply();  // NOLINT(misc-const-correctness)
  answer(store, command.words, got ? &*got : nullptr, reply);
}

// A value that stays where it is until it is sent.
bool get_long_at_once(Call& call) {
  Result<View> view = call.store.client->view_at_once(call.words[1]);
  if (!view) return false;
  count_read(call.store, true);
  call.reply.bulk(std::move(*view));
  return true;
}

void answer_strlen(const Store& /*store*/, Words /*words*/, const Got* got, Reply& reply) {
  reply.number(got != nullptr ? static_cast<int64_t>(got->value_bytes) : 0);
}
void answer_type(const Store& /*store*/, Words /*words*/, const Got* got, Reply& reply) {
  reply.simple(got != nullptr ? "string" : "none");
}
void answer_ttl(const Store& store, Words words, const Got* got, Reply& reply) {
  reply.number(
      ttl_answer(words[0], got != nullptr, got != nullptr ? got->expires_wall_ns : 0, store_now_ns(store)));
}

}  // namespace

int64_t ttl_answer(std::string_view name, bool is_there, uint64_t expires_wall_ns, uint64_t now_ns) noexcept {
  if (!is_there) return -2;
  if (expires_wall_ns == 0) return -1;
  const bool is_ms = name.front() == 'p' || name.front() == 'P';
  const bool is_moment = name.size() > std::string_view("pttl").size();
  // Rounded as Redis does, which counts milliseconds.
  const uint64_t moment_ms = expires_wall_ns / kMillisecond_ns;
  if (is_moment) return static_cast<int64_t>(is_ms ? moment_ms : (moment_ms + 500) / 1000);
  const uint64_t left_ms = moment_ms - std::min(now_ns / kMillisecond_ns, moment_ms);
  return static_cast<int64_t>(is_ms ? left_ms : (left_ms + 500) / 1000);
}

bool get_at_once(Call& call) {
  AsyncClient::Get get = call.store.client->get_into(call.words[1], call.store.value);
  if (!get.await_ready()) return false;
  const Result<Got> got = get.await_resume();
  if (!got && got.code() == Code::kTooLarge) return get_long_at_once(call);
  if (!got && got.code() != Code::kNotFound) return false;
  count_read(call.store, got.has_value());
  if (got) {
    call.reply.bulk(Bytes(std::span(call.store.value).first(got->value_bytes)).text());
  } else {
    call.reply.null();
  }
  return true;
}

Task<> get(Store& store, Pending& command) {
  Result<View> view = co_await store.client->view(command.words[1]);
  if (!view && view.code() != Code::kNotFound) co_return fail_with(command, view.code(), *store.client);
  count_read(store, view.has_value());
  if (view) {
    command.reply().bulk(std::move(*view));
  } else {
    command.reply().null();
  }
}

// Of a key that is there twice the last value stays, as in Redis.
Task<> mset(Store& store, Pending& command) {
  const auto& words = command.words;
  if (words.size() % 2 == 0) co_return command.reply().error(wrong_arity("mset"));
  std::vector<PutItem> items;
  items.reserve(words.size() / 2);
  std::unordered_map<std::string_view, size_t> places;
  for (size_t i = 1; i < words.size(); i += 2) {
    const auto [place, is_new] = places.emplace(words[i], items.size());
    if (is_new) items.push_back({.key = words[i], .value = words[i + 1]});
    items[place->second].value = words[i + 1];
  }
  co_await store.client->multi_put(items);
  for (const PutItem& item : items) {
    if (!item.result) co_return fail_with(command, item.result.code(), *store.client);
  }
  command.reply().ok();
}

namespace {

Task<> del_some(Store& store, Pending& command) {
  int64_t erased = 0;
  for (const std::string_view key : Words(command.words).subspan(1)) {
    const Operated operated = co_await store.client->operate(key, {.kind = KeyOperation::Kind::kErase});
    if (operated.code != Code::kOk && operated.code != Code::kNotFound) {
      co_return fail_with(command, operated.code, *store.client);
    }
    erased += operated.code == Code::kOk ? 1 : 0;
  }
  command.reply().number(erased);
}

}  // namespace

Task<> del(Store& store, Pending& command) {
  if (command.words.size() == 2) return write_by_itself(store, command);
  return del_some(store, command);
}

bool exists_at_once(Call& call) {
  int64_t there = 0;
  for (const std::string_view key : call.words.subspan(1)) {
    const Result<Got> got = call.store.client->exists_at_once(key);
    if (!got && got.code() != Code::kNotFound) return false;
    there += got ? 1 : 0;
  }
  call.reply.number(there);
  return true;
}

Task<> exists(Store& store, Pending& command) {
  std::vector<ExistsItem> items(command.words.size() - 1);
  for (size_t i = 0; i < items.size(); ++i) items[i].key = command.words[i + 1];
  co_await store.client->multi_exists(items);
  int64_t there = 0;
  for (const ExistsItem& item : items) {
    if (!item.result && item.result.code() != Code::kNotFound) {
      co_return fail_with(command, item.result.code(), *store.client);
    }
    there += item.result ? 1 : 0;
  }
  command.reply().number(there);
}

bool strlen_at_once(Call& call) {
  return look_at_once(call, answer_strlen);
}
Task<> strlen(Store& store, Pending& command) {
  return look(store, command, answer_strlen);
}
bool type_at_once(Call& call) {
  return look_at_once(call, answer_type);
}
Task<> type(Store& store, Pending& command) {
  return look(store, command, answer_type);
}
bool ttl_at_once(Call& call) {
  return look_at_once(call, answer_ttl);
}
Task<> ttl(Store& store, Pending& command) {
  return look(store, command, answer_ttl);
}

}  // namespace refract::doors::redis
