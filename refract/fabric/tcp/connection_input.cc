// SPDX-License-Identifier: Apache-2.0
// What arrives on a connection. Everything here comes from the peer: lengths, kinds, keys and answers are
// checked before they are used.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "refract/fabric/tcp/connection.h"
#include "refract/memory/remote_visible.h"

namespace refract::fabric::tcp {
namespace {

[[nodiscard]] RegionTable::Access asked_for(const Target& place, uint64_t bytes) noexcept {
  return {.address = {place.address}, .key = {place.key}, .bytes = bytes};
}

}  // namespace

// What stands behind the header at begin_.
template <typename T>
T Connection::payload() const noexcept {
  T value;
  std::memcpy(&value, block_->bytes + begin_ + kHeaderBytes, sizeof(value));
  return value;
}

// REQUIRES: no whole frame lies in the block. True: something arrived.
bool Connection::receive() noexcept {
  // Most looks of an end that polls find nothing, and take no block.
  std::byte* const behind = prepare_block().bytes + end_;
  const size_t room = kBlockBytes - end_;
  std::array<iovec, 2> spans;
  size_t count = 0;
  if (transfer_.active && transfer_.left > 0) {
    const bool refused = transfer_.target == nullptr;
    const uint64_t most = refused ? kBlockBytes : kReceiveBytesATurn;
    const uint64_t bytes = std::min(transfer_.left, most);
    spans[count++] = {refused ? hub_.sink->bytes : transfer_.target, bytes};
    if (bytes == transfer_.left) spans[count++] = {behind, room};
  } else {
    spans[count++] = {behind, room};
  }
  ssize_t got = 0;
  if (count == 1) {
    got = ::recv(fd(), spans[0].iov_base, spans[0].iov_len, MSG_DONTWAIT);
  } else {
    got = ::readv(fd(), spans.data(), static_cast<int>(count));
  }
  if (got <= 0) {
    readable_ = got < 0 && errno == EINTR;
    peer_gone_ = got == 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK);
    // In this turn nothing of the block was given out.
    release_delivered();
    return false;
  }
  if (block_ == nullptr) block_ = hub_.blocks.take();
  size_t asked = 0;
  for (const iovec& span : std::span(spans).first(count)) asked += span.iov_len;
  // Of a peer that hung up the end is read, too.
  readable_ = static_cast<size_t>(got) == asked || hung_up_;
  ++hub_.counters.receives;
  hub_.counters.bytes_received += static_cast<uint64_t>(got);
  idle_polls_ = 0;
  took(static_cast<size_t>(got));
  return true;
}

// Where what comes belongs; not taken where the connection has none. An empty block begins where the next
// header will lie at a multiple of 8.
Block& Connection::prepare_block() noexcept {
  if (begin_ == end_) {
    begin_ = end_ = (8 - (transfer_.active ? transfer_.padding : 0)) % 8;
  } else if (kBlockBytes - begin_ < frame_bytes(kMessageBytesMax)) {
    std::memmove(block_->bytes, block_->bytes + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return block_ != nullptr ? *block_ : hub_.blocks.next();
}

void Connection::took(size_t bytes) noexcept {
  if (transfer_.active && transfer_.left > 0) {
    const uint64_t direct = std::min<uint64_t>(transfer_.left, bytes);
    if (transfer_.target != nullptr) transfer_.target += direct;
    transfer_.left -= direct;
    bytes -= direct;
  }
  end_ += bytes;
}

// At the next poll, since bytes of it may have been delivered in this one.
void Connection::release_block_if_empty() noexcept {
  if (block_ == nullptr || begin_ != end_ || delivered_) return;
  delivered_ = true;
  hub_.holds_delivered(*this);
}

void Connection::release_delivered() noexcept {
  if (block_ == nullptr || begin_ != end_) return;
  hub_.blocks.give_back(block_);
  block_ = nullptr;
  begin_ = end_ = 0;
}

// The accepting side delivers only what it could answer at once. The other side must take every answer: it
// would deadlock if it waited for room that comes free only when its peer can answer.
bool Connection::may_deliver(size_t messages) const noexcept {
  if (!hub_.accepted) return true;
  if (hub_.is_over_budget()) return output_ == nullptr && messages == 0;
  return messages < room();
}

size_t Connection::take_frames(std::span<Completion> completions) noexcept {
  size_t count = 0;
  size_t messages = 0;
  stalled_ = cut_short_ = false;
  while (phase_ == Phase::kOpen) {
    if (count == completions.size()) {
      cut_short_ = begin_ != end_;
      break;
    }
    Completion& completion = completions[count];
    completion.channel = nullptr;
    if (transfer_.active) {
      if (!advance_transfer()) break;
      finish_transfer(completion);
      count += completion.channel != nullptr ? 1 : 0;
      continue;
    }
    if (end_ - begin_ < kHeaderBytes) break;
    uint64_t word = 0;
    std::memcpy(&word, block_->bytes + begin_, sizeof(word));
    const FrameHeader header = FrameHeader::from(word);
    const uint64_t head = head_bytes(header);
    if (head == 0) {
      give_up_on(hub_.counters.bad_frame);
      break;
    }
    if (end_ - begin_ < head) break;
    Step step = Step::kDone;
    if (header.kind == FrameKind::kMessage) [[likely]] {
      if (!(hub_.accepted && changes_wait()) && may_deliver(messages)) {
        completion = {.channel = this,
                      .bytes = {block_->bytes + begin_ + kHeaderBytes, header.bytes},
                      .op = Op::kReceive};
        ++messages;
      } else {
        step = Step::kWait;
      }
    } else if (header.kind == FrameKind::kGoodbye) {
      peer_left();
      break;
    } else {
      step = take_frame(header, completion);
    }
    if (step == Step::kWait) {
      // With messages given out, the next turn may have room again without any event.
      stalled_ = messages == 0;
      cut_short_ = messages > 0;
      break;
    }
    if (step == Step::kNonsense) {
      const bool is_answer = header.kind == FrameKind::kDone || header.kind == FrameKind::kData;
      give_up_on(is_answer ? hub_.counters.bad_completion : hub_.counters.bad_frame);
      break;
    }
    begin_ += head;
    count += completion.channel != nullptr ? 1 : 0;
  }
  release_block_if_empty();
  return count;
}

Connection::Step Connection::take_frame(const FrameHeader& header, Completion& completion) noexcept {
  if (header.kind == FrameKind::kDone) return take_done(header, completion);
  if (header.kind == FrameKind::kData) return begin_data(header);
  if (!can_answer()) return Step::kWait;
  return execute(header);
}

bool Connection::can_answer() const noexcept {
  if (output_ == nullptr) return true;
  return output_->copied_bytes() + kCopiedBytesMax + 64 <= kOutputBytesMax + kAnswerBytesMax &&
         output_->takes_a_transfer();
}

// Whether what changes memory must wait, because bytes of an earlier READ are still to be gathered.
bool Connection::changes_wait() noexcept {
  if (output_ == nullptr || !output_->is_gathering()) return false;
  flush_output();
  return output_ != nullptr && output_->is_gathering();
}

Connection::Step Connection::execute(const FrameHeader& header) noexcept {
  if (header.kind == FrameKind::kRead) return execute_read(payload<TargetAndOperand>());
  if (changes_wait()) return Step::kWait;
  if (header.kind == FrameKind::kWrite) return begin_write(header);
  uint64_t value = 0;
  Code code = Code::kOk;
  if (header.kind == FrameKind::kCompareSwap) {
    const auto swap = payload<TargetAndSwap>();
    code = hub_.regions.compare_swap(asked_for(swap.place, sizeof(value)),
                                     {.compare = swap.compare, .operand = swap.operand}, value);
  } else {
    const auto add = payload<TargetAndOperand>();
    code = hub_.regions.fetch_add(asked_for(add.place, sizeof(value)), add.operand, value);
  }
  answer(code, value);
  return Step::kDone;
}

void Connection::answer(Code code, uint64_t value) noexcept {
  if (code != Code::kOk) ++hub_.counters.access_denied;
  Output& out = output();
  out.word(
      FrameHeader{.bytes = kDoneBytes, .kind = FrameKind::kDone, .code = static_cast<uint8_t>(code)}.word());
  out.word(value);
  mark_to_flush();
}

Connection::Step Connection::execute_read(const TargetAndOperand& read) noexcept {
  const uint64_t bytes = read.operand;
  const std::byte* const source = hub_.regions.look_up(asked_for(read.place, bytes), &Rights::read).bytes;
  if (source == nullptr || bytes == 0) {
    answer(source == nullptr ? Code::kAccessDenied : Code::kOk, 0);
    return Step::kDone;
  }
  Output& out = output();
  out.word(FrameHeader{.bytes = bytes, .kind = FrameKind::kData}.word());
  if (bytes <= kCopiedBytesMax) {
    std::array<std::byte, kCopiedBytesMax> copy;
    copy_possibly_torn(copy.data(), source, bytes);
    out.copy(copy.data(), bytes);
    out.zeros(padding_of(bytes));
  } else {
    mark_moving();
    out.gather(source, bytes, RemotePointer{read.place.address}.region());
    out.set_trailer(out.word(FrameHeader{.bytes = kDoneBytes, .kind = FrameKind::kDone}.word()));
    out.word(0);
  }
  mark_to_flush();
  return Step::kDone;
}

Connection::Step Connection::begin_write(const FrameHeader& header) noexcept {
  const auto place = payload<Target>();
  const uint64_t bytes = header.bytes - sizeof(place);
  std::byte* const target = hub_.regions.look_up(asked_for(place, bytes), &Rights::write).bytes;
  mark_moving();
  transfer_ = {.target = target,
               .left = bytes,
               .padding = padding_of(header.bytes),
               .region = RemotePointer{place.address}.region(),
               .code = target == nullptr ? Code::kAccessDenied : Code::kOk,
               .write_bytes = bytes,
               .is_write = true,
               .active = true};
  return Step::kDone;
}

Connection::Step Connection::begin_data(const FrameHeader& header) noexcept {
  if (outstanding_head_ == outstanding_tail_) return Step::kNonsense;
  const Outstanding& request = (*outstanding_)[outstanding_head_ % kDepth];
  if (request.op != Op::kRead || request.received || request.bytes != header.bytes || header.bytes == 0) {
    return Step::kNonsense;
  }
  transfer_ = {
      .target = request.target, .left = header.bytes, .padding = padding_of(header.bytes), .active = true};
  return Step::kDone;
}

Connection::Step Connection::take_done(const FrameHeader& header, Completion& completion) noexcept {
  if (outstanding_head_ == outstanding_tail_) return Step::kNonsense;
  const Outstanding& request = (*outstanding_)[outstanding_head_ % kDepth];
  const bool without_its_bytes = request.op == Op::kRead && request.bytes > 0 && !request.received;
  if (without_its_bytes && header.code == 0) return Step::kNonsense;
  finish_outstanding(code_from_wire(header.code), payload<uint64_t>(), completion);
  return Step::kDone;
}

// `completion.channel` stays null where the owner needs none.
void Connection::finish_outstanding(Code code, uint64_t value, Completion& completion) noexcept {
  const Outstanding& request = (*outstanding_)[outstanding_head_++ % kDepth];
  if (request.token == 0 && code == Code::kOk) return;
  completion = {
      .token = request.token, .channel = this, .bytes = {}, .value = value, .op = request.op, .code = code};
}

// Moves on what lies in the block. True: the transfer is whole.
bool Connection::advance_transfer() noexcept {
  const size_t data = std::min<uint64_t>(transfer_.left, end_ - begin_);
  if (data > 0) {
    if (transfer_.target != nullptr) {
      store_possibly_torn(transfer_.target, block_->bytes + begin_, data);
      transfer_.target += data;
    }
    transfer_.left -= data;
    begin_ += data;
  }
  if (transfer_.left > 0) return false;
  const size_t padding = std::min<uint64_t>(transfer_.padding, end_ - begin_);
  transfer_.padding -= padding;
  begin_ += padding;
  return transfer_.padding == 0;
}

void Connection::finish_transfer(Completion& completion) noexcept {
  transfer_.active = false;
  if (transfer_.is_write) {
    if (transfer_.code == Code::kOk)
      hub_.regions.count_written(static_cast<uint16_t>(transfer_.region), transfer_.write_bytes);
    return answer(transfer_.code, 0);
  }
  Outstanding& request = (*outstanding_)[outstanding_head_ % kDepth];
  request.received = true;
  if (request.bytes <= kCopiedBytesMax) finish_outstanding(Code::kOk, 0, completion);
}

}  // namespace refract::fabric::tcp
