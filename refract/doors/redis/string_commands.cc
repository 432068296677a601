// SPDX-License-Identifier: Apache-2.0
// Commands of strings that change them and tell what they were, and of parts of them.
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
#include "refract/doors/writes/key_write.h"

namespace refract::doors::redis {

using kv::functions::Before;
using kv::functions::Effect;
using runtime::Task;

namespace {

// The reply of a value that was, or was not.
void answer_old(Pending& command, bool was_there, std::string_view old) {
  Reply reply = command.reply();  // NOLINT(misc-const-correctness)
  if (was_there) {
    reply.bulk(old);
  } else {
    reply.null();
  }
}

}  // namespace

// Also SET with GET.
Task<> getset(Store& store, Pending& command) {
  if (!plan_set(store, command)) co_return;
  const Replaced replaced = co_await replace(store, command, true);
  const bool is_refused = (replaced.code == Code::kExists && command.operation.if_absent) ||
                          (replaced.code == Code::kNotFound && command.operation.if_present);
  if (replaced.code != Code::kOk && !is_refused) {
    co_return fail_with(command, replaced.code, *store.client);
  }
  answer_old(command, replaced.was_there, replaced.old);
}

Task<> set(Store& store, Pending& command) {
  const Words words = command.words;
  const bool wants_old = words.size() > 3 && string_options_of(words.subspan(3), OptionsOf::kSet).wants_old;
  return wants_old ? getset(store, command) : write_by_itself(store, command);
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

}  // namespace refract::doors::redis
