// SPDX-License-Identifier: Apache-2.0
// Writes of strings, and erasures.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "refract/doors/redis/changing.h"
#include "refract/doors/redis/expiry.h"
#include "refract/doors/redis/handlers.h"
#include "refract/doors/writes/key_write.h"
#include "refract/kv/functions/functions.h"
#include "refract/kv/layout/layout.h"

namespace refract::doors::redis {

using kv::functions::Function;
using kv::functions::Refusal;

std::string_view refusal_text(Refusal refusal) noexcept {
  switch (refusal) {
    case Refusal::kOverflow:
      return "ERR increment or decrement would overflow";
    case Refusal::kNoFloat:
      return kNoFloat;
    case Refusal::kNotFinite:
      return "ERR increment would produce NaN or Infinity";
    case Refusal::kNoInteger:
      break;
  }
  return kNoInteger;
}

bool plan_set(Store& store, Pending& command) {
  const Words words = command.words;
  command.operation = {.value = words[2]};
  if (words.size() == 3) return true;
  const StringOptions options = string_options_of(words.subspan(3), OptionsOf::kSet);
  if (options.is_wrong) {
    command.reply().error(kSyntaxError);
    return false;
  }
  command.operation.if_absent = options.if_absent;
  command.operation.if_present = options.if_present;
  command.operation.keeps_ttl = options.expiry == Expiry::kKept;
  if (options.expiry == Expiry::kNone || options.expiry == Expiry::kKept) return true;
  const Moment moment = positive_moment_of(options.time, options.expiry, "set", store_now_ns(store));
  command.operation.expires_wall_ns = moment.wall_ns;
  if (!moment.wrong.empty()) command.reply().error(moment.wrong);
  return moment.wrong.empty();
}

namespace {

void answer_set(Store& store, Pending& command, Code code, Bytes /*answer*/) {
  const bool is_refused = (code == Code::kExists && command.operation.if_absent) ||
                          (code == Code::kNotFound && command.operation.if_present);
  if (code == Code::kOk) {
    command.reply().ok();
  } else if (is_refused) {
    command.reply().null();
  } else {
    fail_with(command, code, *store.client);
  }
}

bool plan_setnx(Store& /*store*/, Pending& command) {
  command.operation = {.if_absent = true, .value = command.words[2]};
  return true;
}

// How many were changed, where `none` says that it was none.
void answer_count(Store& store, Pending& command, Code code, Code none) {
  if (code != Code::kOk && code != none) return fail_with(command, code, *store.client);
  command.reply().number(code == Code::kOk ? 1 : 0);
}
void answer_setnx(Store& store, Pending& command, Code code, Bytes /*answer*/) {
  answer_count(store, command, code, Code::kExists);
}
void answer_del(Store& store, Pending& command, Code code, Bytes /*answer*/) {
  answer_count(store, command, code, Code::kNotFound);
}

// SETEX and PSETEX.
bool plan_setex(Store& store, Pending& command) {
  const std::string_view name = command.row->name;
  const Expiry expiry = name == "setex" ? Expiry::kSeconds : Expiry::kMilliseconds;
  const Moment moment = positive_moment_of(command.words[2], expiry, name, store_now_ns(store));
  command.operation = {.expires_wall_ns = moment.wall_ns, .value = command.words[3]};
  if (!moment.wrong.empty()) command.reply().error(moment.wrong);
  return moment.wrong.empty();
}

bool plan_del(Store& /*store*/, Pending& command) {
  command.operation = {.kind = KeyOperation::Kind::kErase};
  return true;
}

// True: there is an answer.
bool is_well(Store& store, Pending& command, Code code, Bytes answer) {
  if (code == Code::kOk) return true;
  if (code == Code::kInvalidArgument && !answer.empty()) {
    command.reply().error(refusal_text(static_cast<Refusal>(answer.front())));
  } else if (code == Code::kTooLarge && command.words[1].size() <= kv::kKeyBytesMax) {
    command.reply().error(kLongString);
  } else {
    fail_with(command, code, *store.client);
  }
  return false;
}

// A sum, or the new length.
void answer_number(Store& store, Pending& command, Code code, Bytes answer) {
  if (!is_well(store, command, code, answer)) return;
  int64_t number = 0;
  std::memcpy(&number, answer.data(), std::min(sizeof(number), answer.size()));
  command.reply().number(number);
}

void answer_text(Store& store, Pending& command, Code code, Bytes answer) {
  if (is_well(store, command, code, answer)) command.reply().bulk(answer.text());
}

// The addend, signed; nothing: it was replied what is wrong.
std::optional<int64_t> addend_of(Pending& command) {
  const std::string_view name = command.row->name;
  if (command.words.size() == 2) return name == "incr" ? 1 : -1;
  const auto number = integer_of(command.words[2]);
  if (!number) {
    command.reply().error(kNoInteger);
    return std::nullopt;
  }
  if (name == "incrby") return number;
  if (*number == INT64_MIN) {
    command.reply().error("ERR decrement would overflow");
    return std::nullopt;
  }
  return -*number;
}

// INCR, DECR, INCRBY and DECRBY.
bool plan_incr(Store& /*store*/, Pending& command) {
  const std::optional<int64_t> addend = addend_of(command);
  if (!addend) return false;
  command.arguments.assign(reinterpret_cast<const char*>(&*addend), sizeof(*addend));
  plan_function(command, Function::kAdd, command.arguments);
  return true;
}

bool plan_incrbyfloat(Store& /*store*/, Pending& command) {
  plan_function(command, Function::kAddFloat, command.words[2]);
  return true;
}

bool plan_append(Store& /*store*/, Pending& command) {
  plan_function(command, Function::kAppend, command.words[2]);
  return true;
}

bool plan_setrange(Store& /*store*/, Pending& command) {
  const auto offset = integer_of(command.words[2]);
  if (!offset || *offset < 0) {
    command.reply().error(!offset ? kNoInteger : "ERR offset is out of range");
    return false;
  }
  command.arguments.assign(reinterpret_cast<const char*>(&*offset), sizeof(*offset));
  command.arguments += command.words[3];
  plan_function(command, Function::kSetRange, command.arguments);
  return true;
}

}  // namespace

const KeyWrite kSetWrite{.plan = plan_set, .answer = answer_set};
const KeyWrite kSetnxWrite{.plan = plan_setnx, .answer = answer_setnx};
const KeyWrite kSetexWrite{.plan = plan_setex, .answer = answer_set};
const KeyWrite kDelWrite{.plan = plan_del, .answer = answer_del};
const KeyWrite kIncrWrite{.plan = plan_incr, .answer = answer_number};
const KeyWrite kIncrbyfloatWrite{.plan = plan_incrbyfloat, .answer = answer_text, .may_come_back = true};
const KeyWrite kAppendWrite{.plan = plan_append, .answer = answer_number, .may_come_back = true};
const KeyWrite kSetrangeWrite{.plan = plan_setrange, .answer = answer_number, .may_come_back = true};

}  // namespace refract::doors::redis
