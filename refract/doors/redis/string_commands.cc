// SPDX-License-Identifier: Apache-2.0
// Commands of strings that change them, and of parts of them.
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/doors/redis/changing.h"
#include "refract/doors/redis/expiry.h"
#include "refract/doors/redis/handlers.h"
#include "refract/doors/redis/range.h"

namespace refract::doors::redis {

using kv::functions::Before;
using kv::functions::Effect;
using kv::functions::Function;
using kv::functions::Refusal;
using runtime::Task;

Task<Result<uint64_t>> put_word(Store& store, Pending& command, size_t place, PutOptions options) {
  const std::string_view key = command.words[1];
  const Reservation* const built = command.reserved(place);
  if (built != nullptr) co_return co_await store.client->put(key, *built, options);
  co_return co_await store.client->put(key, command.words[place], options);
}

namespace {

Wish wish_of_word(const Pending& command, size_t place) {
  return {.effect = Effect::kValue, .value = command.words[place], .built_in = command.reserved(place)};
}

// The reply of a value that was, or was not.
void answer_old(Pending& command, bool was_there, std::string_view old) {
  Reply reply = command.reply();  // NOLINT(misc-const-correctness)
  if (was_there) {
    reply.bulk(old);
  } else {
    reply.null();
  }
}

Task<> set_on_what_is_there(Store& store, Pending& command, const StringOptions& options,
                            uint64_t moment_ns) {
  bool was_there = false;
  bool is_refused = false;
  const Change put{.decide =
                       [&](const Before& before) {
                         was_there = before.is_there;
                         is_refused = was_there ? options.if_absent : options.if_present;
                         if (is_refused) return Wish{};
                         Wish wish = wish_of_word(command, 2);
                         const bool keeps = options.expiry == Expiry::kKept;
                         wish.expires_wall_ns = keeps ? before.expires_wall_ns : moment_ns;
                         return wish;
                       },
                   .reads_value = options.wants_old};
  std::string old;
  const Result<> done = co_await change_by(store, command.words[1], put, old);
  if (!done) co_return fail_with(command, done.code(), *store.client);
  if (options.wants_old) co_return answer_old(command, was_there, old);
  if (is_refused) co_return command.reply().null();
  command.reply().ok();
}

}  // namespace

Task<> set(Store& store, Pending& command) {
  StringOptions options;
  const Words words = command.words;
  if (words.size() > 3) options = string_options_of(words.subspan(3), OptionsOf::kSet);
  if (options.is_wrong) co_return command.reply().error(kSyntaxError);
  uint64_t moment_ns = 0;
  if (!options.time.empty() || (options.expiry != Expiry::kNone && options.expiry != Expiry::kKept)) {
    const Moment moment = positive_moment_of(options.time, options.expiry, "set", store_now_ns(store));
    if (!moment.wrong.empty()) co_return command.reply().error(moment.wrong);
    moment_ns = moment.wall_ns;
  }
  if (options.if_present || options.wants_old || options.expiry == Expiry::kKept) {
    co_await set_on_what_is_there(store, command, options, moment_ns);
    co_return;
  }
  const PutOptions put{.if_absent = options.if_absent, .ttl_ns = ttl_until(store, moment_ns)};
  const Result<uint64_t> version = co_await put_word(store, command, 2, put);
  if (version) {
    command.reply().ok();
  } else if (options.if_absent && version.code() == Code::kExists) {
    command.reply().null();
  } else {
    fail_with(command, version.code(), *store.client);
  }
}

Task<> setnx(Store& store, Pending& command) {
  const Result<uint64_t> version = co_await put_word(store, command, 2, {.if_absent = true});
  if (!version && version.code() != Code::kExists) {
    co_return fail_with(command, version.code(), *store.client);
  }
  command.reply().number(version ? 1 : 0);
}

// SETEX and PSETEX.
Task<> setex(Store& store, Pending& command) {
  const std::string_view name = command.row->name;
  const Expiry expiry = name == "setex" ? Expiry::kSeconds : Expiry::kMilliseconds;
  const Moment moment = positive_moment_of(command.words[2], expiry, name, store_now_ns(store));
  if (!moment.wrong.empty()) co_return command.reply().error(moment.wrong);
  const PutOptions put{.ttl_ns = ttl_until(store, moment.wall_ns)};
  const Result<uint64_t> version = co_await put_word(store, command, 3, put);
  if (!version) co_return fail_with(command, version.code(), *store.client);
  command.reply().ok();
}

Task<> getset(Store& store, Pending& command) {
  const StringOptions options{.wants_old = true};
  co_await set_on_what_is_there(store, command, options, 0);
}

Task<> getdel(Store& store, Pending& command) {
  bool was_there = false;
  const Change erase{.decide = [&](const Before& before) {
    was_there = before.is_there;
    return Wish{.effect = was_there ? Effect::kErase : Effect::kNone};
  }};
  std::string old;
  const Result<> done = co_await change_by(store, command.words[1], erase, old);
  if (!done) co_return fail_with(command, done.code(), *store.client);
  count_read(store, was_there);
  answer_old(command, was_there, old);
}

namespace {

// The moment is looked at where the key is there, as Redis does.
Task<> get_and_expire(Store& store, Pending& command, const StringOptions& options) {
  bool was_there = false;
  Moment moment;
  const Change change{.decide =
                          [&](const Before& before) {
                            was_there = before.is_there;
                            if (!was_there) return Wish{};
                            if (options.persists && before.expires_wall_ns == 0) return Wish{};
                            const uint64_t now_ns = store_now_ns(store);
                            if (!options.persists) {
                              moment = positive_moment_of(options.time, options.expiry, "getex", now_ns);
                            }
                            if (!moment.wrong.empty()) return Wish{};
                            if (!options.persists && moment.wall_ns <= now_ns)
                              return Wish{.effect = Effect::kErase};
                            Wish wish{.effect = Effect::kValue, .expires_wall_ns = moment.wall_ns};
                            wish.made_bytes = before.value.size();
                            return wish;
                          },
                      .make =
                          [](const Before& before, std::span<std::byte> value) {
                            std::memcpy(value.data(), before.value.data(), value.size());
                          }};
  std::string old;
  const Result<> done = co_await change_by(store, command.words[1], change, old);
  if (!done) co_return fail_with(command, done.code(), *store.client);
  count_read(store, was_there);
  if (!moment.wrong.empty()) co_return command.reply().error(moment.wrong);
  answer_old(command, was_there, old);
}

}  // namespace

Task<> getex(Store& store, Pending& command) {
  const StringOptions options = string_options_of(Words(command.words).subspan(2), OptionsOf::kGetEx);
  if (options.is_wrong) {
    command.reply().error(kSyntaxError);
    co_return;
  }
  if (options.expiry != Expiry::kNone || options.persists) {
    co_await get_and_expire(store, command, options);
  } else {
    co_await get(store, command);
  }
}

namespace {

struct Range {
  int64_t first = 0;
  int64_t last = 0;
};
// Nothing: these are no numbers.
std::optional<Range> range_named(Words words) {
  const auto first = integer_of(words[2]);
  const auto last = integer_of(words[3]);
  if (!first || !last) return std::nullopt;
  return Range{.first = *first, .last = *last};
}

// Null: there is no value.
void answer_range(Store& store, const Range& range, const View* view, Reply reply) {
  count_read(store, view != nullptr);
  reply.bulk(view == nullptr ? std::string_view() : range_of(view->text(), range.first, range.last));
}

}  // namespace

// GETRANGE and SUBSTR.
bool getrange_at_once(Call& call) {
  const std::optional<Range> range = range_named(call.words);
  if (!range) {
    call.reply.error(kNoInteger);
    return true;
  }
  const Result<View> view = call.store.client->view_at_once(call.words[1]);
  if (!view && view.code() != Code::kNotFound) return false;
  answer_range(call.store, *range, view ? &*view : nullptr, call.reply);
  return true;
}

Task<> getrange(Store& store, Pending& command) {
  const std::optional<Range> range = range_named(command.words);
  if (!range) co_return command.reply().error(kNoInteger);
  const Result<View> view = co_await store.client->view(command.words[1]);
  if (!view && view.code() != Code::kNotFound) co_return fail_with(command, view.code(), *store.client);
  answer_range(store, *range, view ? &*view : nullptr, command.reply());
}

namespace {

template <typename Number>
void write(std::span<std::byte> room, Number number) noexcept {
  std::memcpy(room.data(), &number, sizeof(number));
}

}  // namespace

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

namespace {

// True: there is an answer.
bool is_well(Store& store, Pending& command, const Result<Changed>& changed) {
  if (!changed) {
    fail_with(command, changed.code(), *store.client);
  } else if (changed->code == Code::kTooLarge) {
    command.reply().error(kLongString);
  } else if (changed->code != Code::kOk) {
    command.reply().error(refusal_text(changed->refusal()));
  } else {
    return true;
  }
  return false;
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

}  // namespace

// INCR, DECR, INCRBY and DECRBY.
Task<> incr(Store& store, Pending& command) {
  const std::optional<int64_t> addend = addend_of(command);
  if (!addend) co_return;
  std::array<std::byte, sizeof(int64_t)> arguments;
  write(arguments, *addend);
  const Result<Changed> changed = co_await change(store, command.words[1], Function::kAdd, arguments);
  if (is_well(store, command, changed)) command.reply().number(changed->number());
}

Task<> incrbyfloat(Store& store, Pending& command) {
  const Bytes addend(command.words[2]);
  const Result<Changed> changed = co_await change(store, command.words[1], Function::kAddFloat, addend);
  if (is_well(store, command, changed)) command.reply().bulk(changed->answer);
}

Task<> append(Store& store, Pending& command) {
  const Bytes bytes(command.words[2]);
  const Result<Changed> changed = co_await change(store, command.words[1], Function::kAppend, bytes);
  if (is_well(store, command, changed)) command.reply().number(changed->number());
}

Task<> setrange(Store& store, Pending& command) {
  const auto offset = integer_of(command.words[2]);
  if (!offset) co_return command.reply().error(kNoInteger);
  if (*offset < 0) co_return command.reply().error("ERR offset is out of range");
  const Bytes bytes(command.words[3]);
  std::vector<std::byte> arguments(sizeof(uint64_t) + bytes.size());
  write(arguments, static_cast<uint64_t>(*offset));
  std::ranges::copy(bytes, arguments.begin() + sizeof(uint64_t));
  const Result<Changed> changed = co_await change(store, command.words[1], Function::kSetRange, arguments);
  if (is_well(store, command, changed)) command.reply().number(changed->number());
}

}  // namespace refract::doors::redis
