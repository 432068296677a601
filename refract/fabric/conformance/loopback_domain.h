// SPDX-License-Identifier: Apache-2.0
// The smallest provider: domains of one thread that reach each other by name through a hub. For tests of what
// stands above the fabric, and as the example to start a new provider from.
//
// What a channel posts lies in its own fixed ring until the domain flushes; then the peer's poll takes it,
// executes the one-sided requests on the peer's regions and hands the messages out. Nothing is torn, lost or
// late.
//
// Threads: all domains of one hub are used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "refract/fabric/channel.h"
#include "refract/fabric/region_table.h"

namespace refract::fabric {

struct LoopbackOptions {
  uint32_t depth = 32;
  uint32_t message_bytes_max = 2048;  // A multiple of 8; the same at both ends.
  // What the channels say of themselves: nothing changes by it here.
  uint32_t one_sided_bytes_min = 0;
  bool reads_bypass_cpu = false;  // At either end.
  bool messages_are_stores = false;
};

class LoopbackDomain;

// Where domains find each other. Must outlive them.
class LoopbackHub {
 public:
  [[nodiscard]] LoopbackDomain* find(std::string_view address) const noexcept;

 private:
  friend class LoopbackDomain;
  std::vector<LoopbackDomain*> domains_;
};

class LoopbackChannel final : public Channel {
 public:
  LoopbackChannel(LoopbackDomain& domain, const LoopbackOptions& options, bool accepted);

  [[nodiscard]] size_t post(std::span<const Request> requests) noexcept override;
  [[nodiscard]] size_t room() const noexcept override { return capabilities_.depth - in_flight(); }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
  void close() noexcept override;

 private:
  friend class LoopbackDomain;

  struct Record {
    Request request;
    size_t bytes = 0;       // Of a message; they lie in messages_, at the record's place.
    Code code = Code::kOk;  // Another one: the request failed already when it was posted.
  };
  enum class State : uint8_t { kOpening, kOpen, kClosing, kDead };

  [[nodiscard]] size_t in_flight() const noexcept {
    return static_cast<size_t>((tail_ - head_) + (completed_tail_ - completed_head_));
  }
  [[nodiscard]] std::byte* message_at(uint64_t index) noexcept;
  [[nodiscard]] bool has_work() const noexcept;
  void lose_peer() noexcept;
  void complete(const Record& record, Code code, uint64_t value) noexcept;
  size_t take_from_peer(std::span<Completion> completions) noexcept;
  size_t poll(std::span<Completion> completions) noexcept;

  LoopbackDomain* domain_;
  Capabilities capabilities_;
  bool accepted_;
  State state_ = State::kOpening;
  bool peer_should_look_ = false;
  LoopbackChannel* peer_ = nullptr;  // Null: lost.
  // Posted and not yet taken by the peer: [head_, tail_), of which [head_, flushed_) has left.
  std::vector<Record> records_;
  uint64_t head_ = 0;
  uint64_t flushed_ = 0;
  uint64_t tail_ = 0;
  std::vector<Completion> completed_;
  uint64_t completed_head_ = 0;
  uint64_t completed_tail_ = 0;
  std::unique_ptr<std::byte[]> messages_;
  std::unique_ptr<std::byte[]> received_;  // What the last poll handed out.
};

class LoopbackDomain final : public Domain {
 public:
  LoopbackDomain(LoopbackHub& hub, std::string address, const LoopbackOptions& options = {});
  ~LoopbackDomain() override;
  LoopbackDomain(const LoopbackDomain&) = delete;
  LoopbackDomain& operator=(const LoopbackDomain&) = delete;

  [[nodiscard]] std::string_view provider() const noexcept override { return "loopback"; }
  [[nodiscard]] size_t poll(std::span<Completion> completions) noexcept override;
  void flush() noexcept override;
  [[nodiscard]] Reported<RemoteKey> register_region(const RegionSpec& spec) override;
  uint64_t revoke_region(uint16_t region) noexcept override;
  [[nodiscard]] Reported<Channel*> connect(std::string_view address) override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void woke() noexcept override;
  [[nodiscard]] std::span<const int> wake_descriptors() const noexcept override { return {&wake_fd_, 1}; }

  [[nodiscard]] std::string_view address() const noexcept { return address_; }

 private:
  friend class LoopbackChannel;

  [[nodiscard]] Code execute(const Request& request, uint64_t& old_value) noexcept;
  LoopbackChannel& add_channel(bool accepted);
  void wake() noexcept;

  LoopbackHub* hub_;
  std::string address_;
  LoopbackOptions options_;
  RegionTable regions_;
  std::vector<std::unique_ptr<LoopbackChannel>> channels_;
  size_t first_ = 0;  // Which is polled first; goes round, so that no channel starves another.
  int wake_fd_;
  bool asleep_ = false;
};

}  // namespace refract::fabric
