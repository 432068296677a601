// SPDX-License-Identifier: Apache-2.0
// CLIENT PAUSE, UNPAUSE and UNBLOCK: what waits, and what ends its wait.
#include <fmt/format.h>

#include <algorithm>

#include "refract/base/units.h"
#include "refract/doors/admin/handlers.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {

using runtime::Task;

namespace {

// A pause is looked at so often, since its end may be another one by then.
constexpr uint64_t kPauseLook_ns = 50 * kMillisecond_ns;

// The connections of all threads go on.
class Resuming final : public Errand {
 public:
  bool run(size_t /*place*/, Lines& lines) override {
    lines.visit([](Session& session) { session.resume(); });
    return true;
  }
};

Task<> resume_all(Store& store) {
  Resuming resuming;
  bool is_done = false;
  while (!is_done) {
    is_done = co_await store.common.crew.run(store.place, store.shard, resuming);
    if (!is_done) co_await store.shard.sleep_for(kMillisecond_ns);
  }
}

Task<> end_in_time(Store& store) {
  Pause& pause = store.common.pause;
  bool is_over = false;
  while (!is_over) {
    const uint64_t now_ns = store.shard.refresh_now();
    const uint64_t end_ns = pause.end_ns();
    if (pause.is_on() && now_ns < end_ns) {
      co_await store.shard.sleep_for(std::min(kPauseLook_ns, end_ns - now_ns));
      continue;
    }
    pause.end_if_over(now_ns);
    co_await resume_all(store);
    is_over = pause.unwatch();
  }
}

bool has_words(Call& call, size_t most) {
  if (call.words.size() <= most) return true;
  call.reply.error(
      fmt::format("ERR unknown subcommand or wrong number of arguments for '{}'. Try CLIENT HELP.",
                  call.words[1].substr(0, 128)));
  return false;
}

}  // namespace

bool client_pause(Call& call) {
  const Words words = call.words;
  if (!has_words(call, 4)) return true;
  const bool is_of_writes = words.size() == 4 && is(words[3], "write");
  const auto timeout_ms = integer_of(words[2]);
  if (words.size() == 4 && !is_of_writes && !is(words[3], "all")) {
    call.reply.error("ERR CLIENT PAUSE mode must be WRITE or ALL");
  } else if (!timeout_ms) {
    call.reply.error("ERR timeout is not an integer or out of range");
  } else if (*timeout_ms < 0) {
    call.reply.error("ERR timeout is negative");
  } else {
    call.reply.ok();
    const uint64_t now_ns = call.store.shard.refresh_now();
    uint64_t end_ns = 0;
    const bool is_far =
        __builtin_mul_overflow(static_cast<uint64_t>(*timeout_ms), kMillisecond_ns, &end_ns) ||
        __builtin_add_overflow(end_ns, now_ns, &end_ns);
    // Redis has it end in the past then.
    if (is_far || *timeout_ms == 0) return true;
    Pause& pause = call.store.common.pause;
    pause.begin(is_of_writes ? Pause::What::kWrites : Pause::What::kAll, end_ns, now_ns);
    if (pause.watch()) call.store.shard.spawn(end_in_time(call.store));
  }
  return true;
}

bool client_unpause(Call& call) {
  call.store.common.pause.end();
  call.store.shard.spawn(resume_all(call.store));
  call.reply.ok();
  return true;
}

bool client_unblock(Call& call) {
  const Words words = call.words;
  if (!has_words(call, 4)) return true;
  const bool is_error = words.size() == 4 && is(words[3], "error");
  const auto id = integer_of(words[2]);
  if (words.size() == 4 && !is_error && !is(words[3], "timeout")) {
    call.reply.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
  } else if (!id) {
    call.reply.error(kNoInteger);
  } else {
    const Blocked::Word word = is_error ? Blocked::Word::kError : Blocked::Word::kTimeout;
    call.reply.number(call.store.common.waiting.unblock(static_cast<uint64_t>(*id), word) ? 1 : 0);
  }
  return true;
}

}  // namespace refract::doors::redis
