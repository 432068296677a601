// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/writes/key_turns.h"

#include "refract/base/check.h"
#include "refract/base/result.h"
#include "refract/base/units.h"

namespace refract::doors::redis {

using runtime::Task;

Task<bool> KeyTurns::take(std::string_view key) {
  const auto [place, is_first] = waiting_.try_emplace(std::string(key));
  if (is_first) co_return true;
  // Awaiting changes it, which the check does not see.
  // NOLINTNEXTLINE(misc-const-correctness)
  runtime::Pending turn = shard_.ops().begin(kForever_ns);
  if (turn.token() == 0) co_return false;
  place->second.push_back(turn.token());
  const runtime::OpResult woken = co_await turn;
  if (woken.code != Code::kOk) co_return false;
  // It runs inside of the end of the one before, and the next one would run inside of its own.
  co_await shard_.sleep_for(0);
  co_return true;
}

void KeyTurns::give(std::string_view key) {
  const auto place = waiting_.find(key);
  REFRACT_CHECK(place != waiting_.end());
  std::list<runtime::Token>& tokens = place->second;
  while (!tokens.empty()) {
    const runtime::Token next = tokens.front();
    tokens.pop_front();
    // What was dropped meanwhile takes no turn.
    if (shard_.ops().complete(next, {})) return;
  }
  waiting_.erase(place);
}

}  // namespace refract::doors::redis
