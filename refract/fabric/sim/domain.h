// SPDX-License-Identifier: Apache-2.0
// A host's share of the simulated network, and one end of a connection as its owner sees it.
//
// Private to the simulator; others use them as fabric::Domain and fabric::Channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "refract/fabric/channel.h"
#include "refract/fabric/region_table.h"
#include "refract/fabric/sim/network.h"

namespace refract::sim {

class SimChannel final : public fabric::Channel {
 public:
  enum class State : uint8_t { kOpening, kOpen, kDead };

  SimChannel(SimDomain* domain, Connection* connection, uint8_t end);
  SimChannel(const SimChannel&) = delete;
  SimChannel& operator=(const SimChannel&) = delete;
  ~SimChannel() override;

  [[nodiscard]] size_t post(std::span<const fabric::Request> requests) noexcept override;
  [[nodiscard]] size_t room() const noexcept override;
  [[nodiscard]] const fabric::Capabilities& capabilities() const noexcept override;
  void close() noexcept override;

  // The provider's side.
  void opened() noexcept;
  // All that is outstanding fails; then comes the last completion, with `code`.
  void give_up(Code code) noexcept;
  // A request has come back.
  void finish(Packet* packet) noexcept;
  // May make the channel seem fuller than it is until the next poll.
  void draw_room() noexcept;
  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] bool accepted() const noexcept { return end_ == 1; }

 private:
  friend class SimDomain;

  void take(const fabric::Request& request) noexcept;
  void complete_now(const fabric::Request& request, Code code) noexcept;

  SimDomain* domain_;
  Connection* connection_;
  uint8_t end_;
  State state_ = State::kOpening;
  bool was_open_ = false;
  bool closed_here_ = false;  // Messages that come after close() are not wanted.
  Code last_code_ = Code::kOk;
  size_t squeeze_ = 0;      // Places that seem taken.
  bool said_last_ = false;  // Its last completion has been polled: destroyed at the next poll.
  std::vector<Packet*> outstanding_;
  size_t ready_count_ = 0;    // Its completions in the domain's queue.
  uint64_t poll_number_ = 0;  // The poll that `messages_left_` counts for.
  size_t messages_left_ = 0;
};

class SimDomain final : public fabric::Domain {
 public:
  SimDomain(Host* host, Network* network);
  SimDomain(const SimDomain&) = delete;
  SimDomain& operator=(const SimDomain&) = delete;
  ~SimDomain() override;

  [[nodiscard]] std::string_view provider() const noexcept override { return "sim"; }
  [[nodiscard]] size_t poll(std::span<fabric::Completion> completions) noexcept override;
  void flush() noexcept override;
  [[nodiscard]] Reported<RemoteKey> register_region(const RegionSpec& spec) override;
  uint64_t revoke_region(uint16_t region) noexcept override;
  [[nodiscard]] Reported<fabric::Channel*> connect(std::string_view address) override;

  [[nodiscard]] bool prepare_sleep() noexcept override;

  // The provider's side.
  SimChannel& accept(Connection& connection);
  void deliver(Packet* message, SimChannel& channel) noexcept;
  void push(const fabric::Completion& completion, SimChannel& channel) noexcept;
  // Where a one-sided request may touch; null: it may not.
  [[nodiscard]] std::byte* admit(const Packet& packet) const noexcept;
  // A WRITE is through.
  void count_written(const Packet& packet) noexcept {
    regions_.count_written(packet.remote.address.region(), packet.bytes);
  }
  // A READ's answer. In memory that others see it is one more of the owner's stores.
  void land(std::span<const std::byte> bytes, std::byte* target) noexcept;
  // The process is dead; nothing it does reaches a peer.
  void silence() noexcept { silent_ = true; }

 private:
  friend class SimChannel;

  struct Ready {
    fabric::Completion completion;
    SimChannel* channel = nullptr;
    Packet* message = nullptr;  // Null: not a message.
  };

  [[nodiscard]] const WorldOptions& options() const noexcept;
  [[nodiscard]] bool may_deliver(SimChannel& channel) noexcept;
  [[nodiscard]] size_t say_last_words(std::span<fabric::Completion> completions) noexcept;
  void end_previous_poll() noexcept;

  Host* host_;
  Network* network_;
  fabric::Capabilities capabilities_;
  bool silent_ = false;
  uint64_t poll_number_ = 0;
  std::vector<std::unique_ptr<SimChannel>> channels_;
  std::vector<Ready> ready_;
  std::vector<Packet*> staged_;
  std::vector<Packet*> held_;  // Messages whose bytes the last poll handed out.
  fabric::RegionTable regions_;
};

}  // namespace refract::sim
