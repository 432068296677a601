// SPDX-License-Identifier: Apache-2.0
// Memory that the device may reach: registrations that end with their owner, the regions that a domain
// serves, and which of the caller's own bytes need no bounce.
//
// A region has one registration, or as many as the device's largest one asks for. Device addresses are
// offsets in the region, so that a peer learns nothing of our address space; those of memory that begins
// inside of a page begin there, since a device wants both at one place of a page. The rights of a
// registration are exactly the region's: a client that is admitted and guesses the 32 bits of a device key
// gets what any admitted client gets by asking. Control path, except find_local() and find(), which allocate
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/fabric/channel.h"
#include "refract/fabric/verbs/wire.h"

struct ibv_mr;  // NOLINT(readability-identifier-naming)

namespace refract::fabric::verbs {

class OpenDevice;

class Registration {
 public:
  struct Wanted {
    std::span<std::byte> bytes;
    Rights rights;
    uint64_t first = 0;            // The offset of its first byte: Domain::RegionSpec.
    uint64_t chunk_bytes_max = 0;  // 0: what the device allows.
  };
  // kNoSpace, kUnsupported or kInvalidArgument, with the sentence that mends it.
  [[nodiscard]] static Reported<Registration> make(const OpenDevice& device, const Wanted& wanted);
  Registration() noexcept = default;
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] uint64_t chunk_bytes() const noexcept { return chunk_bytes_; }
  [[nodiscard]] std::span<const uint32_t> remote_keys() const noexcept { return remote_keys_; }
  [[nodiscard]] uint32_t local_key(uint64_t offset) const noexcept {
    return local_keys_[offset / chunk_bytes_];
  }

 private:
  const OpenDevice* device_ = nullptr;
  std::span<std::byte> bytes_;
  uint64_t chunk_bytes_ = 0;
  std::vector<ibv_mr*> chunks_;
  std::vector<uint32_t> local_keys_;
  std::vector<uint32_t> remote_keys_;
};

// How a work request names bytes of this process: their address for the device, and its key.
struct LocalPlace {
  uint64_t address = 0;
  uint32_t key = 0;
  uint64_t bytes =
      0;  // That lie behind each other under this key, at most those asked for. 0: not registered.
};

class ServedRegions {
 public:
  // `device` outlives this; what is served ends with it. While the device is closed, regions are only noted.
  explicit ServedRegions(const OpenDevice& device) noexcept : device_(&device) {}

  [[nodiscard]] Reported<> add(const Domain::RegionSpec& spec, RemoteKey key, uint64_t chunk_bytes_max);
  // False: there is none.
  bool remove(uint16_t region) noexcept;
  // Before the device is closed, and after it has been opened again: the same regions, with other device
  // keys.
  void suspend() noexcept;
  [[nodiscard]] Reported<> resume();
  [[nodiscard]] size_t count() const noexcept { return rows_.size(); }

  struct Row {
    Domain::RegionSpec spec;
    RemoteKey key;
    uint64_t chunk_bytes_max = 0;
    Registration registration;
  };
  // Null: no such region, or not with this key.
  [[nodiscard]] const Row* find(uint16_t region, RemoteKey key) const noexcept;
  [[nodiscard]] LocalPlace find_local(const std::byte* data, uint64_t bytes) const noexcept;

 private:
  [[nodiscard]] Reported<> make(Row& row) const;

  const OpenDevice* device_;
  std::vector<Row> rows_;  // By their place in memory.
};

}  // namespace refract::fabric::verbs
