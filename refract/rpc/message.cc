// SPDX-License-Identifier: Apache-2.0
#include "refract/rpc/message.h"

#include "refract/memory/remote_visible.h"

namespace refract::rpc {

std::optional<DecodedMessage> decode(std::span<const std::byte> message) noexcept {
  DecodedMessage decoded{};
  if (message.size() < sizeof(MessageHeader)) return std::nullopt;
  copy_possibly_torn(&decoded.header, message.data(), sizeof(MessageHeader));
  if (decoded.header.bytes != message.size() - sizeof(MessageHeader)) return std::nullopt;
  decoded.payload = message.subspan(sizeof(MessageHeader));
  return decoded;
}

}  // namespace refract::rpc
