// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/numbered/numbered_service.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/kv/functions/functions.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

static_assert(wire::kNumberMax == kNumberMax && wire::kPlaceUnknown == kPlaceUnknown);
static_assert(wire::kOperationAnswerBytesMax == sizeof(NumberedOutcome::answer));

namespace {

using wire::OperationKind;

constexpr auto number_of(Code code) noexcept {
  return static_cast<uint16_t>(code);
}

constexpr bool is_refused_for_now(const NumberedOutcome& outcome) noexcept {
  return outcome.code == Code::kOverloaded;
}

// Whether a crash of the host could make it untrue.
constexpr bool tells_of_table(const NumberedOutcome& outcome) noexcept {
  switch (outcome.code) {
    case Code::kOk:
    case Code::kNotFound:
    case Code::kExists:
    case Code::kVersionMismatch:
    case Code::kInvalidArgument:
    case Code::kTooLarge:
      return true;
    default:
      return false;
  }
}

// Store time; 0: never. A time to live begins now.
uint64_t expiry_of(const wire::Operation& operation, std::span<const std::byte> value,
                   const Clock& clock) noexcept {
  uint64_t argument = operation.is(OperationKind::kPut) ? operation.argument : 0;
  if (operation.is(OperationKind::kCommit) && !value.empty()) {
    std::memcpy(&argument, value.data(), sizeof(argument));
  }
  const bool is_for_so_long = (operation.flags & wire::Operation::kForSoLong) != 0;
  return is_for_so_long ? writes::expiry(clock, argument) : argument;
}

}  // namespace

NumberedService::NumberedService(const Parts& parts) : parts_(parts), turn_(parts.table) {
  parts_.service.retry_also(this);
  look_after_ended();
}

NumberedService::~NumberedService() {
  parts_.service.retry_also(nullptr);
}

NumberedService::Connection* NumberedService::find(rpc::SessionId connection) noexcept {
  const auto found = connections_.find(connection.bits);
  return found == connections_.end() ? nullptr : found->second.get();
}

size_t NumberedService::barred() const noexcept {
  size_t numbers = 0;
  for (const auto& [id, connection] : connections_) numbers += connection->bars.numbers();
  return numbers;
}

void NumberedService::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  executed_ = 0;
  has_cleared_ = false;
  for (const rpc::IncomingCall& call : calls) {
    // A client that has asked for much gets the first part while the rest is worked on.
    if (executed_ >= wire::kKeysPerTurn && server_ != nullptr) {
      executed_ = 0;
      server_->flush(call.from.session);
    }
    if (Connection* const connection = find(call.from.session)) {
      execute(call, *connection);
    } else {
      answer(call.from, Code::kUnavailable);
    }
    look_after_held();
  }
  (void)parts_.service.on_turn(Code::kOk, 0);
}

void NumberedService::execute(const rpc::IncomingCall& call, Connection& connection) {
  switch (static_cast<wire::NumberedMethod>(call.header.method)) {
    case wire::NumberedMethod::kSessionBegin:
      return begin(call.from, connection, call.payload);
    case wire::NumberedMethod::kSessionResume:
      return resume(call.from, connection, call.payload);
    case wire::NumberedMethod::kOperations:
      return operations(call.from, connection, call.payload);
    case wire::NumberedMethod::kClear:
      return clear(call.from, connection, call.payload);
    case wire::NumberedMethod::kPullDraft:
      return connection.is_over ? answer(call.from, Code::kInvalidated) : parts_.service.pull_draft(call);
  }
  answer(call.from, Code::kUnsupported);
}

void NumberedService::answer(const rpc::Responder& to, Code code, std::span<const std::byte> text) noexcept {
  if (server_ != nullptr) server_->reply(to, code, text);
}

void NumberedService::operations(const rpc::Responder& to, Connection& connection,
                                 std::span<const std::byte> body) {
  const auto request = wire::take_operations_request(body);
  if (!request) return answer(to, Code::kMalformed);
  std::array<wire::Acknowledged, wire::kAcknowledgedPerCall> acknowledged;
  for (size_t i = 0; i < request->acknowledged; ++i) {
    acknowledged[i] = *wire::take<wire::Acknowledged>(body);
    if (acknowledged[i].number() == 0) return answer(to, Code::kMalformed);
  }
  const std::span<Asked> asked = std::span(asked_).first(request->operations);
  if (!take(body, asked)) return answer(to, Code::kMalformed);
  // Before anything is done.
  size_t answer_bytes = 0;
  bool is_of_session = request->acknowledged > 0;
  for (const Asked& one : asked) {
    answer_bytes += sizeof(wire::OperationAnswer) +
                    wire::answer_bytes_max(static_cast<OperationKind>(one.operation.kind));
    is_of_session = is_of_session || needs_session(one.operation);
  }
  if (answer_bytes > connection.payload_bytes_max) return answer(to, Code::kTooLarge);
  NumberedSession* const session = sessions().of(to.session.bits);
  if (connection.is_over || (is_of_session && session == nullptr)) return answer(to, Code::kInvalidated);

  fetch(to, asked);
  if (request->acknowledged > 0) {
    acknowledge(to.session, *session, std::span(acknowledged).first(request->acknowledged));
  }
  Answers answers;
  for (const Asked& one : asked) {
    const NumberedOutcome outcome = look_at(to, connection, session, one);
    if (is_refused_for_now(outcome)) {
      if (!bar(connection, one.operation)) return close(to);
      const bool may_wait = (request->flags & wire::OperationsRequest::kMayWait) != 0;
      if (may_wait && wait(to, session, one, outcome)) {
        ++counts_.waited;
        return;
      }
    }
    add(answers, one.operation, outcome);
  }
  give(to, answers);
}

// Keys, and arguments that are looked at more than once, are taken out of the sender's reach. A put's value
// stays where it is, for nothing depends on its bytes.
bool NumberedService::take(std::span<const std::byte> body, std::span<Asked> asked) {
  room_.resize(std::max(room_.size(), body.size()));
  std::byte* room = room_.data();
  const auto copied = [&room](std::span<const std::byte> bytes) {
    if (!bytes.empty()) copy_possibly_torn(room, bytes.data(), bytes.size());
    const std::span<const std::byte> copy(room, bytes.size());
    room += bytes.size();
    return copy;
  };
  for (Asked& one : asked) {
    const auto taken = wire::take_operation(body);
    if (!taken) return false;
    one.operation = taken->operation;
    one.key = {.bytes = copied(taken->key)};
    one.value = one.operation.is(OperationKind::kPut) ? taken->value : copied(taken->value);
    one.is_complete = true;
    one.staged.clear();
  }
  return body.empty();
}

// Their cache misses overlap.
void NumberedService::fetch(const rpc::Responder& to, std::span<Asked> asked) {
  size_t count = 0;
  for (Asked& one : asked) {
    const wire::Operation& operation = one.operation;
    if (operation.staged != 0) {
      SessionState* const state = parts_.service.state_of(to.session);
      auto key = state == nullptr ? std::nullopt
                                  : state->take_staged(operation.staged - size_t{1}, operation.key_bytes);
      one.is_complete = key.has_value();
      one.staged = key ? *std::move(key) : std::vector<std::byte>();
      one.key.bytes = one.staged;
    }
    one.expires_wall_ns = expiry_of(operation, one.value, parts_.shard.clock());
    if (one.key.bytes.empty()) continue;
    parts_.table.seek(one.key.bytes, sought_[count]);
    one.key = sought_[count++].key;
  }
  executed_ += asked.size();
  (void)parts_.table.fetch(std::span(sought_).first(count));
}

void NumberedService::acknowledge(rpc::SessionId of, NumberedSession& session,
                                  std::span<const wire::Acknowledged> acknowledged) {
  size_t gone = 0;
  for (const wire::Acknowledged& one : acknowledged) {
    gone += sessions().acknowledge(session, one.number(), one.place()) ? 1 : 0;
  }
  counts_.acknowledged += gone;
  if (gone == 0 || waiting_.empty()) return;
  const bool may_continue = std::ranges::any_of(
      waiting_, [&](const Waiting& waiting) { return waiting.for_record && waiting.from.session == of; });
  if (may_continue) retry_waiting();
}

// False: it has more of them than it can have under way.
bool NumberedService::bar(Connection& connection, const wire::Operation& operation) {
  return operation.tag == 0 || operation.number == 0 || connection.bars.add(operation.tag, operation.number);
}

void NumberedService::close(const rpc::Responder& to) noexcept {
  ++counts_.closed;
  if (server_ != nullptr) server_->close_session(to.session);
}

NumberedOutcome NumberedService::look_at(const rpc::Responder& to, Connection& connection,
                                         NumberedSession* session, const Asked& asked) {
  const wire::Operation& operation = asked.operation;
  if (operation.is(OperationKind::kWithdraw)) return withdraw(to, connection, *session, operation);
  NumberedOutcome outcome{.code = sense_of(asked)};
  if (outcome.code == Code::kOk) {
    if (!connection.bars.passes(operation.tag, operation.number)) [[unlikely]] {
      const auto known = operation.number == 0 ? std::nullopt : sessions().find(*session, operation.number);
      outcome = known.value_or(NumberedOutcome{.code = Code::kOverloaded});
    } else if (operation.is(OperationKind::kCommit)) {
      outcome = commit(to, session, asked);
    } else {
      outcome = run(session, asked, {});
    }
  }
  if (is_refused_for_now(outcome)) {
    ++counts_.refused;
    return outcome;
  }
  connection.bars.take_out(operation.tag, operation.number);
  counts_.told_again += outcome.is_told_again ? 1 : 0;
  counts_.executed += outcome.is_told_again ? 0 : 1;
  counts_.read_only += outcome.code == Code::kReadOnly ? 1 : 0;
  if (!outcome.is_told_again && !operation.is(OperationKind::kCondition)) {
    const bool is_erasure = operation.is(OperationKind::kErase);
    parts_.service.count_writes(is_erasure ? 0 : 1, is_erasure ? 1 : 0);
  }
  return outcome;
}

// What stays refused however often it is sent. It leaves no record, and none is looked for.
Code NumberedService::sense_of(const Asked& asked) const noexcept {
  if (!wire::is_consistent(asked.operation)) return Code::kInvalidArgument;
  if (!asked.is_complete) return Code::kInvalidated;
  const auto function = static_cast<functions::Function>(asked.operation.function);
  if (asked.operation.is(OperationKind::kFunction) && function > functions::Function::kPersist) {
    return Code::kUnsupported;
  }
  const bool is_ours =
      asked.key.bytes.empty() || parts_.routing.is_at(parts_.shard_index, asked.key.bytes, asked.key.hash);
  return is_ours ? Code::kOk : Code::kWrongShard;
}

NumberedOutcome NumberedService::run(NumberedSession* session, const Asked& asked, const TableDraft& draft) {
  const wire::Operation& operation = asked.operation;
  const NumberedOperation change{.number = operation.number,
                                 .kind = static_cast<NumberedOperation::Kind>(operation.kind),
                                 .key = asked.key,
                                 .value = asked.value,
                                 .function = static_cast<functions::Function>(operation.function),
                                 .expires_wall_ns = asked.expires_wall_ns,
                                 .keeps_expiry = (operation.flags & wire::Operation::kKeepsExpiry) != 0,
                                 .if_absent = (operation.flags & wire::Operation::kIfAbsent) != 0,
                                 .if_present = (operation.flags & wire::Operation::kIfPresent) != 0,
                                 .if_version = operation.if_version,
                                 .draft = draft};
  NumberedSession* const its_session = operation.number == 0 ? nullptr : session;
  NumberedOutcome outcome = turn_.execute(its_session, change);
  const bool has_room = outcome.code != Code::kNoSpace && outcome.code != Code::kReadOnly;
  if (has_room || outcome.is_told_again) [[likely]]
    return outcome;
  // Memory may still come, and then it was refused for now. A log that cannot be written stays so.
  if (outcome.code == Code::kNoSpace) {
    outcome.wanted_bytes = std::max<uint64_t>(outcome.wanted_bytes, 1);
    outcome.code = parts_.service.on_turn(Code::kNoSpace, outcome.wanted_bytes);
  }
  if (is_refused_for_now(outcome) || its_session == nullptr) return outcome;
  return turn_.refuse(*its_session, operation.number, outcome.code);
}

// What was brought in pieces, or pulled, under the number and in the tag's order. Its draft is gone behind an
// outcome.
NumberedOutcome NumberedService::commit(const rpc::Responder& to, NumberedSession* session,
                                        const Asked& asked) {
  const wire::Operation& operation = asked.operation;
  SessionState* const state = parts_.service.state_of(to.session);
  SessionState::Upload* const upload =
      state == nullptr ? nullptr : state->find_upload(operation.argument, parts_.shard.now_ns());
  if (operation.number != 0) {
    if (const auto known = sessions().find(*session, operation.number)) {
      if (upload != nullptr) state->abandon(*upload);
      return *known;
    }
  }
  // A last word: what is behind it may be executed now.
  if (upload == nullptr) {
    const bool has_number = operation.number != 0;
    return has_number ? turn_.refuse(*session, operation.number, Code::kInvalidated)
                      : NumberedOutcome{.code = Code::kInvalidated};
  }
  if (upload->options.request) return {.code = Code::kInvalidArgument};
  const bool had_window = upload->window.has_value();
  if (!state->seal(*upload)) {
    // Where the gaps of a window are is not known; pieces may continue.
    if (had_window) state->abandon(*upload);
    return {.code = Code::kInvalidArgument};
  }
  const NumberedOutcome outcome = run(session, asked, upload->draft);
  if (is_refused_for_now(outcome)) return outcome;
  const bool is_kept = outcome.code == Code::kNoSpace || outcome.code == Code::kReadOnly;
  if (is_kept) {
    state->abandon(*upload);
  } else {
    state->forget(*upload);
  }
  return outcome;
}

// What came before over this connection has been looked at, and what waits is taken out: without a record it
// was not executed, and is not, unless it is sent again.
NumberedOutcome NumberedService::withdraw(const rpc::Responder& to, Connection& connection,
                                          const NumberedSession& session, const wire::Operation& operation) {
  end_wait(to.session, operation.number);
  connection.bars.take_out(operation.tag, operation.number);
  if (const auto known = sessions().find(session, operation.number)) {
    ++counts_.told_again;
    return *known;
  }
  ++counts_.withdrawn;
  return {};
}

void NumberedService::add(Answers& answers, const wire::Operation& operation,
                          const NumberedOutcome& outcome) noexcept {
  const auto kind = static_cast<OperationKind>(operation.kind);
  const bool is_withdrawal = kind == OperationKind::kWithdraw;
  uint8_t flags = outcome.is_told_again ? wire::OperationAnswer::kToldAgain : 0;
  if (is_withdrawal && !outcome.is_told_again) flags = wire::OperationAnswer::kNotExecuted;
  // A number that was another kind's before may have more than there is room for.
  const uint8_t bytes = outcome.answer_bytes <= wire::answer_bytes_max(kind) ? outcome.answer_bytes : 0;
  const wire::OperationAnswer head{.version = outcome.version,
                                   .code = number_of(outcome.code),
                                   .place = outcome.place,
                                   .bytes = bytes,
                                   .flags = flags,
                                   .reserved = 0};
  std::memcpy(answers.room.data() + answers.used, &head, sizeof(head));
  std::memcpy(answers.room.data() + answers.used + sizeof(head), outcome.answer.data(), bytes);
  answers.used += sizeof(head) + bytes;
  const bool is_nothing = is_withdrawal && !outcome.is_told_again;
  answers.tells_of_table = answers.tells_of_table || (!is_nothing && tells_of_table(outcome));
}

// All of them together.
void NumberedService::give(const rpc::Responder& to, const Answers& answers) noexcept {
  const auto text = std::span(answers.room).first(answers.used);
  if (!answers.tells_of_table || !parts_.service.keeps_reply(to, text)) answer(to, Code::kOk, text);
}

void NumberedService::give_one(const rpc::Responder& to, const wire::Operation& operation,
                               const NumberedOutcome& outcome) noexcept {
  Answers answers;
  add(answers, operation, outcome);
  give(to, answers);
}

}  // namespace refract::kv
