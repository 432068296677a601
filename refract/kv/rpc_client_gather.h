// SPDX-License-Identifier: Apache-2.0
// Gets that are begun while replies are handed out go together, up to kKeysPerCall in one call: who has many
// under way at once begins the next ones as the last ones end, and what a message costs at both ends is more
// than what a get does (docs/design/037-gets-together.md). Nobody waits for it: what is gathered leaves in
// the same turn, as single calls would. Included by nobody else.
//
// Threads: used only by the client's shard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "refract/kv/many_wire.h"
#include "refract/kv/rpc_client.h"
#include "refract/kv/rpc_client_attempts.h"
#include "refract/rpc/session.h"

namespace refract::kv {

// One call for several attempts, which know it while it is under way.
class RpcClient::GetGroup final : public rpc::ReplyTaker {
 public:
  GetGroup(RpcClient& client, Gatherer& gatherer) noexcept : client_(client), gatherer_(gatherer) {}
  GetGroup(const GetGroup&) = delete;
  GetGroup& operator=(const GetGroup&) = delete;
  ~GetGroup() override = default;

  [[nodiscard]] size_t count() const noexcept { return count_; }
  // The attempt's place. REQUIRES: fewer than kKeysPerCall were added.
  [[nodiscard]] uint32_t add(GetAttempt& attempt) noexcept;
  // It has ended by itself.
  void leave(uint32_t place) noexcept;
  void send() noexcept;

  void on_reply(uint32_t place, const runtime::OpResult& reply) noexcept override;

 private:
  void hand_out(const runtime::OpResult& reply) noexcept;
  [[nodiscard]] GetAttempt* take(size_t place) noexcept;

  RpcClient& client_;
  Gatherer& gatherer_;
  std::array<GetAttempt*, wire::kKeysPerCall> members_;  // Null: it has ended.
  uint32_t count_ = 0;
  uint32_t left_ = 0;  // Not null.
  uint64_t call_ = 0;  // 0: not under way.
};

class RpcClient::Gatherer final : public rpc::AfterReplies {
 public:
  explicit Gatherer(RpcClient& client);

  // Null: the attempt goes alone. Else it hears of its outcome later than in this call.
  [[nodiscard]] GetGroup* gather(GetAttempt& attempt, uint32_t& place) noexcept;

  // How many keys shall go together, by the values that came last; 1: each alone.
  [[nodiscard]] size_t width() const noexcept;
  [[nodiscard]] size_t key_bytes_max() const noexcept { return key_bytes_max_; }
  void saw_value(uint64_t bytes) noexcept {
    const uint64_t fading = value_bytes_ - value_bytes_ / 16;
    value_bytes_ = bytes > fading ? bytes : fading;
  }
  // The owner that the session has now does not know such calls.
  void refused() noexcept { refused_opened_ns_ = client_.session_.opened_ns(); }
  [[nodiscard]] std::span<std::byte> room() noexcept { return room_; }

  void give_back(GetGroup& group) noexcept { free_.push_back(&group); }
  void after_replies() noexcept override;

 private:
  [[nodiscard]] GetGroup& begin_group();

  RpcClient& client_;
  size_t key_bytes_max_;
  uint64_t value_bytes_ = 0;
  std::optional<uint64_t> refused_opened_ns_;
  size_t width_ = 0;                 // Of what is gathered now.
  std::vector<GetGroup*> gathered_;  // The last one may take more.
  std::vector<GetGroup*> sending_;
  std::vector<std::byte> room_;
  std::vector<std::unique_ptr<GetGroup>> groups_;
  std::vector<GetGroup*> free_;
};

}  // namespace refract::kv
