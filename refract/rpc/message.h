// SPDX-License-Identifier: Apache-2.0
// How a call and its reply lie in a message: this header, then the payload, whose form the method defines.
// Little endian. docs/formats/rpc.md has a worked example, which is also the golden test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "refract/base/result.h"

namespace refract::rpc {

struct MessageHeader {
  uint64_t id;      // The caller's choice; the reply repeats it.
  uint16_t method;  // The reply repeats it too.
  uint16_t code;    // Of a call: 0. Of a reply: a number of codes.def.
  uint32_t bytes;   // Of the payload; the message ends with it.
};
static_assert(sizeof(MessageHeader) == 16 && alignof(MessageHeader) == 8);
static_assert(offsetof(MessageHeader, method) == 8 && offsetof(MessageHeader, code) == 10 &&
              offsetof(MessageHeader, bytes) == 12);
static_assert(std::is_trivially_copyable_v<MessageHeader>);
static_assert(std::has_unique_object_representations_v<MessageHeader>, "no padding may travel");

struct DecodedMessage {
  MessageHeader header;  // A copy: the peer cannot change it any more.
  std::span<const std::byte>
      payload;  // The peer may still be changing it: copy what you check before you check it.
};

// Nothing where the message is shorter than a header, or its length is not what the header says.
[[nodiscard]] std::optional<DecodedMessage> decode(std::span<const std::byte> message) noexcept;

}  // namespace refract::rpc
