// SPDX-License-Identifier: Apache-2.0
// Several changes at one moment: docs/design/062-pending-entries.md.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/units.h"
#include "refract/kv/layout/batch_wire.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/service/batch_call.h"
#include "refract/kv/owner/service/service.h"

namespace refract::kv {
namespace {

bool is_refused_by_condition(Code code) noexcept {
  return code == Code::kExists || code == Code::kNotFound || code == Code::kVersionMismatch;
}

// As of a single write, and of an add to what is no number: a crash of the host could make it untrue.
bool may_become_untrue(Code code) noexcept {
  return code == Code::kOk || is_refused_by_condition(code) || code == Code::kInvalidArgument;
}

}  // namespace

void TableService::batch(const rpc::Responder& to, Open& session, std::span<const std::byte> body) {
  const auto request = wire::take<wire::BatchRequest>(body);
  if (!request) return answer(to, Code::kMalformed);
  std::vector<std::byte> staged;
  if (request->staged_bytes != 0) {
    if (!body.empty()) return answer(to, Code::kMalformed);
    auto taken = session.batch.take(request->staged_bytes);
    if (!taken) return answer(to, Code::kInvalidated);
    staged = *std::move(taken);
    body = staged;
  }
  auto call = std::make_unique<BatchCall>();
  const Code code = call->decode(*request, body, parts_.table, parts_.shard.clock());
  if (code == Code::kMalformed) return answer(to, code);
  if (code != Code::kOk) return answer_batch(to, session, *call, code);
  const uint64_t bytes = call->bytes();
  writes::WaitingBatch asked{.from = to,
                             .identity = request->identity,
                             .call = std::move(call),
                             .session = to.session.bits,
                             .begun_ns = parts_.shard.now_ns(),
                             .bytes = bytes};
  batch_or_wait(asked, session);
}

// It holds nothing while it waits, so that it may wait for all.
void TableService::batch_or_wait(writes::WaitingBatch& asked, Open& session) {
  BatchCall& call = *asked.call;
  const RequestId request = call.batch().request;
  Table::Parts* const parts = parts_.table.parts();
  const bool is_held = parts != nullptr && parts->count() != 0 && parts->is_held(call.batch());
  if (is_held && waiting_batches_.add(asked, parts_.shard.now_ns())) return outcomes_.watch(request);
  // Nothing is executed whose answer would find no place.
  const size_t bytes = call.answer_bytes();
  const bool fits =
      bytes <= session.payload_bytes_max || session.state.free_view(bytes, parts_.shard.now_ns()) != nullptr;
  if (!fits) return answer(asked.from, Code::kOverloaded);
  answer_batch(asked.from, session, call, execute(session, asked.identity, call));
}

Code TableService::execute(const Open& session, const wire::Identity& identity, BatchCall& call) {
  executed_ += call.items();
  for (size_t i = 0; i < call.items(); ++i) {
    if (is_ours(call.key(i))) continue;
    call.batch().failed = i;
    return Code::kWrongShard;
  }
  const writes::Repetition attempt = attempt_of(session, identity);
  if (const auto known = settled(call, attempt)) return *known;
  const Result<> changed = parts_.table.change_at_once(call.batch());
  const Code code = changed.code();
  if (code == Code::kNoSpace && asks_for_room(call.bytes())) return Code::kOverloaded;
  batches_ += code == Code::kOk ? 1 : 0;
  batches_refused_ += is_refused_by_condition(code) ? 1 : 0;
  const RequestId request = call.batch().request;
  remember(session, request, changed ? Result<uint64_t>(call.base()) : fail(changed.error()));
  if (request && changed && call.has_answers()) outcomes_.remember_answer(request, call.answer(Code::kOk));
  return code;
}

// Where a single write waits for memory, a batch is asked for again by its client. False: none will come.
bool TableService::asks_for_room(uint64_t bytes) noexcept {
  const bool may_grow = parts_.growth.can_grow(bytes);
  if (may_grow) parts_.growth.want(bytes);
  return may_grow || writes::room_will_come(parts_.table, parts_.eviction);
}

Code TableService::on_turn(Code code, uint64_t bytes) noexcept {
  if (code == Code::kNoSpace && asks_for_room(bytes)) code = Code::kOverloaded;
  look_after_memory();
  look_after_time();
  return code;
}

// As of a single write: the answer to a batch that is not to be executed, or not again.
std::optional<Code> TableService::settled(BatchCall& call, const writes::Repetition& attempt) {
  const RequestId request = call.batch().request;
  if (!request) return std::nullopt;
  if (const auto known = outcomes_.find(request)) {
    ++repeated_;
    if (known->code == Code::kOk && !call.take_told(outcomes_.answer_to(request))) {
      call.tell_again(parts_.table, known->version);
    }
    return known->code;
  }
  if (!attempt.repeats && !outcomes_.may_be_late(request, attempt.opened_ns)) return std::nullopt;
  if (attempt.repeats) {
    if (call.take_told(outcomes_.answer_to(request))) {
      ++repeated_;
      return Code::kOk;
    }
    if (call.find_executed(parts_.table)) {
      ++repeated_;
      outcomes_.remember(request, call.base(), parts_.shard.refresh_now(), attempt.opened_ns);
      return Code::kOk;
    }
    const uint64_t first_sent_ns = attempt.first_sent_ns;
    if (first_sent_ns != 0 && outcomes_.would_know(request, first_sent_ns)) return std::nullopt;
    if (call.is_untouched(parts_.table)) return std::nullopt;
  }
  ++repeated_;
  ++indeterminate_;
  return Code::kIndeterminate;
}

void TableService::answer_batch(const rpc::Responder& to, Open& session, const BatchCall& call, Code code) {
  overloaded_ += code == Code::kOverloaded ? 1 : 0;
  read_only_ += code == Code::kReadOnly ? 1 : 0;
  std::vector<std::byte> bytes = call.answer(code);
  if (bytes.size() <= session.payload_bytes_max) {
    const std::span<const std::byte> all = bytes;
    if (!may_become_untrue(code) || !keeps_reply(to, all)) answer(to, Code::kOk, all);
    return;
  }
  // Where the log takes so long that the view loses its place meanwhile, its client learns that it cannot
  // know.
  SessionState::View* view = session.state.free_view(bytes.size(), parts_.shard.now_ns());
  REFRACT_CHECK(view != nullptr);
  view->id = parts_.heap.next_stamp();
  std::memcpy(bytes.data() + offsetof(wire::BatchReply, view), &view->id, sizeof(view->id));
  view->page = std::move(bytes);
  view->shown = std::span<const std::byte>(view->page).subspan(sizeof(wire::BatchReply));
  const auto first = std::span(view->page).first(session.payload_bytes_max);
  if (!keeps_reply(to, first)) answer(to, Code::kOk, first);
}

}  // namespace refract::kv
