// SPDX-License-Identifier: Apache-2.0
// What hears messages: a connection, with the channels and patterns that it is subscribed to.
//
// Threads: that of its connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "refract/doors/messages/shared_text.h"

namespace refract::doors::redis {

class OutputLimits;
struct Hearers;
struct Topic;

enum class TopicKind : uint8_t { kChannel, kPattern, kShardChannel };
inline constexpr size_t kTopicKinds = 3;

// As it is sent, behind its first letter, which is that of an array in RESP2 and of a push in RESP3.
struct Message {
  std::string_view head;  // How many words it has, what it is, and the pattern if it has one.
  std::string_view tail;  // Its channel, and what was published.
  // The tail, where it is long: then it is not to be copied. Null: it is short.
  const SharedText* shared = nullptr;
};

class Subscriber {
 public:
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  [[nodiscard]] size_t count(TopicKind kind) const noexcept;
  [[nodiscard]] bool is_subscribed() const noexcept { return subscriptions_ != nullptr; }
  // Memory of all its subscriptions.
  [[nodiscard]] size_t subscription_bytes() const noexcept;
  // Too many messages wait for it, or for too long: it is to be ended.
  [[nodiscard]] bool is_too_slow() const noexcept { return is_too_slow_; }

 protected:
  Subscriber() noexcept;
  // REQUIRES: it is subscribed to nothing.
  ~Subscriber();
  // Inside of a poll. It does not join or leave there.
  virtual void hear(const Message& message) noexcept = 0;
  // `limits` say how many bytes may wait for it. Returns whether they may not for long. None do for one that
  // is not subscribed.
  [[nodiscard]] bool look_at_backlog(size_t bytes, const OutputLimits& limits, uint64_t now_ns) noexcept;

 private:
  friend class Board;
  struct Place {
    Hearers* hearers;
    size_t index;  // Among them.
  };
  struct Subscriptions {
    std::array<std::unordered_map<const Topic*, Place>, kTopicKinds> by_kind;
    size_t bytes = 0;
  };

  std::unique_ptr<Subscriptions> subscriptions_;  // Null: there are none.
  uint64_t backlog_since_ns_ = 0;                 // 0: there is none.
  bool is_too_slow_ = false;
};

}  // namespace refract::doors::redis
