// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "refract/base/units.h"
#include "refract/client/client_state.h"
#include "refract/client/objects.h"
#include "refract/client/objects/object_peer.h"
#include "refract/object/layout/object_wire.h"

namespace refract {

using client::ClientState;
using client::ObjectLink;
using client::ObjectPeer;
using client::ThreadState;
using object::wire::NoticeKind;
using runtime::Task;

struct Subscription::State {
  explicit State(ClientState& the_client) noexcept : client(the_client) { client.refer(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { client.release(); }

  ClientState& client;
  uint64_t cursor = 0;
  std::deque<ObjectNotice> left;  // What came and was not given on.
};

namespace {

// The server is asked again after so long, so that one that hangs is noticed.
constexpr uint64_t kNoticeSlice_ns = 5 * kSecond_ns;

ObjectNotice::Kind kind_of(NoticeKind kind) noexcept {
  if (kind == NoticeKind::kSealed) return ObjectNotice::Kind::kSealed;
  return kind == NoticeKind::kDeleted ? ObjectNotice::Kind::kRemoved : ObjectNotice::Kind::kThere;
}

// A coroutine of its own, because a lambda that captures must not be one.
Task<Code> ask_notices(ObjectLink& link, uint64_t& cursor, uint64_t slice_ns, std::deque<ObjectNotice>& to) {
  const uint64_t deadline_ns = link.now_ns() + slice_ns + link.timeout_ns();
  auto answer = co_await link.calls().notices(cursor, slice_ns, deadline_ns);
  if (!answer) co_return answer.code();
  // At its beginning a subscription has missed nothing.
  if (answer->is_lost && cursor != 0) to.push_back({.kind = ObjectNotice::Kind::kMissed, .id = {}});
  for (auto& [id, notice] : answer->notices) {
    to.push_back({.kind = kind_of(notice.kind),
                  .id = std::move(id),
                  .birth = notice.birth,
                  .body_bytes = notice.body_bytes,
                  .metadata_bytes = notice.metadata_bytes});
  }
  cursor = answer->next;
  co_return Code::kOk;
}

// Ends when there are some, or the time is over: kNotFound.
Task<Code> await_notices(ObjectPeer& peer, uint64_t& cursor, uint64_t until_ns,
                         std::deque<ObjectNotice>& to) {
  for (;;) {
    const uint64_t now_ns = peer.shard().refresh_now();
    const uint64_t slice_ns = until_ns > now_ns ? std::min(until_ns - now_ns, kNoticeSlice_ns) : 0;
    const auto outcome =
        co_await peer.drive([&](ObjectLink& link) { return ask_notices(link, cursor, slice_ns, to); });
    const bool is_over = peer.shard().refresh_now() >= until_ns;
    if (!to.empty()) co_return Code::kOk;
    if (outcome.code != Code::kOk && outcome.code != Code::kNotFound) co_return outcome.code;
    if (is_over) co_return Code::kNotFound;
  }
}

}  // namespace

Subscription::Subscription(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Subscription::Subscription(Subscription&& other) noexcept = default;
Subscription& Subscription::operator=(Subscription&& other) noexcept = default;
Subscription::~Subscription() = default;

Result<ObjectNotice> Subscription::next(uint64_t timeout_ms) {
  if (state_ == nullptr || state_->client.has_ended()) return fail(Code::kUnavailable);
  if (state_->left.empty()) {
    ThreadState* const mine = state_->client.mine();
    if (mine == nullptr || mine->is_child()) return fail(Code::kForked);
    const uint64_t now_ns = mine->shard().refresh_now();
    const bool is_endless = timeout_ms > (kForever_ns - now_ns) / kMillisecond_ns;
    const uint64_t until_ns = is_endless ? kForever_ns : now_ns + timeout_ms * kMillisecond_ns;
    const Code code = mine->wait_for(await_notices(mine->objects(), state_->cursor, until_ns, state_->left));
    if (code != Code::kOk) return fail(code);
  }
  ObjectNotice notice = std::move(state_->left.front());
  state_->left.pop_front();
  return notice;
}

Result<Subscription> Objects::subscribe() {
  ThreadState* const mine = client_->mine();
  if (mine == nullptr || mine->is_child()) return fail(Code::kForked);
  return Subscription(std::make_unique<Subscription::State>(*client_));
}

}  // namespace refract
