// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/shm/link.h"

#include <cstring>

#include "refract/base/check.h"

namespace refract::fabric::shm {
namespace {

// What precedes the data in the payload of a one-sided request's frame.
struct OneSided {
  uint64_t address;  // A RemotePointer.
  uint64_t key;
  uint64_t operand;  // kRead: bytes of this piece. Atomics: the new value or the addend.
  uint64_t compare;  // kCompareSwap: the expected value. kRead, kWrite: bytes from here to the request's end.
};
static_assert(sizeof(OneSided) == 32 && std::has_unique_object_representations_v<OneSided>);
static_assert(sizeof(OneSided) + Link::kWritePieceBytesMax <= kPayloadBytesMax);

// The payload of a completion: the old value, then the bytes that were read.
constexpr uint64_t kValueBytes = sizeof(uint64_t);

constexpr int kFramesATurn = 64;

constexpr FrameKind kind_of(Op op) noexcept {
  switch (op) {
    case Op::kRead:
      return FrameKind::kRead;
    case Op::kWrite:
      return FrameKind::kWrite;
    case Op::kCompareSwap:
      return FrameKind::kCompareSwap;
    default:
      return FrameKind::kFetchAdd;
  }
}

constexpr bool is_atomic(Op op) noexcept {
  return op == Op::kCompareSwap || op == Op::kFetchAdd;
}

// A request's length at the peer; for atomics `local` is not used.
constexpr uint64_t remote_bytes(const Request& request) noexcept {
  return is_atomic(request.op) ? sizeof(uint64_t) : request.local.bytes;
}

}  // namespace

size_t Hub::drain(std::span<Completion> completions) noexcept {
  size_t count = 0;
  while (count < completions.size() && completed_head != completed_tail) {
    completions[count++] = completed[completed_head++ % kCompletionsMax];
  }
  return count;
}

void flush_links(Hub& hub) noexcept {
  if (hub.to_ring.empty()) return;
  store_load_fence();
  for (Link* link : hub.to_ring) {
    link->to_ring_ = false;
    link->ring_if_asleep();
  }
  hub.to_ring.clear();
}

const Capabilities& Link::capabilities() const noexcept {
  static constexpr auto server = [](uint32_t shared_read_bytes_min) {
    return Capabilities{.depth = kDepth,
                        .message_bytes_max = kMessageBytesMax,
                        .maps_lent_files = true,
                        .shared_read_bytes_min = shared_read_bytes_min,
                        .messages_are_stores = true};
  };
  static constexpr Capabilities kServer = server(0), kServerWithTeam = server(CopyTeam::kBytesMin);
  // Only of regions that the keeper offers; what is merely registered is read by the peer's shard.
  static constexpr Capabilities kClient{.depth = kDepth,
                                        .message_bytes_max = kMessageBytesMax,
                                        .read_bypasses_target_cpu = true,
                                        .messages_are_stores = true};
  static constexpr Capabilities kLender{.depth = kDepth,
                                        .message_bytes_max = kMessageBytesMax,
                                        .read_bypasses_target_cpu = true,
                                        .maps_lent_files = true,
                                        .messages_are_stores = true};
  if (hub_.accepted) return hub_.copies == nullptr ? kServer : kServerWithTeam;
  return knows_lending() ? kLender : kClient;
}

void Link::start(const Memory& memory) noexcept {
  memory_ = memory;
  out_ = RingProducer(memory.out_ring);
  in_ = RingConsumer(memory.in_ring);
  consumed_published_ = 0;
  reconnecting_ = peer_gone_ = stalled_ = wants_room_ = false;
  transferring_ = false;
  piece_code_ = Code::kOk;
  outstanding_head_ = outstanding_tail_ = 0;
  answer_bytes_ = 0;
  phase_ = Phase::kOpening;
}

size_t Link::post(std::span<const Request> requests) noexcept {
  size_t taken = 0;
  while (taken < requests.size() && post_one(requests[taken])) ++taken;
  return taken;
}

bool Link::post_one(const Request& request) noexcept {
  if (phase_ != Phase::kOpen && phase_ != Phase::kOpening) [[unlikely]] {
    return phase_ == Phase::kDead || done_here(request, Code::kUnavailable);
  }
  if (request.op == Op::kSend) return post_send(request);
  if (request.op > Op::kSend) return done_here(request, Code::kInvalidArgument);
  if (transferring_) return false;
  const uint64_t bytes = remote_bytes(request);
  // Beyond the 48 bits of an offset the later pieces would wrap round to its beginning.
  if (bytes > RemotePointer::kOffsetMask - request.remote.address.offset()) {
    return done_here(request, Code::kAccessDenied);
  }
  if (request.op == Op::kRead) {
    const std::byte* const source = locally_mapped(request.remote, bytes);
    if (source != nullptr && outstanding_head_ == outstanding_tail_) return read_here(request, source);
    if (source == nullptr && hub_.accepted && request.remote.address.region() >= kLentRegionFirst)
      return done_here(request, Code::kAccessDenied);
  }
  if (outstanding_tail_ - outstanding_head_ == kDepth) return false;
  transfer_ = request;
  transfer_posted_ = 0;
  transferring_ = true;
  pump();
  return true;
}

bool Link::read_here(const Request& request, const std::byte* source) noexcept {
  if (request.token != 0 && !hub_.has_room()) return false;
  // What the accepting end READs it keeps, and does not look at.
  if (hub_.accepted && request.local.bytes >= kStreamedBytesMin) {
    hub_.keep(request.local.data, source, request.local.bytes);
  } else {
    copy_possibly_torn(request.local.data, source, request.local.bytes);
  }
  return done_here(request, Code::kOk);
}

// Completes a request that needs no answer. False: the queue of completions is full.
bool Link::done_here(const Request& request, Code code) noexcept {
  if (request.token == 0 && code == Code::kOk) return true;
  if (!hub_.has_room()) return false;
  hub_.complete({.token = request.token, .channel = this, .bytes = {}, .op = request.op, .code = code});
  return true;
}

bool Link::post_send(const Request& request) noexcept {
  // The two lengths are compared one by one, so that their sum cannot overflow.
  if (request.local.bytes > kMessageBytesMax || request.tail.bytes > kMessageBytesMax - request.local.bytes) {
    return done_here(request, Code::kTooLarge);
  }
  if (transferring_ || (request.token != 0 && !hub_.has_room())) return false;
  const size_t bytes = request.local.bytes + request.tail.bytes;
  std::byte* place = reserve(bytes, kAnswerReserve);
  if (place == nullptr) return false;
  if (request.local.bytes > 0) std::memcpy(place, request.local.data, request.local.bytes);
  if (request.tail.bytes > 0) std::memcpy(place + request.local.bytes, request.tail.data, request.tail.bytes);
  out_.publish({static_cast<uint32_t>(bytes), FrameKind::kMessage, 0});
  mark_to_ring();
  return done_here(request, Code::kOk);
}

bool Link::post_frame(FrameKind kind, std::span<const std::byte> payload) noexcept {
  if (phase_ != Phase::kOpen && phase_ != Phase::kOpening) return false;
  std::byte* const place = reserve(payload.size(), kAnswerReserve);
  if (place == nullptr) return false;
  std::memcpy(place, payload.data(), payload.size());
  out_.publish({static_cast<uint32_t>(payload.size()), kind, 0});
  mark_to_ring();
  return true;
}

void Link::pump() noexcept {
  while (transferring_ && post_piece()) {
  }
}

// Posts the next piece of transfer_, at least an empty one. False: there is no room for it now.
bool Link::post_piece() noexcept {
  if (outstanding_tail_ - outstanding_head_ == kDepth) return false;
  const Op op = transfer_.op;
  const uint64_t left = remote_bytes(transfer_) - transfer_posted_;
  const uint64_t piece = std::min(left, op == Op::kRead ? kReadPieceBytesMax : kWritePieceBytesMax);
  const uint64_t data_bytes = op == Op::kWrite ? piece : 0;
  const uint64_t answer_bytes = frame_bytes(kValueBytes + (op == Op::kRead ? piece : 0));
  if (answer_bytes_ + answer_bytes > kAnswerBytesMax) return false;
  std::byte* place = reserve(sizeof(OneSided) + data_bytes, kAnswerReserve);
  if (place == nullptr) return false;

  const RemotePointer start = transfer_.remote.address;
  const OneSided head{
      .address = RemotePointer::at(start.region(), start.offset() + transfer_posted_).bits,
      .key = transfer_.remote.key.bits,
      .operand = op == Op::kRead ? piece : transfer_.operand,
      .compare = is_atomic(op) ? transfer_.compare : left,
  };
  std::memcpy(place, &head, sizeof(head));
  if (data_bytes > 0) {
    std::memcpy(place + sizeof(head), transfer_.local.data + transfer_posted_, data_bytes);
  }
  out_.publish({static_cast<uint32_t>(sizeof(head) + data_bytes), kind_of(op), 0});
  mark_to_ring();
  outstanding_[outstanding_tail_++ % kDepth] = {
      .token = transfer_.token,
      .target = op == Op::kRead && piece > 0 ? transfer_.local.data + transfer_posted_ : nullptr,
      .bytes = static_cast<uint32_t>(op == Op::kRead ? piece : 0),
      .answer_bytes = static_cast<uint32_t>(answer_bytes),
      .op = op,
      .last = piece == left,
  };
  answer_bytes_ += answer_bytes;
  transfer_posted_ += piece;
  transferring_ = piece != left;
  return true;
}

std::byte* Link::reserve(uint64_t payload_bytes, uint64_t keep_bytes) noexcept {
  std::byte* place = out_.reserve(payload_bytes, keep_bytes);
  if (place == nullptr) [[unlikely]] {
    refresh_consumed();
    place = out_.reserve(payload_bytes, keep_bytes);
    if (place == nullptr) {
      ask_for_room();
      return out_.reserve(payload_bytes, keep_bytes);
    }
  }
  if (wants_room_) [[unlikely]] {
    wants_room_ = false;
    publish_u64(memory_.own_wants_room, 0);
  }
  return place;
}

// The other half of publish_consumed: the wish is announced before the last look, so one of the two sees the
// other.
void Link::ask_for_room() noexcept {
  wants_room_ = true;
  announce_u64(memory_.own_wants_room, 1);
  refresh_consumed();
}

void Link::refresh_consumed() noexcept {
  if (!out_.set_consumed(observe_u64(memory_.peer_consumed))) give_up_on(hub_.counters.bad_position);
}

// Frames before the current position have been used up by the caller: it polls again.
void Link::publish_consumed() noexcept {
  if (in_.position() - consumed_published_ < kConsumedStep) return;
  consumed_published_ = in_.position();
  publish_u64(memory_.own_consumed, consumed_published_);
  store_load_fence();
  if (observe_u64(memory_.peer_wants_room) != 0) mark_to_ring();
}

void Link::mark_to_ring() noexcept {
  if (to_ring_) return;
  to_ring_ = true;
  hub_.to_ring.push_back(this);
}

size_t Link::poll(std::span<Completion> completions) noexcept {
  if (completions.empty()) return 0;
  size_t count = 0;
  if (phase_ == Phase::kOpening) {
    completions[count++] = {.channel = this, .bytes = {}, .op = Op::kOpened};
    ++hub_.counters.opened;
    phase_ = Phase::kOpen;
    if (close_wanted_) begin_closing(false);
  }
  if (phase_ == Phase::kOpen) [[likely]] {
    publish_consumed();
    if (stalled_ || out_.used_bytes() > kRingBytes / 4) refresh_consumed();
    if (transferring_) pump();
    if (phase_ == Phase::kOpen) count += take_frames(completions.subspan(count));
  }
  if (phase_ == Phase::kClosing) count += fail_outstanding(completions.subspan(count));
  return count;
}

// A turn of poll() does more between two looks (sockets, every link, what is to be published), so that a
// reply is seen later. The accepting end has to keep room for its answers, and polls.
std::span<const std::byte> Link::await_message(unsigned looks) noexcept {
  const bool has_turn_due = in_.position() - consumed_published_ >= kConsumedStep;
  if (hub_.accepted || phase_ != Phase::kOpen || transferring_ || has_turn_due) [[unlikely]]
    return {};
  flush_links(hub_);
  for (unsigned look = 0; !in_.ready(); ++look) {
    if (look == looks) return {};
    __builtin_ia32_pause();
  }
  RingConsumer::Frame frame;
  if (in_.look(frame) != RingConsumer::Look::kFrame || frame.kind != FrameKind::kMessage) return {};
  if (frame.payload.empty()) return {};
  in_.advance();
  return frame.payload;
}

size_t Link::take_frames(std::span<Completion> completions) noexcept {
  size_t count = 0;
  size_t messages = 0;
  size_t room_known = 0;  // At least so much there is, since nothing of ours is posted meanwhile.
  stalled_ = false;
  // Looking behind a frame costs a cache miss, since the producer has just zeroed that word: half of a round
  // trip, which a lone message need not wait for. Only if the last turn found something too, more is likely
  // to follow.
  const int turns = std::exchange(busy_, false) ? kFramesATurn : 1;
  for (int turn = 0; turn < turns && count < completions.size(); ++turn) {
    RingConsumer::Frame frame;
    const RingConsumer::Look look = in_.look(frame);
    if (look == RingConsumer::Look::kEmpty) {
      if (peer_gone_) peer_ended();
      break;
    }
    Step step = look == RingConsumer::Look::kNonsense ? Step::kNonsense : Step::kDone;
    if (step == Step::kNonsense) {
      give_up_on(hub_.counters.bad_frame);
      break;
    }
    if (frame.kind == FrameKind::kMessage) {
      if (!may_deliver(messages, room_known)) {
        stall();
        break;
      }
      completions[count++] = {.channel = this, .bytes = frame.payload, .op = Op::kReceive};
      ++messages;
    } else if (frame.kind == FrameKind::kCompletion) {
      step = take_completion(frame, completions[count]);
      if (completions[count].channel != nullptr && step == Step::kDone) ++count;
    } else if (frame.kind == FrameKind::kGoodbye) {
      peer_ended();
      break;
    } else if (frame.kind == FrameKind::kLend || frame.kind == FrameKind::kTakeBack) {
      if (!take_loan(frame.kind, frame.payload)) step = Step::kNonsense;
    } else {
      step = execute(frame);
      room_known = 0;
    }
    if (step == Step::kNoRoom) {
      stall();
      break;
    }
    if (step == Step::kNonsense) {
      give_up_on(frame.kind == FrameKind::kCompletion ? hub_.counters.bad_completion
                                                      : hub_.counters.bad_frame);
      break;
    }
    in_.advance();
    busy_ = true;
  }
  return count;
}

// The accepting side delivers only what it could answer at once. The other side must take every answer: it
// would deadlock if it waited for room that comes free only when its peer can answer.
bool Link::may_deliver(size_t messages, size_t& room_known) noexcept {
  if (!hub_.accepted || messages < room_known) return true;
  room_known = room();
  if (messages < room_known) return true;
  if (messages > 0) return false;
  ask_for_room();
  return phase_ == Phase::kOpen && room() > 0;
}

void Link::stall() noexcept {
  if (peer_gone_) return peer_ended();  // He will make no room any more.
  stalled_ = true;
  stalled_consumed_ = out_.consumed();
}

Link::Step Link::execute(const RingConsumer::Frame& frame) noexcept {
  OneSided head;
  if (frame.payload.size() < sizeof(head)) return Step::kNonsense;
  copy_possibly_torn(&head, frame.payload.data(), sizeof(head));
  const std::span<const std::byte> data = frame.payload.subspan(sizeof(head));
  const bool is_read = frame.kind == FrameKind::kRead;
  if (is_read && head.operand > kReadPieceBytesMax) return Step::kNonsense;

  const uint64_t read_bytes = is_read ? head.operand : 0;
  std::byte* place = reserve(kValueBytes + read_bytes, 0);
  if (place == nullptr) return Step::kNoRoom;
  const RegionTable::Access target{.address = {head.address}, .key = {head.key}, .bytes = head.compare};
  uint64_t value = 0;
  Code code = Code::kOk;
  switch (frame.kind) {
    case FrameKind::kRead:
      code = hub_.regions.read(target, {place + kValueBytes, read_bytes});
      break;
    case FrameKind::kWrite:
      code = hub_.regions.write(target, data);
      break;
    case FrameKind::kCompareSwap:
      code = hub_.regions.compare_swap(target, {.compare = head.compare, .operand = head.operand}, value);
      break;
    default:
      code = hub_.regions.fetch_add(target, head.operand, value);
      break;
  }
  if (code != Code::kOk) ++hub_.counters.access_denied;
  std::memcpy(place, &value, kValueBytes);
  const uint64_t bytes = kValueBytes + (code == Code::kOk ? read_bytes : 0);
  out_.publish({static_cast<uint32_t>(bytes), FrameKind::kCompletion, static_cast<uint16_t>(code)});
  mark_to_ring();
  return Step::kDone;
}

// `completion.channel` stays null where the owner needs none.
Link::Step Link::take_completion(const RingConsumer::Frame& frame, Completion& completion) noexcept {
  completion = {};
  if (outstanding_head_ == outstanding_tail_) return Step::kNonsense;
  const Outstanding& piece = outstanding_[outstanding_head_ % kDepth];
  const Code code = code_from_wire(frame.code);
  const uint64_t expected = kValueBytes + (code == Code::kOk ? piece.bytes : 0);
  if (frame.payload.size() != expected) return Step::kNonsense;
  uint64_t value = 0;
  copy_possibly_torn(&value, frame.payload.data(), kValueBytes);
  if (piece.target != nullptr && code == Code::kOk) {
    copy_possibly_torn(piece.target, frame.payload.data() + kValueBytes, piece.bytes);
  }
  if (piece_code_ == Code::kOk) piece_code_ = code;
  answer_bytes_ -= piece.answer_bytes;
  ++outstanding_head_;
  if (!piece.last) return Step::kDone;
  const Code whole = std::exchange(piece_code_, Code::kOk);
  if (piece.token == 0 && whole == Code::kOk) return Step::kDone;
  completion = {
      .token = piece.token, .channel = this, .bytes = {}, .value = value, .op = piece.op, .code = whole};
  return Step::kDone;
}

size_t Link::fail_outstanding(std::span<Completion> completions) noexcept {
  size_t count = 0;
  while (count < completions.size()) {
    Completion& completion = completions[count];
    completion = {.channel = this, .bytes = {}, .code = Code::kUnavailable};
    if (outstanding_head_ != outstanding_tail_) {
      const Outstanding& piece = outstanding_[outstanding_head_++ % kDepth];
      if (!piece.last) continue;
      completion.token = piece.token;
      completion.op = piece.op;
    } else if (transferring_) {
      transferring_ = false;
      completion.token = transfer_.token;
      completion.op = transfer_.op;
    } else {
      completion.op = Op::kClosed;
      completion.value = reconnecting_ ? 1 : 0;
      ++hub_.counters.closed;
      phase_ = reconnecting_ ? Phase::kWaiting : Phase::kDead;
      return count + 1;
    }
    ++count;
  }
  return count;
}

bool Link::has_work() noexcept {
  if (phase_ == Phase::kOpening || phase_ == Phase::kClosing) return true;
  if (phase_ != Phase::kOpen) return false;
  if (peer_gone_) return true;
  if (!in_.ready()) return false;
  if (!stalled_) return true;
  refresh_consumed();
  return phase_ != Phase::kOpen || out_.consumed() != stalled_consumed_;
}

void Link::begin_closing(bool reconnecting) noexcept {
  if (phase_ == Phase::kDead) return;
  if (phase_ == Phase::kOpening) {
    close_wanted_ = !reconnecting;
    peer_gone_ = true;
    return;
  }
  if (phase_ == Phase::kUnborn) {
    phase_ = Phase::kDead;
    return;
  }
  reconnecting_ = reconnecting;
  phase_ = Phase::kClosing;
}

void Link::give_up_on(uint64_t& counter) noexcept {
  ++counter;
  begin_closing(false);
}

void Link::say_goodbye() noexcept {
  if (phase_ != Phase::kOpen || reserve(0, 0) == nullptr) return;
  out_.publish({0, FrameKind::kGoodbye, 0});
  store_load_fence();
  ring_if_asleep();
}

}  // namespace refract::fabric::shm
