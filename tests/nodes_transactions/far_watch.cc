// SPDX-License-Identifier: Apache-2.0
#include "tests/nodes_transactions/far_watch.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "tests/nodes_transactions/node_process.h"

#include "refract/kv/layout/wire.h"
#include "refract/kv/owner/parts/decisions.h"
#include "refract/kv/owner/parts/parts.h"

namespace refract::campaign {

using kv::wire::Fate;

namespace {

kv::TransactionName name_of(const kv::wire::NameRequest& request) {
  return {.place = {request.place}, .number = request.number};
}

}  // namespace

void FarWatch::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  for (const rpc::IncomingCall& call : calls) handle(call);
}

void FarWatch::handle(const rpc::IncomingCall& call) {
  switch (static_cast<Method>(call.header.method)) {
    case Method::kPrepareFar:
      note_part(call);
      break;
    case Method::kFates:
      return look(call);
    case Method::kGone:
      if (mutation_ == Mutation::kGoneTooSoon) return tell_gone(call);
      break;
    case Method::kSettleFar:
      if (mutation_ == Mutation::kBelieveAnySession && believe(call)) return;
      break;
    case Method::kOutcome:
      if (mutation_ == Mutation::kForgetAsRefused && refuse_late(call)) return;
      break;
    case Method::kDecide:
      if (mutation_ == Mutation::kIgnoreExpiry) return decide_timeless(call, 0);
      break;
    case Method::kDecideFar:
      if (mutation_ != Mutation::kIgnoreExpiry) break;
      return decide_timeless(call, offsetof(kv::wire::FarDecideRequest, part));
    default:
      break;
  }
  hand_on(call);
}

void FarWatch::decide_timeless(const rpc::IncomingCall& call, size_t part_at) {
  std::vector<std::byte> payload(call.payload.begin(), call.payload.end());
  const size_t at = part_at + offsetof(kv::wire::PartRequest, not_after_wall_ns);
  const bool is_one = payload.size() >= part_at + sizeof(kv::wire::PartRequest);
  if (is_one) std::ranges::fill(std::span(payload).subspan(at, sizeof(uint64_t)), std::byte{0});
  rpc::IncomingCall timeless = call;
  timeless.payload = payload;
  hand_on(timeless);
}

void FarWatch::note_part(const rpc::IncomingCall& call) {
  std::span<const std::byte> body = call.payload;
  const auto generation = kv::wire::take<uint64_t>(body);
  const auto name = kv::wire::take<kv::wire::NameRequest>(body);
  if (generation && name) parts_[call.from.session.bits].push_back(name_of(*name));
}

// What is decided by the way is another's.
void FarWatch::look(const rpc::IncomingCall& call) {
  std::span<const std::byte> body = call.payload;
  const auto head = kv::wire::take<kv::wire::FatesRequest>(body);
  if (!head || head->is_demanded != 0) return hand_on(call);
  std::vector<kv::TransactionName> names;
  while (const auto one = kv::wire::take<kv::wire::NameRequest>(body)) {
    names.push_back({.place = kv::DecisionPlace{one->place}.at_home(), .number = one->number});
  }
  std::vector<std::byte> payload(call.payload.begin(), call.payload.end());
  if (mutation_ == Mutation::kLooksRecord) {
    const uint32_t is_demanded = 1;
    std::memcpy(&payload[offsetof(kv::wire::FatesRequest, is_demanded)], &is_demanded, sizeof(is_demanded));
  }
  rpc::IncomingCall mine = call;
  mine.payload = payload;
  node_.begin_look(std::move(names));
  hand_on(mine);
  node_.end_look();
}

void FarWatch::tell_gone(const rpc::IncomingCall& call) {
  std::span<const std::byte> body = call.payload;
  const auto head = kv::wire::take<kv::wire::FatesRequest>(body);
  const std::vector<std::byte> gone(head ? head->names : 0, std::byte{1});
  server_->reply(call.from, Code::kOk, gone);
}

bool FarWatch::believe(const rpc::IncomingCall& call) {
  std::span<const std::byte> body = call.payload;
  const auto request = kv::wire::take<kv::wire::FarSettleRequest>(body);
  if (!request || request->fate > static_cast<uint64_t>(Fate::kNever)) return false;
  const kv::TransactionName name = name_of(request->name);
  for (const auto& [session, names] : parts_) {
    if (std::ranges::find(names, name) == names.end()) continue;
    const auto fate = static_cast<Fate>(request->fate);
    server_->reply(call.from, shard_.table.parts()->settle_far(name, session, fate));
    return true;
  }
  return false;
}

// As if the number that has committed stood there as one that was refused.
bool FarWatch::refuse_late(const rpc::IncomingCall& call) {
  std::span<const std::byte> body = call.payload;
  const auto request = kv::wire::take<kv::wire::NameRequest>(body);
  if (!request || !node_.decisions().is_sound({request->place})) return false;
  const kv::Decision now = node_.decisions().look({request->place});
  const uint64_t next = ((request->number >> kv::kNumbersShift) + 1) << kv::kNumbersShift;
  if (now.bits != kv::Decision::aborted(next).bits) return false;
  server_->reply(call.from, Code::kConflict);
  return true;
}

void FarWatch::session_closed(rpc::SessionId session) noexcept {
  const auto found = parts_.find(session.bits);
  if (found != parts_.end() && mutation_ == Mutation::kUndoAlone) {
    for (const kv::TransactionName& name : found->second) {
      (void)shard_.table.parts()->settle_far(name, session.bits, Fate::kNever);
    }
  }
  if (found != parts_.end()) parts_.erase(found);
  service_.session_closed(session);
}

}  // namespace refract::campaign
