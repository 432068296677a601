// SPDX-License-Identifier: Apache-2.0
// SLOWLOG and LATENCY; and commands that take their time: DEBUG SLEEP, WAIT.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "refract/base/units.h"
#include "refract/doors/admin/handlers.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {

using runtime::Task;

namespace {

// So often one that waits looks whether its client is still there.
constexpr uint64_t kLook_ns = 50 * kMillisecond_ns;

// Until then, or until the connection is over, or the client sends nothing any more; or until another one has
// it end, if there is a `waiting`.
Task<> wait_until(Store& store, Session& session, uint64_t end_ns,
                  const Blocked::Waiting* waiting = nullptr) {
  const auto is_unblocked = [&] { return waiting != nullptr && waiting->word() != Blocked::Word::kNone; };
  store.common.blocked.fetch_add(1, std::memory_order_relaxed);
  while (session.takes_requests() && store.shard.refresh_now() < end_ns && !is_unblocked()) {
    co_await store.shard.sleep_for(std::min(kLook_ns, end_ns - store.shard.now_ns()));
  }
  store.common.blocked.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace

bool slowlog_get(Call& call) {
  constexpr size_t kCountDefault = 10;
  if (call.words.size() > 3) {
    call.reply.error(fmt::format(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try SLOWLOG HELP.", call.words[1]));
    return true;
  }
  size_t count = kCountDefault;
  if (call.words.size() == 3) {
    const auto number = integer_of(call.words[2]);
    if (!number || *number < -1) {
      call.reply.error("ERR count should be greater than or equal to -1");
      return true;
    }
    count = *number < 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(*number);
  }
  const std::vector<SlowCommand> commands = call.store.common.slow_log.last(count);
  call.reply.array(commands.size());
  for (const SlowCommand& one : commands) {
    call.reply.array(6);
    call.reply.number(static_cast<int64_t>(one.number));
    call.reply.number(static_cast<int64_t>(one.at_s));
    call.reply.number(static_cast<int64_t>(one.took_us));
    call.reply.array(one.words.size());
    for (const std::string& word : one.words) call.reply.bulk(word);
    call.reply.bulk(one.client);
    call.reply.bulk(one.client_name);
  }
  return true;
}

bool slowlog_len(Call& call) {
  call.reply.number(static_cast<int64_t>(call.store.common.slow_log.length()));
  return true;
}

bool slowlog_reset(Call& call) {
  call.store.common.slow_log.clear();
  call.reply.ok();
  return true;
}

// Nothing is sampled, so there is nothing to tell of any event.
bool latency_none(Call& call) {
  call.reply.array(0);
  return true;
}

bool latency_histogram(Call& call) {
  call.reply.map(0);
  return true;
}

bool latency_reset(Call& call) {
  call.reply.number(0);
  return true;
}

bool latency_graph(Call& call) {
  call.reply.error(fmt::format("ERR No samples available for event '{}'", call.words[2].substr(0, 128)));
  return true;
}

bool latency_doctor(Call& call) {
  call.reply.text(
      "No latencies are sampled here, and no threshold can be set for it. SLOWLOG has the commands that took "
      "long; `refract stat`, `refract top` and the node's metrics tell how long its server takes.\n");
  return true;
}

// Of one connection: others are not held up. Redis stands still as a whole, which tests use to see what their
// clients do; a client sees the same of its own connection here.
Task<> debug(Store& store, Pending& command) {
  const auto& words = command.words;
  if (!is(words[1], "sleep") || words.size() != 3) {
    co_return command.reply().error(
        "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can "
        "run it from a local connection, otherwise you need to set this option in the configuration file, "
        "and "
        "then restart the server.");
  }
  constexpr double kSecondsMax = 1e9;
  double seconds = 0;
  const auto [end, error] = std::from_chars(words[2].data(), words[2].data() + words[2].size(), seconds);
  // What is no number is none, as in Redis.
  if (error != std::errc() || !std::isfinite(seconds)) seconds = 0;
  const auto ns =
      static_cast<uint64_t>(std::clamp(seconds, 0.0, kSecondsMax) * static_cast<double>(kSecond_ns));
  co_await wait_until(store, *command.session, store.shard.refresh_now() + ns);
  command.reply().ok();
}

// There are no replicas, so their number stays 0 for as long as it is waited for.
Task<> wait(Store& store, Pending& command) {
  const auto replicas = integer_of(command.words[1]);
  const auto timeout_ms = integer_of(command.words[2]);
  if (!replicas) co_return command.reply().error(kNoInteger);
  if (!timeout_ms) co_return command.reply().error("ERR timeout is not an integer or out of range");
  if (*timeout_ms < 0) co_return command.reply().error("ERR timeout is negative");
  if (*replicas > 0) {
    const uint64_t now_ns = store.shard.refresh_now();
    uint64_t end_ns = kForever_ns;
    const bool is_far =
        *timeout_ms == 0 ||
        __builtin_mul_overflow(static_cast<uint64_t>(*timeout_ms), kMillisecond_ns, &end_ns) ||
        __builtin_add_overflow(end_ns, now_ns, &end_ns);
    if (is_far) end_ns = kForever_ns;
    const Blocked::Waiting waiting(store.common.waiting, command.session->id());
    co_await wait_until(store, *command.session, end_ns, &waiting);
    if (waiting.word() == Blocked::Word::kError) {
      co_return command.reply().error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
    }
  }
  command.reply().number(0);
}

}  // namespace refract::doors::redis
