// SPDX-License-Identifier: Apache-2.0
// Making objects by calls: creations, whose bytes the owner READs from lent memory or gets through a window,
// and whole objects in a message.
//
// However a seal ends, what was lent is not there for the owner any more when it returns: either the owner
// has answered, and then it READs nothing more, or the loan is revoked. A loan for filled() ends as settled
// although the owner READs on: the shared buffer stays registered, and a later seal() or end_creation()
// revokes it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/kv/calls/task_team.h"
#include "refract/kv/layout/wire.h"
#include "refract/object/calls/call_front.h"
#include "refract/object/calls/object_calls.h"
#include "refract/object/calls/piece_traffic.h"

namespace refract::object {

using kv::wire::take;
using runtime::Task;
using wire::Method;

namespace {

// What bytes take on a slow path, beyond the time of a message.
constexpr uint64_t kReadPerMiB_ns = 100 * kMillisecond_ns;
// What they take at most to an owner on this host that nothing else holds up, and how long that is worth a
// CPU.
constexpr uint64_t kMovedBytesPerNs = 5;
constexpr uint64_t kAwakeMax_ns = kMillisecond_ns;
constexpr int kAdoptionsMax = 4;
constexpr size_t kMessagesOfMany = 8;  // Under way at once.

[[nodiscard]] wire::Place place_of(const fabric::RemoteSpan& span) noexcept {
  return {.address = span.address.bits, .key = span.key.bits};
}

[[nodiscard]] wire::PutRequest request_of(const ObjectCalls::Put& put, uint64_t timeout_ns) noexcept {
  return {.claim = put.claim,
          .timeout_ns = timeout_ns,
          .body_bytes = static_cast<uint32_t>(put.body.size()),
          .metadata_bytes = static_cast<uint32_t>(put.metadata.size()),
          .id_bytes = static_cast<uint16_t>(put.id.size()),
          .reserved = {}};
}

[[nodiscard]] size_t bytes_in_message(const ObjectCalls::Put& put) noexcept {
  return sizeof(wire::PutRequest) + put.id.size() + put.body.size() + put.metadata.size();
}

}  // namespace

bool ObjectCalls::can_be_read(const Making& making) const noexcept {
  const fabric::Channel* channel = session_.channel();
  if (options_.lender == nullptr || making.is_read_refused || channel == nullptr) return false;
  const fabric::Capabilities& can = channel->capabilities();
  return can.peer_reads_bypass_cpu || (can.maps_lent_files && making.shared != nullptr);
}

kv::Lender::Loan ObjectCalls::lend(const Making& making) {
  const uint64_t bytes = making.parts.filled_bytes();
  if (bytes == 0) return {};
  return options_.lender->lend({making.bytes, bytes}, making.shared);
}

Task<Code> ObjectCalls::create(Making& making, uint64_t room_timeout_ns, uint64_t deadline_ns) {
  const uint64_t give_up_ns = deadline_or_default(deadline_ns);
  const bool is_written = !can_be_read(making);
  const wire::CreateRequest request{.claim = making.claim,
                                    .body_bytes = making.parts.body_bytes,
                                    .timeout_ns = room_timeout_ns,
                                    .metadata_bytes = making.parts.metadata_bytes,
                                    .id_bytes = static_cast<uint16_t>(making.id.size()),
                                    .wants_window = static_cast<uint8_t>(is_written ? 1 : 0),
                                    .reserved = 0};
  const CallFront front({bytes_of(request), making.id});
  const Answer answer =
      co_await ask({.method = Method::kCreate, .head = front.bytes(), .tail = {}, .deadline_ns = give_up_ns});
  note_no_space(answer);
  if (answer.reply.code != Code::kOk) co_return write_outcome(answer);
  std::span<const std::byte> bytes = answer.reply.bytes;
  const auto reply = take<wire::CreateReply>(bytes);
  if (!reply ||
      (is_written && reply->window.key == 0 && reply->is_sealed == 0 && making.parts.filled_bytes() > 0)) {
    co_return Code::kMalformed;
  }
  making.object_at = reply->object_at;
  making.is_sealed = reply->is_sealed != 0;
  making.maybe_sealed = false;
  making.at = this;
  making.opened_ns = session_.opened_ns();
  making.is_written = is_written;
  making.window = reply->window;
  making.written_bytes = making.told_bytes = 0;
  co_return Code::kOk;
}

// The creation becomes this session's, and its room is taken again if it was lost with another session.
// REQUIRES: it was never sealed.
Task<Code> ObjectCalls::take_back(Making& making, uint64_t deadline_ns) {
  const uint64_t now_ns = shard_.now_ns();
  const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  const Code code = co_await create(making, left_ns / 2, deadline_ns);
  co_return code;
}

Task<Code> ObjectCalls::write(Making& making, uint64_t bytes, uint64_t deadline_ns) {
  if (bytes <= making.written_bytes) co_return Code::kOk;
  const uint64_t now_ns = shard_.now_ns();
  if (deadline_ns <= now_ns) co_return Code::kDeadlineExceeded;
  PieceTraffic traffic(session_, shard_, options_.timeout_ns);
  const std::span<std::byte> all{making.bytes, making.parts.filled_bytes()};
  const Code code =
      co_await traffic.carry({.op = fabric::Op::kWrite,
                              .window = making.window,
                              .offset = making.written_bytes,
                              .local = all.subspan(making.written_bytes, bytes - making.written_bytes)});
  if (code == Code::kOk) making.written_bytes = bytes;
  co_return code;
}

Task<Code> ObjectCalls::filled(Making& making, uint64_t bytes, uint64_t deadline_ns) {
  bytes = std::min(bytes, making.parts.filled_bytes());
  // What a lost session knew is told by seal().
  if (!has(making) || making.is_sealed || bytes <= making.told_bytes) co_return Code::kOk;
  making.told_bytes = bytes;
  if (making.is_written) {
    const Code code = co_await write(making, bytes, deadline_or_default(deadline_ns));
    co_return code == Code::kAccessDenied ? Code::kOk : code;
  }
  kv::Lender::Loan loan = lend(making);
  if (!loan) co_return Code::kOk;
  const wire::FillRequest request{.claim = making.claim,
                                  .filled_bytes = bytes,
                                  .source = place_of(loan.source()),
                                  .timeout_ns = 0,
                                  .id_bytes = static_cast<uint16_t>(making.id.size()),
                                  .reserved = {}};
  const CallFront front({bytes_of(request), making.id});
  // It is an advice, whose answer is of no interest: what is wrong is what seal() says. Without a credit some
  // turn may bring one.
  const rpc::Call call{.method = static_cast<uint16_t>(Method::kFilled), .head = front.bytes(), .tail = {}};
  uint64_t sent = session_.start(call);
  if (sent == 0) {
    co_await shard_.sleep_for(0);
    sent = session_.start(call);
  }
  loan.settle();
  if (sent == 0) co_return Code::kOk;
  session_.flush();
  (void)session_.finish(sent);
  co_return Code::kOk;
}

Task<ObjectCalls::Answer> ObjectCalls::seal_once(Making& making, uint64_t deadline_ns) {
  Answer answer;
  const uint64_t filled_bytes = making.parts.filled_bytes();
  kv::Lender::Loan loan;
  if (making.is_written && has(making)) {
    const Code code = co_await write(making, filled_bytes, deadline_ns);
    if (code != Code::kOk) {
      // Denied by the owner, whose window has gone; all else is no answer.
      answer.reply = {.code = code, .value = code == Code::kAccessDenied ? uint64_t{1} : 0};
      co_return answer;
    }
  } else if (!making.is_written && filled_bytes > 0 && can_be_read(making)) {
    loan = lend(making);
    if (!loan) {
      answer.reply = {.code = Code::kAccessDenied, .value = 1};
      co_return answer;
    }
  }
  const uint64_t now_ns = shard_.now_ns();
  const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  // The owner gives up a little earlier, so that it does not READ any more when the loan ends.
  const wire::FillRequest request{.claim = making.claim,
                                  .filled_bytes = filled_bytes,
                                  .source = loan ? place_of(loan.source()) : wire::Place{},
                                  .timeout_ns = left_ns - left_ns / 8,
                                  .id_bytes = static_cast<uint16_t>(making.id.size()),
                                  .reserved = {}};
  const CallFront front({bytes_of(request), making.id});
  if (loan) shard_.stay_awake_for(std::min(filled_bytes / kMovedBytesPerNs, kAwakeMax_ns));
  // Not repeated here: a session that was opened again may not have the creation.
  answer = co_await ask({.method = Method::kSeal,
                         .head = front.bytes(),
                         .tail = {},
                         .deadline_ns = deadline_ns,
                         .may_repeat = false});
  // Refused memory is taken back, so that the next seal lends it as if for the first time.
  if (answer.is_answered() && loan && answer.reply.code != Code::kAccessDenied) loan.settle();
  co_return answer;
}

Task<Code> ObjectCalls::seal(Making& making, uint64_t deadline_ns) {
  const uint64_t give_up_ns =
      deadline_ns != 0 ? deadline_ns
                       : deadline_or_default(0) + making.parts.filled_bytes() / kMiB * kReadPerMiB_ns;
  int adoptions = 0;
  making.is_read_refused = false;  // What an earlier one met may be over.
  bool is_open = true;             // As far as is known: it is a creation, of some session.
  while (!making.is_sealed) {
    // Where a seal may have been executed, the owner is asked first: taking room again would bring back what
    // was removed since.
    if (!has(making) && !making.maybe_sealed) {
      const Code code = co_await take_back(making, give_up_ns);
      // There is no other way to its bytes, and this one is there again when the owner has what it lacked.
      if (code == Code::kUnsupported && making.is_read_refused) co_return Code::kOverloaded;
      if (code != Code::kOk) co_return code;
      continue;
    }
    const bool was_mine = has(making);
    const Answer answer = co_await seal_once(making, give_up_ns);
    const Code code = answer.reply.code;
    if (!answer.is_answered()) {
      making.maybe_sealed |= code == Code::kIndeterminate;
      is_open = co_await is_open_again(give_up_ns);
      if (is_open && session_.opened_ns() != making.opened_ns && adoptions++ < kAdoptionsMax) continue;
      co_return making.maybe_sealed ? Code::kIndeterminate : code;
    }
    if (code == Code::kOk) {
      std::span<const std::byte> bytes = answer.reply.bytes;
      const auto reply = take<wire::SealReply>(bytes);
      if (!reply) co_return Code::kMalformed;
      making.object_at = reply->object_at;
      making.is_sealed = true;
      break;
    }
    const bool is_refused = code == Code::kAccessDenied || (code == Code::kInvalidArgument && !was_mine);
    if (is_refused && adoptions++ < kAdoptionsMax) {
      // It is a creation still: of another session, or one whose bytes the owner cannot READ, or with a
      // window that has gone.
      making.maybe_sealed = false;
      making.is_read_refused |= was_mine && !making.is_written;
      making.at = nullptr;
      continue;
    }
    if (code == Code::kNotFound && making.maybe_sealed) co_return Code::kIndeterminate;
    co_return code;
  }
  co_return Code::kOk;
}

Task<Code> ObjectCalls::end_creation(Making& making, uint64_t deadline_ns) {
  const uint64_t give_up_ns = deadline_or_default(deadline_ns);
  // Where filled() has told it, the owner may READ until the answer.
  kv::Lender::Loan loan;
  if (making.told_bytes > 0 && !making.is_written && can_be_read(making)) loan = lend(making);
  const wire::IdRequest request{
      .birth = making.claim, .id_bytes = static_cast<uint16_t>(making.id.size()), .flag = 0, .reserved = {}};
  const CallFront front({bytes_of(request), making.id});
  const Answer answer =
      co_await ask({.method = Method::kAbort, .head = front.bytes(), .tail = {}, .deadline_ns = give_up_ns});
  if (answer.is_answered() && loan) loan.settle();
  // By the attempt that was lost.
  if (answer.was_lost && answer.reply.code == Code::kNotFound) co_return Code::kOk;
  co_return write_outcome(answer);
}

bool ObjectCalls::fits_message(const Put& put) const noexcept {
  // Each length alone first: their sum may be more than a number holds.
  const size_t bytes_max = body_bytes_max_ - sizeof(wire::CountRequest);
  return put.body.size() <= bytes_max && put.metadata.size() <= bytes_max &&
         bytes_in_message(put) <= bytes_max;
}

Task<Code> ObjectCalls::put(Put put, uint64_t room_timeout_ns, uint64_t deadline_ns) {
  const wire::PutRequest request = request_of(put, room_timeout_ns);
  // The tail is copied one time less than what stands before it.
  std::span<const std::byte> before;
  std::span<const std::byte> tail = put.body;
  if (!put.metadata.empty()) {
    before = put.body;
    tail = put.metadata;
  }
  const CallFront front({bytes_of(request), put.id, before});
  const Answer answer = co_await ask({.method = Method::kPut,
                                      .head = front.bytes(),
                                      .tail = tail,
                                      .deadline_ns = deadline_or_default(deadline_ns)});
  note_no_space(answer);
  co_return write_outcome(answer);
}

// Messages of many objects each, which some tasks send side by side.
struct ObjectCalls::PutTeam {
  std::span<Put> left;
  uint64_t deadline_ns;
  kv::TaskTeam tasks;
};

Task<> ObjectCalls::put_many(std::span<Put> puts, uint64_t deadline_ns) {
  PutTeam team{.left = puts, .deadline_ns = deadline_ns, .tasks = kv::TaskTeam(shard_)};
  size_t bytes = 0;
  for (const Put& put : puts) bytes += bytes_in_message(put);
  const size_t members = std::min(kMessagesOfMany, bytes / body_bytes_max_ + 1);
  for (size_t i = 0; i < members; ++i) team.tasks.add(put_batches(team));
  co_await team.tasks.run();
}

Task<> ObjectCalls::put_batches(PutTeam& team) {
  std::vector<std::byte> message;
  while (!team.left.empty()) {
    message.assign(sizeof(wire::CountRequest), std::byte{0});
    size_t count = 0;
    for (const Put& put : team.left) {
      const size_t begin = round_up(message.size(), 8);
      const bool fits = count < wire::kPutsPerCall && begin + bytes_in_message(put) <= body_bytes_max_;
      if (count > 0 && !fits) break;
      message.resize(begin);
      const wire::PutRequest request = request_of(put, 0);
      for (const auto part : {bytes_of(request), put.id, put.body, put.metadata}) {
        message.insert(message.end(), part.begin(), part.end());
      }
      ++count;
    }
    const wire::CountRequest head{.count = static_cast<uint32_t>(count), .reserved = 0};
    std::memcpy(message.data(), &head, sizeof(head));
    const std::span<Put> batch = team.left.first(count);
    team.left = team.left.subspan(count);
    const Answer answer = co_await ask({.method = Method::kPutMany,
                                        .head = {},
                                        .tail = message,
                                        .deadline_ns = deadline_or_default(team.deadline_ns)});
    settle(batch, answer);
  }
  team.tasks.leave();
}

void ObjectCalls::settle(std::span<Put> puts, const Answer& answer) noexcept {
  const bool is_whole = answer.reply.bytes.size() == puts.size() * sizeof(uint16_t);
  std::span<const std::byte> bytes = answer.reply.bytes;
  for (Put& put : puts) {
    if (answer.reply.code != Code::kOk) {
      put.code = write_outcome(answer);
    } else {
      const auto number = is_whole ? take<uint16_t>(bytes) : std::nullopt;
      put.code = number ? code_from_wire(*number) : Code::kMalformed;
    }
  }
}

}  // namespace refract::object
