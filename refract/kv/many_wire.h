// SPDX-License-Identifier: Apache-2.0
// kGetMany: several keys in one call and one answer, for those who have many small gets under way at once:
// what a message costs at both ends is then shared by all of them. docs/design/037-gets-together.md.
//
// Included by both ends; as wire.h, whatever comes from the peer is copied out once and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "refract/base/result.h"
#include "refract/kv/layout.h"
#include "refract/kv/wire.h"

namespace refract::kv::wire {

// As many as the owner works on at once; more in one call would only make others wait.
inline constexpr size_t kKeysPerCall = 16;

struct GetManyRequest {  // | KeyLength | key, so many times; each at any alignment.
  uint16_t keys;         // 1 to kKeysPerCall.
  uint16_t reserved;
  uint32_t reserved_end;
};
static_assert(sizeof(GetManyRequest) == 8 && offsetof(GetManyRequest, reserved_end) == 4);

struct KeyLength {
  uint16_t bytes;  // Not 0.
};
static_assert(sizeof(KeyLength) == 2);

// The answer has one for each key, in their order.
struct ManyEntry {  // | value, where code is kOk.
  uint64_t version;
  uint64_t expires_wall_ns;  // 0: never.
  uint32_t value_bytes;      // With kTooLarge, too.
  uint16_t code;             // A number of codes.def. kTooLarge: it fits this answer no more, get it alone.
  uint16_t reserved;
};
static_assert(sizeof(ManyEntry) == 24 && offsetof(ManyEntry, value_bytes) == 16 &&
              offsetof(ManyEntry, code) == 20);

// The longest key of which kKeysPerCall fit a body.
[[nodiscard]] constexpr size_t many_key_bytes_max(size_t body_bytes_max) noexcept {
  return (body_bytes_max - sizeof(GetManyRequest)) / kKeysPerCall - sizeof(KeyLength);
}
static_assert(many_key_bytes_max(kBodyBytesMin) >= 16);

// Puts a call's body together in the caller's room.
class GetManyBody {
 public:
  // `room` holds what is added.
  explicit GetManyBody(std::span<std::byte> room) noexcept : room_(room) {}

  void add(std::span<const std::byte> key) noexcept {
    const KeyLength length{static_cast<uint16_t>(key.size())};
    std::memcpy(room_.data() + used_, &length, sizeof(length));
    std::memcpy(room_.data() + used_ + sizeof(length), key.data(), key.size());
    used_ += sizeof(length) + key.size();
    ++keys_;
  }
  [[nodiscard]] std::span<const std::byte> bytes() noexcept {
    const GetManyRequest request{.keys = keys_, .reserved = 0, .reserved_end = 0};
    std::memcpy(room_.data(), &request, sizeof(request));
    return room_.first(used_);
  }

 private:
  std::span<std::byte> room_;
  size_t used_ = sizeof(GetManyRequest);
  uint16_t keys_ = 0;
};

// The next key of a body that nobody changes any more; empty: there is none, or it makes no sense.
[[nodiscard]] inline std::span<const std::byte> take_key(std::span<const std::byte>& body) noexcept {
  const auto length = take<KeyLength>(body);
  if (!length || length->bytes > body.size()) return {};
  const auto key = body.first(length->bytes);
  body = body.subspan(key.size());
  return key;
}

struct ManyAnswer {
  ManyEntry entry;
  Code code = Code::kOk;
  std::span<const std::byte> value;  // The sender may still be changing it.
};

// The next one of an answer; nothing: it makes no sense.
[[nodiscard]] inline std::optional<ManyAnswer> take_many_answer(std::span<const std::byte>& bytes) noexcept {
  const auto entry = take<ManyEntry>(bytes);
  if (!entry || entry->reserved != 0 || entry->value_bytes > kValueBytesMax) return std::nullopt;
  ManyAnswer answer{.entry = *entry, .code = code_from_wire(entry->code), .value = {}};
  if (answer.code != Code::kOk) return answer;
  if (entry->value_bytes > bytes.size()) return std::nullopt;
  answer.value = bytes.first(entry->value_bytes);
  bytes = bytes.subspan(entry->value_bytes);
  return answer;
}

}  // namespace refract::kv::wire
