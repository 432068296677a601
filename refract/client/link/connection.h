// SPDX-License-Identifier: Apache-2.0
// One connection to one shard of a node: a session to its server and, where the provider maps the shard's
// memory here, a reader over it. Another node is another connection.
//
// A connection has one owner, who destroys it by retiring it: it leaves its runtime shard then, and its
// memory goes when the last view of it has gone, by whatever thread that is. Until then it stays open,
// because a node honours the pins of open connections only.
//
// Threads: used only by its runtime shard, except let_go().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "refract/client/link/forks.h"
#include "refract/client/link/line_fetcher.h"
#include "refract/client/link/transport.h"
#include "refract/fabric/dispatcher.h"
#include "refract/kv/calls/lender.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/chains/chain_client.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/layout/hashed_key.h"
#include "refract/kv/remote/remote_client.h"
#include "refract/memory/remote_visible.h"
#include "refract/memory/store_time.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::client {

class Connection final : public runtime::Poller {
 public:
  using Reader = kv::DirectReader<kv::MappedMemory>;
  using Key = kv::HashedKey;

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
    virtual void connection_changed(Connection& connection) noexcept = 0;
  };

  struct Retire {
    void operator()(Connection* connection) const noexcept { connection->retire(); }
  };
  using Owned = std::unique_ptr<Connection, Retire>;

  // Begins to connect; poll the shard until state() is another than kConnecting.
  [[nodiscard]] static Reported<Owned> begin(runtime::Shard& shard, const TransportRow& row,
                                             const TransportRequest& request, Paths paths);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void watch(Watcher* watcher) noexcept { watcher_ = watcher; }

  [[nodiscard]] State state() const noexcept { return state_; }
  // Why it ended, or why there is no server.
  [[nodiscard]] Report trouble() const;
  // Of a connection that has been up.
  [[nodiscard]] const NodeFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] const TransportRow& row() const noexcept { return row_; }

  // Null: reads go to the server, and why_not_direct() says why.
  [[nodiscard]] Reader* reader() const noexcept { return reader_; }
  [[nodiscard]] const std::string& why_not_direct() const noexcept { return why_not_direct_; }
  [[nodiscard]] const std::byte* at(Offset offset) const noexcept { return memory_->at(offset); }
  // Of how many reads by reader() the node wants to know one; 0: of none.
  [[nodiscard]] uint64_t reads_per_use() const noexcept { return reads_per_use_; }
  // Tells it of one, which costs it nothing. REQUIRES: reads_per_use() is not 0.
  void write_use(const Key& key) noexcept;
  // Maps what the node has grown by. False: nothing new. May wait some milliseconds.
  [[nodiscard]] bool refresh() noexcept;

  // What is not read through a mapping: by READs that need no server, where the provider has them, or by
  // chains, where the options say so; else by calls.
  [[nodiscard]] runtime::Task<Result<kv::Got>> get(const Key& key, kv::ValueSink& sink,
                                                   uint64_t deadline_ns) {
    if (remote_) return remote_->get(key, sink, deadline_ns);
    return chains_ ? chains_->get(key, sink, deadline_ns) : rpc_->get(key.bytes(), sink, deadline_ns);
  }
  [[nodiscard]] runtime::Task<Result<kv::Got>> exists(const Key& key, uint64_t deadline_ns) {
    if (remote_) return remote_->exists(key, deadline_ns);
    return chains_ ? chains_->exists(key, deadline_ns) : rpc_->exists(key.bytes(), deadline_ns);
  }
  [[nodiscard]] runtime::Task<Result<uint64_t>> put(const Key& key, std::span<const std::byte> value,
                                                    const kv::RpcPutOptions& options, uint64_t deadline_ns) {
    return chains_ ? chains_->put(key, value, options, deadline_ns)
                   : rpc_->put(key.bytes(), value, options, deadline_ns);
  }
  [[nodiscard]] runtime::Task<> multi_get(std::span<kv::RpcClient::GetItem> items, uint64_t deadline_ns) {
    if (remote_) return remote_->multi_get(items, deadline_ns);
    return chains_ ? chains_->multi_get(items, deadline_ns) : rpc_->multi_get(items, deadline_ns);
  }
  [[nodiscard]] runtime::Task<> multi_put(std::span<kv::RpcClient::PutItem> items, uint64_t deadline_ns) {
    return chains_ ? chains_->multi_put(items, deadline_ns) : rpc_->multi_put(items, deadline_ns);
  }
  [[nodiscard]] Result<kv::Got> get_and_wait(const Key& key, kv::ValueSink& sink) {
    if (remote_) return remote_->get_and_wait(key, sink);
    return chains_ ? chains_->get_and_wait(key, sink) : rpc_->get_and_wait(key.bytes(), sink);
  }
  [[nodiscard]] Result<uint64_t> put_and_wait(const Key& key, std::span<const std::byte> value,
                                              const kv::RpcPutOptions& options) {
    if (reader_ != nullptr && !chains_) {
      LineFetcher fetcher(*reader_, key);
      return rpc_->put_and_wait(key.bytes(), value, options, 0, &fetcher);
    }
    return chains_ ? chains_->put_and_wait(key, value, options)
                   : rpc_->put_and_wait(key.bytes(), value, options);
  }
  // For what chains cannot do.
  [[nodiscard]] kv::RpcClient& rpc() noexcept { return *rpc_; }
  // For the shortest way of a single call. Null: the server is not asked by calls.
  [[nodiscard]] kv::RpcClient* rpc_alone() noexcept { return chains_ ? nullptr : &*rpc_; }
  // The same of gets.
  [[nodiscard]] kv::RpcClient* rpc_alone_for_gets() noexcept { return remote_ ? nullptr : rpc_alone(); }
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
  // Looks whether the node is there. The next poll of the shard ends the connection if not.
  void look_around() noexcept;

  // Adds what this shard of the node contributes.
  void fill(Route& route) const;
  [[nodiscard]] uint64_t server_losses() const noexcept { return server_losses_; }

  // Wakes the operation with this token at the next change of state(), or when the server is given up.
  void wake_at_change(runtime::Token token) { waiting_.push_back(token); }

  // Operations at work in this connection: while there are some its owner must not retire it.
  size_t operations = 0;

  // For views, by any thread: the connection lives as long as one of its pins is held. In a child of the
  // process that connected nothing is let go of.
  void let_go(int pin) noexcept {
    // The page of pins is shared: a child would let go of what its parent holds.
    if (!guard_.is_child() && pins_->let_go(pin)) [[unlikely]]
      end_of_a_view();
  }

  size_t poll() noexcept override;
  [[nodiscard]] std::string_view name() const noexcept override { return "connection"; }

 private:
  Connection(runtime::Shard& shard, const TransportRow& row, const TransportRequest& request, Paths paths);
  ~Connection() override = default;
  void retire() noexcept;
  void end_of_a_view() noexcept;
  [[nodiscard]] ServerState server_state() const noexcept {
    return static_cast<ServerState>(observe_u64(signs_.server_state));
  }
  [[nodiscard]] State look() const noexcept;
  void change_to(State state);
  void wake_waiting();
  void come_up();
  void end();

  runtime::Shard& shard_;  // Not to be touched once retired.
  const TransportRow& row_;
  std::string address_;
  uint64_t timeout_ns_;
  Paths paths_;
  CopyTeam* copies_;  // Of the settings. May be null.
  ForkGuard guard_;
  PinWriter* pins_ = nullptr;  // The transport's; null: there are none.
  // Of pins that were held when it was retired and have not been let go of; less than 0 while their number is
  // not known yet.
  std::atomic<int64_t> views_left_ = 0;
  State state_ = State::kConnecting;
  Watcher* watcher_ = nullptr;
  std::unique_ptr<Transport> transport_;
  std::optional<kv::Lender> lender_;              // Over its domain.
  std::optional<fabric::Dispatcher> dispatcher_;  // Empty once ended: polling again would unmap the space.
  std::unique_ptr<rpc::Session> session_;
  std::optional<kv::RpcClient> rpc_;
  std::optional<kv::ChainClient> chains_;   // Over rpc_.
  std::optional<kv::RemoteClient> remote_;  // Likewise; made when it has come up.
  bool has_been_up_ = false;
  NodeFacts facts_;
  Signs signs_;
  uint64_t incarnation_ = 0;
  uint64_t server_losses_ = 0;
  std::optional<kv::MappedMemory> memory_;
  std::optional<StoreClock> store_clock_;
  std::optional<Reader> reader_memory_;
  Reader* reader_ = nullptr;
  uint64_t reads_per_use_ = 0;
  std::string why_not_direct_;
  Report ended_why_{Code::kUnavailable, "", ""};
  std::vector<runtime::Token> waiting_;
};

}  // namespace refract::client
