// SPDX-License-Identifier: Apache-2.0
// A shard as a client reaches it: its memory, and a session that is opened again when it has closed, under
// the clients that use it, as over a network that reconnects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/campaign/model.h"
#include "tests/campaign/watched_memory.h"
#include "tests/transactions/stage.h"

#include "refract/fabric/channel.h"
#include "refract/fabric/sim/visible_memory.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/calls/transaction_calls.h"
#include "refract/kv/chains/chain_client.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/remote/remote_client.h"
#include "refract/memory/pins.h"
#include "refract/rpc/session.h"

namespace refract::campaign {

class Reach {
 public:
  static constexpr uint64_t kTimeout_ns = 15 * kMillisecond_ns;

  struct Options {
    uint32_t index = 0;
    fabric::Domain* domain = nullptr;
    double stall_chance = 0;
    WordSource* words = nullptr;  // Null: it maps no other space.
    bool has_own_words = false;   // It is a node, whose words are in its own space.
  };
  Reach(TransactionStage& stage, sim::Host& host, const Options& options);
  Reach(const Reach&) = delete;
  Reach& operator=(const Reach&) = delete;
  ~Reach();

  [[nodiscard]] bool is_open() const noexcept {
    return session_ && session_->state() == rpc::Session::State::kOpen && calls_ && is_current();
  }
  // The following may be used.
  [[nodiscard]] bool was_open() const noexcept { return calls_.has_value(); }
  // To be called now and then; at least one turn is between two calls. Opens what has closed.
  void look_after();
  // Of the node's memory that the session is with.
  [[nodiscard]] uint64_t life() const noexcept { return life_; }
  // What is mapped is what the node has.
  [[nodiscard]] bool is_current() const noexcept { return life_ == stage_.process.life(); }
  // From the caller's side.
  void close() noexcept {
    if (session_) session_->close();
  }
  // REQUIRES of the following: is_open() was true once.
  [[nodiscard]] rpc::Session& session() noexcept { return *session_; }
  [[nodiscard]] kv::RpcClient& client() noexcept { return *client_; }
  [[nodiscard]] kv::ChainClient& chains() noexcept { return *chains_; }
  [[nodiscard]] kv::RemoteClient& remote() noexcept { return *remote_; }
  [[nodiscard]] kv::TransactionCalls& calls() noexcept { return *calls_; }

  // What the memory holds; kInvalidated: the owner has to be asked.
  [[nodiscard]] kv::Found read_directly(std::span<const std::byte> key, std::string& value);
  // Likewise by a view, which is held for a while and must stay as it is.
  [[nodiscard]] kv::Found view(std::span<const std::byte> key, std::string& value);
  // Keys with versions, each as it was at some moment meanwhile. False: the owner has to be asked.
  using Listed = std::vector<std::pair<std::string, uint64_t>>;
  [[nodiscard]] bool scan_directly(Listed& listed);
  // A word of this shard as it is now.
  [[nodiscard]] uint64_t word_at(Offset at) noexcept { return loads_->memory().observe(at); }

 private:
  class OwnWords final : public WordSource {
   public:
    explicit OwnWords(Reach& reach) noexcept : reach_(reach) {}
    [[nodiscard]] std::optional<uint64_t> word_at(kv::DecisionPlace place) noexcept override {
      return reach_.word_at(place.at());
    }

   private:
    Reach& reach_;
  };
  void begin_life();
  void map();
  // True: what was read lay outside of what was mapped.
  [[nodiscard]] bool map_again(Code code);

  TransactionStage& stage_;
  sim::Host& host_;
  const Options options_;
  Keeper* keeper_ = nullptr;
  uint64_t life_ = 0;
  OwnWords own_words_{*this};
  PinWriter pins_;
  std::unique_ptr<sim::SeededReader> loads_;
  WatchedMemory::Looks looks_;
  std::optional<WatchedMemory> memory_;
  std::optional<kv::DirectReader<WatchedMemory>> reader_;
  bool was_closed_ = false;
  std::optional<rpc::Session> session_;
  std::optional<kv::RpcClient> client_;
  std::optional<kv::ChainClient> chains_;  // Over client_, likewise below.
  std::optional<kv::RemoteClient> remote_;
  std::optional<kv::TransactionCalls> calls_;
};

}  // namespace refract::campaign
