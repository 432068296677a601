// SPDX-License-Identifier: Apache-2.0
// How RpcClient's calls about keys are put together, and what a write knows of itself while it is repeated.
// Only the sources of RpcClient include this.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/layout/pull_wire.h"
#include "refract/kv/layout/wire.h"

namespace refract::kv {

[[nodiscard]] inline Code check_lengths(std::span<const std::byte> key, uint64_t value_bytes) noexcept {
  if (key.empty()) return Code::kInvalidArgument;
  return key.size() > kKeyBytesMax || value_bytes > kValueBytesMax ? Code::kTooLarge : Code::kOk;
}

// A call's fixed part, identity and key, one behind the other; without an allocation while the key is short.
class CallHead {
 public:
  CallHead(std::span<const std::byte> fixed, std::span<const std::byte> identity,
           std::span<const std::byte> key)
      : bytes_(fixed.size() + identity.size() + key.size()) {
    if (bytes_ > short_.size()) long_.resize(bytes_);
    std::byte* target = long_.empty() ? short_.data() : long_.data();
    for (const std::span<const std::byte> part : {fixed, identity, key}) {
      if (!part.empty()) std::memcpy(target, part.data(), part.size());
      target += part.size();
    }
  }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {long_.empty() ? short_.data() : long_.data(), bytes_};
  }

 private:
  size_t bytes_;
  std::array<std::byte, 256> short_;
  std::vector<std::byte> long_;
};

// A put or erase on its way to its outcome.
struct RpcClient::Writing {
  RpcAttempt attempt;
  // It may have been executed already, so that what ends it early leaves it indeterminate.
  bool repeats = false;
  // The owner itself said that the outcome cannot be known.
  bool is_unknowable = false;

  [[nodiscard]] static Writing of(const RpcAttempt& attempt, uint64_t now_ns) noexcept {
    Writing writing{.attempt = attempt, .repeats = attempt.request && attempt.first_sent_ns != 0};
    if (!writing.repeats) writing.attempt.first_sent_ns = now_ns;
    return writing;
  }

  [[nodiscard]] Result<uint64_t> version_of(const runtime::OpResult& result) noexcept {
    is_unknowable = result.code == Code::kIndeterminate && result.value != 0;
    if (result.code != Code::kOk) return fail(result.code);
    std::span<const std::byte> bytes = result.bytes;
    const auto reply = wire::take<wire::VersionReply>(bytes);
    if (!reply) return fail(Code::kMalformed);
    return reply->version;
  }

  // As it travels, over a session that was opened last at `opened_ns`. All 0: it has none.
  [[nodiscard]] wire::Identity identity(uint64_t opened_ns) const noexcept {
    if (!attempt.request) return {};
    const uint64_t before_ns = opened_ns > attempt.first_sent_ns ? opened_ns - attempt.first_sent_ns : 0;
    return {.client = attempt.request.client,
            .sequence = attempt.request.sequence,
            .repeats_ns = repeats ? 1 + before_ns : 0};
  }

  // The outcome for the caller, of an attempt that is the last.
  [[nodiscard]] Code outcome(Code code) const noexcept {
    switch (code) {
      case Code::kUnavailable:
      case Code::kDeadlineExceeded:
      case Code::kOverloaded:
      case Code::kInvalidated:
        return repeats ? Code::kIndeterminate : code;
      default:
        return code;
    }
  }
};

// A call about a key, of which the fixed part's first bytes travel.
struct RpcClient::Keyed {
  wire::Method method;
  wire::PutPulledRequest fixed;  // Its front is a KeyRef, an EraseRequest, or a PutRequest, too.
  size_t fixed_bytes;
  wire::Identity identity;
  std::span<const std::byte> key;
  std::span<const std::byte> tail;
  SharedBuffer* shared = nullptr;  // As in the options of a put; likewise the next.
  std::span<const std::byte> value_front = {};

  static_assert(offsetof(wire::PutRequest, key) == offsetof(wire::EraseRequest, key) &&
                offsetof(wire::PutRequest, if_version) == offsetof(wire::EraseRequest, if_version));

  [[nodiscard]] static Keyed of(wire::Method method, std::span<const std::byte> key) noexcept {
    Keyed call{.method = method,
               .fixed = {},
               .fixed_bytes = sizeof(wire::KeyRef),
               .identity = {},
               .key = key,
               .tail = {}};
    call.fixed.key.key_bytes = static_cast<uint16_t>(key.size());
    return call;
  }
  [[nodiscard]] static Keyed of_get(std::span<const std::byte> key, bool wants_window) noexcept {
    Keyed call = of(wire::Method::kGet, key);
    if (wants_window) call.fixed.key.flags = wire::KeyRef::kWantsWindow;
    return call;
  }
  [[nodiscard]] static Keyed of_erase(std::span<const std::byte> key, uint64_t if_version) noexcept {
    Keyed call = of(wire::Method::kErase, key);
    call.fixed.if_version = if_version;
    call.fixed_bytes = sizeof(wire::EraseRequest);
    return call;
  }
  [[nodiscard]] static Keyed of_put(std::span<const std::byte> key, size_t value_bytes,
                                    const RpcPutOptions& options) noexcept {
    Keyed call = of(wire::Method::kPut, key);
    call.fixed.key.value_bytes = static_cast<uint32_t>(options.front.size() + value_bytes);
    call.fixed.key.flags = options.if_absent ? wire::KeyRef::kIfAbsent : uint8_t{0};
    call.fixed.if_version = options.if_version;
    call.fixed.ttl_ns = options.ttl_ns;
    call.fixed_bytes = sizeof(wire::PutRequest);
    call.shared = options.shared;
    call.value_front = options.front;
    return call;
  }

  // The call does not carry the value: the owner READs it at `source`.
  void pull_from(const fabric::RemoteSpan& source, uint64_t timeout_ns) noexcept {
    fixed.address = source.address.bits;
    fixed.address_key = source.key.bits;
    fixed.timeout_ns = timeout_ns;
    fixed_bytes = sizeof(fixed);
  }

  // REQUIRES: the session was opened last at `opened_ns`, and sends the call before it is opened again.
  void identify(const Writing& writing, uint64_t opened_ns) noexcept {
    if (!writing.attempt.request) return;
    fixed.key.flags |= wire::KeyRef::kIdentified;
    identity = writing.identity(opened_ns);
  }

  [[nodiscard]] bool wants_window() const noexcept {
    return (fixed.key.flags & wire::KeyRef::kWantsWindow) != 0;
  }
  [[nodiscard]] uint16_t number() const noexcept { return static_cast<uint16_t>(method); }
  [[nodiscard]] std::span<const std::byte> fixed_part() const noexcept {
    return std::as_bytes(std::span(&fixed, 1)).first(fixed_bytes);
  }
  [[nodiscard]] std::span<const std::byte> identity_part() const noexcept {
    return std::as_bytes(std::span(&identity, 1)).first(identity.client != 0 ? sizeof(identity) : 0);
  }
  // Of all but value and key.
  [[nodiscard]] size_t front_bytes() const noexcept { return fixed_bytes + identity_part().size(); }
  [[nodiscard]] CallHead head() const { return {fixed_part(), identity_part(), key}; }
};

}  // namespace refract::kv
