// SPDX-License-Identifier: Apache-2.0
// Several keys of one call. Their cache misses overlap as those of a batch of calls do.
#include <algorithm>
#include <array>
#include <cstring>

#include "refract/kv/many_wire.h"
#include "refract/kv/routing.h"
#include "refract/kv/service.h"

namespace refract::kv {

using wire::Method;

namespace {

// An answer as it grows in its room; what does not fit is said to be too large, which always fits.
class ManyAnswers {
 public:
  ManyAnswers(std::span<std::byte> room, size_t keys) noexcept
      : room_(room), left_(room.size() - keys * sizeof(wire::ManyEntry)) {}

  void add(Code code, size_t value_bytes = 0) noexcept {
    append({.version = 0,
            .expires_wall_ns = 0,
            .value_bytes = static_cast<uint32_t>(value_bytes),
            .code = static_cast<uint16_t>(code),
            .reserved = 0});
  }
  void add(const Table::Entry& entry) noexcept {
    if (entry.value.size() > left_) return add(Code::kTooLarge, entry.value.size());
    append({.version = entry.version,
            .expires_wall_ns = entry.expires_wall_ns,
            .value_bytes = static_cast<uint32_t>(entry.value.size()),
            .code = static_cast<uint16_t>(Code::kOk),
            .reserved = 0});
    if (!entry.value.empty()) std::memcpy(room_.data() + used_, entry.value.data(), entry.value.size());
    used_ += entry.value.size();
    left_ -= entry.value.size();
  }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return room_.first(used_); }

 private:
  void append(const wire::ManyEntry& entry) noexcept {
    std::memcpy(room_.data() + used_, &entry, sizeof(entry));
    used_ += sizeof(entry);
  }

  std::span<std::byte> room_;
  size_t used_ = 0;
  size_t left_;  // For values.
};

}  // namespace

void TableService::get_many(const rpc::Responder& to, const Open& session, std::span<const std::byte> body) {
  const auto request = wire::take<wire::GetManyRequest>(body);
  if (!request || request->keys == 0 || request->keys > wire::kKeysPerCall || request->reserved != 0 ||
      request->reserved_end != 0) {
    return answer(to, Code::kMalformed);
  }
  // Out of the sender's reach, before anything is looked at.
  many_room_.resize(std::max(many_room_.size(), body.size() + session.payload_bytes_max));
  const std::span<std::byte> copy = std::span(many_room_).first(body.size());
  if (!body.empty()) copy_possibly_torn(copy.data(), body.data(), body.size());

  std::array<Table::HashedKey, wire::kKeysPerCall> keys;
  std::span<const std::byte> left = copy;
  for (Table::HashedKey& key : std::span(keys).first(request->keys)) {
    const std::span<const std::byte> bytes = wire::take_key(left);
    if (bytes.empty()) return answer(to, Code::kMalformed);
    key = parts_.table.hashed(bytes);
    parts_.table.prefetch_bucket(key.hash);
  }
  if (!left.empty()) return answer(to, Code::kMalformed);
  const auto asked = std::span<const Table::HashedKey>(keys).first(request->keys);
  ops_[static_cast<size_t>(Method::kGet)] += asked.size();
  look_at_uses(asked.size() - 1);
  for (const Table::HashedKey& key : asked) parts_.table.prefetch_buffers(key.hash);

  const std::span<std::byte> room = std::span(many_room_).subspan(body.size(), session.payload_bytes_max);
  ManyAnswers answers(room, asked.size());
  for (const Table::HashedKey& key : asked) {
    if (parts_.shard_count > 1 && shard_of(key.hash, parts_.shard_count) != parts_.shard_index) {
      answers.add(Code::kWrongShard);
      continue;
    }
    const Result<Table::Entry> entry = parts_.table.find(key);
    entry ? answers.add(*entry) : answers.add(entry.error().code);
  }
  answer(to, Code::kOk, {}, answers.bytes());
}

}  // namespace refract::kv
