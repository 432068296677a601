// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/node_look.h"

#include <utility>

#include "refract/base/units.h"
#include "refract/doors/redis/commands.h"

namespace refract::doors::redis {
namespace {

constexpr uint64_t kLook_ns = kSecond_ns;
constexpr uint64_t kClientLook_ns = 5 * kMillisecond_ns;

// Those that came while it asked want what is there behind their own commands: it asks again for them.
runtime::Task<> look_on(Store& store) {
  NodeLook& look = store.node_look;
  while (!look.waiting.empty()) {
    const std::vector<runtime::Token> waiting = std::exchange(look.waiting, {});
    Result<NodeStat> stat = co_await store.client->stat();
    if (stat) look.last = std::move(*stat);
    // One whose moment is over is not there any more, which this does not mind.
    for (const runtime::Token token : waiting) (void)store.shard.ops().complete(token, {});
  }
  look.is_under_way = false;
}

}  // namespace

runtime::Task<const NodeStat*> look_at_node(Store& store) {
  NodeLook& look = store.node_look;
  const uint64_t end_ns = store.shard.refresh_now() + kLook_ns;
  // A node that is there has a client of it in a moment.
  while (store.client == nullptr && !store.loading.is_so() && store.shard.now_ns() < end_ns) {
    co_await store.shard.sleep_for(kClientLook_ns);
  }
  if (store.client == nullptr) co_return nullptr;
  // Awaiting changes it, which the check does not see.
  runtime::Pending answer = store.shard.ops().begin(end_ns);  // NOLINT(misc-const-correctness)
  if (answer.token() != 0) look.waiting.push_back(answer.token());
  if (!std::exchange(look.is_under_way, true)) store.shard.spawn(look_on(store));
  const runtime::OpResult result = co_await answer;
  if (result.code != Code::kOk) std::erase(look.waiting, answer.token());
  co_return look.last ? &*look.last : nullptr;
}

}  // namespace refract::doors::redis
