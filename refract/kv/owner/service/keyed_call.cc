// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/service/keyed_call.h"

#include <utility>

#include "refract/base/check.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/layout/pull_wire.h"

namespace refract::kv {
namespace {

using wire::Method;

bool carries_value(Method method) noexcept {
  return method == Method::kPut || method == Method::kPutBegin || method == Method::kPutPulled;
}

uint8_t flags_of(Method method) noexcept {
  switch (method) {
    case Method::kGet:
      return wire::KeyRef::kWantsWindow;
    case Method::kPut:
    case Method::kPutPulled:
      return wire::KeyRef::kIfAbsent | wire::KeyRef::kIdentified;
    case Method::kPutBegin:
      return wire::KeyRef::kIfAbsent | wire::KeyRef::kWantsWindow | wire::KeyRef::kIdentified;
    case Method::kErase:
      return wire::KeyRef::kIdentified;
    default:
      return 0;
  }
}

Code check_ref(Method method, const wire::KeyRef& ref) noexcept {
  if (ref.staged > wire::kStagedKeysPerSession) return Code::kMalformed;
  if ((ref.flags & ~flags_of(method)) != 0) return Code::kMalformed;
  if (carries_value(method)) {
    if (ref.value_bytes > kValueBytesMax) return Code::kTooLarge;
  } else if (ref.value_bytes != 0) {
    return Code::kMalformed;
  }
  return ref.key_bytes == 0 ? Code::kInvalidArgument : Code::kOk;
}

// What takes the place of the value's bytes.
bool take_source(std::span<const std::byte>& body, wire::KeyRef& ref, KeyedCall& call) noexcept {
  const auto request = wire::take<wire::PutPulledRequest>(body);
  if (!request) return false;
  ref = request->key;
  call.if_version = request->if_version;
  call.ttl_ns = request->ttl_ns;
  call.value_bytes = ref.value_bytes;
  call.if_absent = (ref.flags & wire::KeyRef::kIfAbsent) != 0;
  call.source = {.address = RemotePointer{request->address}, .key = RemoteKey{request->address_key}};
  call.timeout_ns = request->timeout_ns;
  return true;
}

// A source without bytes, without a key, or beyond the end of what can be named makes no sense.
bool is_sound(const KeyedCall& call) noexcept {
  return call.value_bytes > 0 && call.source.key.bits != 0 &&
         call.value_bytes <= RemotePointer::kOffsetMask - call.source.address.offset();
}

// Takes the fixed part from the front of `body`.
bool take_fixed(Method method, std::span<const std::byte>& body, wire::KeyRef& ref,
                KeyedCall& call) noexcept {
  if (method == Method::kPutPulled) return take_source(body, ref, call);
  if (carries_value(method)) {
    const auto request = wire::take<wire::PutRequest>(body);
    if (!request) return false;
    ref = request->key;
    call.if_version = request->if_version;
    call.ttl_ns = request->ttl_ns;
    call.value_bytes = ref.value_bytes;
    call.if_absent = (ref.flags & wire::KeyRef::kIfAbsent) != 0;
    return true;
  }
  if (method == Method::kErase) {
    const auto request = wire::take<wire::EraseRequest>(body);
    if (!request) return false;
    ref = request->key;
    call.if_version = request->if_version;
    return true;
  }
  const auto request = wire::take<wire::KeyRef>(body);
  if (!request) return false;
  ref = *request;
  return true;
}

}  // namespace

std::span<const std::byte> KeyArena::copy(std::span<const std::byte> bytes) noexcept {
  REFRACT_CHECK(bytes.size() <= room_ - used_);
  std::byte* target = bytes_.get() + used_;
  copy_possibly_torn(target, bytes.data(), bytes.size());
  used_ += bytes.size();
  return {target, bytes.size()};
}

bool is_keyed(Method method) noexcept {
  switch (method) {
    case Method::kGet:
    case Method::kPut:
    case Method::kErase:
    case Method::kExists:
    case Method::kPutBegin:
    case Method::kPutPulled:
      return true;
    default:
      return false;
  }
}

Code decode_keyed(Method method, std::span<const std::byte> body, SessionState& session, KeyArena& arena,
                  KeyedCall& call) {
  wire::KeyRef ref{};
  if (!take_fixed(method, body, ref, call)) return Code::kMalformed;
  const Code code = check_ref(method, ref);
  call.wants_window = (ref.flags & wire::KeyRef::kWantsWindow) != 0;
  if (code == Code::kOk && (ref.flags & wire::KeyRef::kIdentified) != 0) {
    const auto identity = wire::take<wire::Identity>(body);
    if (!identity || identity->client == 0 || identity->sequence == 0) return Code::kMalformed;
    call.identity = *identity;
  }
  if (ref.staged != 0 && ref.staged <= wire::kStagedKeysPerSession) {
    auto staged = session.take_staged(ref.staged - size_t{1}, ref.key_bytes);
    if (code != Code::kOk) return code;
    if (!staged) return Code::kInvalidated;
    call.staged = std::move(*staged);
    call.key.bytes = call.staged;
  } else {
    if (code != Code::kOk) return code;
    if (body.size() < ref.key_bytes) return Code::kMalformed;
    call.key.bytes = arena.copy(body.first(ref.key_bytes));
    body = body.subspan(ref.key_bytes);
  }
  if (call.if_absent && call.if_version != 0) return Code::kInvalidArgument;
  if (method == Method::kPutPulled && !is_sound(call)) return Code::kInvalidArgument;
  if (body.size() != (method == Method::kPut ? call.value_bytes : 0)) return Code::kMalformed;
  call.value = body;
  return Code::kOk;
}

}  // namespace refract::kv
