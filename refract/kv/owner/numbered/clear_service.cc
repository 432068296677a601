// SPDX-License-Identifier: Apache-2.0
// The call that erases all that is older than a moment, step by step.
#include <span>
#include <utility>

#include "refract/kv/layout/clear_wire.h"
#include "refract/kv/owner/numbered/clear.h"
#include "refract/kv/owner/numbered/numbered_service.h"

namespace refract::kv {

// One step a batch: no client makes others wait for more than that, whatever it sends.
void NumberedService::clear(const rpc::Responder& to, const Connection& connection,
                            std::span<const std::byte> body) {
  const auto request = wire::take_clear_request(body);
  if (!request) return answer(to, Code::kMalformed);
  const bool begins = request->stamp == 0;
  // The stamps of another memory say nothing of the entries here.
  if (connection.is_over || (!begins && request->generation != parts_.generation)) {
    return answer(to, Code::kInvalidated);
  }
  if (std::exchange(has_cleared_, true)) return answer(to, Code::kOverloaded);
  Table::Clear clear(parts_.table);
  if (!begins && !clear.was_given(request->stamp)) return answer(to, Code::kInvalidArgument);
  counts_.clears += begins ? 1 : 0;
  const uint64_t stamp = begins ? clear.begin() : request->stamp;
  const Table::Clear::Step step = clear.step(stamp, request->cursor);
  counts_.cleared += step.erased;
  if (step.code != Code::kOk) return answer(to, step.code);
  const wire::ClearReply reply{.generation = parts_.generation,
                               .stamp = stamp,
                               .next = step.next,
                               .erased = step.erased,
                               .waits = step.waits ? 1U : 0U,
                               .reserved = 0};
  const auto text = std::as_bytes(std::span(&reply, 1));
  // The last one alone says that something is so: the log confirms in order, and with it all before.
  if (!reply.is_over() || !parts_.service.keeps_reply(to, text)) answer(to, Code::kOk, text);
}

}  // namespace refract::kv
