// SPDX-License-Identifier: Apache-2.0
#include "refract/rpc/message.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace refract::rpc {
namespace {

// The worked example of docs/formats/rpc.md.
constexpr std::array<uint8_t, 21> kGolden = {0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0x22, 0x11, 0x0c,
                                             0x00, 0x05, 0x00, 0x00, 0x00, 'h',  'e',  'l',  'l',  'o'};

TEST(Message, header_has_the_bytes_of_the_format_page) {
  const MessageHeader header = {.id = 0x0102030405060708,
                                .method = 0x1122,
                                .code = static_cast<uint16_t>(Code::kAccessDenied),
                                .bytes = 5};
  EXPECT_EQ(std::memcmp(&header, kGolden.data(), sizeof(header)), 0);
}

TEST(Message, the_worked_example_is_decoded) {
  const std::optional<DecodedMessage> decoded = decode(std::as_bytes(std::span(kGolden)));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->header.id, 0x0102030405060708u);
  EXPECT_EQ(decoded->header.method, 0x1122);
  EXPECT_EQ(code_from_wire(decoded->header.code), Code::kAccessDenied);
  EXPECT_EQ(decoded->payload.size(), 5u);
}

TEST(Message, every_other_length_is_refused) {
  std::vector<std::byte> bytes(64);
  std::memcpy(bytes.data(), kGolden.data(), kGolden.size());
  for (size_t length = 0; length <= bytes.size(); ++length) {
    EXPECT_EQ(decode(std::span(bytes).first(length)).has_value(), length == kGolden.size()) << length;
  }
}

}  // namespace
}  // namespace refract::rpc
