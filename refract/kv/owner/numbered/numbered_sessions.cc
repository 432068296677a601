// SPDX-License-Identifier: Apache-2.0
// How a connection gets its session, and how a session goes that has none: docs/design/077, section 4.
#include <algorithm>

#include "refract/base/prng.h"
#include "refract/kv/functions/functions.h"
#include "refract/kv/owner/numbered/numbered_service.h"

namespace refract::kv {

void NumberedService::session_opened(rpc::SessionId connection) noexcept {
  const size_t bytes = server_ == nullptr ? 0 : server_->payload_bytes_max(connection);
  if (bytes < wire::kBodyBytesMin) return;  // The table's service closes it.
  auto opened = std::make_unique<Connection>();
  opened->payload_bytes_max = bytes;
  connections_.emplace(connection.bits, std::move(opened));
}

void NumberedService::session_closed(rpc::SessionId connection) noexcept {
  drop_waiting(connection);
  connections_.erase(connection.bits);
  sessions().end(connection.bits);
  look_after_ended();
}

void NumberedService::begin(const rpc::Responder& to, const Connection& connection,
                            std::span<const std::byte> body) {
  if (!body.empty()) return answer(to, Code::kMalformed);
  if (connection.is_over) return answer(to, Code::kInvalidated);
  wire::SessionSecret secret;
  secure_random(secret);
  const Result<NumberedSession*> begun = sessions().begin(to.session.bits, parts_.digest(secret));
  if (!begun) return answer(to, begun.error().code);
  ++counts_.begun;
  answer_session(to, (*begun)->id(), secret);
}

// From the store that makes the session this connection's, the other one runs nothing: what it has sent is
// refused, and what waits is dropped.
void NumberedService::resume(const rpc::Responder& to, const Connection& connection,
                             std::span<const std::byte> body) {
  const auto request = wire::take<wire::SessionRequest>(body);
  if (!request || !body.empty() || request->id == 0) return answer(to, Code::kMalformed);
  if (connection.is_over) return answer(to, Code::kInvalidated);
  const Result<SessionRecords::Resumed> resumed =
      sessions().resume(request->id, parts_.digest(request->secret), to.session.bits);
  if (!resumed) return answer(to, resumed.error().code);
  ++counts_.resumed;
  const rpc::SessionId before{resumed->connection_before};
  if (Connection* const old = find(before)) {
    old->is_over = true;
    drop_waiting(before);
  }
  answer_session(to, request->id, request->secret);
  // Last: a service may hear of the end at once.
  if (before.bits != 0 && server_ != nullptr) server_->close_session(before);
}

void NumberedService::answer_session(const rpc::Responder& to, uint64_t id,
                                     const wire::SessionSecret& secret) noexcept {
  const wire::SessionReply reply{
      .id = id, .secret = secret, .functions = functions::version(), .reserved = 0};
  answer(to, Code::kOk, std::as_bytes(std::span(&reply, 1)));
}

void NumberedService::look_after_ended() noexcept {
  if (sessions().next_drop_ns() == kForever_ns || (dropper_.valid() && !dropper_.done())) return;
  dropper_ = drop_in_time();
  dropper_.start();
}

runtime::Task<> NumberedService::drop_in_time() {
  for (;;) {
    const uint64_t next_ns = sessions().next_drop_ns();
    if (next_ns == kForever_ns) co_return;
    const uint64_t now_ns = parts_.shard.refresh_now();
    const uint64_t pause_ns = next_ns - std::min(next_ns, now_ns);
    co_await parts_.shard.sleep_for(pause_ns);
    (void)sessions().drop_ended();
  }
}

}  // namespace refract::kv
