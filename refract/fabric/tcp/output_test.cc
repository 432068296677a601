// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/output.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "refract/base/prng.h"

namespace refract::fabric::tcp {
namespace {

// What a socket that takes `most` bytes would get.
std::string take(Output& output, size_t most) {
  std::array<iovec, 8> spans;
  const size_t count = output.next(spans, most);
  std::string bytes;
  for (const iovec& span : std::span(spans).first(count)) {
    bytes.append(static_cast<const char*>(span.iov_base), span.iov_len);
  }
  EXPECT_LE(bytes.size(), most);
  output.sent(bytes.size());
  return bytes;
}

std::string text_of(Prng& prng, size_t bytes) {
  std::string text(bytes, '\0');
  for (char& each : text) each = static_cast<char>(prng.next());
  return text;
}

TEST(Output, large_transfers_end_where_a_short_one_begins) {
  BlockPool pool;
  Output output(pool);
  EXPECT_EQ(output.large_bytes(), 0u);
  const std::vector<std::byte> value(kLargeTransferBytes);
  output.word(1);
  EXPECT_EQ(output.large_bytes(), 8u);
  output.refer(value.data(), value.size());
  output.word(2);
  output.refer(value.data(), value.size());
  EXPECT_EQ(output.large_bytes(), 2 * value.size() + 16);
  output.word(3);
  output.refer(value.data(), value.size() - 1);
  output.word(4);
  EXPECT_EQ(output.large_bytes(), 2 * value.size() + 24);
  // The rest of one that is on its way is no other.
  (void)take(output, value.size());
  EXPECT_EQ(output.large_bytes(), value.size() + 24);
}

// Copied, referred and gathered bytes in any mixture, taken in any pieces: they come out in order, and the
// blocks go back as they are sent. With enough blocks some lie behind each other in memory, which must not
// matter.
TEST(Output, bytes_leave_in_order_and_blocks_go_back) {
  BlockPool pool;
  Output output(pool);
  Prng prng(11);
  std::string expected;
  std::string got;
  std::vector<std::string> kept;
  kept.reserve(100'000);
  for (int round = 0; round < 30'000; ++round) {
    const size_t bytes = prng.below(8) == 0 ? prng.below(40'000) : prng.below(200);
    if (output.takes_a_transfer() && output.copied_bytes() + 40'000 < kOutputBytesMax) {
      const std::string& text = kept.emplace_back(text_of(prng, bytes));
      const std::string padding(padding_of(bytes), '\0');
      const uint64_t kind = prng.below(3);
      if (kind == 0) {
        output.copy(text.data(), text.size());
        output.zeros(padding.size());
      } else if (bytes > 0 && kind == 1) {
        output.refer(reinterpret_cast<const std::byte*>(text.data()), text.size());
      } else if (bytes > 0) {
        output.gather(reinterpret_cast<const std::byte*>(text.data()), text.size(), 3);
        output.set_trailer(output.word(0x1122334455667788));
      }
      if (kind == 0 || bytes > 0) expected += text + padding;
      if (bytes > 0 && kind == 2) {
        const uint64_t trailer = 0x1122334455667788;
        expected.append(reinterpret_cast<const char*>(&trailer), sizeof(trailer));
      }
    }
    // Now faster, now slower than it fills.
    if (prng.below(3000) < static_cast<uint64_t>(round % 3000)) got += take(output, 1 + prng.below(60'000));
    ASSERT_LE(pool.taken() * kBlockBytes, output.copied_bytes() + 2 * kBlockBytes);
    if (got.size() > 1'000'000) {
      ASSERT_EQ(got.compare(0, got.size(), expected, 0, got.size()), 0) << "round " << round;
      expected.erase(0, got.size());
      got.clear();
    }
  }
  while (!output.empty()) got += take(output, 100'000);
  EXPECT_TRUE(got == expected);
  EXPECT_EQ(pool.taken(), 0u);
  EXPECT_EQ(output.copied_bytes(), 0u);
}

TEST(Output, a_revoked_region_is_replaced_by_zeros_and_the_trailer_says_so) {
  BlockPool pool;
  Output output(pool);
  const std::string mine(100'000, 'm');
  const std::string other(100'000, 'o');
  for (const auto& [text, region] : {std::pair(&mine, uint16_t{1}), std::pair(&other, uint16_t{2})}) {
    output.gather(reinterpret_cast<const std::byte*>(text->data()), text->size(), region);
    output.set_trailer(output.word(FrameHeader{.bytes = kDoneBytes, .kind = FrameKind::kDone}.word()));
    output.word(0);
  }
  std::string got = take(output, 1'000);
  output.revoke(1);
  while (!output.empty()) got += take(output, 1 << 20);
  ASSERT_EQ(got.size(), 2 * (100'000u + 16));
  EXPECT_EQ(got.substr(0, 1'000), std::string(1'000, 'm'));
  EXPECT_EQ(got.substr(1'000, 99'000), std::string(99'000, '\0'));
  const auto code_at = [&got](size_t at) {
    uint64_t word = 0;
    std::memcpy(&word, got.data() + at, sizeof(word));
    return static_cast<Code>(FrameHeader::from(word).code);
  };
  EXPECT_EQ(code_at(100'000), Code::kAccessDenied);
  EXPECT_EQ(got.substr(100'016, 100'000), other);
  EXPECT_EQ(code_at(200'016), Code::kOk);
  EXPECT_FALSE(output.is_gathering());
}

}  // namespace
}  // namespace refract::fabric::tcp
