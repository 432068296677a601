// SPDX-License-Identifier: Apache-2.0
// What a key-value store of Refract promises, whatever its layout and the path it is reached by.
//
// Keys are 1 to 65,535 bytes, values 0 bytes to 512 MiB, any bytes. Every write gives the entry a new
// version, greater than all earlier ones of its shard; a version is never used twice, not even for a key that
// was erased. An operation takes effect at one moment between its call and its return. What a put
// acknowledged is there until it is replaced, erased or expired.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace refract::kv {

// What makes a repeated write recognisable: the same identity, the same write, executed at most once
// (docs/design/012-request-identity.md).
struct RequestId {
  uint64_t client = 0;  // Drawn at random by the client that numbers them. 0: the write has no identity.
  // Grows with every new write of the client; repeating one leaves it as it is. Never 0 with a client.
  uint64_t sequence = 0;

  [[nodiscard]] constexpr explicit operator bool() const noexcept { return client != 0; }
  auto operator<=>(const RequestId&) const = default;
};

struct PutOptions {
  // At most one of the two conditions.
  bool if_absent = false;  // Else kExists.
  uint64_t if_version =
      0;  // The present version must be this one, else kVersionMismatch (kNotFound if absent).
  uint64_t expires_wall_ns = 0;  // The entry is gone from this moment of the node's wall clock on; 0: never.
  RequestId request = {};        // A put that repeats one which was executed is not executed again.

  // Nothing of this is asked for.
  [[nodiscard]] bool is_plain() const noexcept {
    return !if_absent && if_version == 0 && expires_wall_ns == 0 && !request;
  }
};

// What a batch asks of a key: it holds at the moment at which the batch takes effect, or nothing changes.
enum class ConditionKind : uint8_t {
  kAbsent = 1,   // Else kExists.
  kExists = 2,   // Else kNotFound.
  kVersion = 3,  // Else kVersionMismatch; kNotFound if absent.
  kValue = 4,    // Likewise.
  kAny = 5,      // Holds always; its key is held.
};
enum class WriteKind : uint8_t {
  kPut = 1,
  kErase = 2,  // Of an absent key: nothing.
  // To the decimal number that the value is (an absent one is 0), in 64 bits with a sign; the time to live
  // stays. kInvalidArgument: it is no such number, or the sum would be none.
  kAdd = 3,
  // A row of kv/functions, with code and answer of its own: where it is an error, nothing of the key changes,
  // and the batch has effect all the same.
  kFunction = 4,
};
inline constexpr size_t kBatchKeysMax = 4096;                   // Conditions and writes together.
inline constexpr uint64_t kBatchBytesMax = uint64_t{16} << 20;  // Of all keys and values.

// Of two moments at which entries expire the first one; 0: never.
[[nodiscard]] constexpr uint64_t first_expiry(uint64_t one, uint64_t other) noexcept {
  if (one == 0 || other == 0) return one | other;
  return one < other ? one : other;
}

// Where a value goes.
class ValueSink {
 public:
  virtual ~ValueSink() = default;
  // Room for `bytes`, or null where the value is not wanted (the get ends with kTooLarge). May be asked again
  // when an attempt is repeated; the bytes are meaningless unless the get succeeds.
  [[nodiscard]] virtual std::byte* room(uint64_t bytes) = 0;
};

class StringSink final : public ValueSink {
 public:
  explicit StringSink(std::string& target) noexcept : target_(target) {}
  [[nodiscard]] std::byte* room(uint64_t bytes) override {
    target_.resize(bytes);
    return reinterpret_cast<std::byte*>(target_.data());
  }

 private:
  std::string& target_;
};

struct Got {
  uint64_t version = 0;
  uint64_t value_bytes = 0;
  uint64_t expires_wall_ns = 0;  // 0: never.
};

}  // namespace refract::kv
