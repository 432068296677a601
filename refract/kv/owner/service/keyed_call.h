// SPDX-License-Identifier: Apache-2.0
// A call about one key, taken out of the sender's reach: what is checked here is what is used later.
//
// A message's bytes may still change while they are read. So struct and key are copied once, then checked;
// only the value stays where it is, for nothing depends on its bytes, and it is copied straight into its
// buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/fabric/channel.h"
#include "refract/kv/layout/wire.h"
#include "refract/kv/owner/service/session_state.h"

namespace refract::kv {

struct KeyedCall {
  Table::HashedKey key;  // Our own copy; its hash is left to the caller.
  uint64_t if_version = 0;
  uint64_t ttl_ns = 0;
  uint64_t value_bytes = 0;
  bool if_absent = false;
  bool wants_window = false;
  fabric::RemoteSpan source{};       // kPutPulled: where the value is, and
  uint64_t timeout_ns = 0;           // for how long. The place makes sense, whether or not there is anything.
  wire::Identity identity{};         // Without one: all 0.
  std::span<const std::byte> value;  // kPut: still the sender's to change.
  std::vector<std::byte> staged;     // Where the key lies if it came in pieces.

  // As if new: one by one, since zeroing it as a whole costs more than a short call's decoding.
  void reset() noexcept {
    key = {};
    if_version = ttl_ns = value_bytes = timeout_ns = 0;
    if_absent = wants_window = false;
    source = {};
    identity = {};
    value = {};
    if (!staged.empty()) [[unlikely]]
      staged = {};
  }
};

// Room for the keys of one batch. Handed out from the front, so that few keys touch few lines.
class KeyArena {
 public:
  explicit KeyArena(size_t bytes)
      : bytes_(std::make_unique_for_overwrite<std::byte[]>(bytes)), room_(bytes) {}

  void clear() noexcept { used_ = 0; }
  // A copy of possibly changing bytes. REQUIRES: less than the room was taken since clear().
  [[nodiscard]] std::span<const std::byte> copy(std::span<const std::byte> bytes) noexcept;

 private:
  std::unique_ptr<std::byte[]> bytes_;
  size_t room_;
  size_t used_ = 0;
};

// Whether a method's body begins with a key that decode_keyed can read.
[[nodiscard]] bool is_keyed(wire::Method method) noexcept;

// kMalformed, kInvalidArgument, kTooLarge: refuse the call with it. kInvalidated: the key was not staged. A
// staged key is used up in any case.
[[nodiscard]] Code decode_keyed(wire::Method method, std::span<const std::byte> body, SessionState& session,
                                KeyArena& arena, KeyedCall& call);

}  // namespace refract::kv
