// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/channel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/fabric/verbs/hub.h"
#include "refract/fabric/verbs/work_batch.h"

namespace refract::fabric::verbs {
namespace {

bool is_atomic(Op op) noexcept {
  return op == Op::kCompareSwap || op == Op::kFetchAdd;
}

Code code_of(ibv_wc_status status) noexcept {
  return status == IBV_WC_REM_ACCESS_ERR ? Code::kAccessDenied : Code::kUnavailable;
}

}  // namespace

VerbsChannel::VerbsChannel(Hub& hub, uint32_t slot, DeviceMemory memory)
    : hub_(hub),
      slot_(slot),
      capabilities_{.depth = kDepth,
                    .message_bytes_max = kMessageBytesMax,
                    .read_bypasses_target_cpu = true,
                    .peer_reads_bypass_cpu = true,
                    .atomics_coherent_with_cpu = hub.device().facts().limits.atomics_coherent_with_cpu,
                    .counts_written_bytes = false,
                    .one_sided_bytes_min = 0},
      memory_(std::move(memory)) {}

VerbsChannel::~VerbsChannel() = default;

void VerbsChannel::set_queue_pair(std::unique_ptr<QueuePair> pair) noexcept {
  destroy_queue_pair();
  pair_ = std::move(pair);
  generation_ = hub_.next_generation() & kGenerationMask;
  wr_head_ = wr_tail_ = unsignalled_ = last_read_ = last_atomic_ = last_fence_ = 0;
  messages_head_ = messages_tail_ = 0;
  bounce_.reset();
  owed_ = outstanding_ = 0;
  inbox_first_ = inbox_tail_;
  asking_ = false;
  regions_.clear();
}

void VerbsChannel::agree(const Introduction& peer) noexcept {
  credits_max_ = credits_ = std::min(peer.credits, kCredits);
  capabilities_.message_bytes_max =
      static_cast<uint32_t>(std::min<uint64_t>(peer.message_bytes_max, kMessageBytesMax));
}

Reported<> VerbsChannel::meet(const Introduction& peer) {
  agree(peer);
  return pair_->meet(peer);
}

void VerbsChannel::opened() noexcept {
  phase_ = Phase::kOpening;
  open_code_ = Code::kOk;
  open_due_ = true;
  ++hub_.counters.opened;
  hub_.activate(*this);
}

void VerbsChannel::failed(Code code) noexcept {
  destroy_queue_pair();
  phase_ = Phase::kOpening;
  open_code_ = code;
  open_due_ = true;
  hub_.activate(*this);
}

void VerbsChannel::abandon() noexcept {
  destroy_queue_pair();
  while (inbox_head_ != inbox_tail_) hub_.receives().recycle(inbox_[inbox_head_++ % kInbox].buffer);
  inbox_given_ = inbox_tail_;
  phase_ = Phase::kDead;
}

void VerbsChannel::destroy_queue_pair() noexcept {
  if (pair_ == nullptr) return;
  hub_.forget_queue_pair(pair_->number());
  pair_.reset();
}

void VerbsChannel::cut(bool returning) noexcept {
  if (phase_ == Phase::kDead) return;
  destroy_queue_pair();
  for (uint32_t index = head_; index != tail_; ++index) {
    Record& record = record_at(index);
    const bool is_done = index - head_ < issued_ - head_ && record.pieces == 0;
    if (!is_done && record.code == Code::kOk) record.code = Code::kUnavailable;
    record.pieces = 0;
  }
  issued_ = tail_;
  wr_head_ = wr_tail_;
  returning_ = returning;
  phase_ = Phase::kClosing;
  hub_.activate(*this);
}

void VerbsChannel::close() noexcept {
  if (phase_ == Phase::kDead || (phase_ == Phase::kOpening && open_code_ != Code::kOk)) return;
  hub_.let_go(*this);
  if (phase_ == Phase::kUnborn) return failed(Code::kUnavailable);
  if (phase_ == Phase::kClosing) {
    returning_ = false;
    return;
  }
  cut(/*returning=*/false);
}

size_t VerbsChannel::post(std::span<const Request> requests) noexcept {
  if (phase_ == Phase::kUnborn || (phase_ == Phase::kOpening && open_code_ != Code::kOk)) return 0;
  const bool is_open = phase_ == Phase::kOpen;
  size_t taken = 0;
  for (const Request& request : requests) {
    if (in_flight() == kDepth) break;
    // A message that is too large needs no slot and no credit: it is not sent.
    const bool is_sent = is_open && request.op == Op::kSend &&
                         request.local.bytes <= capabilities_.message_bytes_max &&
                         request.tail.bytes <= capabilities_.message_bytes_max - request.local.bytes;
    if (is_sent && (credits_ == 0 || messages_tail_ - messages_head_ == kCredits)) break;
    Record& record = record_at(tail_);
    record = {.request = request};
    if (!is_open) {
      record.code = Code::kUnavailable;
    } else if (is_sent) {
      copy_message(request, record);
    } else if (request.op == Op::kSend) {
      record.code = Code::kTooLarge;
    } else if (is_atomic(request.op) && request.remote.address.offset() % 8 != 0) {
      record.code = Code::kInvalidArgument;
    } else if (request.local.bytes > RemotePointer::kOffsetMask && !is_atomic(request.op)) {
      record.code = Code::kAccessDenied;
    }
    ++tail_;
    ++taken;
  }
  if (taken == 0) return 0;
  if (is_open) hub_.will_flush(*this);
  if (!is_open) hub_.activate(*this);
  return taken;
}

void VerbsChannel::copy_message(const Request& request, Record& record) noexcept {
  --credits_;
  record.message = messages_tail_++ % kCredits;
  record.bytes = request.local.bytes + request.tail.bytes;
  std::byte* const slot = memory_.data() + record.message * kMessageBytesMax;
  if (request.local.bytes > 0) std::memcpy(slot, request.local.data, request.local.bytes);
  if (request.tail.bytes > 0) std::memcpy(slot + request.local.bytes, request.tail.data, request.tail.bytes);
}

size_t VerbsChannel::room() const noexcept {
  if (phase_ != Phase::kOpen) return 0;
  return std::min({kDepth - in_flight(), credits_, kCredits - (messages_tail_ - messages_head_)});
}

bool VerbsChannel::owns(uint64_t work_id) const noexcept {
  const WorkId id = WorkId::from(work_id);
  return pair_ != nullptr && id.generation == generation_ && id.sequence - wr_head_ < wr_tail_ - wr_head_;
}

bool VerbsChannel::take_sent(const ibv_wc& done) noexcept {
  const uint32_t sequence = WorkId::from(done.wr_id).sequence;
  hub_.activate(*this);
  if (done.status == IBV_WC_SUCCESS) [[likely]] {
    complete_work_until(sequence + 1);
    // Others may have waited for its place.
    if (issued_ != tail_) hub_.will_flush(*this);
    return true;
  }
  complete_work_until(sequence);
  const Work& work = wrs_[sequence % kSendQueue];
  if (work.record != kNoRecord) record_at(work.record).code = code_of(done.status);
  return false;
}

void VerbsChannel::complete_work_until(uint32_t end) noexcept {
  while (wr_head_ != end) complete_work(wrs_[wr_head_++ % kSendQueue]);
}

void VerbsChannel::complete_work(const Work& work) noexcept {
  if (work.bounce_mark != 0) bounce_.give_back(work.bounce_mark);
  if (work.record == kNoRecord) return;
  Record& record = record_at(work.record);
  --record.pieces;
  if (record.request.op == Op::kSend) {
    ++messages_head_;
  } else if (is_atomic(record.request.op)) {
    std::memcpy(&record.value, work.bounced, sizeof(record.value));
  } else if (work.target != nullptr) {
    std::memcpy(work.target, work.bounced, work.bytes);
  }
}

bool VerbsChannel::take_message(uint32_t buffer, uint32_t bytes, uint32_t immediate) noexcept {
  const uint32_t returned = immediate & kCreditsMask;
  if (returned > credits_max_ - credits_) return false;
  credits_ += returned;
  // Messages may have waited until their answers have room.
  if (returned > 0 && inbox_given_ != inbox_tail_) hub_.activate(*this);
  if ((immediate & kCreditsOnly) != 0) {
    hub_.receives().recycle(buffer);
    if (returned == 0 || bytes != 0) return false;
    return true;
  }
  if (outstanding_ == kCredits) {
    ++hub_.counters.overrun_peers;
    hub_.receives().recycle(buffer);
    return false;
  }
  ++outstanding_;
  inbox_[inbox_tail_++ % kInbox] = {.buffer = buffer, .bytes = bytes};
  hub_.activate(*this);
  return true;
}

size_t VerbsChannel::give(std::span<Completion> completions) noexcept {
  if (phase_ == Phase::kUnborn) return 0;
  size_t count = 0;
  if (open_due_) {
    if (completions.empty()) return 0;
    completions[count++] = {.channel = this, .bytes = {}, .op = Op::kOpened, .code = open_code_};
    open_due_ = false;
    if (open_code_ != Code::kOk) {
      phase_ = Phase::kDead;
      return count;
    }
    if (phase_ == Phase::kOpening) {
      phase_ = Phase::kOpen;
      // What was posted until now has failed already, and asks nothing of the device.
      issued_ = tail_;
    }
  }
  count += give_messages(completions.subspan(count));
  count += give_records(completions.subspan(count));
  if (phase_ == Phase::kClosing && is_given_out() && count < completions.size()) {
    completions[count++] = {
        .channel = this, .bytes = {}, .value = returning_ ? uint64_t{1} : 0, .op = Op::kClosed};
    phase_ = returning_ ? Phase::kWaiting : Phase::kDead;
    ++hub_.counters.closed;
  }
  return count;
}

size_t VerbsChannel::give_messages(std::span<Completion> completions) noexcept {
  size_t count = inbox_tail_ - inbox_given_;
  // On a closed channel every answer is taken, too, and fails. What was given in this poll has its share of
  // the room already.
  if (hub_.accepted() && phase_ == Phase::kOpen) count = has_delivered ? 0 : std::min(count, room());
  count = std::min(count, completions.size());
  if (count == 0) return 0;
  hub_.delivered(*this);
  for (Completion& completion : completions.first(count)) {
    const Message& message = inbox_[inbox_given_++ % kInbox];
    completion = {.channel = this,
                  .bytes = {hub_.receives().buffer(message.buffer), message.bytes},
                  .op = Op::kReceive};
  }
  return count;
}

size_t VerbsChannel::give_records(std::span<Completion> completions) noexcept {
  size_t count = 0;
  const uint32_t end = phase_ == Phase::kOpen ? issued_ : tail_;
  while (head_ != end) {
    const Record& record = record_at(head_);
    if (record.pieces > 0) break;
    const bool is_told = record.request.token != 0 || record.code != Code::kOk;
    if (is_told && count == completions.size()) break;
    if (is_told) {
      completions[count++] = {.token = record.request.token,
                              .channel = this,
                              .bytes = {},
                              .value = record.value,
                              .op = record.request.op,
                              .code = record.code};
    }
    if (head_ == issued_) ++issued_;
    ++head_;
  }
  return count;
}

bool VerbsChannel::has_work() const noexcept {
  if (phase_ == Phase::kUnborn) return false;
  if (phase_ == Phase::kOpening || phase_ == Phase::kClosing) return true;
  const uint32_t end = phase_ == Phase::kOpen ? issued_ : tail_;
  if (head_ != end && records_[head_ % kDepth].pieces == 0) return true;
  return inbox_given_ != inbox_tail_ && (!hub_.accepted() || room() > 0);
}

void VerbsChannel::turn_began() noexcept {
  for (; inbox_head_ != inbox_given_; ++inbox_head_) {
    hub_.receives().recycle(inbox_[inbox_head_ % kInbox].buffer);
    if (pair_ != nullptr && static_cast<int32_t>(inbox_head_ - inbox_first_) >= 0) ++owed_;
  }
  if (owed_ >= kCreditsReturned) hub_.will_flush(*this);
}

}  // namespace refract::fabric::verbs
