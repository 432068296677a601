// SPDX-License-Identifier: Apache-2.0
// The builder, replies, and the worked example of docs/formats/prism.md, byte for byte.
#include "refract/prism/chain.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "refract/base/testing/golden.h"
#include "refract/prism/decode.h"
#include "refract/prism/reply.h"

namespace refract::prism {
namespace {

constexpr RemoteKey kKey{0x0102'0304'0506'0708};

[[nodiscard]] RemotePointer at(uint64_t offset) {
  return RemotePointer::at(3, offset);
}

[[nodiscard]] std::vector<std::byte> bytes_below(const std::string& heading) {
  const auto lines = golden::lines_of(REFRACT_SOURCE_DIR "/docs/formats/prism.md", heading);
  return golden::image_of(lines, lines.size() * 8);
}

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

TEST(PrismChain, worked_example_is_what_the_builder_makes) {
  std::array<std::byte, 512> buffer{};
  Chain chain(buffer);
  build_example(chain);
  const auto message = chain.finish();
  ASSERT_TRUE(message.has_value());
  const std::vector<std::byte> golden = bytes_below("### The chain in hex");
  EXPECT_EQ(golden, std::vector<std::byte>(message->begin(), message->end()));
}

TEST(PrismChain, worked_reply_is_read_as_the_page_says) {
  const std::vector<std::byte> golden = bytes_below("### Its reply in hex");
  const Result<Reply> reply = Reply::of(golden, 3);
  ASSERT_TRUE(reply.has_value());
  EXPECT_TRUE(reply->all_ok());
  EXPECT_TRUE(reply->bytes(0).empty());
  EXPECT_EQ(reply->pointer(1), at(0x1000));
  ASSERT_EQ(reply->bytes(2).size(), 5u);
  EXPECT_EQ(reply->word(2), 0x65'75'6c'61'76u);
}

TEST(PrismChain, decoded_chain_has_the_operations_and_their_bytes) {
  std::array<std::byte, 512> buffer{};
  Chain chain(buffer);
  build_example(chain);
  DecodedChain decoded;
  ASSERT_EQ(decode(*chain.finish(), decoded), Code::kOk);
  ASSERT_EQ(decoded.count, 3u);
  EXPECT_EQ(decoded.operations[0].data().size(), 5u);
  EXPECT_EQ(name(decoded.operations[1].opcode()), "compare_swap");
  EXPECT_EQ(inline_bytes_of(decoded.operations[1].header), 16u);
  EXPECT_TRUE(decoded.operations[2].has(Flag::kBounded));
  EXPECT_EQ(name(static_cast<Opcode>(6)), "");
}

// What does not compile: asked of the types, since a test cannot hold what is no program.
template <typename Step>
concept CanBeBounded = requires(Step step) { step.bounded(); };
template <typename Step>
concept CanBeIndirect = requires(Step step) { step.indirect(); };
template <typename Step>
concept CanBeOwned = requires(Step step) { step.owned(); };
template <typename Step>
concept CanFollowSlots = requires(Step step) { step.by_slot_word(); };
template <typename Step>
concept CanRetire = requires(Step step) { step.retire(); };
template <typename Step>
concept CanBeRedirected = requires(Step step) { step.redirect(ScratchPlace(8)); };

template <Opcode kOpcode, uint16_t kSet = 0>
using StepOf = Step<kOpcode, kSet>;
static_assert(!CanBeBounded<StepOf<Opcode::kRead>> && CanBeBounded<StepOf<Opcode::kRead, Flag::kIndirect>>);
static_assert(!CanBeBounded<StepOf<Opcode::kRead, Flag::kIndirect | Flag::kSlotWord>>);
static_assert(!CanBeIndirect<StepOf<Opcode::kRead, Flag::kIndirect>>, "there is one hop in an operation");
static_assert(!CanBeIndirect<StepOf<Opcode::kAllocate>> &&
              !CanBeBounded<StepOf<Opcode::kFetchAdd, Flag::kIndirect>>);
static_assert(!CanBeOwned<StepOf<Opcode::kAllocate>> &&
              CanBeOwned<StepOf<Opcode::kAllocate, Flag::kRedirect>>);
static_assert(!CanFollowSlots<StepOf<Opcode::kRead>> &&
              CanFollowSlots<StepOf<Opcode::kRead, Flag::kIndirect>>);
static_assert(CanRetire<StepOf<Opcode::kCompareSwap>> && !CanRetire<StepOf<Opcode::kWrite>>);
static_assert(CanBeRedirected<StepOf<Opcode::kRead>> && !CanBeRedirected<StepOf<Opcode::kWrite>>);

TEST(PrismChain, finish_refuses_what_the_executor_would) {
  std::array<std::byte, 2048> buffer{};
  Chain chain(buffer);
  EXPECT_EQ(chain.finish().code(), Code::kInvalidArgument) << "an empty chain";
  chain.read(at(8), kKey, 8).conditional();
  EXPECT_EQ(chain.finish().code(), Code::kInvalidArgument) << "nothing stands before the first";
  chain.clear();
  chain.read(at(8), kKey, 64).redirect(8);
  EXPECT_EQ(chain.finish().code(), Code::kInvalidArgument) << "64 bytes from place 8 on";
  chain.clear();
  chain.compare_swap({.address = at(8), .key = kKey, .bytes = 33});
  EXPECT_EQ(chain.finish().code(), Code::kInvalidArgument);
  chain.clear();
  chain.compare_swap({.address = at(8), .key = kKey, .bytes = 12}).retire();
  EXPECT_EQ(chain.finish().code(), Code::kInvalidArgument) << "retires no whole word";
  chain.clear();
  chain.compare_swap({.address = scratch(8), .key = kKey}).retire();
  EXPECT_EQ(chain.finish().code(), Code::kInvalidArgument) << "the scratch leads to no buffer";
  chain.clear();
  chain.read(at(8), kKey, kTransferBytesMax + 1);
  EXPECT_EQ(chain.finish().code(), Code::kInvalidArgument);
  chain.clear();
  for (size_t i = 0; i < kOperationsMax; ++i) chain.fetch_add(at(8), kKey, i);
  EXPECT_TRUE(chain.finish().has_value());
  chain.fetch_add(at(8), kKey, 1);
  EXPECT_EQ(chain.finish().code(), Code::kTooLarge);
}

TEST(PrismChain, what_does_not_fit_the_buffer_is_said_at_the_end) {
  const std::array<std::byte, 100> data{};
  for (size_t bytes = 0; bytes <= 200; ++bytes) {
    std::vector<std::byte> buffer(bytes);
    Chain chain(buffer);
    chain.write(at(8), kKey, data);
    chain.read(at(8), kKey, 8).conditional();
    const size_t needed = sizeof(ChainHeader) + 2 * sizeof(OperationHeader) + 104;
    EXPECT_EQ(chain.finish().code(), bytes < needed ? Code::kTooLarge : Code::kOk) << bytes;
  }
}

TEST(PrismReply, bytes_that_are_no_reply_are_refused) {
  const std::vector<std::byte> golden = bytes_below("### Its reply in hex");
  EXPECT_EQ(Reply::of(golden, 2).code(), Code::kMalformed);
  EXPECT_EQ(Reply::of(golden, 4).code(), Code::kMalformed);
  for (size_t bytes = 0; bytes < golden.size(); ++bytes) {
    EXPECT_EQ(Reply::of(std::span(golden).first(bytes), 3).code(), Code::kMalformed) << bytes;
  }
  EXPECT_FALSE(Reply().all_ok());
}

}  // namespace
}  // namespace refract::prism
