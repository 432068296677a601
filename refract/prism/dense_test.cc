// SPDX-License-Identifier: Apache-2.0
// The dense form says what the plain one says, in the bytes of docs/formats/prism.md; random_chains_test runs
// chains of both against the reference.
#include "refract/prism/dense.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "refract/base/testing/golden.h"
#include "refract/prism/chain.h"
#include "refract/prism/decode.h"
#include "refract/prism/testing/other_form.h"

namespace refract::prism::dense_test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr RemoteKey kKey{0x0102'0304'0506'0708};

[[nodiscard]] RemotePointer at(uint64_t offset) {
  return RemotePointer::at(3, offset);
}

[[nodiscard]] Bytes bytes_of(const Chain& chain) {
  const auto message = chain.finish();
  EXPECT_TRUE(message.has_value());
  return message ? Bytes(message->begin(), message->end()) : Bytes();
}

// Both forms of what `build` makes.
struct Both {
  template <typename Build>
  explicit Both(const Build& build) {
    std::array<std::byte, 8192> buffer{};
    Chain in_plain(buffer);
    build(in_plain);
    plain = bytes_of(in_plain);
    Chain in_dense(buffer, ChainForm::kDense);
    build(in_dense);
    dense = bytes_of(in_dense);
  }

  // The same headers and the same inline bytes.
  void expect_same() const {
    DecodedChain one;
    DecodedChain other;
    ASSERT_EQ(decode(plain, one), Code::kOk);
    ASSERT_EQ(decode(dense, other), Code::kOk);
    ASSERT_EQ(one.count, other.count);
    for (size_t i = 0; i < one.count; ++i) {
      const Operation& a = one.operations[i];
      const Operation& b = other.operations[i];
      EXPECT_EQ(std::memcmp(&a.header, &b.header, sizeof(a.header)), 0) << i;
      const uint64_t bytes = inline_bytes_of(a.header);
      EXPECT_TRUE(bytes == 0 || std::memcmp(a.inline_bytes, b.inline_bytes, bytes) == 0) << i;
    }
    EXPECT_EQ(dense, testing::dense_of(plain));
  }

  Bytes plain;
  Bytes dense;
};

void build_example(Chain& chain) {
  const std::array<char, 5> value = {'v', 'a', 'l', 'u', 'e'};
  chain.allocate(at(2), kKey, std::as_bytes(std::span(value))).redirect(8).owned();
  chain
      .compare_swap({.address = at(0x40),
                     .key = kKey,
                     .compare = Operand::of(at(0x1000).bits),
                     .swap = Operand::at(scratch(8))})
      .conditional()
      .retire();
  chain.read(at(0x40), kKey, 512).indirect().bounded().conditional();
}

TEST(PrismDense, worked_example_is_what_the_builder_makes) {
  const auto lines =
      golden::lines_of(REFRACT_SOURCE_DIR "/docs/formats/prism.md", "### The same in the dense form");
  const Both both(build_example);
  EXPECT_EQ(both.dense, golden::image_of(lines, lines.size() * 8));
  both.expect_same();
}

TEST(PrismDense, a_get_has_22_bytes) {
  const Both both([](Chain& chain) { chain.read(at(0x1234'5678), kKey, 528).indirect().bounded(); });
  EXPECT_EQ(both.plain.size(), 40u);
  EXPECT_EQ(both.dense.size(), 22u);
  both.expect_same();
}

TEST(PrismDense, says_whatever_the_plain_form_says) {
  const std::array<std::byte, 13> data{};
  Both([&data](Chain& chain) {
    const Masks masks = {.compare = Operand::of(7), .swap = Operand::of(~uint64_t{0})};
    chain.write(scratch(8), {}, data);
    chain.write_from(at(uint64_t{1} << 47), kKey, scratch(8), 13).conditional();
    chain.write_from(at(255), kKey, at(256), 13).conditional();
    chain.fetch_add(at(256), kKey, ~uint64_t{0});
    chain.read(scratch(0), kKey, 8).indirect();
    chain.read(scratch(0), {}, 8).redirect(56);
    chain.allocate(at(1), kKey, data).redirect(0).owned().as_slot_word(uint64_t{3} << 62);
    chain.compare_swap({.address = at(64),
                        .key = kKey,
                        .bytes = 8,
                        .comparison = Comparison::kLess,
                        .compare = Operand::at(at(9)),
                        .swap = Operand::of(1),
                        .masks = &masks});
    chain.read(at(64), kKey, kTransferBytesMax - 1).indirect().by_slot_word();
  }).expect_same();
}

TEST(PrismDense, an_operation_that_shares_nothing_travels_whole) {
  const Both both([](Chain& chain) {
    chain.read(at(8), kKey, 8);
    chain.read(at(8), {9}, 8);
    chain.read(RemotePointer::at(4, 8), kKey, 8);
    chain.read(RemotePointer::at(kScratchRegion, 256), kKey, 8);
    chain.read(at(8), kKey, kTransferBytesMax);
    chain.read(at(8), kKey, 8);
  });
  both.expect_same();
  EXPECT_EQ(both.dense.size(), sizeof(DenseChainHeader) + 5 + 4 * 34 + 4);
  EXPECT_LE(both.dense.size(), both.plain.size());
}

TEST(PrismDense, longest_head_fits) {
  const Both both([](Chain& chain) {
    for (size_t i = 0; i < kOperationsMax; ++i) chain.fetch_add(RemotePointer::at(1, i * 4096), {i + 1}, i);
  });
  both.expect_same();
  EXPECT_LE(both.dense.size(), kDenseHeadBytesMax);
}

TEST(PrismDense, what_is_cut_or_longer_is_refused) {
  const Both both(build_example);
  DecodedChain decoded;
  for (size_t bytes = 0; bytes < both.dense.size(); ++bytes) {
    const Bytes cut(both.dense.begin(), both.dense.begin() + static_cast<ptrdiff_t>(bytes));
    EXPECT_EQ(decode(cut, decoded), Code::kMalformed) << bytes;
  }
  for (size_t more = 1; more < 16; ++more) {
    Bytes longer = both.dense;
    longer.resize(longer.size() + more);
    EXPECT_EQ(decode(longer, decoded), Code::kMalformed) << more;
  }
}

TEST(PrismDense, what_the_builder_never_makes_is_refused) {
  const Both both([](Chain& chain) { chain.read(at(8), kKey, 8); });
  DecodedChain decoded;
  const auto with = [&both](size_t at, uint8_t byte) {
    Bytes bytes = both.dense;
    bytes[at] = std::byte{byte};
    return bytes;
  };
  EXPECT_EQ(decode(with(0, 3), decoded), Code::kMalformed) << "a version of tomorrow";
  EXPECT_EQ(decode(with(1, 0), decoded), Code::kMalformed) << "no operation";
  EXPECT_EQ(decode(with(1, 17), decoded), Code::kMalformed) << "one operation too many";
  EXPECT_EQ(decode(with(12, 0x20 | 6), decoded), Code::kMalformed) << "no such opcode";
  Bytes same = with(13, 0x60);
  same.pop_back();
  EXPECT_EQ(decode(same, decoded), Code::kMalformed) << "the address of none before";
  EXPECT_EQ(decode(with(12, 0x81), decoded), Code::kMalformed) << "conditional on none before";
  EXPECT_EQ(decode(both.dense, decoded), Code::kOk);
}

TEST(PrismDense, builder_says_what_does_not_fit_and_begins_again) {
  std::array<std::byte, Chain::kHeadersBytesMax> buffer;
  Chain chain(buffer, ChainForm::kDense);
  for (size_t i = 0; i < kOperationsMax; ++i) chain.fetch_add(at(8), kKey, i);
  EXPECT_TRUE(chain.finish().has_value());
  chain.fetch_add(at(8), kKey, 1);
  EXPECT_EQ(chain.finish().code(), Code::kTooLarge);
  chain.clear();
  EXPECT_EQ(chain.finish().code(), Code::kInvalidArgument);
  const std::array<std::byte, 8> data{};
  chain.write(at(8), kKey, data);
  EXPECT_EQ(chain.finish().code(), Code::kTooLarge) << "no room for inline bytes";
  std::array<std::byte, 40> narrow;
  Chain nowhere(narrow, ChainForm::kDense);
  nowhere.read(at(8), kKey, 8);
  EXPECT_EQ(nowhere.finish().code(), Code::kTooLarge);
}

}  // namespace
}  // namespace refract::prism::dense_test
