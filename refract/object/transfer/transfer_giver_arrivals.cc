// SPDX-License-Identifier: Apache-2.0
// What is on its way here is given to members that follow it (docs/design/061-broadcast.md).
#include <algorithm>
#include <utility>

#include "refract/kv/layout/wire.h"
#include "refract/object/calls/call_front.h"
#include "refract/object/transfer/transfer_giver.h"

namespace refract::object {

using kv::wire::take;
using runtime::Task;

namespace {

// How often it looks for what has waited long enough.
constexpr uint64_t kLateLook_ns = 100 * kMillisecond_ns;
constexpr size_t kWaitingMax = 1024;

[[nodiscard]] bool is_of(std::span<const std::byte> bytes, const Arrivals::Arrival& arrival) noexcept {
  return bytes.data() == arrival.room.data();
}

}  // namespace

// --- What the arrivals tell ---

void TransferGiver::arrival_grew(const Arrivals::Arrival& /*arrival*/) noexcept {
  if (followers_ > 0 || !waiting_.empty()) start_telling();
}

// The seal has published it, behind all of its bytes.
void TransferGiver::arrival_sealed(const Arrivals::Arrival& arrival) noexcept {
  for (auto& [session, all] : open_) {
    for (Open& open : all) {
      if (!open.is_arriving || !is_of(open.bytes, arrival)) continue;
      open.is_arriving = false;
      --followers_;
      open.ready = open.bytes.size();
    }
  }
  start_telling();
}

// The windows first, then the room, which is the caller's part.
void TransferGiver::arrival_failed(const Arrivals::Arrival& arrival) noexcept {
  std::vector<Open> over;
  for (auto& [session, all] : open_) {
    std::erase_if(all, [&](Open& open) {
      if (!open.is_arriving || !is_of(open.bytes, arrival)) return false;
      over.push_back(std::move(open));
      return true;
    });
  }
  for (const Open& open : over) {
    end(open);
    for (const Asker& asker : open.askers) answer(asker.from, Code::kInvalidated);
  }
}

void TransferGiver::start_telling() noexcept {
  if (open_.empty() && waiting_.empty()) return;
  has_news_ = true;
  if (std::exchange(is_telling_, true)) return;
  telling_ = run_telling();
  telling_.start();
}

Task<> TransferGiver::run_telling() {
  while (has_news_) {
    co_await parts_.shard.sleep_for(0);
    has_news_ = false;
    tell_all();
  }
  is_telling_ = false;
}

// Once in a turn, however many pieces have come in it. Behind the fence, every answer of this turn and of
// later ones may tell of what was stored before it: the pull stores in this thread, and what a device has
// brought was there when its READ ended. An answer that goes out in between tells what an earlier turn has
// taken.
void TransferGiver::take_ready() noexcept {
  if (followers_ == 0) return;
  parts_.writer.fence();
  for (auto& [session, all] : open_) {
    for (Open& open : all) {
      if (!open.is_arriving) continue;
      const auto is_same = [&](const Arrivals::Arrival& one) { return is_of(open.bytes, one); };
      if (const auto* const arrival = parts_.arrivals->find_if(is_same)) open.ready = arrival->ready;
    }
  }
}

void TransferGiver::tell_all() {
  take_ready();
  const uint64_t now_ns = parts_.shard.now_ns();
  for (auto& [session, all] : open_) {
    for (Open& open : all) answer_askers(open, now_ns);
  }
  // What is answered may lead to others.
  std::vector<Waiting> waiting = std::exchange(waiting_, {});
  std::erase_if(waiting, [this](const Waiting& one) {
    const std::optional<Code> code = try_follow(one.from, one.request, one.id);
    if (code && *code != Code::kUnavailable) answer(one.from, *code);
    return !code || *code != Code::kUnavailable;
  });
  waiting_.insert(waiting_.end(), waiting.begin(), waiting.end());
}

// --- FOLLOW ---

void TransferGiver::follow(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::FollowRequest>(body);
  if (!request || !is_sound(request->transfer) || request->plan == 0 || request->reserved != 0)
    return answer(from, Code::kMalformed);
  TakenId id;
  const Code taken = id.take_last(body, request->transfer.id_bytes);
  if (taken != Code::kOk) return answer(from, taken);
  const std::optional<Code> code = try_follow(from, *request, id.text());
  if (!code) return;
  if (*code != Code::kUnavailable) return answer(from, *code);
  if (request->wait_ms == 0) return answer(from, Code::kNotFound);
  if (waiting_.size() >= kWaitingMax) return answer(from, Code::kOverloaded);
  const uint64_t wait_ns = request->wait_ms * kMillisecond_ns;
  waiting_.push_back(
      {.from = from,
       .request = *request,
       .id = std::string(id.text()),
       .due_ns = moment_after(parts_.shard.now_ns(), std::min(wait_ns, wire::kFollowWait_ns))});
  start_late_timer();
}

// kUnavailable: it is not here, and may begin to come.
std::optional<Code> TransferGiver::try_follow(const rpc::Responder& from, const wire::FollowRequest& request,
                                              std::string_view id) {
  if (!parts_.elsewhere.may_fetch(from.session)) return Code::kVersionMismatch;
  const uint64_t birth = request.transfer.birth;
  Given given;
  const Result<Object> object = parts_.store.find(bytes_of(id));
  const Arrivals::Arrival* const arrival =
      parts_.arrivals == nullptr ? nullptr : parts_.arrivals->find(id, birth);
  if (object && object->birth == birth) {
    given = {.object = object->object, .parts = object->parts, .ready = object->parts.filled_bytes()};
  } else if (arrival != nullptr) {
    // What follows another plan may wait for the one that asks.
    if (arrival->plan != 0 && arrival->plan != request.plan) return Code::kNotFound;
    // As in take_ready(): this one begins at what is there now.
    parts_.writer.fence();
    given = {
        .object = arrival->object, .parts = arrival->parts, .ready = arrival->ready, .is_arriving = true};
  } else {
    return object || !may_come(id, birth) ? Code::kNotFound : Code::kUnavailable;
  }
  wire::FollowReply reply{.transfer = {}, .ready = given.ready};
  wire::TransferPiece place{};
  const Code begun = begin(from, request.transfer, given, sizeof(reply), reply.transfer, place);
  if (begun != Code::kOk) return begun;
  answer(from, Code::kOk, bytes_of(reply),
         reply.transfer.pieces != 0 ? bytes_of(place) : wanted_of(given, request.transfer));
  parts_.elsewhere.passed_on(from.session, id);
  return std::nullopt;
}

bool TransferGiver::may_come(std::string_view id, uint64_t birth) {
  return parts_.arrivals != nullptr && !parts_.store.has_tombstone(bytes_of(id), birth);
}

// --- PROGRESS ---

void TransferGiver::progress(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::ProgressRequest>(body);
  if (!request || !body.empty()) return answer(from, Code::kMalformed);
  Open* const open = find(from.session, request->transfer);
  if (open == nullptr) return answer(from, Code::kInvalidated);
  touch(*open);
  if (open->askers.size() >= wire::kProgressCalls) {
    answer_progress(*open, open->askers.front());
    open->askers.erase(open->askers.begin());
  }
  const uint64_t now_ns = parts_.shard.now_ns();
  open->askers.push_back({.from = from,
                          .least = std::min<uint64_t>(request->least, open->bytes.size()),
                          .answer_ns = moment_after(now_ns, wire::kProgressWait_ns)});
  answer_askers(*open, now_ns);
  if (!open->askers.empty()) start_late_timer();
}

void TransferGiver::answer_askers(Open& open, uint64_t now_ns) noexcept {
  std::erase_if(open.askers, [&](const Asker& asker) {
    if (open.ready < asker.least && asker.answer_ns > now_ns) return false;
    answer_progress(open, asker);
    return true;
  });
}

void TransferGiver::answer_progress(const Open& open, const Asker& asker) noexcept {
  const wire::ProgressReply reply{open.ready};
  answer(asker.from, Code::kOk, bytes_of(reply));
}

// --- What waits ---

void TransferGiver::start_late_timer() {
  if (std::exchange(is_late_timing_, true)) return;
  late_timer_ = run_late_timer();
  late_timer_.start();
}

Task<> TransferGiver::run_late_timer() {
  do {
    co_await parts_.shard.sleep_for(kLateLook_ns);
  } while (answer_late(parts_.shard.now_ns()));
  is_late_timing_ = false;
}

bool TransferGiver::answer_late(uint64_t now_ns) {
  std::erase_if(waiting_, [&](const Waiting& one) {
    if (one.due_ns > now_ns) return false;
    answer(one.from, Code::kNotFound);
    return true;
  });
  bool is_waited = !waiting_.empty();
  for (auto& [session, all] : open_) {
    for (Open& open : all) {
      answer_askers(open, now_ns);
      is_waited = is_waited || !open.askers.empty();
    }
  }
  return is_waited;
}

}  // namespace refract::object
