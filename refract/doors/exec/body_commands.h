// SPDX-License-Identifier: Apache-2.0
// Commands inside of a transaction: for each a function that runs on what the transaction has, changes that,
// and replies. It may run several times, of which the last one counts.
//
// Pure but for the body and the reply. Threads: that of the door.
#pragma once

#include <span>
#include <string_view>

#include "refract/doors/exec/body.h"
#include "refract/doors/redis/commands.h"
#include "refract/doors/redis/reply.h"

namespace refract::doors::redis {

struct BodyCall {
  Body& body;
  const Row& row;
  Words words;  // They live as long as the body.
  Reply reply;
};

// By the names of their rows, each of which gets its function (Row::in_body).
struct BodyCommand {
  std::string_view name;
  InBody run;
};
[[nodiscard]] std::span<const BodyCommand> body_commands() noexcept;

}  // namespace refract::doors::redis
