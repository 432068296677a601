// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/exec/body_commands.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "refract/base/units.h"
#include "refract/doors/redis/changing.h"
#include "refract/doors/redis/expiry.h"
#include "refract/doors/redis/handlers.h"
#include "refract/doors/redis/range.h"

namespace refract::doors::redis {
namespace {

using kv::functions::Before;
using kv::functions::Function;
using kv::functions::Plan;

Bytes value_of(const Before& before) noexcept {
  return {before.value};
}

void answer_value(BodyCall& call, const Before& before) {
  call.body.count_read(before.is_there);
  if (before.is_there) {
    call.reply.bulk(value_of(before).text());
  } else {
    call.reply.null();
  }
}

void get(BodyCall& call) {
  answer_value(call, call.body.value(call.words[1]));
}

void mget(BodyCall& call) {
  call.reply.array(call.words.size() - 1);
  for (const std::string_view key : call.words.subspan(1)) answer_value(call, call.body.value(key));
}

// EXISTS and TOUCH.
void exists(BodyCall& call) {
  int64_t there = 0;
  for (const std::string_view key : call.words.subspan(1)) there += call.body.head(key).is_there ? 1 : 0;
  call.reply.number(there);
}

void strlen(BodyCall& call) {
  const Body::Head head = call.body.head(call.words[1]);
  call.body.count_read(head.is_there);
  call.reply.number(static_cast<int64_t>(head.value_bytes));
}

void type(BodyCall& call) {
  const Body::Head head = call.body.head(call.words[1]);
  call.body.count_read(head.is_there);
  call.reply.simple(head.is_there ? "string" : "none");
}

// TTL, PTTL, EXPIRETIME and PEXPIRETIME.
void ttl(BodyCall& call) {
  const Body::Head head = call.body.head(call.words[1]);
  call.body.count_read(head.is_there);
  call.reply.number(ttl_answer(call.row.name, head.is_there, head.expires_wall_ns, call.body.now_ns()));
}

// GETRANGE and SUBSTR.
void getrange(BodyCall& call) {
  const auto first = integer_of(call.words[2]);
  const auto last = integer_of(call.words[3]);
  if (!first || !last) return call.reply.error(kNoInteger);
  const Before before = call.body.value(call.words[1]);
  call.body.count_read(before.is_there);
  call.reply.bulk(range_of(value_of(before).text(), *first, *last));
}

void getset(BodyCall& call) {
  answer_value(call, call.body.value(call.words[1]));
  call.body.put_lent(call.words[1], call.words[2], 0);
}

void getdel(BodyCall& call) {
  const Before before = call.body.value(call.words[1]);
  answer_value(call, before);
  if (before.is_there) call.body.erase(call.words[1]);
}

// The same value, with another moment of expiry.
void keep_until(BodyCall& call, const Before& before, uint64_t expires_wall_ns) {
  call.body.put(call.words[1], std::string(value_of(before).text()), expires_wall_ns);
}

void getex(BodyCall& call) {
  const StringOptions options = string_options_of(call.words.subspan(2), OptionsOf::kGetEx);
  if (options.is_wrong) return call.reply.error(kSyntaxError);
  const Before before = call.body.value(call.words[1]);
  const bool changes = options.persists || options.expiry != Expiry::kNone;
  if (!before.is_there || !changes) return answer_value(call, before);
  if (options.persists) {
    answer_value(call, before);
    if (before.expires_wall_ns != 0) keep_until(call, before, 0);
    return;
  }
  const Moment moment = positive_moment_of(options.time, options.expiry, "getex", call.body.now_ns());
  if (!moment.wrong.empty()) return call.reply.error(moment.wrong);
  answer_value(call, before);
  if (moment.wall_ns <= call.body.now_ns()) return call.body.erase(call.words[1]);
  keep_until(call, before, moment.wall_ns);
}

void set(BodyCall& call) {
  StringOptions options;
  const std::string_view key = call.words[1];
  if (call.words.size() > 3) options = string_options_of(call.words.subspan(3), OptionsOf::kSet);
  if (options.is_wrong) return call.reply.error(kSyntaxError);
  uint64_t moment_ns = 0;
  if (options.expiry != Expiry::kNone && options.expiry != Expiry::kKept) {
    const Moment moment = positive_moment_of(options.time, options.expiry, "set", call.body.now_ns());
    if (!moment.wrong.empty()) return call.reply.error(moment.wrong);
    moment_ns = moment.wall_ns;
  }
  const bool depends = options.if_absent || options.if_present || options.expiry == Expiry::kKept;
  Body::Head head;
  if (options.wants_old) {
    const Before before = call.body.value(key);
    answer_value(call, before);
    head = {.is_there = before.is_there, .expires_wall_ns = before.expires_wall_ns};
  } else if (depends) {
    head = call.body.head(key);
  }
  if (head.is_there ? options.if_absent : options.if_present) {
    if (!options.wants_old) call.reply.null();
    return;
  }
  if (options.expiry == Expiry::kKept) moment_ns = head.expires_wall_ns;
  call.body.put_lent(key, call.words[2], moment_ns);
  if (!options.wants_old) call.reply.ok();
}

void setnx(BodyCall& call) {
  const bool is_there = call.body.head(call.words[1]).is_there;
  if (!is_there) call.body.put_lent(call.words[1], call.words[2], 0);
  call.reply.number(is_there ? 0 : 1);
}

// SETEX and PSETEX.
void setex(BodyCall& call) {
  const Expiry expiry = call.row.name == "setex" ? Expiry::kSeconds : Expiry::kMilliseconds;
  const Moment moment = positive_moment_of(call.words[2], expiry, call.row.name, call.body.now_ns());
  if (!moment.wrong.empty()) return call.reply.error(moment.wrong);
  call.body.put_lent(call.words[1], call.words[3], moment.wall_ns);
  call.reply.ok();
}

// Of a key that is there twice the last value stays.
void mset(BodyCall& call) {
  if (call.words.size() % 2 == 0) return call.reply.error(wrong_arity("mset"));
  for (size_t i = 1; i < call.words.size(); i += 2) call.body.put_lent(call.words[i], call.words[i + 1], 0);
  call.reply.ok();
}

void msetnx(BodyCall& call) {
  if (call.words.size() % 2 == 0) return call.reply.error(wrong_arity("msetnx"));
  bool are_absent = true;
  for (size_t i = 1; i < call.words.size(); i += 2) {
    are_absent = !call.body.head(call.words[i]).is_there && are_absent;
  }
  for (size_t i = 1; are_absent && i < call.words.size(); i += 2) {
    call.body.put_lent(call.words[i], call.words[i + 1], 0);
  }
  call.reply.number(are_absent ? 1 : 0);
}

// DEL and UNLINK.
void del(BodyCall& call) {
  int64_t erased = 0;
  for (const std::string_view key : call.words.subspan(1)) {
    if (!call.body.head(key).is_there) continue;
    call.body.erase(key);
    ++erased;
  }
  call.reply.number(erased);
}

// What is at `from` takes the place of what is at `to`.
void copy_value(BodyCall& call, std::string_view from, std::string_view to) {
  const Before before = call.body.value(from);
  call.body.put(to, std::string(value_of(before).text()), before.expires_wall_ns);
}

// RENAME and RENAMENX.
void rename(BodyCall& call) {
  const bool replaces = call.row.name == "rename";
  const std::string_view from = call.words[1];
  const std::string_view to = call.words[2];
  if (!call.body.head(from).is_there) return call.reply.error("ERR no such key");
  if (!replaces && (from == to || call.body.head(to).is_there)) return call.reply.number(0);
  if (from != to) {
    copy_value(call, from, to);
    call.body.erase(from);
  }
  if (replaces) {
    call.reply.ok();
  } else {
    call.reply.number(1);
  }
}

void copy(BodyCall& call) {
  bool replaces = false;
  for (size_t i = 3; i < call.words.size(); ++i) {
    if (is_option(call.words[i], "replace")) {
      replaces = true;
    } else if (is_option(call.words[i], "db") && i + 1 < call.words.size()) {
      const std::string wrong = wrong_database(call.words[++i]);
      if (!wrong.empty()) return call.reply.error(wrong);
    } else {
      return call.reply.error(kSyntaxError);
    }
  }
  const std::string_view from = call.words[1];
  const std::string_view to = call.words[2];
  if (from == to) return call.reply.error("ERR source and destination objects are the same");
  const bool is_there = call.body.head(from).is_there;
  if (!is_there || (!replaces && call.body.head(to).is_there)) return call.reply.number(0);
  copy_value(call, from, to);
  call.reply.number(1);
}

// Nothing: it was replied what is wrong.
std::optional<Plan> run_row(BodyCall& call, Function function, std::span<const std::byte> arguments) {
  const Plan plan = call.body.run(call.words[1], function, arguments);
  if (plan.code == Code::kOk) return plan;
  if (plan.code == Code::kTooLarge) {
    call.reply.error(kLongString);
  } else {
    call.reply.error(refusal_text(static_cast<kv::functions::Refusal>(plan.answer[0])));
  }
  return std::nullopt;
}

template <typename Number>
std::array<std::byte, sizeof(Number)> bytes_of(Number number) noexcept {
  std::array<std::byte, sizeof(Number)> bytes;
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

void answer_number(BodyCall& call, const std::optional<Plan>& plan) {
  if (!plan) return;
  int64_t number = 0;
  std::memcpy(&number, plan->answer.data(), std::min<size_t>(sizeof(number), plan->answer_bytes));
  call.reply.number(number);
}

// INCR, DECR, INCRBY and DECRBY.
void incr(BodyCall& call) {
  const std::string_view name = call.row.name;
  int64_t addend = name == "incr" ? 1 : -1;
  if (call.words.size() > 2) {
    const auto number = integer_of(call.words[2]);
    if (!number) return call.reply.error(kNoInteger);
    if (name == "decrby" && *number == INT64_MIN) return call.reply.error("ERR decrement would overflow");
    addend = name == "decrby" ? -*number : *number;
  }
  answer_number(call, run_row(call, Function::kAdd, bytes_of(addend)));
}

void incrbyfloat(BodyCall& call) {
  if (!run_row(call, Function::kAddFloat, Bytes(call.words[2]))) return;
  call.reply.bulk(value_of(call.body.value(call.words[1])).text());
}

void append(BodyCall& call) {
  answer_number(call, run_row(call, Function::kAppend, Bytes(call.words[2])));
}

void setrange(BodyCall& call) {
  const auto offset = integer_of(call.words[2]);
  if (!offset) return call.reply.error(kNoInteger);
  if (*offset < 0) return call.reply.error("ERR offset is out of range");
  const Bytes bytes(call.words[3]);
  std::vector<std::byte> arguments(sizeof(uint64_t) + bytes.size());
  const auto number = static_cast<uint64_t>(*offset);
  std::memcpy(arguments.data(), &number, sizeof(number));
  std::ranges::copy(bytes, arguments.begin() + sizeof(uint64_t));
  answer_number(call, run_row(call, Function::kSetRange, arguments));
}

// EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT.
void expire(BodyCall& call) {
  const std::string_view name = call.row.name;
  const ExpireOptions options = expire_options_of(call.words.subspan(3));
  if (!options.wrong.empty()) return call.reply.error(options.wrong);
  const Moment moment = moment_of(call.words[2], expiry_of(name), name, call.body.now_ns());
  if (!moment.wrong.empty()) return call.reply.error(moment.wrong);
  std::array<std::byte, sizeof(moment.wall_ns) + sizeof(options.conditions)> arguments;
  std::memcpy(arguments.data(), &moment.wall_ns, sizeof(moment.wall_ns));
  arguments.back() = std::byte{options.conditions};
  answer_number(call, run_row(call, Function::kExpire, arguments));
}

void persist(BodyCall& call) {
  answer_number(call, run_row(call, Function::kPersist, {}));
}

// What was watched counts no more once EXEC runs.
void unwatch(BodyCall& call) {
  call.reply.ok();
}

// There are no replicas, and nothing is waited for inside of a transaction.
void wait(BodyCall& call) {
  const auto timeout_ms = integer_of(call.words[2]);
  if (!integer_of(call.words[1])) return call.reply.error(kNoInteger);
  if (!timeout_ms) return call.reply.error("ERR timeout is not an integer or out of range");
  if (*timeout_ms < 0) return call.reply.error("ERR timeout is negative");
  call.reply.number(0);
}

constexpr BodyCommand kBodyCommands[] = {
    {"append", append},
    {"copy", copy},
    {"decr", incr},
    {"decrby", incr},
    {"del", del},
    {"exists", exists},
    {"expire", expire},
    {"expireat", expire},
    {"expiretime", ttl},
    {"get", get},
    {"getdel", getdel},
    {"getex", getex},
    {"getrange", getrange},
    {"getset", getset},
    {"incr", incr},
    {"incrby", incr},
    {"incrbyfloat", incrbyfloat},
    {"mget", mget},
    {"mset", mset},
    {"msetnx", msetnx},
    {"persist", persist},
    {"pexpire", expire},
    {"pexpireat", expire},
    {"pexpiretime", ttl},
    {"psetex", setex},
    {"pttl", ttl},
    {"rename", rename},
    {"renamenx", rename},
    {"set", set},
    {"setex", setex},
    {"setnx", setnx},
    {"setrange", setrange},
    {"strlen", strlen},
    {"substr", getrange},
    {"touch", exists},
    {"ttl", ttl},
    {"type", type},
    {"unlink", del},
    {"unwatch", unwatch},
    {"wait", wait},
};

}  // namespace

std::span<const BodyCommand> body_commands() noexcept {
  return kBodyCommands;
}

}  // namespace refract::doors::redis
