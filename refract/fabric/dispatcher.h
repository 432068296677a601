// SPDX-License-Identifier: Apache-2.0
// Brings what comes out of a domain to the one that waits for it: completions of requests to the shard's
// operations, messages to the Receiver of their channel.
//
// Messages of one poll that stand behind each other and have the same receiver arrive in one call, so that a
// server can prefetch for all of them before it works on the first. At the end of each turn the domain is
// flushed: what was posted meanwhile leaves together.
//
// Ownership: the dispatcher owns Channel::context, which points to the Endpoint of the attached owner.
// Threads: used only by its shard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "refract/fabric/channel.h"
#include "refract/runtime/shard.h"

namespace refract::fabric {

class Receiver {
 public:
  virtual ~Receiver() = default;
  // The bytes are valid during the call and until the shard's next poll; the peer may still be changing them.
  virtual void on_messages(std::span<const Completion> messages) noexcept = 0;
  // The channel is ready, or `code` says why it never will be (then the endpoint is empty already).
  virtual void on_opened(Channel& channel, Code code) noexcept;
  // The channel's last sign; the endpoint is empty already. Or the provider is reconnecting: then the
  // endpoint still has its channel, posts fail, and on_opened or another on_closed follows.
  virtual void on_closed(Channel& channel, Code code) noexcept;
};

// A channel in its owner's hands. `channel` becomes null when the channel has closed or failed to open, so
// that a coroutine that waits for something else never holds a dead pointer. Outlives the channel, or is
// detached before.
struct Endpoint {
  Channel* channel = nullptr;
  Receiver* receiver = nullptr;
};

// From now on the channel's messages go to `endpoint.receiver`.
void attach(Channel& channel, Endpoint& endpoint) noexcept;
// Messages still to come are dropped; the channel itself is not closed.
void detach(Endpoint& endpoint) noexcept;

class Dispatcher final : public runtime::Poller {
 public:
  // Adds itself to the shard. `accepted` receives for the channels that peers open; null: there are none, and
  // a channel that comes anyway is closed. Domain, shard and receiver must outlive the dispatcher.
  Dispatcher(Domain& domain, runtime::Shard& shard, Receiver* accepted = nullptr);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;
  ~Dispatcher() override;

  size_t poll() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void woke() noexcept override { domain_->woke(); }
  [[nodiscard]] std::string_view name() const noexcept override { return domain_->provider(); }

  [[nodiscard]] Domain& domain() noexcept { return *domain_; }
  [[nodiscard]] runtime::Shard& shard() noexcept { return *shard_; }

  struct Counts {
    uint64_t failed_silent = 0;     // Requests without a token that failed.
    uint64_t dropped_messages = 0;  // Messages of detached channels.
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  static constexpr size_t kBatch = 64;

  [[nodiscard]] Receiver* receiver_of(const Channel& channel) const noexcept;
  void deliver(std::span<const Completion> messages, Receiver* receiver) noexcept;
  void change_state(const Completion& completion) noexcept;
  void watch_descriptors() noexcept;

  Domain* domain_;
  runtime::Shard* shard_;
  Receiver* accepted_;
  Counts counts_;
  std::vector<int> watched_;
  std::array<Completion, kBatch> completions_;
};

}  // namespace refract::fabric
