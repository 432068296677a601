// SPDX-License-Identifier: Apache-2.0
// How what was posted becomes work requests.
#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "refract/fabric/verbs/channel.h"
#include "refract/fabric/verbs/hub.h"
#include "refract/fabric/verbs/work_batch.h"

namespace refract::fabric::verbs {
namespace {

uint64_t device_address(const void* bytes) noexcept {
  return reinterpret_cast<uintptr_t>(bytes);
}

bool Rights::* right_for(Op op) noexcept {
  if (op == Op::kRead) return &Rights::read;
  return op == Op::kWrite ? &Rights::write : &Rights::atomic;
}

// Whether one of two sequence numbers, both one behind what they stand for, lies beyond the other.
bool is_behind(uint32_t one, uint32_t other) noexcept {
  return static_cast<int32_t>(one - other) > 0;
}

}  // namespace

bool VerbsChannel::issue(WorkBatch& batch) noexcept {
  if (pair_ == nullptr || phase_ != Phase::kOpen) return true;
  batch.count = 0;
  while (issued_ != tail_) {
    if (build(record_at(issued_), issued_, batch) == Built::kWaits) break;
    ++issued_;
  }
  return_credits(batch);
  // What was refused is done already, and what is done may stand behind nothing any more.
  if (has_work()) hub_.activate(*this);
  return batch.count == 0 || ring_doorbell(batch);
}

VerbsChannel::Built VerbsChannel::build(Record& record, uint32_t index, WorkBatch& batch) noexcept {
  if (record.code != Code::kOk) return Built::kWhole;
  if (!has_send_queue_room()) return Built::kWaits;
  if (record.request.op != Op::kSend) return build_one_sided(record, index, batch);
  build_message(record, index, batch);
  return Built::kWhole;
}

ibv_send_wr& VerbsChannel::add_work(WorkBatch& batch, const Work& work) noexcept {
  const WorkId id{.generation = generation_, .slot = slot_, .sequence = wr_tail_};
  ibv_send_wr& request = batch.add(id.bits());
  wrs_[wr_tail_++ % kSendQueue] = work;
  ++hub_.counters.work_requests;
  if (work.record != kNoRecord) ++record_at(work.record).pieces;
  if (++unsignalled_ == kSignalEvery) {
    request.send_flags |= IBV_SEND_SIGNALED;
    unsignalled_ = 0;
    ++hub_.counters.signalled;
  }
  return request;
}

bool VerbsChannel::needs_fence(Op op) noexcept {
  uint32_t last = last_read_;
  if (!(op == Op::kCompareSwap || op == Op::kFetchAdd) && is_behind(last_atomic_, last)) last = last_atomic_;
  // Done, or fenced off already: the queue stands still at a fence, so whatever follows it is behind it too.
  if (!is_behind(last, wr_head_) || !is_behind(last, last_fence_)) return false;
  last_fence_ = wr_tail_;
  ++hub_.counters.fences;
  return true;
}

// In the bounce ring, where it stays until it is done, since messages behind it may be posted before that.
bool VerbsChannel::greet(WorkBatch& batch, uint32_t bytes) noexcept {
  const size_t offset = pair_ == nullptr ? BounceRing::kNone : bounce_.take(bytes);
  if (offset == BounceRing::kNone) return false;
  std::byte* const place = memory_.data() + kCredits * kMessageBytesMax + offset;
  const Greeting greeting{.header = header_of(Kind::kGreeting)};
  std::memset(place, 0, bytes);
  std::memcpy(place, &greeting, std::min<size_t>(bytes, sizeof(greeting)));
  batch.count = 0;
  ibv_send_wr& request = add_work(batch, {.bounce_mark = bounce_.mark()});
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = htonl(kIsGreeting);
  request.send_flags |= IBV_SEND_SIGNALED;
  unsignalled_ = 0;
  ++hub_.counters.signalled;
  ++hub_.counters.sends;
  batch.place(request, {.addr = memory_.address(place), .length = bytes, .lkey = memory_.key()});
  return ring_doorbell(batch);
}

void VerbsChannel::build_message(Record& record, uint32_t index, WorkBatch& batch) noexcept {
  const bool is_fenced = needs_fence(Op::kSend);
  ibv_send_wr& request = add_work(batch, {.record = index});
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = htonl(take_owed());
  if (is_fenced) request.send_flags |= IBV_SEND_FENCE;
  const std::byte* const bytes = memory_.data() + record.message * kMessageBytesMax;
  const bool is_inline = record.bytes <= pair_->inline_bytes();
  if (is_inline) request.send_flags |= IBV_SEND_INLINE;
  batch.place(request, {.addr = is_inline ? device_address(bytes) : memory_.address(bytes),
                        .length = static_cast<uint32_t>(record.bytes),
                        .lkey = memory_.key()});
  ++hub_.counters.sends;
  if (is_inline) ++hub_.counters.inline_sends;
}

VerbsChannel::Built VerbsChannel::build_one_sided(Record& record, uint32_t index, WorkBatch& batch) noexcept {
  const RemoteSpan& remote = record.request.remote;
  const RemoteRegions::Row* const row = regions_.find(remote.address.region(), remote.key);
  if (row == nullptr) {
    ask(record);
    return Built::kWaits;
  }
  const bool is_atomic = record.request.op == Op::kCompareSwap || record.request.op == Op::kFetchAdd;
  const uint64_t bytes = is_atomic ? 8 : record.request.local.bytes;
  if (!row->covers(remote.address.offset(), bytes, right_for(record.request.op))) {
    record.code = Code::kAccessDenied;
    ++hub_.counters.refused_locally;
    return Built::kWhole;
  }
  return is_atomic ? build_atomic(record, index, *row, batch) : build_transfer(record, index, *row, batch);
}

VerbsChannel::Built VerbsChannel::build_atomic(Record& record, uint32_t index, const RemoteRegions::Row& row,
                                               WorkBatch& batch) noexcept {
  const size_t offset = bounce_.take(sizeof(uint64_t));
  if (offset == BounceRing::kNone) return Built::kWaits;
  const std::byte* const place = memory_.data() + kCredits * kMessageBytesMax + offset;
  const bool is_fenced = needs_fence(record.request.op);
  ibv_send_wr& request =
      add_work(batch, {.record = index, .bytes = 8, .bounced = place, .bounce_mark = bounce_.mark()});
  const bool is_swap = record.request.op == Op::kCompareSwap;
  request.opcode = is_swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
  if (is_fenced) request.send_flags |= IBV_SEND_FENCE;
  const uint64_t remote = record.request.remote.address.offset();
  request.wr.atomic = {.remote_addr = remote,
                       .compare_add = is_swap ? record.request.compare : record.request.operand,
                       .swap = record.request.operand,
                       .rkey = row.device_key(remote)};
  batch.place(request, {.addr = memory_.address(place), .length = 8, .lkey = memory_.key()});
  last_atomic_ = wr_tail_;
  ++hub_.counters.atomics;
  return Built::kWhole;
}

bool VerbsChannel::find_piece(Record& record, const RemoteRegions::Row& row, Piece& piece) noexcept {
  const LocalSpan& local = record.request.local;
  std::byte* const from = local.data + record.issued;
  const uint64_t remote = record.request.remote.address.offset() + record.issued;
  const uint64_t bytes = std::min({local.bytes - record.issued, row.bytes_behind(remote), kPieceBytes});
  // Inline bytes are taken by the call that posts them, so they need no place of their own.
  const bool is_inline = record.request.op == Op::kWrite && bytes <= pair_->inline_bytes();
  if (is_inline) {
    piece = {.local = {.address = device_address(from), .key = 0, .bytes = bytes},
             .bytes = bytes,
             .is_inline = true};
    return true;
  }
  piece.local = hub_.served().find_local(from, bytes);
  if (piece.local.bytes > 0) {
    piece.bytes = piece.local.bytes;
    return true;
  }
  piece.bytes = std::min<uint64_t>(bytes, kBouncePieceBytes);
  const size_t offset = bounce_.take(piece.bytes);
  if (offset == BounceRing::kNone) return false;
  piece.bounced = memory_.data() + kCredits * kMessageBytesMax + offset;
  piece.local = {.address = memory_.address(piece.bounced), .key = memory_.key(), .bytes = piece.bytes};
  if (record.request.op == Op::kWrite) std::memcpy(piece.bounced, from, piece.bytes);
  return true;
}

VerbsChannel::Built VerbsChannel::build_transfer(Record& record, uint32_t index,
                                                 const RemoteRegions::Row& row, WorkBatch& batch) noexcept {
  const bool is_read = record.request.op == Op::kRead;
  const uint64_t bytes = record.request.local.bytes;
  while (record.issued < bytes) {
    Piece piece;
    if (!has_send_queue_room() || !find_piece(record, row, piece)) return Built::kWaits;
    const bool is_fenced = !is_read && needs_fence(Op::kWrite);
    std::byte* const target = record.request.local.data + record.issued;
    ibv_send_wr& request = add_work(batch, {.record = index,
                                            .bytes = static_cast<uint32_t>(piece.bytes),
                                            .bounced = piece.bounced,
                                            .target = is_read && piece.bounced != nullptr ? target : nullptr,
                                            .bounce_mark = piece.bounced != nullptr ? bounce_.mark() : 0});
    request.opcode = is_read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    if (is_fenced) request.send_flags |= IBV_SEND_FENCE;
    if (piece.is_inline) {
      request.send_flags |= IBV_SEND_INLINE;
      ++hub_.counters.inline_sends;
    }
    const uint64_t remote = record.request.remote.address.offset() + record.issued;
    request.wr.rdma = {.remote_addr = remote, .rkey = row.device_key(remote)};
    batch.place(
        request,
        {.addr = piece.local.address, .length = static_cast<uint32_t>(piece.bytes), .lkey = piece.local.key});
    record.issued += piece.bytes;
    if (is_read) last_read_ = wr_tail_;
    ++(is_read ? hub_.counters.reads : hub_.counters.writes);
  }
  return Built::kWhole;
}

uint32_t VerbsChannel::take_owed() noexcept {
  const uint32_t owed = owed_;
  outstanding_ -= owed;
  owed_ = 0;
  return owed;
}

void VerbsChannel::return_credits(WorkBatch& batch) noexcept {
  if (owed_ < kCreditsReturned || wr_tail_ - wr_head_ == kSendQueue) return;
  ibv_send_wr& request = add_work(batch, {});
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = htonl(take_owed() | kCreditsOnly);
  ++hub_.counters.sends;
  ++hub_.counters.credit_returns;
}

bool VerbsChannel::ring_doorbell(WorkBatch& batch) noexcept {
  ibv_send_wr& last = batch.requests[batch.count - 1];
  // What only returns credits holds nothing, so no thread need be woken when it is done: the next completion
  // covers it.
  const bool holds_something = wrs_[(wr_tail_ - 1) % kSendQueue].record != kNoRecord || batch.count > 1;
  if (holds_something && (last.send_flags & IBV_SEND_SIGNALED) == 0) {
    last.send_flags |= IBV_SEND_SIGNALED;
    unsignalled_ = 0;
    ++hub_.counters.signalled;
  }
  ++hub_.counters.doorbells;
  ibv_send_wr* refused = nullptr;
  return ::ibv_post_send(pair_->get(), batch.requests.data(), &refused) == 0;
}

void VerbsChannel::ask(const Record& record) noexcept {
  const RemoteSpan& remote = record.request.remote;
  if (!asking_) {
    asking_ = true;
    question_sent_ = false;
    asked_region_ = remote.address.region();
    asked_key_ = remote.key;
  }
  if (question_sent_ || introducer_ == nullptr) return;
  const Question question{
      .header = header_of(Kind::kQuestion), .region = asked_region_, .key = asked_key_.bits};
  question_sent_ = hub_.tell(*introducer_, question);
  if (question_sent_) ++hub_.counters.questions;
}

void VerbsChannel::take_answer(const DecodedAnswer& answer) {
  // An answer to a question of the queue pair before this one is as good as none.
  if (!asking_ || answer.region != asked_region_ || answer.what.key != asked_key_) return;
  asking_ = false;
  if (answer.what.chunk_count > 0) {
    regions_.learn(answer);
  } else if (issued_ != tail_) {
    record_at(issued_).code = Code::kAccessDenied;
  }
  hub_.will_flush(*this);
}

}  // namespace refract::fabric::verbs
