// SPDX-License-Identifier: Apache-2.0
// The client's side of the meeting: from a path to the node page, the connection memory, a doorbell and the
// mapped regions; afterwards further regions. Nothing here waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "refract/base/report.h"
#include "refract/fabric/shm/connection_memory.h"
#include "refract/fabric/shm/descriptors.h"
#include "refract/fabric/shm/domain.h"
#include "refract/fabric/shm/node_page.h"
#include "refract/fabric/shm/wire.h"
#include "refract/memory/host/address_space.h"

namespace refract::fabric::shm {

class ClientAttachment {
 public:
  enum class Progress : uint8_t { kNothing, kSomething, kEnded };

  ClientAttachment(std::string path, const ClientOptions& options)
      : path_(std::move(path)), options_(options) {}

  // Connects and says Hello; a busy listener is tried again by step.
  [[nodiscard]] Reported<> begin();
  // Reads what the keeper sent. kEnded: it is over, and failure() says why.
  [[nodiscard]] Progress step();
  // Everything that Welcome promised has come.
  [[nodiscard]] bool complete() const noexcept { return welcomed_ && regions_.size() >= regions_promised_; }
  [[nodiscard]] const Report& failure() const noexcept { return failure_; }

  // False: the keeper offers no more than is mapped, or cannot be asked.
  [[nodiscard]] bool ask_for_regions() noexcept;
  [[nodiscard]] bool has_unmapped_regions() const noexcept;
  // Hangs up on the keeper and the server.
  void end() noexcept;

  [[nodiscard]] int control() const noexcept { return control_.get(); }
  [[nodiscard]] int doorbell() const noexcept { return doorbell_.get(); }
  // REQUIRES: complete (likewise below).
  [[nodiscard]] uint16_t version() const noexcept { return version_; }
  [[nodiscard]] uint64_t id() const noexcept { return id_; }
  [[nodiscard]] const NodePage& node_page() const noexcept {
    return *reinterpret_cast<const NodePage*>(page_.data());
  }
  [[nodiscard]] ConnectionMemory& memory() const noexcept {
    return *reinterpret_cast<ConnectionMemory*>(memory_.data());
  }
  // Behind the first one, which is memory()'s. Their memory is taken by the first use.
  [[nodiscard]] std::span<PinTable> further_pin_tables() const noexcept {
    return {further_pins(memory()), pin_tables_in(memory_.bytes()) - 1};
  }
  [[nodiscard]] const std::byte* space() const noexcept { return space_.base(); }
  [[nodiscard]] uint64_t mapped_bytes() const noexcept {
    return regions_.empty() ? 0 : regions_.back().base + regions_.back().bytes;
  }
  [[nodiscard]] std::span<const OfferedRegion> regions() const noexcept { return regions_; }
  // The bytes at `address` as mapped here; null: not mapped, or another key.
  [[nodiscard]] const std::byte* find(RemotePointer address, RemoteKey key, uint64_t bytes) const noexcept;

 private:
  [[nodiscard]] bool take(std::span<const std::byte> message, std::span<Descriptor> descriptors);
  [[nodiscard]] bool take_welcome(const Welcome& welcome, std::span<Descriptor> descriptors);
  [[nodiscard]] bool take_regions(const Regions& message, std::span<Descriptor> descriptors);
  [[nodiscard]] bool map_region(const RegionEntry& entry, int fd);
  [[nodiscard]] bool refused(const Refused& refused);
  [[nodiscard]] bool broken(Code code, std::string what);

  std::string path_;
  ClientOptions options_;
  Descriptor control_;
  Descriptor doorbell_;
  Mapping page_;
  Mapping memory_;
  AddressSpace space_;
  uint64_t space_bytes_ = 0;
  uint64_t id_ = 0;
  uint16_t version_ = 0;
  bool welcomed_ = false;
  size_t regions_promised_ = 0;
  std::vector<OfferedRegion> regions_;
  Report failure_{Code::kUnavailable, "the node has gone away", ""};
};

}  // namespace refract::fabric::shm
