// SPDX-License-Identifier: Apache-2.0
// One client's connection to one node: the mapped space with a reader over it, and a session to the server.
//
// It lives as long as somebody holds a view of the node's memory, also after the node has ended: the mapping
// goes with the connection, not with the node. A new node is a new connection.
//
// Threads: used only by its shard. REQUIRES, for its destruction: no task of rpc() is suspended.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refract/client/client.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/shm/domain.h"
#include "refract/kv/direct_reader.h"
#include "refract/kv/mapped_memory.h"
#include "refract/kv/rpc_client.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"

namespace refract::client {

class Connection final : public runtime::Poller {
 public:
  using Reader = kv::DirectReader<kv::MappedMemory>;

  enum class State : uint8_t {
    kConnecting,
    kUp,        // The server may be stopped, but it has not ended.
    kNoServer,  // It has ended; the node may start another one. Direct reads go on.
    kEnded,     // The node is gone, or never was there. Only views remain.
  };

  // Begins to connect; poll the shard until state() is another than kConnecting.
  [[nodiscard]] static Reported<std::unique_ptr<Connection>> begin(runtime::Shard& shard,
                                                                   const std::string& path,
                                                                   const ClientOptions& options);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() override;

  [[nodiscard]] State state() const noexcept { return state_; }
  // Why it ended, or why there is no server.
  [[nodiscard]] Report trouble() const;

  // Null: reads go to the server, and why_not_direct() says why.
  [[nodiscard]] Reader* reader() const noexcept { return reader_; }
  [[nodiscard]] const std::string& why_not_direct() const noexcept { return why_not_direct_; }
  [[nodiscard]] const std::byte* at(Offset offset) const noexcept { return memory_->at(offset); }
  void unpin(int pin) noexcept { memory_->pins()->unpin(pin); }
  // Maps what the node has grown by. False: nothing new. May wait some milliseconds.
  [[nodiscard]] bool refresh() noexcept;
  // REQUIRES: has been up, not ended.
  [[nodiscard]] std::span<const std::byte> mapped() const noexcept;

  [[nodiscard]] kv::RpcClient& rpc() noexcept { return *rpc_; }
  [[nodiscard]] uint64_t messages_sent() const noexcept { return session_->counts().calls; }

  // Loads of the node page, which cost nothing: whether something has happened that a poll would tell.
  [[nodiscard]] bool is_node_stopping() const noexcept {
    return fabric::shm::server_state(*page_) == fabric::shm::ServerState::kStopping;
  }
  [[nodiscard]] bool is_server_as_known() const noexcept {
    return fabric::shm::incarnation(*page_) == incarnation_ &&
           fabric::shm::server_state(*page_) <= fabric::shm::ServerState::kServing;
  }
  [[nodiscard]] bool has_server_given_up() const noexcept {
    return state_ == State::kNoServer &&
           fabric::shm::server_state(*page_) == fabric::shm::ServerState::kGivenUp;
  }
  // Asks the kernel whether the keeper is there. The next poll of the shard ends the connection if not.
  void look_at_keeper() noexcept;

  void fill(Route& route) const;
  [[nodiscard]] uint64_t server_losses() const noexcept { return server_losses_; }

  // Wakes the operation with this token at the next change of state(), or when the server is given up.
  void wake_at_change(runtime::Token token) { waiting_.push_back(token); }

  // Views and tasks that use this connection: while there are some it must stay, even when it has ended.
  size_t users = 0;

  size_t poll() noexcept override;
  [[nodiscard]] std::string_view name() const noexcept override { return "connection"; }

 private:
  Connection(runtime::Shard& shard, std::string path, const ClientOptions& options);
  [[nodiscard]] State look() const noexcept;
  void change_to(State state);
  void wake_waiting();
  void come_up();
  void end();

  runtime::Shard& shard_;
  std::string path_;
  ClientOptions options_;
  State state_ = State::kConnecting;
  std::unique_ptr<fabric::shm::ClientDomain> domain_;
  std::optional<fabric::Dispatcher> dispatcher_;  // Empty once ended: polling again would unmap the space.
  std::unique_ptr<rpc::Session> session_;
  std::optional<kv::RpcClient> rpc_;
  fabric::Channel* channel_ = nullptr;
  const fabric::shm::NodePage* page_ = nullptr;
  uint64_t incarnation_ = 0;
  uint64_t server_losses_ = 0;
  std::optional<kv::MappedMemory> memory_;
  std::optional<Reader> reader_memory_;
  Reader* reader_ = nullptr;
  std::string why_not_direct_;
  Report ended_why_{Code::kUnavailable, "", ""};
  std::vector<runtime::Token> waiting_;
};

}  // namespace refract::client
