// SPDX-License-Identifier: Apache-2.0
// How the memory of one connection lies: a page that the client writes, a page that the server writes, the
// client's pins, what it has read, and a ring each way; behind them further tables of pins, where the shard
// is one whose clients hold many. Picture and worked example: docs/formats/shm.md.
//
// The keeper makes it, sealed against changes of its length, and allocated but for the further tables, which
// the client takes as it uses them; client and server both map it writable. Neither trusts what the other can
// write: each keeps private copies of what it wrote and never reads them back, and checks what it reads.
// Every field is a 64-bit word, stored with publish_u64 or announce_u64.
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
  uint64_t pin_tables;        // How many tables of pins are in use. 0: one.
  uint64_t reserved[507];
};
static_assert(sizeof(ClientPage) == 4096 && offsetof(ClientPage, asleep) == 16 &&
              offsetof(ClientPage, pin_tables) == 32);

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

// With one table of pins. Each further one lies behind it.
inline constexpr size_t kConnectionBytes = sizeof(ConnectionMemory);
static_assert(kConnectionBytes % sizeof(PinTable) == 0);
// For 65,536 pins and some more.
inline constexpr size_t kPinTablesMax = 258;
static_assert(kPinTablesMax * kPinsMax >= 65'536);

[[nodiscard]] constexpr size_t connection_bytes(size_t pin_tables) noexcept {
  return kConnectionBytes + (pin_tables - 1) * sizeof(PinTable);
}
// How many tables a memory of this length has; 0: no connection's has this length.
[[nodiscard]] constexpr size_t pin_tables_in(uint64_t bytes) noexcept {
  if (bytes < kConnectionBytes || (bytes - kConnectionBytes) % sizeof(PinTable) != 0) return 0;
  const uint64_t more = (bytes - kConnectionBytes) / sizeof(PinTable);
  return more < kPinTablesMax ? static_cast<size_t>(more) + 1 : 0;
}
// The tables behind the first, which is `pins`.
[[nodiscard]] inline PinTable* further_pins(ConnectionMemory& memory) noexcept {
  return reinterpret_cast<PinTable*>(&memory + 1);
}
[[nodiscard]] inline const PinTable* further_pins(const ConnectionMemory& memory) noexcept {
  return reinterpret_cast<const PinTable*>(&memory + 1);
}
// Adds the pins of all tables in use, of which the memory has so many. The client, which is not trusted, says
// how many are in use.
void collect_pins(const ConnectionMemory& memory, size_t pin_tables, PinSet& pins) noexcept;

}  // namespace refract::fabric::shm
