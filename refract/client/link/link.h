// SPDX-License-Identifier: Apache-2.0
// A link to one shard of a node: the transport, the session over it, and its life, from the first attempt
// over servers that come and go to the end of the node. What is said over it is no matter of the link's.
//
// Threads: used only by its runtime shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/client/link/forks.h"
#include "refract/client/link/transport.h"
#include "refract/fabric/dispatcher.h"
#include "refract/memory/remote_visible.h"
#include "refract/rpc/session.h"
#include "refract/runtime/op_table.h"
#include "refract/runtime/shard.h"

namespace refract::client {

class Link : public runtime::Poller {
 public:
  enum class State : uint8_t {
    kConnecting,
    kUp,        // The server may be stopped, but it has not ended.
    kNoServer,  // It has ended; the node may start another one. Direct reads go on.
    kEnded,     // The node is gone, or never was there. Only views remain.
  };

  // Hears of every change of state. Called in the middle of a poll: nothing is destroyed there.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void link_changed(Link& link) noexcept = 0;
  };

  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void watch(Watcher* watcher) noexcept { watcher_ = watcher; }

  [[nodiscard]] State state() const noexcept { return state_; }
  // Why it ended, or why there is no server.
  [[nodiscard]] Report trouble() const;
  // Of a link that has been up.
  [[nodiscard]] const NodeFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] const TransportRow& row() const noexcept { return row_; }
  [[nodiscard]] uint64_t now_ns() const noexcept { return shard_.now_ns(); }

  // True from the moment in which calls under way are given up, which is before state() changes.
  [[nodiscard]] bool is_session_closed() const noexcept {
    return session_->state() == rpc::Session::State::kClosed;
  }
  // Gives up what is under way, in the next turn.
  void close() noexcept { session_->close(); }
  [[nodiscard]] uint64_t messages_sent() const noexcept { return session_->counts().calls; }

  // Loads of two words, which cost nothing: whether something has happened that a poll would tell.
  [[nodiscard]] const uint64_t* server_state_word() const noexcept { return signs_.server_state; }
  [[nodiscard]] bool is_node_stopping() const noexcept { return server_state() == ServerState::kStopping; }
  [[nodiscard]] bool is_server_as_known() const noexcept {
    return observe_u64(signs_.incarnation) == incarnation_ && server_state() <= ServerState::kServing;
  }
  [[nodiscard]] bool has_server_given_up() const noexcept {
    return state_ == State::kNoServer && server_state() == ServerState::kGivenUp;
  }
  // Whether the above can change without a poll.
  [[nodiscard]] bool tells_by_words() const noexcept { return signs_.are_live; }
  // Looks whether the node is there. The next poll of the shard ends the link if not.
  void look_around() noexcept;

  [[nodiscard]] uint64_t server_losses() const noexcept { return server_losses_; }

  // Wakes the operation with this token at the next change of state(), or when the server is given up.
  void wake_at_change(runtime::Token token) { waiting_.push_back(token); }

  // Operations at work in this link: while there are some its owner must not end it.
  size_t operations = 0;

  size_t poll() noexcept final;
  [[nodiscard]] std::string_view name() const noexcept final { return "connection"; }

 protected:
  Link(runtime::Shard& shard, const TransportRow& row, const TransportRequest& request,
       std::unique_ptr<Transport> transport);
  ~Link() override = default;

  // Begins to poll, behind all that polls already.
  void join_shard();
  // No more of it happens; what is there to be read stays. The shard is not touched after this.
  void leave_shard() noexcept;

  [[nodiscard]] runtime::Shard& shard() noexcept { return shard_; }
  [[nodiscard]] Transport& transport() noexcept { return *transport_; }
  [[nodiscard]] const Transport& transport() const noexcept { return *transport_; }
  [[nodiscard]] rpc::Session& session() noexcept { return *session_; }
  [[nodiscard]] bool is_child() const noexcept { return guard_.is_child(); }
  [[nodiscard]] bool is_there() const noexcept { return has_been_up_ && state_ != State::kEnded; }

 private:
  // It is up for the first time, and facts() are known.
  virtual void come_up() = 0;
  // After each change of state but the last one.
  virtual void note_change() noexcept = 0;
  // The last one; the transport is still there.
  virtual void end() noexcept = 0;
  // Whether reads need no server.
  [[nodiscard]] virtual bool can_read_alone() const noexcept = 0;

  [[nodiscard]] ServerState server_state() const noexcept {
    return static_cast<ServerState>(observe_u64(signs_.server_state));
  }
  [[nodiscard]] State look() const noexcept;
  void change_to(State state);
  void note_end();
  void wake_waiting();

  runtime::Shard& shard_;  // Not to be touched once it was left.
  const TransportRow& row_;
  std::string address_;
  ForkGuard guard_;
  State state_ = State::kConnecting;
  Watcher* watcher_ = nullptr;
  std::unique_ptr<Transport> transport_;
  std::optional<fabric::Dispatcher> dispatcher_;  // Empty once ended: polling again would unmap the space.
  std::unique_ptr<rpc::Session> session_;
  bool has_been_up_ = false;
  NodeFacts facts_;
  Signs signs_;
  uint64_t incarnation_ = 0;
  uint64_t server_losses_ = 0;
  Report ended_why_{Code::kUnavailable, "", ""};
  std::vector<runtime::Token> waiting_;
};

}  // namespace refract::client
