// SPDX-License-Identifier: Apache-2.0
// The worked example of docs/formats/pickled.md, byte for byte, and bodies that lie.
#include "python/ext/pickled_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "refract/base/testing/golden.h"

namespace refract::python {
namespace {

constexpr std::string_view kStream("\x80\x05\x97\x98.", 5);
constexpr std::string_view kBuffer = "red";

std::vector<std::byte> example() {
  const std::array<uint64_t, 1> lengths = {kBuffer.size()};
  const auto plan = plan_pickled(kStream.size(), lengths);
  if (!plan) return {};
  std::vector<std::byte> body(plan->body_bytes);
  std::memcpy(body.data(), &plan->header, sizeof(plan->header));
  std::memcpy(body.data() + sizeof(plan->header), plan->pieces.data(), sizeof(PickledPiece));
  std::memcpy(body.data() + plan->stream_at, kStream.data(), kStream.size());
  std::memcpy(body.data() + plan->pieces[0].at, kBuffer.data(), kBuffer.size());
  return body;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(PickledLayout, is_byte_for_byte_what_the_page_shows) {
  const auto lines = golden::lines_of(REFRACT_SOURCE_DIR "/docs/formats/pickled.md");
  const std::vector<std::byte> body = example();
  EXPECT_EQ(golden::image_of(lines, body.size()), body);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back().offset + lines.back().bytes.size(), body.size());
  const auto parts = read_pickled(body);
  ASSERT_TRUE(parts);
  EXPECT_EQ(text_of(parts->stream), kStream);
  ASSERT_EQ(parts->buffers.size(), 1U);
  EXPECT_EQ(text_of(parts->buffers[0]), kBuffer);
}

TEST(PickledLayout, a_body_that_lies_is_no_value) {
  const std::vector<std::byte> body = example();
  for (size_t length = 0; length < body.size(); ++length) {
    EXPECT_FALSE(read_pickled(std::span(body).first(length))) << length;
  }
  // Each word of header and piece, with values at and beyond the borders.
  for (size_t at = 0; at < 40; at += 4) {
    for (const uint32_t value : {0U, 1U, 2U, 63U, 64U, 67U, 128U, 0x7fff'ffffU, 0xffff'ffffU}) {
      std::vector<std::byte> changed = body;
      std::memcpy(changed.data() + at, &value, sizeof(value));
      const auto parts = read_pickled(changed);
      if (!parts) continue;
      const std::byte* const end = changed.data() + changed.size();
      EXPECT_LE(parts->stream.data() + parts->stream.size(), end);
      for (const auto& buffer : parts->buffers) {
        EXPECT_GE(buffer.data(), changed.data());
        EXPECT_LE(buffer.data() + buffer.size(), end);
        EXPECT_EQ((buffer.data() - changed.data()) % 64, 0);
      }
      EXPECT_EQ(changed[0], std::byte{'r'}) << "another mark was taken for ours";
    }
  }
}

TEST(PickledLayout, lengths_that_no_object_can_have_are_refused) {
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  EXPECT_FALSE(plan_pickled(kHuge, {}));
  const std::array<uint64_t, 2> lengths = {kHuge - 10, 10};
  EXPECT_FALSE(plan_pickled(1, lengths));
  const std::array<uint64_t, 4> together = {kHuge / 4, kHuge / 4, kHuge / 4, kHuge / 4};
  EXPECT_FALSE(plan_pickled(1, together));
  const auto empty = plan_pickled(0, {});
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->body_bytes, sizeof(PickledHeader));
}

}  // namespace
}  // namespace refract::python
