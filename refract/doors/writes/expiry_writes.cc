// SPDX-License-Identifier: Apache-2.0
// Writes that give a key a time to live, or take it away.
#include <string_view>

#include "refract/doors/redis/changing.h"
#include "refract/doors/redis/expiry.h"
#include "refract/doors/redis/handlers.h"
#include "refract/doors/writes/key_write.h"
#include "refract/kv/functions/functions.h"

namespace refract::doors::redis {

using kv::functions::Function;

namespace {

bool plan_expire(Store& store, Pending& command) {
  const std::string_view name = command.row->name;
  const ExpireOptions options = expire_options_of(Words(command.words).subspan(3));
  if (!options.wrong.empty()) {
    command.reply().error(options.wrong);
    return false;
  }
  const Moment moment = moment_of(command.words[2], expiry_of(name), name, store_now_ns(store));
  if (!moment.wrong.empty()) {
    command.reply().error(moment.wrong);
    return false;
  }
  command.arguments.assign(reinterpret_cast<const char*>(&moment.wall_ns), sizeof(moment.wall_ns));
  command.arguments += static_cast<char>(options.conditions);
  plan_function(command, Function::kExpire, command.arguments);
  return true;
}

bool plan_persist(Store& /*store*/, Pending& command) {
  plan_function(command, Function::kPersist, {});
  return true;
}

// Whether it has changed.
void answer_expiry(Store& store, Pending& command, Code code, Bytes answer) {
  if (code != Code::kOk) return fail_with(command, code, *store.client);
  command.reply().number(!answer.empty() && answer.front() != std::byte{0} ? 1 : 0);
}

}  // namespace

const KeyWrite kExpireWrite{.plan = plan_expire, .answer = answer_expiry, .may_come_back = true};
const KeyWrite kPersistWrite{.plan = plan_persist, .answer = answer_expiry, .may_come_back = true};

}  // namespace refract::doors::redis
