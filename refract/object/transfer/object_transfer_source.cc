// SPDX-License-Identifier: Apache-2.0
// What one holder is asked for, and what becomes of it.
#include "refract/object/transfer/object_transfer_source.h"

#include <algorithm>

#include "refract/base/hash.h"
#include "refract/kv/layout/wire.h"
#include "refract/object/calls/call_front.h"

namespace refract::object {

using kv::wire::take;
using runtime::OpResult;
using runtime::Task;
using wire::TransferBy;
using wire::TransferMethod;

namespace {

constexpr uint64_t kDone_ns = kSecond_ns;
// A pause of this length where nothing is under way and nothing can be posted.
constexpr uint64_t kPostPause_ns = 50 * kMicrosecond_ns;
// On a slow path pieces are as long as this takes.
constexpr double kPieceTime_s = 0.2;
// Where what comes is passed on, a READ waits for what goes to others.
constexpr uint64_t kReadsInPlan = 4;
// A wake-up costs as much as the next piece takes; for longer than this it does not.
constexpr uint64_t kAwakeMax_ns = kMillisecond_ns;

// Not inlined: the request is aligned more than a coroutine's frame.
[[nodiscard, gnu::noinline]] bool try_post(fabric::Channel& channel, const fabric::RemoteSpan& source,
                                           std::span<std::byte> target, runtime::Token token) noexcept {
  const fabric::Request request = {
      .token = token, .local = {target.data(), target.size()}, .remote = source, .op = fabric::Op::kRead};
  return channel.post({&request, 1}) == 1;
}

[[nodiscard]] rpc::Call call_of(TransferMethod method, std::span<const std::byte> body) noexcept {
  return {.method = static_cast<uint16_t>(method), .head = body, .tail = {}};
}

}  // namespace

ObjectTransfer::Source::~Source() {
  give_up_messages();
  give_up_progress();
  // Only a closed channel leaves the memory alone.
  if (!reads_.empty()) session_.close();
}

bool ObjectTransfer::Source::is_ready() const noexcept {
  if (is_running_ || is_left_ || failures_ >= kFailuresMax || !is_open()) return false;
  // What does not come to it any more will hardly come to it in time.
  if (is_followed_ && share.code == Code::kInvalidated) return false;
  // What it gave up, or was too busy for, may be had again.
  return share.code == Code::kOk || share.code == Code::kAccessDenied || share.code == Code::kInvalidated ||
         share.code == Code::kOverloaded;
}

void ObjectTransfer::Source::start() {
  ++attempts_;
  is_running_ = true;
  code_ = Code::kOk;
  progress_ns_ = transfer_.shard_.refresh_now();
  task_ = work();
  task_.start();
}

void ObjectTransfer::Source::leave() {
  is_left_ = true;
  fail(Code::kDeadlineExceeded);
  give_up_messages();
  if (!reads_.empty()) session_.close();
  wake();
}

void ObjectTransfer::Source::stop() {
  fail(Code::kCancelled);
  give_up_messages();
  wake();
}

void ObjectTransfer::Source::wake() noexcept {
  if (waiter_ != 0) (void)transfer_.shard_.ops().complete(std::exchange(waiter_, 0), {.code = Code::kOk});
}

Task<> ObjectTransfer::Source::work() {
  if (transfer_number_ == 0) {
    choose_way();
    Code opened = co_await open();
    if (opened == Code::kUnsupported && transfer_.order_.wish == TransferWish::kAuto &&
        share.by == TransferBy::kReads) {
      has_fallen_back_ = true;
      choose_way();
      opened = co_await open();
    }
    if (opened != Code::kOk) fail(opened);
  }
  if (code_ == Code::kOk && transfer_number_ != 0) {
    Code came = Code::kOk;
    if (share.by == TransferBy::kReads) {
      came = co_await read();
    } else {
      came = co_await receive();
    }
    if (came != Code::kOk) fail(came);
  }
  give_up_progress();
  if (transfer_.order_.is_checked) {
    const Code checked = co_await check();
    if (checked != Code::kOk) fail(checked);
  }
  share.code = code_;
  if (code_ != Code::kOk) ++failures_;
  if (code_ == Code::kAccessDenied || code_ == Code::kInvalidated) transfer_number_ = 0;
  is_running_ = false;
  transfer_.source_ended();
}

void ObjectTransfer::Source::choose_way() {
  const TransferWish wish = transfer_.order_.wish;
  if (wish != TransferWish::kAuto) {
    share.by = wish == TransferWish::kRead ? TransferBy::kReads : TransferBy::kMessages;
    return;
  }
  if (has_fallen_back_ || !is_open()) {
    share.by = TransferBy::kMessages;
    return;
  }
  const fabric::Channel* const channel = session_.channel();
  const uint64_t filled_bytes = transfer_.order_.parts.filled_bytes();
  const PathMemory::Channel of{
      .one_sided_bytes_min = channel == nullptr ? 0 : channel->capabilities().one_sided_bytes_min,
      .message_bytes = message_bytes(sizeof(wire::FollowReply)),
      .messages_max = kMessagesMax};
  // What waits for others is no trial.
  share.by = transfer_.order_.plan != 0 ? path_.known_way(filled_bytes, of) : path_.choose(filled_bytes, of);
  if (filled_bytes == 0) share.by = TransferBy::kMessages;
}

Code ObjectTransfer::Source::outcome_of(const OpResult& reply) const noexcept {
  if (reply.value != 0) return reply.code;
  return is_open() ? Code::kDeadlineExceeded : Code::kUnavailable;
}

// Until about so many bytes have come.
void ObjectTransfer::Source::stay_awake_for(uint64_t bytes) noexcept {
  const uint64_t ns = std::max(path_.time_of(bytes), path_.round_trip_ns());
  if (ns > 0 && ns <= kAwakeMax_ns) transfer_.shard_.stay_awake_for(ns);
}

// One answer is waited for as long as a holder may stall.
uint64_t ObjectTransfer::Source::give_up_ns() const noexcept {
  const TransferLimits& limits = transfer_.order_.limits;
  return transfer_.shard_.now_ns() + (transfer_.has_spare() ? limits.stall_ns : limits.stall_alone_ns);
}

uint64_t ObjectTransfer::Source::message_bytes(size_t head_bytes) const noexcept {
  return std::min<uint64_t>(session_.payload_bytes_max() - head_bytes, transfer_.order_.limits.message_bytes);
}

// --- TRANSFER ---

// So long it may wait for what has not begun to come to it: all of them together.
uint32_t ObjectTransfer::Source::wait_ms() const noexcept {
  const uint64_t waited_ns = transfer_.shard_.now_ns() - transfer_.began_ns_;
  if (waited_ns >= wire::kFollowWait_ns) return 0;
  return static_cast<uint32_t>((wire::kFollowWait_ns - waited_ns) / kMillisecond_ns);
}

Task<Code> ObjectTransfer::Source::open() {
  TransferOpening opening{
      .order = transfer_.order_, .by = share.by, .is_followed = is_followed_, .wait_ms = wait_ms()};
  if (share.by == TransferBy::kMessages) {
    opening.first = transfer_.queue_.take(message_bytes(TransferOpening::head_bytes(is_followed_)));
    // Others bring all there is.
    if (opening.first.bytes == 0 && opening.order.parts.filled_bytes() > 0) co_return Code::kOk;
  }
  const CallFront front = opening.front();
  const uint64_t sent_ns = transfer_.shard_.refresh_now();
  ++share.calls;
  if (!is_followed_) stay_awake_for(opening.first.bytes);
  const OpResult answer = co_await session_.call(call_of(opening.method(), front.bytes()), give_up_ns());
  Code code = outcome_of(answer);
  if (code == Code::kOk) code = take_answer(opening, answer.bytes);
  if (code != Code::kOk) {
    transfer_.queue_.give_back(opening.first);
    co_return code;
  }
  const uint64_t now_ns = transfer_.shard_.refresh_now();
  if (!is_followed_) path_.note_round_trip(now_ns - sent_ns);
  progress_ns_ = now_ns;
  news_ns_ = now_ns;
  transfer_.is_opened_ = true;
  co_return Code::kOk;
}

// After an error all of `opening.first` is still to be brought.
Code ObjectTransfer::Source::take_answer(const TransferOpening& opening, std::span<const std::byte> answer) {
  const Result<TransferOpening::Opened> opened = opening.take(answer);
  if (!opened) return opened.code();
  ready_ = opened->ready;
  asked_ready_ = ready_;
  pieces_ = opened->pieces;
  transfer_number_ = opened->transfer;
  if (share.by == TransferBy::kReads) return Code::kOk;
  const PieceQueue::Piece first = opening.first;
  const PieceQueue::Piece came{.offset = first.offset, .bytes = opened->came.size()};
  if (came.bytes > 0) store(came.offset, opened->came);
  const std::span<const std::byte> stored{room_at(came.offset), came.bytes};
  if (opening.order.is_checked && hash_key(stored, 0) != opened->digest) return Code::kCorrupt;
  note_brought(came);
  share.bytes += came.bytes;
  transfer_.queue_.give_back({.offset = came.offset + came.bytes, .bytes = first.bytes - came.bytes});
  return Code::kOk;
}

// By the writer, so that what others READ of the copy later is what came.
void ObjectTransfer::Source::store(uint64_t offset, std::span<const std::byte> bytes) noexcept {
  Writer& writer = transfer_.order_.writer;
  writer.copy(Offset{static_cast<uint64_t>(room_at(offset) - writer.base())}, bytes);
}

// --- DATA, in messages ---

size_t ObjectTransfer::Source::messages_wanted() const noexcept {
  if (path_.bytes_per_s() == 0) return kMessagesFirst;
  const uint64_t messages = path_.bytes_under_way() / message_bytes(0);
  return std::clamp<size_t>(messages + kMessagesFirst / 2, kMessagesFirst / 2, kMessagesMax);
}

void ObjectTransfer::Source::ask_messages() {
  const size_t wanted = messages_wanted();
  for (uint32_t place = 0; place < messages_.size() && messages_under_way_ < wanted; ++place) {
    Message& message = messages_[place];
    if (message.call != 0) continue;
    const PieceQueue::Piece piece = transfer_.queue_.take(message_bytes(0), ready_);
    if (piece.bytes == 0) return;
    const wire::DataRequest request{.transfer = transfer_number_,
                                    .offset = piece.offset,
                                    .bytes = static_cast<uint32_t>(piece.bytes),
                                    .reserved = 0};
    const uint64_t call = session_.start(call_of(TransferMethod::kData, bytes_of(request)), *this, place);
    if (call == 0) return transfer_.queue_.give_back(piece);
    ++share.calls;
    ++messages_under_way_;
    message = {
        .piece = piece, .call = call, .sent_ns = transfer_.shard_.now_ns(), .brought_before = share.bytes};
  }
}

Task<Code> ObjectTransfer::Source::receive() {
  while (code_ == Code::kOk) {
    ask_messages();
    ask_progress();
    if (messages_under_way_ == 0) {
      if (transfer_.queue_.is_empty()) break;
      if (!is_open()) co_return Code::kUnavailable;
      if (progress_under_way_ == 0) {
        co_await transfer_.shard_.sleep_for(kPostPause_ns);
        continue;
      }
    } else {
      stay_awake_for(message_bytes(0));
    }
    co_await wait_for_news();
  }
  // What is still under way comes too late; others may be asked for it.
  give_up_messages();
  co_return code_;
}

Task<> ObjectTransfer::Source::wait_for_news() {
  // Awaiting changes it, which the check does not see.
  runtime::Pending news = transfer_.shard_.ops().begin(kForever_ns);  // NOLINT(misc-const-correctness)
  if (news.token() == 0) {
    co_await transfer_.shard_.sleep_for(kMillisecond_ns);
    co_return;
  }
  waiter_ = news.token();
  (void)co_await news;
  waiter_ = 0;
}

void ObjectTransfer::Source::on_reply(uint32_t place, const OpResult& reply) noexcept {
  if (place >= kProgressPlace) return on_progress(place - kProgressPlace, reply);
  const Message message = std::exchange(messages_[place], {});
  --messages_under_way_;
  Code code = outcome_of(reply);
  if (code == Code::kOk && reply.bytes.size() != message.piece.bytes) code = Code::kMalformed;
  if (code == Code::kOk) {
    store(message.piece.offset, reply.bytes);
    brought(message.piece, message.sent_ns, message.brought_before);
  } else {
    transfer_.queue_.give_back(message.piece);
    fail(code);
  }
  wake();
}

// Their answers, if they come, are dropped by the session.
void ObjectTransfer::Source::give_up_messages() {
  for (Message& message : messages_) {
    if (message.call == 0) continue;
    (void)session_.finish(message.call);
    transfer_.queue_.give_back(message.piece);
    message = {};
    --messages_under_way_;
  }
}

void ObjectTransfer::Source::brought(PieceQueue::Piece piece, uint64_t since_ns, uint64_t brought_before) {
  note_brought(piece);
  share.bytes += piece.bytes;
  if (transfer_.order_.is_checked) unchecked_.push_back(piece);
  const uint64_t now_ns = transfer_.shard_.refresh_now();
  progress_ns_ = now_ns;
  // The beginning, when nothing had come yet, and the end show no full path.
  const bool is_full = brought_before > 0 && !transfer_.queue_.is_empty() && is_whole();
  path_.note_rate(share.bytes - brought_before, now_ns - since_ns, is_full);
}

void ObjectTransfer::Source::note_brought(PieceQueue::Piece piece) {
  const TransferOrder& order = transfer_.order_;
  const uint64_t before = transfer_.queue_.whole();
  transfer_.queue_.brought(piece);
  if (order.arrival == nullptr || transfer_.queue_.whole() == before) return;
  order.arrival->grew(transfer_.queue_.whole());
}

// --- READs ---

size_t ObjectTransfer::Source::reads_wanted() const noexcept {
  // A path over which only what was still coming was asked for has no round trip.
  if (path_.bytes_per_s() == 0 || path_.round_trip_ns() == 0) return kReadsFirst;
  const uint64_t reads = path_.bytes_under_way() / read_bytes();
  // Where pieces are short, wake-ups of both ends take as long as a piece.
  const uint64_t least = transfer_.order_.plan == 0 ? 2 : kReadsInPlan;
  return std::clamp<size_t>(std::max(reads + 2, least), 2, kReadsMax);
}

uint64_t ObjectTransfer::Source::read_bytes() const noexcept {
  const uint64_t most = transfer_.order_.limits.piece_bytes;
  const uint64_t rate = path_.bytes_per_s();
  if (rate == 0 || most <= kPieceBytesMin) return most;
  const auto bytes = static_cast<uint64_t>(static_cast<double>(rate) * kPieceTime_s);
  return std::clamp(bytes / kPieceBytesMin * kPieceBytesMin, kPieceBytesMin, most);
}

bool ObjectTransfer::Source::post_one() {
  fabric::Channel* const channel = session_.channel();
  if (channel == nullptr || !is_open()) {
    fail(Code::kUnavailable);
    return false;
  }
  PieceQueue::Piece piece = transfer_.queue_.take(read_bytes(), ready_);
  if (piece.bytes == 0) return false;
  const auto behind = std::ranges::upper_bound(pieces_, piece.offset, {}, &wire::TransferPiece::offset);
  const wire::TransferPiece& place = *std::prev(behind);
  const uint64_t into = piece.offset - place.offset;
  const uint64_t bytes = std::min(piece.bytes, place.bytes - into);
  if (bytes < piece.bytes) {
    transfer_.queue_.give_back({.offset = piece.offset + bytes, .bytes = piece.bytes - bytes});
    piece.bytes = bytes;
  }
  // Without an end of its own: a READ ends by its completion, and the room stays until then.
  runtime::Pending operation = transfer_.shard_.ops().begin(kForever_ns);
  const RemotePointer first{place.address};
  const bool is_posted =
      operation.token() != 0 &&
      try_post(*channel,
               {.address = RemotePointer::at(first.region(), first.offset() + into), .key = {place.key}},
               {room_at(piece.offset), piece.bytes}, operation.token());
  if (!is_posted) {
    transfer_.queue_.give_back(piece);
    return false;
  }
  ++share.reads;
  reads_.push_back({.piece = piece,
                    .posted_ns = transfer_.shard_.now_ns(),
                    .brought_before = share.bytes,
                    .operation = std::move(operation)});
  return true;
}

Task<Code> ObjectTransfer::Source::read() {
  for (;;) {
    post_reads();
    ask_progress();
    if (!reads_.empty()) {
      stay_awake_for(reads_.front().piece.bytes);
      co_await finish_one();
      continue;
    }
    if (code_ != Code::kOk || transfer_.queue_.is_empty()) break;
    if (progress_under_way_ != 0) {
      co_await wait_for_news();
    } else {
      co_await transfer_.shard_.sleep_for(kPostPause_ns);
    }
  }
  co_return code_;
}

void ObjectTransfer::Source::post_reads() {
  while (code_ == Code::kOk && reads_.size() < reads_wanted() && post_one()) {
  }
}

Task<> ObjectTransfer::Source::finish_one() {
  // Awaiting changes it, which the check does not see.
  Read& oldest = reads_.front();  // NOLINT(misc-const-correctness)
  const OpResult result = co_await oldest.operation;
  const PieceQueue::Piece piece = oldest.piece;
  if (result.code == Code::kOk) {
    brought(piece, oldest.posted_ns, oldest.brought_before);
  } else {
    transfer_.queue_.give_back(piece);
    fail(result.code);
  }
  reads_.pop_front();
}

// --- Digests ---

Task<Code> ObjectTransfer::Source::check() {
  Code code = Code::kOk;
  while (!unchecked_.empty()) {
    const PieceQueue::Piece piece = unchecked_.back();
    unchecked_.pop_back();
    Code one = code;
    // Of a holder that failed in this nothing is believed any more.
    if (code == Code::kOk) one = co_await check_piece(piece);
    if (one == Code::kOk) continue;
    code = one;
    transfer_.queue_.reject(piece);
    share.bytes -= piece.bytes;
  }
  co_return code;
}

Task<Code> ObjectTransfer::Source::check_piece(PieceQueue::Piece piece) {
  if (!is_open() || is_left_) co_return Code::kUnavailable;
  const wire::DataRequest request{.transfer = transfer_number_,
                                  .offset = piece.offset,
                                  .bytes = static_cast<uint32_t>(piece.bytes),
                                  .reserved = 0};
  ++share.calls;
  const OpResult answer =
      co_await session_.call(call_of(TransferMethod::kDigest, bytes_of(request)), give_up_ns());
  const Code code = outcome_of(answer);
  if (code != Code::kOk) co_return code;
  std::span<const std::byte> bytes = answer.bytes;
  const auto reply = take<wire::DigestReply>(bytes);
  if (!reply || !bytes.empty()) co_return Code::kMalformed;
  progress_ns_ = transfer_.shard_.now_ns();
  const std::span<const std::byte> came{room_at(piece.offset), piece.bytes};
  co_return hash_key(came, 0) == reply->digest ? Code::kOk : Code::kCorrupt;
}

// --- DONE ---

// Its answer is of no interest. Where it cannot be said, the session's end or the holder's patience says it.
Task<> ObjectTransfer::Source::say_done() {
  if (transfer_number_ == 0 || !is_open()) co_return;
  const wire::DoneRequest request{std::exchange(transfer_number_, 0)};
  const rpc::Call call = call_of(TransferMethod::kDone, bytes_of(request));
  ++share.calls;
  const uint64_t started = session_.start(call);
  if (started != 0) {
    (void)session_.finish(started);
    co_return;
  }
  (void)co_await session_.call(call, transfer_.shard_.now_ns() + kDone_ns);
}

}  // namespace refract::object
