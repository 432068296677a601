// SPDX-License-Identifier: Apache-2.0
// One link to the shard of a node that has its objects: reading them directly where the provider maps the
// shard's memory here, and the calls to their owner. Handles hold its pins.
//
// Threads: used only by its runtime shard, except let_go().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "refract/client/link/pinning_link.h"
#include "refract/client/link/transport.h"
#include "refract/client/types.h"
#include "refract/kv/calls/lender.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/memory/store_time.h"
#include "refract/memory/wide_pins.h"
#include "refract/object/calls/object_calls.h"
#include "refract/object/direct/direct_objects.h"

namespace refract::client {

class ObjectLink final : public PinningLink {
 public:
  using Reader = object::DirectObjects<kv::MappedMemory>;
  using Owned = std::unique_ptr<ObjectLink, Retire>;

  // Begins to connect; poll the shard until state() is another than kConnecting.
  [[nodiscard]] static Reported<Owned> begin(runtime::Shard& shard, const TransportRow& row,
                                             const TransportRequest& request, Paths paths);
  ObjectLink(const ObjectLink&) = delete;
  ObjectLink& operator=(const ObjectLink&) = delete;

  // As PinningLink's, of pins of reader().
  void let_go(int pin) noexcept {
    if (!is_child() && wide_pins_->let_go(pin)) [[unlikely]]
      end_of_a_holder();
  }
  // Null: objects are fetched by calls.
  [[nodiscard]] Reader* reader() const noexcept { return reader_; }
  [[nodiscard]] const std::byte* at(uint64_t offset) const noexcept { return memory_->at(Offset{offset}); }
  // The node has said that it shares its objects with no other.
  bool shares_nothing = false;
  // Whether an object that is not here may be on another node.
  [[nodiscard]] bool shares_objects() const noexcept { return transport().shares_objects(); }
  // Maps what the node has grown by. False: nothing new. May wait some milliseconds.
  [[nodiscard]] bool refresh() noexcept;
  // Tells the node that an object was read, where it wants to know. Costs it nothing.
  void note_use(uint64_t object_at) noexcept {
    if (uses_left_ == 0) return;
    --uses_left_;
    if (uses_left_ == 0) write_use(object_at);
  }

  // Of one message.
  [[nodiscard]] uint64_t timeout_ns() const noexcept { return timeout_ns_; }
  // What the owner said with its last kNoSpace.
  [[nodiscard]] const std::optional<object::wire::NoSpaceReply>& no_space() const noexcept {
    return calls_.no_space();
  }
  [[nodiscard]] const std::vector<std::string>& away() const noexcept { return calls_.away(); }
  [[nodiscard]] object::ObjectCalls& calls() noexcept { return calls_; }

 private:
  ObjectLink(runtime::Shard& shard, const TransportRow& row, const TransportRequest& request, Paths paths,
             std::unique_ptr<Transport> transport);
  ~ObjectLink() override = default;
  void leave() noexcept override {}
  [[nodiscard]] size_t retire_pins() noexcept override {
    return wide_pins_ == nullptr ? 0 : wide_pins_->retire();
  }
  void come_up() override;
  void note_change() noexcept override;
  void end() noexcept override;
  [[nodiscard]] bool can_read_alone() const noexcept override { return reader_ != nullptr; }
  void write_use(uint64_t object_at) noexcept;

  uint64_t timeout_ns_;
  Paths paths_;
  kv::Lender lender_;  // Over the transport's domain.
  object::ObjectCalls calls_;
  WidePins* wide_pins_ = nullptr;  // The transport's; null: there are none.
  std::optional<kv::MappedMemory> memory_;
  std::optional<StoreClock> store_clock_;
  std::optional<Reader> reader_memory_;
  Reader* reader_ = nullptr;
  uint64_t uses_left_ = 0;     // Reads until one is written down; 0: none is.
  UseWriter* uses_ = nullptr;  // Where. Set once some are.
};

}  // namespace refract::client
