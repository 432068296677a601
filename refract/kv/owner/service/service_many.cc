// SPDX-License-Identifier: Apache-2.0
// Several keys of one call. Their cache misses overlap as those of a batch of calls do.
#include <algorithm>
#include <array>
#include <cstring>

#include "refract/kv/layout/many_wire.h"
#include "refract/kv/owner/service/service.h"

namespace refract::kv {

using wire::Method;

namespace {

constexpr auto number_of(Code code) noexcept {
  return static_cast<uint16_t>(code);
}

// An answer to gets as it grows in its room; what does not fit is said to be too large, which always fits.
class ManyAnswers {
 public:
  ManyAnswers(std::span<std::byte> room, size_t keys) noexcept
      : room_(room), left_(room.size() - keys * sizeof(wire::ManyEntry)) {}

  void add(Code code, size_t value_bytes = 0) noexcept {
    append({.version = 0,
            .expires_wall_ns = 0,
            .value_bytes = static_cast<uint32_t>(value_bytes),
            .code = number_of(code),
            .reserved = 0});
  }
  void add(const Table::Sought& entry) noexcept {
    if (entry.code != Code::kOk) return add(entry.code);
    if (entry.value.size() > left_) return add(Code::kTooLarge, entry.value.size());
    append({.version = entry.version,
            .expires_wall_ns = entry.expires_wall_ns,
            .value_bytes = static_cast<uint32_t>(entry.value.size()),
            .code = number_of(Code::kOk),
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
  // Out of the sender's reach, before anything is looked at.
  many_room_.resize(std::max(many_room_.size(), body.size() + session.payload_bytes_max));
  const std::span<std::byte> copy = std::span(many_room_).first(body.size());
  if (!body.empty()) copy_possibly_torn(copy.data(), body.data(), body.size());

  std::span<const std::byte> left = copy;
  const auto asked = std::span(sought_).first(wire::take_count(left));
  for (Table::Sought& key : asked) {
    const auto length = wire::take<wire::KeyLength>(left);
    if (!length || length->bytes == 0 || length->bytes > left.size()) return answer(to, Code::kMalformed);
    parts_.table.seek(wire::take_bytes(left, length->bytes), key);
  }
  if (asked.empty() || !left.empty()) return answer(to, Code::kMalformed);
  executed_ += asked.size() - 1;
  ops_[static_cast<size_t>(Method::kGet)] += asked.size();
  look_at_uses(asked.size() - 1);
  parts_.table.find(asked);

  const std::span<std::byte> room = std::span(many_room_).subspan(body.size(), session.payload_bytes_max);
  ManyAnswers answers(room, asked.size());
  for (const Table::Sought& entry : asked) {
    is_ours(entry.key) ? answers.add(entry) : answers.add(Code::kWrongShard);
  }
  answer(to, Code::kOk, {}, answers.bytes());
}

// Keys are taken out of the sender's reach; values stay where they are, for nothing depends on their bytes.
// What is not done at once has changed nothing, and its caller puts it alone: there it waits for memory, or
// is told why not.
void TableService::put_many(const rpc::Responder& to, std::span<const std::byte> body) {
  struct One {
    std::span<const std::byte> value;
    uint64_t ttl_ns = 0;
  };
  std::array<One, wire::kKeysPerCall> ones;
  many_room_.resize(std::max(many_room_.size(), body.size()));
  std::byte* room = many_room_.data();
  const auto asked = std::span(sought_).first(wire::take_count(body));
  for (size_t i = 0; i < asked.size(); ++i) {
    const auto put = wire::take<wire::PutOfMany>(body);
    const bool is_sound = put && put->key_bytes != 0 && put->reserved == 0 && put->key_bytes <= body.size() &&
                          put->value_bytes <= body.size() - put->key_bytes;
    if (!is_sound) return answer(to, Code::kMalformed);
    const std::span<const std::byte> key = wire::take_bytes(body, put->key_bytes);
    copy_possibly_torn(room, key.data(), key.size());
    parts_.table.seek({room, key.size()}, asked[i]);
    ones[i] = {.value = wire::take_bytes(body, put->value_bytes), .ttl_ns = put->ttl_ns};
    room += key.size();
  }
  if (asked.empty() || !body.empty()) return answer(to, Code::kMalformed);
  executed_ += asked.size() - 1;
  ops_[static_cast<size_t>(Method::kPut)] += asked.size();
  look_at_uses(asked.size() - 1);
  const uint64_t places_moved = parts_.table.fetch(asked);

  std::array<wire::ManyVersion, wire::kKeysPerCall> versions{};
  for (size_t i = 0; i < asked.size(); ++i) {
    if (!is_ours(asked[i].key)) {
      versions[i].code = number_of(Code::kWrongShard);
      continue;
    }
    const uint64_t expires_wall_ns = writes::expiry(parts_.shard.clock(), ones[i].ttl_ns);
    const Result<uint64_t> version =
        parts_.table.put(asked[i], ones[i].value, {.expires_wall_ns = expires_wall_ns}, places_moved);
    versions[i].version = version.value_or(0);
    versions[i].code = number_of(version ? Code::kOk : Code::kOverloaded);
  }
  const auto reply = std::as_bytes(std::span(versions).first(asked.size()));
  if (!keeps_reply(to, reply)) answer(to, Code::kOk, reply);
}

}  // namespace refract::kv
