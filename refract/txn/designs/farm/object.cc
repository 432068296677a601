// SPDX-License-Identifier: Apache-2.0
#include "refract/txn/designs/farm/object.h"

#include <array>
#include <cstring>

namespace refract::txn::farm {

using designs::Bytes;

std::optional<Object> object_in(Bytes bytes, bool checks_lines) {
  ObjectHeader first{};
  if (bytes.size() < kLineBytes || bytes.size() % kLineBytes != 0) return std::nullopt;
  std::memcpy(&first, bytes.data(), sizeof(first));
  Object object;
  object.header = {first.header};
  const uint64_t payload_bytes = uint64_t{first.key_bytes} + first.value_bytes;
  if (object.header.is_locked() || object_bytes_for(payload_bytes) > bytes.size()) return std::nullopt;
  std::vector<std::byte> payload;
  payload.reserve(bytes.size());
  const Bytes begin = bytes.subspan(sizeof(first), kFirstBytes);
  payload.insert(payload.end(), begin.begin(), begin.end());
  for (uint64_t at = kLineBytes; at < bytes.size(); at += kLineBytes) {
    uint16_t version = 0;
    std::memcpy(&version, bytes.data() + at, sizeof(version));
    if (checks_lines && version != object.header.of_lines()) return std::nullopt;
    const Bytes rest = bytes.subspan(at + sizeof(version), kNextBytes);
    payload.insert(payload.end(), rest.begin(), rest.end());
  }
  const Bytes all = payload;
  const Bytes key = all.first(first.key_bytes);
  const Bytes value = all.subspan(first.key_bytes, first.value_bytes);
  object.key.assign(key.begin(), key.end());
  object.value.assign(value.begin(), value.end());
  return object;
}

void store_object(Writer& writer, uint64_t object_bytes, const Fresh& fresh, const StoreRules& rules) {
  std::vector<std::byte> payload(fresh.key.begin(), fresh.key.end());
  payload.insert(payload.end(), fresh.value.begin(), fresh.value.end());
  payload.resize(kFirstBytes + (object_bytes / kLineBytes - 1) * kNextBytes);
  if (!rules.unlocks_at_last) writer.publish(fresh.at, fresh.version);
  const uint64_t end = fresh.at.value + object_bytes;
  for (uint64_t line = fresh.at.value + kLineBytes; line < end && rules.hides_versions; line += kLineBytes) {
    writer.publish({line}, writer.load({line}) & ~uint64_t{UINT16_MAX});
  }
  const std::array<uint32_t, 2> lengths = {static_cast<uint32_t>(fresh.key.size()),
                                           static_cast<uint32_t>(fresh.value.size())};
  writer.copy(fresh.at.plus(sizeof(uint64_t)), std::as_bytes(std::span(lengths)));
  writer.copy(fresh.at.plus(sizeof(ObjectHeader)), Bytes(payload).first(kFirstBytes));
  // The first word of a line has its version beside six bytes, so these are stored with the version.
  constexpr uint64_t kBeside = sizeof(uint64_t) - sizeof(uint16_t);
  for (const bool is_version : {false, true}) {
    uint64_t from = kFirstBytes;
    for (uint64_t line = fresh.at.value + kLineBytes; line < end; line += kLineBytes, from += kNextBytes) {
      const Bytes bytes = Bytes(payload).subspan(from, kNextBytes);
      if (!is_version) {
        writer.copy({line + sizeof(uint64_t)}, bytes.subspan(kBeside));
        continue;
      }
      uint64_t word = 0;
      std::memcpy(&word, bytes.data(), kBeside);
      writer.publish({line}, word << 16 | Header{fresh.version}.of_lines());
    }
  }
  const uint64_t lock = fresh.stays_locked ? Header::kLock : 0;
  if (rules.unlocks_at_last) writer.publish(fresh.at, fresh.version | lock);
}

}  // namespace refract::txn::farm
