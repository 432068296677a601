// SPDX-License-Identifier: Apache-2.0
// CONFIG: settings by Redis's names, and the counts of INFO.
#include <algorithm>
#include <string>
#include <vector>

#include "refract/doors/admin/handlers.h"
#include "refract/doors/admin/settings.h"
#include "refract/doors/redis/glob.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {

using runtime::Task;

namespace {

struct Told {
  std::string_view name;
  const Setting* setting;
};

// Those that the pattern means, each once. One that is named is called as the client has written it.
void take_matching(std::vector<Told>& told, std::string_view pattern) {
  const bool is_name = pattern.find_first_of("[*?") == std::string_view::npos;
  for (const Setting& one : settings()) {
    const bool is_wanted =
        is_name ? is(pattern, one.name) : matches(pattern, one.name, /*ignores_case=*/true);
    if (is_wanted && std::ranges::find(told, &one, &Told::setting) == told.end()) {
      told.push_back({.name = is_name ? pattern : one.name, .setting = &one});
    }
  }
}

}  // namespace

bool config_get(Call& call) {
  if (call.words.size() > kNamesMax) {
    call.reply.error(kManyNames);
    return true;
  }
  const Words patterns = call.words.subspan(2);
  if (std::ranges::any_of(patterns, [](std::string_view word) { return word.size() > kPatternBytesMax; })) {
    call.reply.error(kLongPattern);
    return true;
  }
  std::vector<Told> wanted;
  wanted.reserve(settings().size());
  for (const std::string_view pattern : patterns) take_matching(wanted, pattern);
  call.reply.map(wanted.size());
  for (const Told& one : wanted) {
    call.reply.bulk(one.name);
    call.reply.bulk(one.setting->show(call.store.common));
  }
  return true;
}

bool config_set(Call& call) {
  const Words pairs = call.words.subspan(2);
  if (pairs.size() % 2 != 0) {
    call.reply.error(kSyntaxError);
  } else if (pairs.size() > kNamesMax) {
    call.reply.error(kManyNames);
  } else if (const std::string wrong = set_settings(call.store.common, pairs); !wrong.empty()) {
    call.reply.error(wrong);
  } else {
    call.reply.ok();
  }
  return true;
}

// What the node counts stays the node's; INFO tells what has come since.
Task<> config_resetstat(Store& store, Pending& command) {
  const NodeStat* const stat = co_await look_at_node(store);
  store.common.counts.reset(stat != nullptr ? NodeCounts{.expired = stat->expired, .evicted = stat->evicted}
                                            : NodeCounts{});
  store.common.command_counts.reset();
  store.common.rates.reset();
  command.reply().ok();
}

// The node's settings are its own file's, which a door does not write.
bool config_rewrite(Call& call) {
  call.reply.error("ERR The server is running without a config file");
  return true;
}

}  // namespace refract::doors::redis
