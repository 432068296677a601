// SPDX-License-Identifier: Apache-2.0
// What a client may write about its pins, as arbitrary bytes: no more is collected than its memory has room
// for, and nothing is read behind its end.
#include <algorithm>
#include <cstring>
#include <vector>

#include "refract/base/check.h"
#include "refract/fabric/shm/connection_memory.h"

using namespace refract;               // NOLINT: a fuzz program has no other names.
using namespace refract::fabric::shm;  // NOLINT

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  uint64_t length = 0;
  std::memcpy(&length, data, std::min(bytes, sizeof(length)));
  if (const size_t tables = pin_tables_in(length); tables > 0) {
    REFRACT_CHECK(tables <= kPinTablesMax && connection_bytes(tables) == length);
  }
  const size_t tables = 1 + length % 5;
  // Exactly as long as it says, so that a look behind the end is found.
  std::vector<uint64_t> memory(connection_bytes(tables) / 8);
  auto& connection = *reinterpret_cast<ConnectionMemory*>(memory.data());
  const size_t rest = bytes - std::min(bytes, sizeof(length));
  if (rest > 0) {
    const uint8_t* from = data + sizeof(length);
    std::memcpy(&connection.client.pin_tables, from, std::min(rest, sizeof(uint64_t)));
    std::memcpy(&connection.pins, from, std::min(rest, sizeof(PinTable)));
    for (size_t table = 1; table < tables; ++table) {
      std::memcpy(&further_pins(connection)[table - 1], from, std::min(rest, sizeof(PinTable)));
    }
  }
  PinSet pins;
  collect_pins(connection, tables, pins);
  REFRACT_CHECK(pins.size() <= tables * kPinsMax);
  return 0;
}
