// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/writes/key_write.h"

#include <utility>

#include "refract/doors/redis/changing.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {

using kv::functions::Before;
using kv::functions::Effect;
using kv::functions::Function;
using runtime::Task;

// A long word lies in memory of its own, and would be copied into a message.
bool goes_by_itself(const Pending& command) noexcept {
  return !command.long_words.empty();
}

void plan_function(Pending& command, Function function, Bytes arguments) {
  command.operation = {
      .kind = KeyOperation::Kind::kFunction, .function = static_cast<uint8_t>(function), .value = arguments};
}

Task<Replaced> replace(Store& store, Pending& command, bool wants_old) {
  const KeyOperation& put = command.operation;
  Replaced replaced;
  const Change change{.decide =
                          [&](const Before& before) {
                            replaced.was_there = before.is_there;
                            replaced.code = Code::kOk;
                            if (before.is_there && put.if_absent) replaced.code = Code::kExists;
                            if (!before.is_there && put.if_present) replaced.code = Code::kNotFound;
                            if (replaced.code != Code::kOk) return Wish{};
                            const uint64_t expires_wall_ns =
                                put.keeps_ttl ? before.expires_wall_ns : put.expires_wall_ns;
                            return Wish{.effect = Effect::kValue,
                                        .value = put.value,
                                        .built_in = command.reserved(put.value),
                                        .expires_wall_ns = expires_wall_ns};
                          },
                      .reads_value = wants_old};
  const Result<> done = co_await change_by(store, command.words[1], change, replaced.old);
  if (!done) replaced.code = done.code();
  co_return std::move(replaced);
}

namespace {

// What is kept of the key's and what has to be there is looked at here: a value that is brought in pieces has
// no such conditions.
Task<Code> put_long(Store& store, Pending& command) {
  const KeyOperation& put = command.operation;
  if (put.if_present || put.keeps_ttl) {
    const Replaced replaced = co_await replace(store, command, false);
    co_return replaced.code;
  }
  const PutOptions options{.if_absent = put.if_absent, .ttl_ns = ttl_until(store, put.expires_wall_ns)};
  Result<uint64_t> version = fail(Code::kUnavailable);
  if (const Reservation* const built = command.reserved(put.value)) {
    version = co_await store.client->put(command.words[1], *built, options);
  } else {
    version = co_await store.client->put(command.words[1], put.value, options);
  }
  co_return version.code();
}

Task<Changed> do_by_itself(Store& store, Pending& command) {
  const std::string_view key = command.words[1];
  const KeyOperation& operation = command.operation;
  if (operation.kind == KeyOperation::Kind::kFunction) {
    const auto function = static_cast<Function>(operation.function);
    co_return co_await change(store, key, function, operation.value);
  }
  const bool is_put = operation.kind == KeyOperation::Kind::kPut;
  if (!is_put || !goes_by_itself(command)) {
    const Operated operated = co_await store.client->operate(key, operation);
    if (!is_put || operated.code != Code::kTooLarge) co_return Changed{.code = operated.code};
  }
  const Code code = co_await put_long(store, command);
  co_return Changed{.code = code};
}

}  // namespace

Task<> write_by_itself(Store& store, Pending& command) {
  const KeyWrite& write = *command.row->write;
  if (!write.plan(store, command)) co_return;
  const Changed changed = co_await do_by_itself(store, command);
  write.answer(store, command, changed.code, Bytes(changed.answer));
}

}  // namespace refract::doors::redis
