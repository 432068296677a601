// SPDX-License-Identifier: Apache-2.0
// Commands that give a key a time to live, or take it away.
#include <array>
#include <cstring>
#include <string_view>

#include "refract/doors/redis/changing.h"
#include "refract/doors/redis/expiry.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {

using kv::functions::Function;
using runtime::Task;

namespace {

Task<> change_expiry(Store& store, Pending& command, Function function,
                     std::span<const std::byte> arguments) {
  const Result<Changed> changed = co_await change(store, command.words[1], function, arguments);
  if (!changed) co_return fail_with(command, changed.code(), *store.client);
  if (changed->code != Code::kOk) co_return fail_with(command, changed->code, *store.client);
  command.reply().number(changed->answer.front());
}

}  // namespace

Task<> expire(Store& store, Pending& command) {
  const std::string_view name = command.row->name;
  const ExpireOptions options = expire_options_of(Words(command.words).subspan(3));
  if (!options.wrong.empty()) co_return command.reply().error(options.wrong);
  const Moment moment = moment_of(command.words[2], expiry_of(name), name, store_now_ns(store));
  if (!moment.wrong.empty()) co_return command.reply().error(moment.wrong);
  std::array<std::byte, sizeof(moment.wall_ns) + sizeof(options.conditions)> arguments;
  std::memcpy(arguments.data(), &moment.wall_ns, sizeof(moment.wall_ns));
  arguments.back() = std::byte{options.conditions};
  co_await change_expiry(store, command, Function::kExpire, arguments);
}

Task<> persist(Store& store, Pending& command) {
  return change_expiry(store, command, Function::kPersist, {});
}

}  // namespace refract::doors::redis
