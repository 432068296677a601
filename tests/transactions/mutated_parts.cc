// SPDX-License-Identifier: Apache-2.0
#include "tests/transactions/mutated_parts.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "tests/transactions/one_process.h"

#include "refract/kv/layout/wire.h"
#include "refract/kv/owner/parts/decisions.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/service/batch_call.h"

namespace refract::campaign {

using Method = kv::wire::TransactionMethod;

namespace {

// A part that came in one message, its body behind it.
struct Part {
  kv::wire::PartRequest request{};
  std::span<const std::byte> body;
};

std::optional<Part> part_of(const rpc::IncomingCall& call) {
  std::span<const std::byte> body = call.payload;
  const auto request = kv::wire::take<kv::wire::PartRequest>(body);
  if (!request || request->batch.staged_bytes != 0) return std::nullopt;
  return Part{.request = *request, .body = body};
}

// What stands behind the conditions.
std::span<const std::byte> writes_of(const Part& part) {
  std::span<const std::byte> rest = part.body;
  for (uint16_t i = 0; i < part.request.batch.conditions; ++i) {
    const auto condition = kv::wire::take<kv::wire::ConditionOfBatch>(rest);
    if (!condition) return {};
    rest = rest.subspan(std::min<size_t>(rest.size(), condition->key_bytes + condition->value_bytes));
  }
  return rest;
}

// The row by which transactors read (transactor_commits.cc): a range of no bytes.
constexpr auto kReading = kv::functions::Function::kSetRange;

kv::Decision decision_at(const std::byte* at) noexcept {
  kv::Decision decision;
  std::memcpy(&decision.bits, at, sizeof(decision.bits));
  return decision;
}

}  // namespace

FalseWords::~FalseWords() {
  for (const Saved& saved : saved_) std::memcpy(saved.at, &saved.word, sizeof(saved.word));
}

std::byte* FalseWords::at(kv::DecisionPlace place) const noexcept {
  return process_.keeper(place.shard()).memory().owner() + place.at().value;
}

kv::Decision FalseWords::look(kv::DecisionPlace place) const noexcept {
  return decision_at(at(place));
}

void FalseWords::set(std::byte* at, uint64_t word) {
  saved_.push_back({.at = at, .word = decision_at(at).bits});
  std::memcpy(at, &word, sizeof(word));
}

void FalseWords::set(kv::DecisionPlace place, kv::Decision decision) {
  set(at(place), decision.bits);
}

void FalseWords::abort_all() {
  for (uint32_t shard = 0; shard < process_.shards(); ++shard) {
    std::byte* const space = process_.keeper(shard).memory().owner();
    std::byte* const words = space + kv::Decisions::first_word(space).value;
    for (uint64_t i = 0; i < kv::kDecisionWords; ++i) {
      std::byte* const at = words + i * sizeof(uint64_t);
      const kv::Decision now = decision_at(at);
      if (now.bits == 0 || now.commits(now.number())) continue;
      const uint64_t last_of_range = now.number() | ((uint64_t{1} << kv::kNumbersShift) - 1);
      set(at, kv::Decision::aborted(last_of_range).bits);
    }
  }
}

void MutatedTable::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  for (const rpc::IncomingCall& call : calls) {
    FalseWords words(process_);
    if (mutation_ == Mutation::kDropHeld && is_of_held_key(call)) words.abort_all();
    if (mutation_ == Mutation::kRowsTwice) run_functions(call);
    service_.handle({&call, 1});
  }
}

bool MutatedTable::is_of_held_key(const rpc::IncomingCall& call) const noexcept {
  if (call.header.method != static_cast<uint16_t>(kv::wire::Method::kPut)) return false;
  std::span<const std::byte> rest = call.payload;
  const auto request = kv::wire::take<kv::wire::PutRequest>(rest);
  if (!request) return false;
  if ((request->key.flags & kv::wire::KeyRef::kIdentified) != 0) {
    if (!kv::wire::take<kv::wire::Identity>(rest)) return false;
  }
  if (request->key.key_bytes > rest.size()) return false;
  return shard_.table.parts()->keeps(shard_.table.hashed(rest.first(request->key.key_bytes)).hash);
}

void MutatedTable::run_functions(const rpc::IncomingCall& call) {
  if (call.header.method != static_cast<uint16_t>(kv::wire::Method::kBatch)) return;
  std::span<const std::byte> body = call.payload;
  const auto request = kv::wire::take<kv::wire::BatchRequest>(body);
  kv::BatchCall whole;
  if (!request || whole.decode(*request, body, shard_.table, shard_.clock) != Code::kOk) return;
  const std::span<kv::BatchWrite> all = whole.batch().writes;
  std::vector<kv::BatchWrite> functions;
  std::ranges::copy_if(all, std::back_inserter(functions),
                       [](const auto& one) { return one.row != nullptr; });
  kv::TableBatch first{.conditions = whole.batch().conditions, .writes = functions};
  if (!functions.empty()) static_cast<void>(shard_.table.change_at_once(first));
}

void MutatedParts::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  for (const rpc::IncomingCall& call : calls) handle(call);
}

void MutatedParts::handle(const rpc::IncomingCall& call) {
  const auto method = static_cast<Method>(call.header.method);
  if (method == Method::kSettle) return settle(call);
  if (method == Method::kWords && mutation_ == Mutation::kReuseWords) return give_words(call);
  if (method == Method::kOutcome && mutation_ == Mutation::kOutcomeIsNo) {
    return server_->reply(call.from, Code::kConflict);
  }
  if (method == Method::kPrepare && mutation_ == Mutation::kNoReadMarks) {
    if (!check_only(call)) hand_on(call);
    return;
  }
  if (method == Method::kPrepare && mutation_ == Mutation::kRowsUnmarked && prepare_unmarked(call)) return;
  if (method != Method::kDecide) return hand_on(call);
  if (mutation_ == Mutation::kAnswerRefused && decide_for_anything(call)) return;
  if (mutation_ == Mutation::kNoHomeChecks) return hand_on_bare(call);
  if (mutation_ == Mutation::kIgnoreExpiry) return hand_on_timeless(call);
  if (mutation_ == Mutation::kLateDecisions && decide_late(call)) return;
  shard_.log.hold_all(true);
  process_.hold_words(true);
  hand_on(call);
  process_.hold_words(false);
  shard_.log.hold_all(false);
}

void MutatedParts::settle(const rpc::IncomingCall& call) {
  FalseWords words(process_);
  std::span<const std::byte> body = call.payload;
  const auto request = kv::wire::take<kv::wire::NameRequest>(body);
  const kv::DecisionPlace place{request ? request->place : 0};
  if (place.is_word() && place.shard() < process_.shards()) {
    const kv::Decision now = words.look(place);
    const bool is_open = now.number() < request->number && !now.commits(now.number());
    const bool is_committed = now.commits(request->number);
    if (mutation_ == Mutation::kEarlySettle && is_open) {
      words.set(place, kv::Decision::committed(request->number));
    } else if ((mutation_ == Mutation::kGiveUpUndecided && is_open) ||
               (mutation_ == Mutation::kSettleUndoes && is_committed)) {
      words.set(place, kv::Decision::aborted(request->number));
    }
  }
  hand_on(call);
}

// As if no part counted on any word.
void MutatedParts::give_words(const rpc::IncomingCall& call) {
  std::vector<std::pair<kv::DecisionPlace, uint32_t>> forgotten;
  for (uint64_t i = 0; i < kv::kDecisionWords; ++i) {
    const kv::DecisionPlace place = process_.decisions().place_of(shard_.index, i);
    const uint32_t parts = process_.decisions().parts(place);
    if (parts == 0 || process_.decisions().look(place).bits == kv::Decision::committed(1).bits) continue;
    forgotten.emplace_back(place, parts);
    for (uint32_t part = 0; part < parts; ++part) process_.decisions().end_part(place);
  }
  hand_on(call);
  for (const auto& [place, parts] : forgotten) {
    for (uint32_t part = 0; part < parts; ++part) process_.decisions().begin_part(place);
  }
}

// The conditions hold now, and are not held.
bool MutatedParts::check_only(const rpc::IncomingCall& call) {
  const auto part = part_of(call);
  if (!part || part->request.batch.conditions == 0) return false;
  kv::BatchCall whole;
  const kv::wire::BatchRequest batch = part->request.batch;
  if (whole.decode(batch, part->body, shard_.table, shard_.clock) != Code::kOk) return false;
  kv::TableBatch conditions{.conditions = whole.batch().conditions, .writes = {}};
  if (!shard_.table.change_at_once(conditions)) return false;
  if (batch.writes == 0) {
    server_->reply(call.from, Code::kOk, whole.answer_of_part(Code::kOk));
  } else {
    hand_on_bare(call);
  }
  return true;
}

void MutatedParts::hand_on_bare(const rpc::IncomingCall& call) {
  auto part = part_of(call);
  if (!part || part->request.batch.writes == 0) return hand_on(call);
  const std::span<const std::byte> writes = writes_of(*part);
  part->request.batch.conditions = 0;
  const auto head = std::as_bytes(std::span(&part->request, 1));
  std::vector<std::byte> payload(head.begin(), head.end());
  payload.insert(payload.end(), writes.begin(), writes.end());
  rpc::IncomingCall bare = call;
  bare.payload = payload;
  hand_on(bare);
}

void MutatedParts::hand_on_timeless(const rpc::IncomingCall& call) {
  std::vector<std::byte> payload(call.payload.begin(), call.payload.end());
  constexpr size_t kAt = offsetof(kv::wire::PartRequest, not_after_wall_ns);
  const bool is_one = payload.size() >= sizeof(kv::wire::PartRequest);
  if (is_one) std::ranges::fill(std::span(payload).subspan(kAt, sizeof(uint64_t)), std::byte{0});
  rpc::IncomingCall timeless = call;
  timeless.payload = payload;
  hand_on(timeless);
}

// Whichever session asks.
bool MutatedParts::decide_late(const rpc::IncomingCall& call) {
  const auto part = part_of(call);
  if (!part) return false;
  kv::BatchCall whole;
  if (whole.decode(part->request.batch, part->body, shard_.table, shard_.clock) != Code::kOk) return false;
  const kv::TransactionName name{.place = {part->request.place}, .number = part->request.number};
  const Result<> decided = shard_.table.parts()->decide(whole.batch(), name);
  server_->reply(call.from, Code::kOk, whole.answer_of_part(decided.code()));
  return true;
}

// What changes nothing has read now, and is not held.
bool MutatedParts::prepare_unmarked(const rpc::IncomingCall& call) {
  const auto part = part_of(call);
  if (!part) return false;
  kv::BatchCall whole;
  if (whole.decode(part->request.batch, part->body, shard_.table, shard_.clock) != Code::kOk) return false;
  kv::TableBatch& batch = whole.batch();
  const auto is_reading = [](const kv::BatchWrite& one) {
    return one.row != nullptr && one.row->function == kReading && one.value.size() == sizeof(uint64_t);
  };
  if (batch.writes.empty() || !std::ranges::all_of(batch.writes, is_reading)) return false;
  for (kv::BatchWrite& row : batch.writes) {
    kv::TableBatch alone{.conditions = {}, .writes = {&row, 1}};
    if (!shard_.table.change_at_once(alone)) return false;
    // When it expires is told all the same.
    const Result<kv::TableEntry> met = shard_.table.find(row.key);
    if (met) batch.expires_wall_ns = kv::first_expiry(batch.expires_wall_ns, met->expires_wall_ns);
  }
  kv::TableBatch rest{.conditions = batch.conditions, .writes = {}};
  const kv::PartOf from{.name = {.place = {part->request.place}, .number = part->request.number},
                        .session = call.from.session.bits,
                        .now_ns = shard_.clock.now_ns()};
  const Result<> prepared = shard_.table.parts()->prepare(rest, from);
  batch.looked_wall_ns = rest.looked_wall_ns;
  batch.expires_wall_ns = kv::first_expiry(batch.expires_wall_ns, rest.expires_wall_ns);
  server_->reply(call.from, Code::kOk, whole.answer_of_part(prepared.code()));
  return true;
}

// The decision alone: whatever it is, the client is told that it has happened.
bool MutatedParts::decide_for_anything(const rpc::IncomingCall& call) {
  const auto part = part_of(call);
  if (!part || part->request.batch.conditions != 0 || part->request.batch.writes != 0) return false;
  kv::BatchCall whole;
  const kv::TransactionName name{.place = {part->request.place}, .number = part->request.number};
  static_cast<void>(shard_.table.parts()->decide(whole.batch(), name, part->request.not_after_wall_ns));
  server_->reply(call.from, Code::kOk, whole.answer_of_part(Code::kOk));
  return true;
}

}  // namespace refract::campaign
