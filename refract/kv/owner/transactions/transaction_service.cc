// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/transactions/transaction_service.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "refract/base/check.h"

namespace refract::kv {

TransactionService::TransactionService(const Parts& parts)
    : parts_(parts),
      words_(parts.decisions, parts.shard_index, parts.shard.now_ns(), first_number(parts.floor_stamp)) {
  if (parts.nodes != nullptr) {
    words_.note_far_anywhere(parts.nodes->self(), parts.nodes->members());
    for (const TransactionName& name : parts.table.parts()->decided_before()) {
      words_.note_before(name, parts.nodes->self(), parts.nodes->members());
    }
    far_.emplace(FarTalk::Parts{.parts = *parts.table.parts(),
                                .words = words_,
                                .shard = parts.shard,
                                .nodes = *parts.nodes,
                                .host = *this});
    far_->stir();
  }
  look_after_time();
}

TransactionService::~TransactionService() = default;

void TransactionService::session_opened(rpc::SessionId session) noexcept {
  sessions_.emplace(session.bits, std::make_unique<Open>(staged_bytes_));
}

void TransactionService::session_closed(rpc::SessionId session) noexcept {
  sessions_.erase(session.bits);
  words_.end(session.bits, parts_.shard.now_ns());
  counts_.orphaned += parts_.table.parts()->settle_of(session.bits);
  if (far_) far_->stir();
  look_at_ended();
}

void TransactionService::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  for (const rpc::IncomingCall& call : calls) {
    const auto found = sessions_.find(call.from.session.bits);
    if (found == sessions_.end()) {
      answer(call.from, Code::kUnavailable);
    } else {
      execute(call, *found->second);
      // What has waited for a key has it before the next one that comes.
      look_at_ended();
    }
  }
  look_after_time();
}

void TransactionService::execute(const rpc::IncomingCall& call, Open& session) {
  const std::span<const std::byte> body = call.payload;
  const auto method = static_cast<Method>(call.header.method);
  switch (method) {
    case Method::kWords:
      return give_words(call.from, body);
    case Method::kPiece:
      return answer(call.from, session.staged.add(body));
    case Method::kPrepare:
    case Method::kDecide:
      return change({.from = call.from, .method = method}, session, body);
    case Method::kPrepareFar:
      return prepare_far({.from = call.from, .method = method}, session, body);
    case Method::kDecideFar:
      return decide_far({.from = call.from, .method = method}, session, body);
    case Method::kSettleFar:
      return settle_far(call.from, body);
    case Method::kFates:
      return tell_fates(call.from, body);
    case Method::kGone:
      return tell_gone(call.from, body);
    case Method::kOpenFar:
      return tell_open_far(call.from, body);
    case Method::kGiveUp:
      return give_up(call.from, body);
    case Method::kAnswer:
      return answer_rest(call.from, session, body);
    case Method::kSettle:
      return settle(call.from, body);
    case Method::kOutcome:
      return tell_outcome(call.from, body);
  }
  answer(call.from, Code::kUnsupported);
}

void TransactionService::answer(const rpc::Responder& to, Code code,
                                std::span<const std::byte> text) noexcept {
  if (server_ != nullptr) server_->reply(to, code, text);
}

void TransactionService::answer_when_confirmed(const rpc::Responder& to,
                                               std::span<const std::byte> text) noexcept {
  if (!parts_.upkeep.keeps_reply(to, text)) answer(to, Code::kOk, text);
}

size_t TransactionService::on_log_progress() noexcept {
  const size_t done = parts_.table.parts()->on_log_progress();
  if (far_) far_->stir();
  look_at_ended();
  return done;
}

void TransactionService::give_words(const rpc::Responder& to, std::span<const std::byte> body) {
  const auto request = wire::take<wire::WordsRequest>(body);
  if (!request || request->brought_back > wire::kWordsPerCall || request->is_far > 1 ||
      body.size() != request->brought_back * sizeof(DecisionPlace)) {
    return answer(to, Code::kMalformed);
  }
  std::array<DecisionPlace, wire::kWordsPerCall> back;
  for (size_t i = 0; i < request->brought_back; ++i) back[i] = *wire::take<DecisionPlace>(body);
  words_.bring_back(to.session.bits, std::span(back).first(request->brought_back));
  const size_t wanted = std::min<size_t>(request->words, wire::kWordsPerCall);
  const std::vector<HomeWords::Given> given =
      words_.give(to.session.bits, wanted, parts_.shard.refresh_now(), request->is_far != 0);
  if (given.empty() && wanted != 0) {
    const ChangeLog* const log = parts_.table.log();
    const bool has_failed = log != nullptr && log->failure() != Code::kOk;
    return answer(to, has_failed ? Code::kReadOnly : Code::kOverloaded);
  }
  const wire::WordsReply reply{.generation = parts_.generation, .wall_ns = parts_.shard.clock().wall_ns()};
  std::array<wire::GivenWord, wire::kWordsPerCall> words{};
  for (size_t i = 0; i < given.size(); ++i) {
    words[i] = {.place = given[i].place.bits, .first = given[i].first, .count = given[i].count};
  }
  if (server_ == nullptr) return;
  server_->reply(to, Code::kOk, std::as_bytes(std::span(&reply, 1)),
                 std::as_bytes(std::span(words).first(given.size())));
}

void TransactionService::change(Asked asked, Open& session, std::span<const std::byte> body) {
  const rpc::Responder& to = asked.from;
  const auto request = wire::take<wire::PartRequest>(body);
  if (!request || request->batch.identity.client != 0) return answer(to, Code::kMalformed);
  if (request->not_after_wall_ns != 0 && takes_part(asked.method)) return answer(to, Code::kMalformed);
  std::vector<std::byte> staged;
  if (request->batch.staged_bytes != 0) {
    if (!body.empty()) return answer(to, Code::kMalformed);
    auto taken = session.staged.take(request->batch.staged_bytes);
    if (!taken) return answer(to, Code::kInvalidated);
    staged = *std::move(taken);
    body = staged;
  }
  auto call = std::make_unique<BatchCall>();
  const Code code = call->decode(request->batch, body, parts_.table, parts_.shard.clock());
  if (code == Code::kMalformed) return answer(to, code);
  if (code != Code::kOk) return answer_batch(to, session, *call, code);
  const uint64_t now_ns = parts_.shard.refresh_now();
  asked.name = {.place = {request->place}, .number = request->number};
  if (asked.name.place.is_far() != (asked.method == Method::kPrepareFar)) {
    return answer(to, Code::kInvalidArgument);
  }
  asked.call = std::move(call);
  asked.session = to.session.bits;
  asked.begun_ns = now_ns - std::min(now_ns, request->tried_ns);
  asked.not_after_wall_ns = request->not_after_wall_ns;
  asked.bytes = asked.call->bytes();
  change_or_wait(asked, session);
}

void TransactionService::change_or_wait(Asked& asked, Open& session) {
  Code code = refuse_at_once(asked);
  if (code == Code::kOk) {
    if (waits(asked)) return;
    code = change(asked);
  }
  answer_batch(asked.from, session, *asked.call, code);
}

Code TransactionService::refuse_at_once(const Asked& asked) {
  BatchCall& call = *asked.call;
  for (size_t i = 0; i < call.items(); ++i) {
    const TableKey& key = call.key(i);
    if (parts_.routing.is_at(parts_.shard_index, key.bytes, key.hash)) continue;
    call.batch().failed = i;
    return Code::kWrongShard;
  }
  call.batch().failed = call.items();
  if (!parts_.decisions.are_recovered()) return Code::kOverloaded;
  if (takes_part(asked.method)) return Code::kOk;
  const Code may = words_.may_decide(asked.session, asked.name);
  if (may != Code::kOk) return may;
  const bool is_far = asked.method == Method::kDecideFar;
  return is_far && !words_.is_far_word(asked.name.place) ? Code::kInvalidArgument : Code::kOk;
}

// Not behind a refusal: a decision that is refused has been made, against the transaction.
bool TransactionService::waits(Asked& asked) {
  Table::Parts& table = *parts_.table.parts();
  if (table.count() == 0 || !table.may_wait(asked.call->batch(), asked.begun_ns)) return false;
  const bool is_first_time = asked.give_up_ns == 0;
  if (!waiting_.add(asked, parts_.shard.refresh_now())) return false;
  counts_.waited += is_first_time ? 1 : 0;
  if (waiting_timer_.valid() && !waiting_timer_.done()) return true;
  waiting_timer_ = end_waits_in_time();
  waiting_timer_.start();
  return true;
}

Code TransactionService::change(const Asked& asked) {
  const bool is_home = !takes_part(asked.method);
  BatchCall& call = *asked.call;
  Table::Parts& table = *parts_.table.parts();
  const PartOf part{.name = asked.name,
                    .session = asked.session,
                    .now_ns = parts_.shard.refresh_now(),
                    .begun_ns = asked.begun_ns,
                    .generation = asked.generation};
  const std::optional<uint32_t> member =
      asked.far_places.empty() ? std::nullopt : std::optional(far_->nodes().self());
  const Result<> changed = is_home ? table.decide(call.batch(), asked.name, asked.not_after_wall_ns, member)
                                   : table.prepare(call.batch(), part);
  const Code code = changed.code();
  if (code == Code::kOk && !asked.far_places.empty()) {
    words_.note_far(asked.name, asked.far_places);
    far_->stir();
    ++counts_.far_decided;
  }
  counts_.far_prepared += code == Code::kOk && part.is_far() ? 1 : 0;
  counts_.prepared += code == Code::kOk && !is_home ? 1 : 0;
  counts_.decided += code == Code::kOk && is_home ? 1 : 0;
  counts_.conflicts += code == Code::kConflict ? 1 : 0;
  counts_.refused += call.batch().failed < call.batch().conditions.size() ? 1 : 0;
  return parts_.upkeep.on_turn(code, call.bytes());
}

void TransactionService::answer_batch(const rpc::Responder& to, Open& session, const BatchCall& call,
                                      Code code) {
  std::vector<std::byte> bytes = call.answer_of_part(code);
  // A conflict tells nothing of the table, and all else may be refused by what is not confirmed yet.
  const bool waits = code != Code::kConflict && code != Code::kOverloaded && code != Code::kReadOnly;
  const auto give = [&](std::span<const std::byte> text) {
    return waits ? answer_when_confirmed(to, text) : answer(to, Code::kOk, text);
  };
  if (bytes.size() <= server_->payload_bytes_max(to.session)) return give(bytes);
  session.view = ++views_;
  std::memcpy(bytes.data() + offsetof(wire::BatchReply, view), &session.view, sizeof(session.view));
  const auto rest = std::span(bytes).subspan(sizeof(wire::PartReply));
  session.answer.assign(rest.begin(), rest.end());
  give(std::span(bytes).first(sizeof(wire::PartReply)));
}

void TransactionService::answer_rest(const rpc::Responder& to, Open& session,
                                     std::span<const std::byte> body) {
  const auto request = wire::take<wire::AnswerRequest>(body);
  if (!request || request->reserved != 0 || !body.empty()) return answer(to, Code::kMalformed);
  if (request->view == 0 || request->view != session.view || request->offset >= session.answer.size()) {
    return answer(to, Code::kInvalidated);
  }
  const auto rest = std::span<const std::byte>(session.answer).subspan(request->offset);
  const size_t bytes = std::min(rest.size(), server_->payload_bytes_max(to.session));
  answer(to, Code::kOk, rest.first(bytes));
  if (bytes == rest.size()) session.answer = {};
}

// Of any caller: what is not decided is decided against the transaction.
void TransactionService::settle(const rpc::Responder& to, std::span<const std::byte> body) {
  const auto request = wire::take<wire::NameRequest>(body);
  if (!request || !body.empty() || DecisionPlace{request->place}.is_far()) {
    return answer(to, Code::kMalformed);
  }
  answer(to, parts_.table.parts()->settle({.place = {request->place}, .number = request->number}));
}

void TransactionService::tell_outcome(const rpc::Responder& to, std::span<const std::byte> body) {
  const auto request = wire::take<wire::NameRequest>(body);
  if (!request || !body.empty()) return answer(to, Code::kMalformed);
  const DecisionPlace place{request->place};
  if (!parts_.decisions.is_sound(place) || place.shard() != parts_.shard_index) {
    return answer(to, Code::kInvalidArgument);
  }
  if (!parts_.decisions.are_recovered()) return answer(to, Code::kOverloaded);
  const Decision decision = parts_.decisions.look(place);
  if (decision.number() >> kNumbersShift != request->number >> kNumbersShift) {
    return answer(to, Code::kInvalidated);
  }
  const Decision outcome = parts_.decisions.decide(place, Decision::aborted(request->number));
  if (outcome.number() != request->number) return answer(to, Code::kInvalidated);
  if (!outcome.commits(request->number)) return answer(to, Code::kConflict);
  const ChangeLog* const log = parts_.table.log();
  // It has happened here, and the log may never have it.
  if (outcome.is_unconfirmed() && log != nullptr && log->failure() != Code::kOk) {
    return answer(to, Code::kReadOnly);
  }
  answer_when_confirmed(to);
}

// Writes that waited for keys of parts continue.
void TransactionService::look_at_ended() noexcept {
  for (;;) {
    const uint64_t ended = parts_.table.parts()->ended();
    if (std::exchange(ended_seen_, ended) == ended) return;
    parts_.upkeep.on_settled();
    retry_waiting();
  }
}

void TransactionService::retry_waiting() noexcept {
  for (Asked& asked : waiting_.take()) {
    const auto found = sessions_.find(asked.session);
    if (found != sessions_.end()) change_or_wait(asked, *found->second);
  }
}

// What has waited for too long is tried again, and is refused then.
runtime::Task<> TransactionService::end_waits_in_time() {
  while (!waiting_.empty()) {
    co_await parts_.shard.sleep_until(waiting_.first_end_ns());
    parts_.shard.refresh_now();
    retry_waiting();
    look_at_ended();
    look_after_time();
  }
}

void TransactionService::look_after_time() noexcept {
  if (parts_.table.parts()->count() == 0 || (timer_.valid() && !timer_.done())) return;
  timer_ = settle_in_time();
  timer_.start();
}

runtime::Task<> TransactionService::settle_in_time() {
  Table::Parts& parts = *parts_.table.parts();
  while (parts.count() != 0) {
    co_await parts_.shard.sleep_for(kPatience_ns / 2);
    const uint64_t now_ns = parts_.shard.refresh_now();
    (void)parts.settle_decided();
    counts_.overdue += parts.settle_overdue({.now_ns = now_ns,
                                             .wanted_before_ns = now_ns - std::min(now_ns, kPatience_ns),
                                             .all_before_ns = now_ns - std::min(now_ns, kPatienceMax_ns)});
    if (far_) far_->stir();
    look_at_ended();
  }
}

}  // namespace refract::kv
