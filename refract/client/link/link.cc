// SPDX-License-Identifier: Apache-2.0
#include "refract/client/link/link.h"

#include <fmt/format.h>

#include <utility>

namespace refract::client {

Link::Link(runtime::Shard& shard, const TransportRow& row, const TransportRequest& request,
           std::unique_ptr<Transport> transport)
    : shard_(shard),
      row_(row),
      address_(request.address),
      transport_(std::move(transport)),
      session_(std::make_unique<rpc::Session>(transport_->channel(), shard)) {}

void Link::join_shard() {
  dispatcher_.emplace(transport_->domain(), shard_);
  // Polled behind the dispatcher, so that it sees each change in the turn in which it comes.
  shard_.add(*this);
}

void Link::leave_shard() noexcept {
  watcher_ = nullptr;
  dispatcher_.reset();
  shard_.remove(*this);
}

Link::State Link::look() const noexcept {
  switch (session_->state()) {
    case rpc::Session::State::kOpening:
      return State::kConnecting;
    case rpc::Session::State::kOpen:
      return State::kUp;
    case rpc::Session::State::kClosed:
      break;
  }
  return session_->reopens() ? State::kNoServer : State::kEnded;
}

size_t Link::poll() noexcept {
  const State now = state_ == State::kEnded ? state_ : look();
  if (now != state_) [[unlikely]] {
    change_to(now);
    return 1;
  }
  // No change of state, but those who wait for a server need not wait any longer.
  if (now == State::kNoServer && !waiting_.empty() && has_server_given_up()) wake_waiting();
  return 0;
}

void Link::change_to(State state) {
  const State before = std::exchange(state_, state);
  if (state == State::kEnded) {
    note_end();
  } else {
    transport_->opened();
    if (!std::exchange(has_been_up_, true)) {
      facts_ = transport_->facts();
      signs_ = transport_->signs();
      come_up();
    }
    note_change();
    if (state == State::kUp) incarnation_ = observe_u64(signs_.incarnation);
    if (state == State::kNoServer && before != State::kConnecting) ++server_losses_;
  }
  if (watcher_ != nullptr) watcher_->link_changed(*this);
  wake_waiting();
}

void Link::wake_waiting() {
  for (const runtime::Token token : std::exchange(waiting_, {})) {
    (void)shard_.ops().complete(token, {});
  }
}

void Link::note_end() {
  end();
  ended_why_ = transport_->last_refusal();
  if (ended_why_.what.empty()) {
    ended_why_ = {Code::kUnavailable, fmt::format("the connection to the node at {} broke", address_),
                  "try again; if this repeats, look at the node's log"};
  }
  dispatcher_.reset();
}

void Link::look_around() noexcept {
  if (dispatcher_) transport_->look_around();
}

Report Link::trouble() const {
  switch (state_) {
    case State::kConnecting:
      return {Code::kDeadlineExceeded, fmt::format("the node at {} does not answer", address_),
              std::string(transport_->advice())};
    case State::kNoServer:
      if (has_server_given_up()) {
        return {Code::kUnavailable,
                fmt::format("the server of the node at {} crashed too often and was given up", address_),
                "reads go on; look at the data with: refract check, and save them with: refract dump"};
      }
      return {Code::kUnavailable,
              fmt::format("the server of the node at {} ended and is not back yet", address_),
              can_read_alone() ? "try again; reads go on meanwhile" : "try again"};
    case State::kUp:
      return {Code::kDeadlineExceeded, fmt::format("the server of the node at {} does not answer", address_),
              can_read_alone() ? "is it stopped or overloaded? reads go on meanwhile"
                               : "is it stopped or overloaded?"};
    case State::kEnded:
      break;
  }
  return ended_why_;
}

}  // namespace refract::client
