// SPDX-License-Identifier: Apache-2.0
// What runs the commands of messages. Only the tables of commands, sessions and the handlers' own source
// include this.
#pragma once

#include <span>
#include <string>

#include "refract/doors/redis/commands.h"
#include "refract/runtime/task.h"

namespace refract::doors::redis {

[[nodiscard]] std::span<const Row> pubsub_rows() noexcept;

bool subscribe(Call& call);
bool unsubscribe(Call& call);
bool psubscribe(Call& call);
bool punsubscribe(Call& call);
bool ssubscribe(Call& call);
bool sunsubscribe(Call& call);
bool publish_at_once(Call& call);
runtime::Task<> publish(Store& store, Pending& command);

bool pubsub_channels(Call& call);
bool pubsub_numpat(Call& call);
bool pubsub_numsub(Call& call);
bool pubsub_shardchannels(Call& call);
bool pubsub_shardnumsub(Call& call);

// The six that change what a connection hears: their replies are messages, and no CLIENT REPLY silences them.
[[nodiscard]] bool changes_subscriptions(const Row& row) noexcept;
// Likewise RESET, whose reply is none: which commands may follow is known when these have run.
[[nodiscard]] bool holds_others_back(const Row& row) noexcept;
// Whether one that is subscribed may call it in RESP2, where all that comes is taken for a message; and what
// it is told otherwise.
[[nodiscard]] bool runs_while_subscribed(const Row& row) noexcept;
[[nodiscard]] std::string not_while_subscribed(const Row& row);

}  // namespace refract::doors::redis
