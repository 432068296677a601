// SPDX-License-Identifier: Apache-2.0
#include "refract/client/objects/object_peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/base/units.h"
#include "refract/client/objects/object_work.h"

namespace refract::client {

using runtime::Task;

namespace {

constexpr int kWindowWaits = 6;  // Together about 60 ms.
constexpr uint64_t kPeerPause_ns = kMillisecond_ns;
// A node that has just started may answer for its keys before it answers for its objects.
constexpr uint64_t kFollows_ns = 300 * kMillisecond_ns;

bool is_gone(const Link* link) noexcept {
  return link == nullptr || link->state() == Link::State::kEnded;
}

}  // namespace

ObjectPeer::ObjectPeer(Peers& peers)
    : peers_(peers), claims_(secure_random_u64()), prng_(secure_random_u64()) {}

void ObjectPeer::look_around() noexcept {
  link_->look_around();
  // A get that continues behind an answer runs inside a poll, and the next one sees what there is to see.
  if (!shard().is_polling()) (void)shard().poll_once();
}

// Waits, as Peers::await_server does, for a server that may come; else connects.
Task<bool> ObjectPeer::await_server(Patience& patience) {
  const uint64_t now = shard().refresh_now();
  if (patience.deadline_ns == 0) {
    patience.deadline_ns = (patience.begun_ns != 0 ? patience.begun_ns : now) + timeout_ns();
  }
  if (link_ != nullptr && link_->state() == Link::State::kUp && patience.waits++ > 0) {
    // It is there and says that it is not: do not ask in a circle.
    co_await shard().sleep_for(std::min(kPeerPause_ns, std::max(patience.deadline_ns, now) - now));
  }
  while (link_ != nullptr) {
    const bool may_come = link_->state() == Link::State::kConnecting ||
                          (link_->state() == Link::State::kNoServer && !link_->has_server_given_up());
    if (!may_come) break;
    // Awaiting changes it, which the check does not see.
    runtime::Pending change = shard().ops().begin(patience.deadline_ns);  // NOLINT(misc-const-correctness)
    link_->wake_at_change(change.token());
    const runtime::OpResult woken = co_await change;
    if (woken.code != Code::kOk) break;
  }
  if (is_gone(link_.get()) && shard().now_ns() < patience.deadline_ns) {
    if (!is_connecting_) {
      if (patience.losses++ > 1) co_return false;
      is_connecting_ = true;
      const bool reached = co_await establish(patience.deadline_ns);
      is_connecting_ = false;
      co_return reached;
    }
    // Another operation is at it, with a deadline of its own.
    while (is_connecting_ && shard().now_ns() < patience.deadline_ns)
      co_await shard().sleep_for(kPeerPause_ns);
  }
  if (link_ != nullptr && link_->state() == Link::State::kUp && shard().now_ns() < patience.deadline_ns) {
    co_return true;
  }
  if (link_ != nullptr) trouble_ = link_->trouble();
  co_return false;
}

Task<bool> ObjectPeer::establish(uint64_t deadline_ns) {
  is_without_objects_ = false;
  // Where the node itself is another one by now, its first shard knows it.
  if (!peers_.is_known() || is_gone(peers_.told().at(0))) {
    const bool reached = co_await peers_.establish(deadline_ns);
    if (!reached) {
      trouble_ = peers_.trouble();
      co_return false;
    }
  }
  const uint64_t follows_until_ns = std::min(deadline_ns, shard().refresh_now() + kFollows_ns);
  for (;;) {
    const bool reached = co_await connect(deadline_ns);
    if (reached) co_return true;
    if (trouble_.code == Code::kDeadlineExceeded || is_gone(peers_.told().at(0))) co_return false;
    if (shard().refresh_now() >= follows_until_ns) break;
    co_await shard().sleep_for(10 * kPeerPause_ns);
  }
  is_without_objects_ = true;
  trouble_ = {Code::kUnsupported, fmt::format("the node at {} has no objects", peers_.told().address_of(0)),
              fmt::format("start it with --objects-limit; what was tried: {}", trouble_.what)};
  co_return false;
}

Task<bool> ObjectPeer::connect(uint64_t deadline_ns) {
  put_aside();
  const TransportRow& row = peers_.told().row();
  auto begun = ObjectLink::begin(
      shard(), row, peers_.settings().request_to(peers_.told().address_of(peers_.told().count())),
      peers_.settings().options.paths);
  if (!begun) {
    trouble_ = std::move(begun).error();
    co_return false;
  }
  link_ = std::move(*begun);
  ObjectLink& link = *link_;
  {
    const Use use(link);
    co_await await_first_state(shard(), link, deadline_ns);
  }
  // A node that starts its server again has objects all the same.
  if (link.state() == Link::State::kUp || link.state() == Link::State::kNoServer) co_return true;
  trouble_ = link.trouble();
  co_return false;
}

// REQUIRES: not in the middle of a poll of the link.
void ObjectPeer::put_aside() noexcept {
  if (link_ != nullptr) {
    messages_before_ += link_->messages_sent();
    link_->close();
    ended_.push_back(std::move(link_));
  }
  std::erase_if(ended_, [](const auto& link) { return link->operations == 0; });
}

Task<bool> ObjectPeer::await_growth(ObjectLink& link, Patience& patience) {
  if (link.refresh()) co_return true;
  if (patience.growth_waits >= kWindowWaits) co_return false;
  co_await shard().sleep_for(kPeerPause_ns << patience.growth_waits++);
  co_return true;
}

void ObjectPeer::note(const ObjectLink& link, Code code) {
  if (code == Code::kDeadlineExceeded || code == Code::kIndeterminate) trouble_ = link.trouble();
}

uint64_t ObjectPeer::new_claim() noexcept {
  return claims_.next();
}

std::string away_text(ObjectPeer& peer) {
  const ObjectLink* const link = peer.link();
  const auto* const names = link == nullptr ? nullptr : &link->away();
  if (names == nullptr || names->empty()) return "some nodes have not said all they have";
  std::string text = names->size() == 1 ? "node " : "nodes ";
  for (size_t i = 0; i < names->size(); ++i) {
    if (i > 0) text += i + 1 == names->size() ? " and " : ", ";
    text += (*names)[i];
  }
  return text + " cannot be reached";
}

std::string ObjectPeer::new_id(size_t bytes) {
  std::string id(bytes, '\0');
  const uint64_t words[3] = {peers_.told().at(0)->facts().identity[0], prng_.next(), prng_.next()};
  std::memcpy(id.data(), words, std::min(bytes, sizeof(words)));
  return id;
}

}  // namespace refract::client
