// SPDX-License-Identifier: Apache-2.0
// How the memory of one connection lies: a page that the client writes, a page that the server writes, the
// client's pins, what it has read, and a ring each way. Picture and worked example: docs/formats/shm.md.
//
// The keeper makes it, allocated and sealed against changes of its length; client and server both map it
// writable. Neither trusts what the other can write: each keeps private copies of what it wrote and never
// reads them back, and checks what it reads. Every field is a 64-bit word, stored with publish_u64 or
// announce_u64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "refract/memory/pins.h"
#include "refract/memory/uses.h"

namespace refract::fabric::shm {

inline constexpr size_t kRingBytes = size_t{256} * 1024;
inline constexpr size_t kMessageBytesMax = size_t{32} * 1024;

struct ClientPage {
  uint64_t ring_incarnation;  // Of the server for which the client last reset both rings. 0: not yet.
  uint64_t reply_consumed;    // Bytes taken out of the reply ring since then.
  uint64_t asleep;            // Not 0: ring the client's doorbell.
  uint64_t wants_room;        // Not 0: ring also when room in the request ring comes free.
  uint64_t reserved[508];
};
static_assert(sizeof(ClientPage) == 4096 && offsetof(ClientPage, asleep) == 16);

struct ServerPage {
  uint64_t request_consumed;  // Bytes taken out of the request ring.
  uint64_t parked;            // Not 0: the server looks at this ring only when its doorbell rings.
  uint64_t wants_room;        // Not 0: ring also when room in the reply ring comes free.
  uint64_t reserved[509];
};
static_assert(sizeof(ServerPage) == 4096 && offsetof(ServerPage, parked) == 8);

struct ConnectionMemory {
  ClientPage client;
  ServerPage server;
  PinTable pins;
  UseTable uses;
  std::byte requests[kRingBytes];  // Client to server.
  std::byte replies[kRingBytes];   // Server to client.
};
static_assert(offsetof(ConnectionMemory, server) == 4096 && offsetof(ConnectionMemory, pins) == 8192);
static_assert(offsetof(ConnectionMemory, uses) == 12288);
static_assert(offsetof(ConnectionMemory, requests) == 16384);
static_assert(offsetof(ConnectionMemory, replies) == 16384 + kRingBytes);
static_assert(sizeof(ConnectionMemory) == 16384 + 2 * kRingBytes);
static_assert(std::is_trivially_copyable_v<ConnectionMemory>);
static_assert(std::has_unique_object_representations_v<ConnectionMemory>);

inline constexpr size_t kConnectionBytes = sizeof(ConnectionMemory);

}  // namespace refract::fabric::shm
