// SPDX-License-Identifier: Apache-2.0
#include "refract/rpc/session.h"

#include <cstring>
#include <optional>
#include <utility>

#include "refract/base/check.h"
#include "refract/rpc/message.h"

namespace refract::rpc {

using runtime::OpResult;
using runtime::Pending;
using runtime::Task;
using runtime::Token;

namespace {

// Two to six microseconds, by the processor's pause: several round trips through shared memory.
constexpr unsigned kLooksAtOnce = 128;
// A caller that makes one call after the other still gives everything else a turn.
constexpr uint64_t kCallsATurn = 64;

}  // namespace

// Linked in on construction, out on destruction, so a dropped coroutine leaves the line.
class Session::WaitingCaller {
 public:
  explicit WaitingCaller(Session& session) noexcept : session_(&session), previous_(session.last_waiting_) {
    (previous_ == nullptr ? session_->first_waiting_ : previous_->next_) = this;
    session_->last_waiting_ = this;
    ++session_->counts_.waits;
    ++session_->suspended_count_;
  }
  WaitingCaller(const WaitingCaller&) = delete;
  WaitingCaller& operator=(const WaitingCaller&) = delete;
  ~WaitingCaller() {
    (previous_ == nullptr ? session_->first_waiting_ : previous_->next_) = next_;
    (next_ == nullptr ? session_->last_waiting_ : next_->previous_) = previous_;
    --session_->suspended_count_;
    // The call behind may go now, if there is still a credit. After the end, end() wakes them all.
    if (previous_ == nullptr && session_->state_ == State::kOpen) session_->wake_first();
  }

  [[nodiscard]] bool is_first() const noexcept { return previous_ == nullptr; }
  [[nodiscard]] WaitingCaller* next() const noexcept { return next_; }
  void wait_as(Token token) noexcept { token_ = token; }
  [[nodiscard]] Token take_token() noexcept { return std::exchange(token_, 0); }

 private:
  Session* session_;
  WaitingCaller* previous_;
  WaitingCaller* next_ = nullptr;
  Token token_ = 0;
};

bool Session::Reply::send_in_turn(const Call& call) noexcept {
  id_ = session_.send(call, pending_.token());
  if (id_ == 0) return false;
  ++session_.suspended_count_;
  return true;
}

OpResult Session::Reply::take() noexcept {
  --session_.suspended_count_;
  return session_.finish(std::exchange(id_, 0));
}

// The operation table has the reply's bytes, even where they came before the wait; whether a reply came
// in time is what both must say.
OpResult Session::Reply::await_resume() noexcept {
  const OpResult waited = pending_.await_resume();
  const OpResult taken = take();
  return waited.value != 0 && taken.value != 0 ? waited : OpResult{.code = Code::kIndeterminate};
}

Session::Session(fabric::Channel& channel, runtime::Shard& shard, const SessionOptions& options)
    : shard_(&shard), slots_(options.credits), scratch_(channel.capabilities().message_bytes_max) {
  REFRACT_CHECK(options.credits > 0 && channel.context == nullptr);
  for (uint32_t i = 0; i < options.credits; ++i) slots_[i].next_free = i + 1;
  endpoint_.receiver = this;
  fabric::attach(channel, endpoint_);
}

Session::~Session() {
  REFRACT_CHECK(suspended_count_ == 0);
  if (endpoint_.channel != nullptr) endpoint_.channel->close();
  fabric::detach(endpoint_);
}

void Session::close() noexcept {
  if (endpoint_.channel != nullptr) endpoint_.channel->close();
}

void Session::flush() noexcept {
  if (endpoint_.channel != nullptr) endpoint_.channel->flush();
}

size_t Session::payload_bytes_max() const noexcept {
  return scratch_.size() - sizeof(MessageHeader);
}

bool Session::fits(const Call& call) const noexcept {
  // Each alone first: the sum of two lengths could overflow.
  const size_t room = payload_bytes_max();
  return call.head.size() <= room && call.tail.size() <= room - call.head.size();
}

const Session::Slot* Session::find(uint64_t id) const noexcept {
  const uint64_t index = id & 0xffff'ffff;
  if (index >= slots_.size()) return nullptr;
  const Slot& slot = slots_[index];
  return slot.state != SlotState::kFree && slot.generation == id >> 32 ? &slot : nullptr;
}

Session::Slot* Session::find(uint64_t id) noexcept {
  return const_cast<Slot*>(static_cast<const Session*>(this)->find(id));
}

void Session::release(Slot& slot) noexcept {
  const auto index = static_cast<uint32_t>(&slot - slots_.data());
  // 0 is skipped, so that no id is 0.
  slot = {.generation = slot.generation == UINT32_MAX ? 1 : slot.generation + 1, .next_free = first_free_};
  first_free_ = index;
}

uint64_t Session::send(const Call& call, Token waiter) noexcept {
  if (first_free_ == slots_.size() || state_ != State::kOpen || endpoint_.channel == nullptr) return 0;
  Slot& slot = slots_[first_free_];
  const uint64_t id = (uint64_t{slot.generation} << 32) | first_free_;
  const MessageHeader header = {.id = id,
                                .method = call.method,
                                .code = 0,
                                .bytes = static_cast<uint32_t>(call.head.size() + call.tail.size())};
  std::memcpy(scratch_.data(), &header, sizeof(header));
  if (!call.head.empty()) {
    std::memcpy(scratch_.data() + sizeof(header), call.head.data(), call.head.size());
  }
  // The channel only reads the bytes of a message, but a LocalSpan also serves READs.
  auto* tail = const_cast<std::byte*>(call.tail.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  const fabric::Request request = {.local = {scratch_.data(), sizeof(header) + call.head.size()},
                                   .tail = {tail, call.tail.size()},
                                   .op = fabric::Op::kSend};
  if (endpoint_.channel->post({&request, 1}) == 0) return 0;
  first_free_ = slot.next_free;
  slot.state = SlotState::kSent;
  slot.method = call.method;
  slot.waiter = waiter;
  ++counts_.calls;
  return id;
}

uint64_t Session::start(const Call& call) noexcept {
  REFRACT_DCHECK(fits(call));
  return first_waiting_ == nullptr ? send(call, 0) : 0;
}

uint64_t Session::start(const Call& call, ReplyTaker& taker, uint32_t place) noexcept {
  const uint64_t id = start(call);
  if (id == 0) return 0;
  Slot& slot = slots_[id & 0xffff'ffff];
  slot.taker = &taker;
  slot.place = place;
  return id;
}

bool Session::done(uint64_t id) const noexcept {
  const Slot* slot = find(id);
  return slot == nullptr || slot->state == SlotState::kDone;
}

OpResult Session::finish(uint64_t id) noexcept {
  Slot* slot = find(id);
  if (slot == nullptr || slot->state == SlotState::kAbandoned) return {.code = Code::kIndeterminate};
  if (slot->state == SlotState::kSent) {
    slot->state = SlotState::kAbandoned;
    slot->waiter = 0;
    slot->taker = nullptr;
    return {.code = Code::kIndeterminate};
  }
  const OpResult result = {.code = slot->code, .value = slot->answered ? 1U : 0U, .bytes = slot->bytes};
  release(*slot);
  wake_first();
  return result;
}

OpResult Session::call_and_wait(const Call& call, uint64_t deadline_ns) {
  if (!fits(call)) return {.code = Code::kTooLarge};
  uint64_t id = start(call);
  if (id == 0) {
    ++counts_.waits;
    (void)shard_->run_until(
        [&] {
          id = start(call);
          return id != 0 || state_ == State::kClosed;
        },
        deadline_ns);
    if (id == 0) return {.code = state_ == State::kClosed ? Code::kUnavailable : Code::kDeadlineExceeded};
  }
  (void)shard_->run_until([&] { return done(id); }, deadline_ns);
  return finish(id);
}

bool Session::came_at_once(uint64_t id) noexcept {
  if (counts_.calls % kCallsATurn == 0) return false;
  while (state_ == State::kOpen && shard_->spins()) {
    const std::span<const std::byte> bytes = endpoint_.channel->await_message(kLooksAtOnce);
    if (bytes.empty()) return false;
    const fabric::Completion message{
        .channel = endpoint_.channel, .bytes = bytes, .op = fabric::Op::kReceive};
    on_messages({&message, 1});
    if (done(id)) return true;
  }
  return false;
}

OpResult Session::call_and_wait_within(const Call& call, uint64_t timeout_ns, Meanwhile* meanwhile) {
  const uint64_t id = fits(call) ? start(call) : 0;
  if (meanwhile != nullptr && id != 0) meanwhile->sent();
  if (id != 0 && came_at_once(id)) return finish(id);
  const uint64_t now_ns = shard_->refresh_now();
  const uint64_t deadline_ns = timeout_ns > kForever_ns - now_ns ? kForever_ns : now_ns + timeout_ns;
  if (id == 0) return call_and_wait(call, deadline_ns);
  (void)shard_->run_until([&] { return done(id); }, deadline_ns);
  return finish(id);
}

Task<OpResult> Session::call(Call call, uint64_t deadline_ns) {
  if (!fits(call)) co_return OpResult{.code = Code::kTooLarge};
  Reply reply(*this, deadline_ns);
  if (!reply.has_slot()) co_return OpResult{.code = Code::kOverloaded};
  if (!reply.send(call) && state_ != State::kClosed) {
    WaitingCaller place(*this);
    for (;;) {
      if (place.is_first()) (void)reply.send_in_turn(call);
      if (reply.is_sent() || state_ == State::kClosed) break;
      if (place.is_first() && first_free_ != slots_.size() && state_ == State::kOpen) {
        // There is a credit but no room in the channel, of which nothing tells: look again next turn.
        co_await shard_->sleep_for(0);
      } else {
        Pending turn = shard_->ops().begin(deadline_ns);  // NOLINT(misc-const-correctness)
        if (turn.token() == 0) co_return OpResult{.code = Code::kOverloaded};
        place.wait_as(turn.token());
        const OpResult woken = co_await turn;
        (void)place.take_token();
        if (woken.code != Code::kOk) co_return OpResult{.code = woken.code};
      }
      if (shard_->now_ns() >= deadline_ns) break;
    }
  }
  if (!reply.is_sent()) {
    co_return OpResult{.code = state_ == State::kClosed ? Code::kUnavailable : Code::kDeadlineExceeded};
  }
  const OpResult result = co_await reply;
  co_return result;
}

// Where the channel has no room for the call that closes, the peer finds out by itself.
void Session::settle_abandoned(Slot& slot, const OpResult& result) noexcept {
  const uint16_t method = slot.method;
  release(slot);
  if (late_replies_ != nullptr && result.code == Code::kOk) {
    const std::optional<Call> closing = late_replies_->close_late(method, result);
    const uint64_t id = closing ? send(*closing, 0) : 0;
    if (id != 0) (void)finish(id);
  }
  wake_first();
}

void Session::settle(Slot& slot, const OpResult& result) noexcept {
  if (slot.state == SlotState::kAbandoned) return settle_abandoned(slot, result);
  if (slot.taker != nullptr) {
    ReplyTaker& taker = *slot.taker;
    const uint32_t place = slot.place;
    release(slot);
    // Before the taker can take the credit for itself: the calls that wait were there first.
    wake_first();
    taker.on_reply(place, result);
    return;
  }
  slot.state = SlotState::kDone;
  slot.code = result.code;
  slot.answered = result.value != 0;
  slot.bytes = result.bytes;
  const Token waiter = std::exchange(slot.waiter, 0);
  // The coroutine runs inside this call; its Sent gives the slot back.
  if (waiter != 0) (void)shard_->ops().complete(waiter, result);
}

bool Session::take_reply(std::span<const std::byte> message) noexcept {
  const std::optional<DecodedMessage> reply = decode(message);
  if (!reply) return false;
  Slot* slot = find(reply->header.id);
  // A server answers each call once, and credits come back only by answers: this id was never in flight.
  if (slot == nullptr || slot->state == SlotState::kDone) return false;
  if (slot->state == SlotState::kAbandoned) ++counts_.late_replies;
  settle(*slot, {.code = code_from_wire(reply->header.code), .value = 1, .bytes = reply->payload});
  return true;
}

void Session::on_messages(std::span<const fabric::Completion> messages) noexcept {
  is_among_replies_ = true;
  take_replies(messages);
  is_among_replies_ = false;
  if (AfterReplies* const listener = std::exchange(after_replies_, nullptr)) listener->after_replies();
}

void Session::take_replies(std::span<const fabric::Completion> messages) noexcept {
  for (const fabric::Completion& message : messages) {
    if (state_ != State::kOpen) return;
    if (take_reply(message.bytes)) continue;
    ++counts_.malformed_replies;
    close();
    return;
  }
}

void Session::on_opened(fabric::Channel& channel, Code code) noexcept {
  reopens_ = false;
  if (code != Code::kOk) {
    end();
    return;
  }
  // Not earlier than the peer's own word for it: what is derived from it must not be too late there.
  opened_ns_ = shard_->refresh_now();
  // After a reconnection the endpoint is empty.
  fabric::attach(channel, endpoint_);
  state_ = State::kOpen;
  wake_first();
}

void Session::on_closed(fabric::Channel& channel, Code) noexcept {
  reopens_ = channel.reconnects();
  end();
}

void Session::end() noexcept {
  state_ = State::kClosed;
  for (Slot& slot : slots_) {
    if (slot.state == SlotState::kSent || slot.state == SlotState::kAbandoned) {
      settle(slot, {.code = Code::kIndeterminate});
    }
  }
  // Each that is woken leaves the line before complete() returns. One that waits for its next turn sees the
  // end then.
  for (WaitingCaller* place = first_waiting_; place != nullptr;) {
    const Token token = place->take_token();
    WaitingCaller* next = place->next();
    if (token != 0) (void)shard_->ops().complete(token, {.code = Code::kUnavailable});
    place = next;
  }
}

void Session::wake_first() noexcept {
  if (first_waiting_ == nullptr || state_ != State::kOpen || first_free_ == slots_.size()) return;
  const Token token = first_waiting_->take_token();
  if (token != 0) (void)shard_->ops().complete(token, {.code = Code::kOk});
}

}  // namespace refract::rpc
