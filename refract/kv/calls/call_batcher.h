// SPDX-License-Identifier: Apache-2.0
// Attempts that are begun while replies are handed out go together, up to kKeysPerCall in one call: a client
// that has much under way at once begins the next operations as the last ones end, and what a message costs
// at both ends is more than what a get or a put does (docs/design/037-shared-calls.md). No call waits for it:
// what is gathered leaves in the same turn, as single calls would. Only the sources of RpcClient include
// this.
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

#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/calls/rpc_client_attempts.h"
#include "refract/kv/layout/many_wire.h"
#include "refract/rpc/session.h"

namespace refract::kv {

// One call for several attempts of a kind, which know it while it is under way.
class RpcClient::Group final : public TimedCall {
 public:
  Group(RpcClient& client, CallBatcher& batcher) noexcept : TimedCall(client), batcher_(batcher) {}
  ~Group() override = default;

  // For gets or for puts, until it has been given back.
  void begin(wire::Method method) noexcept { method_ = method; }
  [[nodiscard]] size_t count() const noexcept { return count_; }
  [[nodiscard]] size_t body_bytes() const noexcept { return body_.size(); }
  // These give the attempt's place. REQUIRE: fewer than kKeysPerCall were added.
  [[nodiscard]] uint32_t add(GetAttempt& attempt, std::span<const std::byte> key) noexcept {
    body_.add_get(key);
    return add_member(attempt);
  }
  [[nodiscard]] uint32_t add(PutAttempt& attempt, const PutAttempt::Write& write) noexcept {
    body_.add_put(write.key, write.value, write.ttl_ns);
    return add_member(attempt);
  }
  // It has ended by itself.
  void leave(uint32_t place) noexcept;
  void send() noexcept;

 private:
  [[nodiscard]] uint32_t add_member(Attempt& attempt) noexcept {
    members_[count_] = &attempt;
    ++left_;
    return count_++;
  }
  // Of those that have not left.
  void make_again() noexcept;
  void answered(const runtime::OpResult& reply) noexcept override;
  // How many were handed their answers; after these nothing makes sense.
  [[nodiscard]] size_t hand_out_gets(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] size_t hand_out_puts(std::span<const std::byte> bytes) noexcept;
  // To those from there on.
  void hand_out(size_t place, const runtime::OpResult& failure) noexcept;
  [[nodiscard]] Attempt* take(size_t place) noexcept;
  void end() noexcept;

  CallBatcher& batcher_;
  wire::Method method_{};
  std::array<Attempt*, wire::kKeysPerCall> members_;  // Null: it has ended.
  uint32_t count_ = 0;
  uint32_t left_ = 0;  // Not null.
  wire::ManyBody body_;
};

class RpcClient::CallBatcher final : public rpc::AfterReplies {
 public:
  // Longer values would pay one more copy for what sharing a call saves.
  static constexpr size_t kPutValueBytesMax = 2048;

  // How many shared calls of a batch are under way at once: twice the keys that single ones would have, so
  // that the owner has work while answers travel, and no more, because others wait for what it has in hand.
  [[nodiscard]] static constexpr size_t calls_for(size_t pipeline) noexcept {
    const size_t calls = 2 * pipeline / wire::kKeysPerCall;
    return calls > 0 ? calls : 1;
  }

  explicit CallBatcher(RpcClient& client);

  struct Shared {
    Group* group;
    uint32_t place;
  };
  // Nothing: the attempt goes alone. Else it is told its outcome later than in this call.
  [[nodiscard]] std::optional<Shared> batch_get(GetAttempt& attempt,
                                                std::span<const std::byte> key) noexcept {
    if (key.size() - 1 >= key_bytes_max_) [[unlikely]]
      return std::nullopt;
    if (gets_ == nullptr || gets_->count() == width_) [[unlikely]] {
      if (!begin_gets()) return std::nullopt;
    }
    return Shared{.group = gets_, .place = gets_->add(attempt, key)};
  }
  [[nodiscard]] std::optional<Shared> batch_put(PutAttempt& attempt, const PutAttempt::Write& write) noexcept;

  // How many operations a call takes while the caller's next one is added to those under way. Where a message
  // costs little, half of them: the owner works on the others meanwhile.
  [[nodiscard]] size_t count_max() const noexcept;
  // How many keys of gets go together, by the values that came last; 1: each alone.
  [[nodiscard]] size_t width() const noexcept;
  [[nodiscard]] size_t key_bytes_max() const noexcept { return key_bytes_max_; }
  void saw_value(uint64_t bytes) noexcept {
    const uint64_t fading = value_bytes_ - value_bytes_ / 16;
    value_bytes_ = bytes > fading ? bytes : fading;
  }
  // The owner that the session has now does not know such calls.
  void refuse() noexcept { refused_opened_ns_ = client_.session_.opened_ns(); }
  [[nodiscard]] bool is_refused() const noexcept {
    return refused_opened_ns_ == client_.session_.opened_ns();
  }
  // For calls that no group makes, one at a time.
  [[nodiscard]] wire::ManyBody& empty_body() noexcept {
    body_.clear();
    return body_;
  }

  void give_back(Group& group) noexcept { free_.push_back(&group); }
  void after_replies() noexcept override;

 private:
  // False: not now.
  [[nodiscard]] bool begin_gets() noexcept;
  [[nodiscard]] Group* begin_group(wire::Method method) noexcept;

  RpcClient& client_;
  size_t key_bytes_max_;
  uint64_t value_bytes_ = 0;
  std::optional<uint64_t> refused_opened_ns_;
  Group* gets_ = nullptr;  // The last one of the kind, which may take more. Null unless among replies.
  Group* puts_ = nullptr;
  size_t width_ = 0;  // Of the gets that are gathered now.
  std::vector<Group*> gathered_;
  std::vector<Group*> sending_;
  wire::ManyBody body_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Group*> free_;
};

}  // namespace refract::kv
