// SPDX-License-Identifier: Apache-2.0
// The messages of the meeting socket: little-endian structs, one a packet. Worked example:
// docs/formats/shm.md.
//
//   client                                   keeper
//     Hello                            ->
//                                      <-    Welcome + 3 descriptors, or Refused and the end
//                                      <-    Regions + a descriptor each, as many messages as it takes
//     GetRegions (any time)            ->
//                                      <-    Regions + a descriptor each
//                                      <-    ServerChanged (any time): look at the node page
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace refract::fabric::shm {

inline constexpr uint32_t kWireMagic = 0x6d687352;  // The bytes "Rshm".
// versions.cc
extern const uint16_t kWireVersionLowest;
extern const uint16_t kWireVersionHighest;
inline constexpr uint16_t kWireVersionOfLoans = 2;  // The first one with kLend and kTakeBack.

enum class MessageKind : uint16_t {
  kHello = 1,
  kWelcome = 2,
  kRefused = 3,
  kGetRegions = 4,
  kRegions = 5,
  kServerChanged = 6,
};

struct MessageHead {
  uint32_t magic;
  uint16_t kind;
  uint16_t reserved;
};

struct Hello {
  MessageHead head;
  uint16_t version_lowest;
  uint16_t version_highest;
  uint32_t pid;  // For display only; means nothing in another PID namespace.
};

// Carries the node page, the connection memory and the client's end of the doorbell.
struct Welcome {
  MessageHead head;
  uint16_t version;
  uint16_t reserved;
  uint32_t region_count;  // So many rows follow in Regions messages.
  uint64_t connection;
  uint64_t space_bytes_max;
  uint64_t connection_bytes;
};

struct Refused {
  MessageHead head;
  uint32_t code;   // A Code.
  char text[244];  // What and, behind a newline, what to do. Zero-terminated.
};

struct GetRegions {
  MessageHead head;
  uint32_t have;  // Rows that the client knows.
  uint32_t reserved;
};

struct RegionEntry {
  uint64_t base;
  uint64_t bytes;
  uint64_t key;
  uint32_t region;
  uint32_t reserved;
};

inline constexpr size_t kRegionsAMessage = 125;

struct Regions {
  MessageHead head;
  uint32_t first;  // Row of the first entry.
  uint32_t count;
  RegionEntry entry[kRegionsAMessage];  // The packet ends behind the last one that counts.
};

struct ServerChanged {
  MessageHead head;
};

static_assert(sizeof(MessageHead) == 8 && sizeof(Hello) == 16 && sizeof(Welcome) == 40);
static_assert(sizeof(Refused) == 256 && sizeof(GetRegions) == 16 && sizeof(RegionEntry) == 32);
static_assert(offsetof(Regions, entry) == 16);
static_assert(std::has_unique_object_representations_v<Hello> &&
              std::has_unique_object_representations_v<Welcome> &&
              std::has_unique_object_representations_v<Regions>);

[[nodiscard]] constexpr MessageHead head_of(MessageKind kind) noexcept {
  return {kWireMagic, static_cast<uint16_t>(kind), 0};
}

}  // namespace refract::fabric::shm
