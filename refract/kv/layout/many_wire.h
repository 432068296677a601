// SPDX-License-Identifier: Apache-2.0
// kGetMany, kPutMany: several keys in one call and one answer, for clients that have much that is small under
// way at once: what a message costs at both ends is then shared by all. docs/design/037-shared-calls.md.
//
// Included by both ends; as wire.h, whatever comes from the peer is copied out once and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/layout/wire.h"

namespace refract::kv::wire {

// As many as the owner works on at once; more in one call would only make others wait.
inline constexpr size_t kKeysPerCall = 16;
// Of one session, before what has been done is sent: a system call costs as much as so many gets.
inline constexpr size_t kKeysPerTurn = 32;

// Of both, then so many times, each at any alignment: KeyLength | key, or PutOfMany | key | value.
struct ManyRequest {
  uint16_t keys;  // 1 to kKeysPerCall.
  uint16_t reserved;
  uint32_t reserved_end;
};
static_assert(sizeof(ManyRequest) == 8 && offsetof(ManyRequest, reserved_end) == 4);

struct KeyLength {
  uint16_t bytes;  // Not 0.
};
static_assert(sizeof(KeyLength) == 2);

// A put without identity and conditions.
struct PutOfMany {
  uint64_t ttl_ns;  // As of PutRequest.
  uint32_t value_bytes;
  uint16_t key_bytes;  // Not 0.
  uint16_t reserved;
};
static_assert(sizeof(PutOfMany) == 16 && offsetof(PutOfMany, value_bytes) == 8 &&
              offsetof(PutOfMany, key_bytes) == 12);

// The answers have one for each key, in their order.
struct ManyEntry {  // | value, where code is kOk.
  uint64_t version;
  uint64_t expires_wall_ns;  // 0: never.
  uint32_t value_bytes;      // With kTooLarge, too.
  uint16_t code;             // A number of codes.def. kTooLarge: it fits this answer no more, get it alone.
  uint16_t reserved;
};
static_assert(sizeof(ManyEntry) == 24 && offsetof(ManyEntry, value_bytes) == 16 &&
              offsetof(ManyEntry, code) == 20);

struct ManyVersion {
  uint64_t version;
  uint16_t
      code;  // A number of codes.def. kOverloaded: nothing was changed, and nothing is said: put it alone.
  uint16_t reserved;
  uint32_t reserved_end;
};
static_assert(sizeof(ManyVersion) == 16 && offsetof(ManyVersion, code) == 8);

// The longest key of which kKeysPerCall fit a body.
[[nodiscard]] constexpr size_t many_key_bytes_max(size_t body_bytes_max) noexcept {
  return (body_bytes_max - sizeof(ManyRequest)) / kKeysPerCall - sizeof(KeyLength);
}
static_assert(many_key_bytes_max(kBodyBytesMin) >= 16);

// As what counters know a call.
[[nodiscard]] constexpr Method counted_as(Method method) noexcept {
  if (method == Method::kGetMany) return Method::kGet;
  return method == Method::kPutMany || method == Method::kPutPulled ? Method::kPut : method;
}

// A call's body, put together. Its memory grows to what bodies need, and is used again.
class ManyBody {
 public:
  void clear() noexcept {
    used_ = sizeof(ManyRequest);
    keys_ = 0;
  }
  void add_get(std::span<const std::byte> key) noexcept {
    const KeyLength length{static_cast<uint16_t>(key.size())};
    std::byte* const at = room(sizeof(length) + key.size());
    std::memcpy(at, &length, sizeof(length));
    copy_key(at + sizeof(length), key);
  }
  void add_put(std::span<const std::byte> key, std::span<const std::byte> value, uint64_t ttl_ns) noexcept {
    const PutOfMany put{.ttl_ns = ttl_ns,
                        .value_bytes = static_cast<uint32_t>(value.size()),
                        .key_bytes = static_cast<uint16_t>(key.size()),
                        .reserved = 0};
    std::byte* const at = room(sizeof(put) + key.size() + value.size());
    std::memcpy(at, &put, sizeof(put));
    copy_key(at + sizeof(put), key);
    if (!value.empty()) std::memcpy(at + sizeof(put) + key.size(), value.data(), value.size());
  }
  [[nodiscard]] size_t size() const noexcept { return used_; }
  // REQUIRES: something was added.
  [[nodiscard]] std::span<const std::byte> bytes() noexcept {
    const ManyRequest request{.keys = keys_, .reserved = 0, .reserved_end = 0};
    std::memcpy(bytes_.data(), &request, sizeof(request));
    return std::span(bytes_).first(used_);
  }

 private:
  // For one key more.
  [[nodiscard]] std::byte* room(size_t bytes) noexcept {
    const size_t from = used_;
    used_ += bytes;
    ++keys_;
    if (used_ > bytes_.size()) [[unlikely]]
      bytes_.resize(2 * used_);
    return bytes_.data() + from;
  }
  // Short keys are often as long as that, and a call of memcpy would be as much as all else here.
  static void copy_key(std::byte* target, std::span<const std::byte> key) noexcept {
    if (key.size() == 16) {
      std::memcpy(target, key.data(), 16);
    } else {
      std::memcpy(target, key.data(), key.size());
    }
  }

  std::vector<std::byte> bytes_;
  size_t used_ = sizeof(ManyRequest);
  uint16_t keys_ = 0;
};

// The bytes at the front of `body`, which then holds the rest. REQUIRES: there are so many.
[[nodiscard]] inline std::span<const std::byte> take_bytes(std::span<const std::byte>& body,
                                                           size_t bytes) noexcept {
  const auto front = body.first(bytes);
  body = body.subspan(bytes);
  return front;
}

// How many keys a body has; 0: it makes no sense.
[[nodiscard]] inline size_t take_count(std::span<const std::byte>& body) noexcept {
  const auto request = take<ManyRequest>(body);
  const bool is_sound =
      request && request->keys <= kKeysPerCall && request->reserved == 0 && request->reserved_end == 0;
  return is_sound ? request->keys : 0;
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
  if (entry->code != static_cast<uint16_t>(Code::kOk)) [[unlikely]]
    return ManyAnswer{.entry = *entry, .code = code_from_wire(entry->code), .value = {}};
  if (entry->value_bytes > bytes.size()) return std::nullopt;
  return ManyAnswer{.entry = *entry, .value = take_bytes(bytes, entry->value_bytes)};
}

[[nodiscard]] inline std::optional<ManyVersion> take_many_version(
    std::span<const std::byte>& bytes) noexcept {
  const auto version = take<ManyVersion>(bytes);
  return version && version->reserved == 0 && version->reserved_end == 0 ? version : std::nullopt;
}

}  // namespace refract::kv::wire
