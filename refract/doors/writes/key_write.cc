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

Task<Changed> do_by_itself(Store& store, Pending& command) {
  const std::string_view key = command.words[1];
  const KeyOperation& operation = command.operation;
  if (operation.kind == KeyOperation::Kind::kFunction) {
    const auto function = static_cast<Function>(operation.function);
    co_return co_await change(store, key, function, operation.value);
  }
  // What was received into memory that the server reads is not copied on its way.
  KeyOperation by_itself = operation;
  by_itself.built_in = command.reserved(operation.value);
  if (by_itself.built_in != nullptr) by_itself.value = {};
  const Operated operated = co_await store.client->operate(key, by_itself);
  co_return Changed{.code = operated.code};
}

}  // namespace

Task<> write_by_itself(Store& store, Pending& command) {
  const KeyWrite& write = *command.row->write;
  if (!write.plan(store, command)) co_return;
  const Changed changed = co_await do_by_itself(store, command);
  write.answer(store, command, changed.code, Bytes(changed.answer));
}

}  // namespace refract::doors::redis
