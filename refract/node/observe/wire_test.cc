// SPDX-License-Identifier: Apache-2.0
#include "refract/node/observe/wire.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace refract::observe::wire {
namespace {

template <typename T>
std::string hex(const T& value) {
  std::string text;
  for (const std::byte byte : std::as_bytes(std::span(&value, 1))) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[static_cast<size_t>(byte) >> 4];
    text += kDigits[static_cast<size_t>(byte) & 15];
  }
  return text;
}

// The worked example of docs/formats/observe.md.
TEST(ObserveWire, bodies_lie_as_the_format_page_says) {
  EXPECT_EQ(
      hex(BeginRequest{.topic = static_cast<uint32_t>(Topic::kConnections), .reserved = 0, .from = 128}),
      "0200000000000000"
      "8000000000000000");
  EXPECT_EQ(hex(BeginReply{.id = 5, .bytes = 70'000}), "05000000000000007011010000000000");
  EXPECT_EQ(hex(MoreRequest{.id = 5, .offset = 2}), "05000000000000000200000000000000");
  EXPECT_EQ(hex(TraceRequest{.duration_ns = 1'000'000'000, .records_max = 4'096}),
            "00ca9a3b000000000010000000000000");
  EXPECT_EQ(hex(SnapshotRequest{.reserved = 0}), "0000000000000000");
  EXPECT_EQ(hex(SnapshotReply{.attempt = 2}), "0200000000000000");
  EXPECT_EQ(hex(TraceRecord{.ns = 1'000,
                            .session = 0x1'0000'0003,
                            .call = 9,
                            .bytes = 16,
                            .method = 3,
                            .kind = static_cast<uint8_t>(TraceKind::kReply),
                            .code = 6}),
            "e803000000000000"
            "0300000001000000"
            "0900000000000000"
            "10000000"
            "03000306");
}

TEST(ObserveWire, methods_stand_apart_from_the_store_s) {
  for (const Method method : {Method::kBegin, Method::kMore, Method::kTrace, Method::kSnapshot}) {
    EXPECT_GE(static_cast<uint16_t>(method), kMethodsBegin);
    EXPECT_FALSE(std::string_view(name(static_cast<uint16_t>(method))).empty());
  }
  EXPECT_TRUE(std::string_view(name(1)).empty());
  EXPECT_TRUE(std::string_view(name(0x104)).empty());
}

}  // namespace
}  // namespace refract::observe::wire
