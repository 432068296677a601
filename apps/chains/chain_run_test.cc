// SPDX-License-Identifier: Apache-2.0
// From a text to what an executor does, and how that, its steps and its bytes are printed.
#include <gtest/gtest.h>

#include <string>

#include "apps/chains/chain_text.h"
#include "apps/chains/encode.h"
#include "apps/chains/explain.h"
#include "apps/chains/outcome_text.h"

#include "refract/prism/snic/test_world.h"

namespace refract::chains {
namespace {

using prism::snic::test::Draft;
using prism::snic::test::kKey;
using prism::snic::test::kRegion;
using prism::snic::test::World;

const OpenedStore kStore{.name = "kv", .region = kRegion, .key = kKey, .root = 256};

ParsedChain parsed(std::string_view text) {
  auto chain = parse_chain({.name = "t.chain", .text = text});
  EXPECT_TRUE(chain) << chain.error().to_string();
  return chain ? *chain : ParsedChain{};
}

std::vector<std::byte> encoded(const ParsedChain& chain) {
  const auto message = encode(chain, {&kStore, 1});
  EXPECT_TRUE(message);
  return message ? *message : std::vector<std::byte>{};
}

class ChainRun : public testing::Test {
 protected:
  std::string run(std::string_view text, bool json = false) {
    const ParsedChain chain = parsed(text);
    const auto bytes = world_.executor().execute(world_.connection(), encoded(chain), world_.room());
    EXPECT_TRUE(bytes);
    const auto reply = prism::Reply::of(world_.room().first(bytes.value_or(0)), chain.statements.size());
    EXPECT_TRUE(reply);
    if (!reply) return {};
    const Outcomes outcomes{.chain = chain, .reply = *reply, .round_trip_ns = 1'234, .transport = "shm"};
    return json ? outcome_json(outcomes) : outcome_text(outcomes);
  }

  World world_;
};

TEST_F(ChainRun, what_became_of_each_operation_is_printed_with_its_bytes) {
  world_.set(256, 512);
  world_.set(512, "hello, memory");
  world_.set(264, World::at(512).bits);
  world_.set(272, 5);
  EXPECT_EQ(run("read kv.root+0 8\n"
                "read kv.root+8 64 indirect bounded  # a pointer and a bound\n"
                "cas  kv+256 eq compare 511 swap 7\n"
                "read kv+256 8 conditional\n"
                "add  kv+256 0x10\n"
                "write scratch+0 \"x\"\n"
                "read kv+8192 8\n"
                "read kv+1024 0\n"),
            R"(1  read kv.root+0 8
     ok; 8 of 8 bytes asked for
     0000  00 02 00 00 00 00 00 00                           ........
2  read kv.root+8 64 indirect bounded
     ok; 5 of 64 bytes asked for
     0000  68 65 6c 6c 6f                                    hello
3  cas  kv+256 eq compare 511 swap 7
     compare_failed: )" +
                std::string(info(Code::kCompareFailed).sentence) + R"(; the old value was 0x200
     0000  00 02 00 00 00 00 00 00                           ........
4  read kv+256 8 conditional
     cancelled: )" +
                std::string(info(Code::kCancelled).sentence) + R"(
5  add  kv+256 0x10
     ok; the old value was 512 (0x200)
     0000  00 02 00 00 00 00 00 00                           ........
6  write scratch+0 "x"
     ok
7  read kv+8192 8
     access_denied: )" +
                std::string(info(Code::kAccessDenied).sentence) + R"(
8  read kv+1024 0
     ok; 0 of 0 bytes asked for
8 operations in one round trip of 1.2 us over shm
)");
  EXPECT_EQ(world_.word(256), 512U + 16);
}

TEST_F(ChainRun, an_entry_is_replaced_out_of_place_in_one_chain) {
  world_.set(256, World::at(2048).bits);
  const std::string text =
      run("allocate kv/0 \"fresh\" redirect scratch+0 owned\n"
          "cas kv+256 eq compare kv+2048 swap [scratch+0] conditional\n"
          "read kv+256 5 indirect conditional\n");
  EXPECT_NE(text.find("ok; output to scratch+0"), std::string::npos) << text;
  EXPECT_NE(text.find("fresh"), std::string::npos) << text;
  EXPECT_EQ(world_.word(256), World::at(2048).bits) << "the list's first buffer is the one that was there";
  EXPECT_EQ(world_.free_buffers(), 7U);
}

TEST_F(ChainRun, programs_get_the_same_as_json) {
  world_.set(256, "ab\xff");
  EXPECT_EQ(run("read kv+256 2\nread kv+258 1\nread scratch+0 0", true),
            R"({"round_trip_ns": 1234, "transport": "shm", "operations": [)"
            R"({"operation": "read", "line": 1, "source": "read kv+256 2", )"
            R"("code": "ok", "bytes": 2, "hex": "6162", "text": "ab"}, )"
            R"({"operation": "read", "line": 2, "source": "read kv+258 1", )"
            R"("code": "ok", "bytes": 1, "hex": "ff", "text_base64": "/w=="}, )"
            R"({"operation": "read", "line": 3, "source": "read scratch+0 0", )"
            R"("code": "ok", "bytes": 0}]})"
            "\n");
}

// The builder is what programs use; both must send the same bytes.
TEST(ChainEncoding, the_text_encodes_as_the_builder_does) {
  using prism::Comparison;
  using prism::Operand;
  const std::byte mask[8] = {std::byte{0xff}};
  const prism::Masks masks{.compare = Operand::of(mask), .swap = Operand::of(~uint64_t{0})};
  Draft draft;
  draft->read(World::at(0x1000), kKey, 64);
  draft->read(World::at(256), kKey, 128).indirect().by_slot_word().conditional();
  draft->write_from(World::at(264), kKey, prism::scratch(8), 16).indirect().bounded();
  draft->allocate(World::at(1), kKey, prism::snic::test::bytes_of("text"))
      .as_slot_word(uint64_t{0x7e} << 56)
      .redirect(16)
      .owned();
  draft
      ->compare_swap({.address = World::at(272),
                      .key = kKey,
                      .compare = Operand::of(0x51),
                      .swap = Operand::at(prism::scratch(16)),
                      .masks = &masks})
      .conditional()
      .retire()
      .by_slot_word();
  draft->compare_swap({.address = prism::scratch(0),
                       .key = {},
                       .bytes = 4,
                       .comparison = Comparison::kLess,
                       .compare = Operand::of(1),
                       .swap = Operand::of(2)});
  draft->fetch_add(World::at(280), kKey, 3);
  const auto built = draft.chain.finish();
  ASSERT_TRUE(built);
  const std::vector<std::byte> written = encoded(parsed(
      "read kv+0x1000 64\n"
      "read kv.root+0 128 indirect slot conditional\n"
      "write kv.root+8 [scratch+8] 16 indirect bounded\n"
      "allocate kv/1 \"text\" slot template 0x7e00000000000000 redirect scratch+16 owned\n"
      "cas kv.root+16 eq compare 0x51 swap [scratch+16] compare-mask u64:0xff conditional retire slot\n"
      "cas scratch+0 lt compare u32:1 swap u32:2\n"
      "add kv.root+24 3\n"));
  EXPECT_EQ(std::vector<std::byte>(built->begin(), built->end()), written);
}

TEST(ChainEncoding, a_root_beyond_all_addresses_is_refused) {
  const OpenedStore far{.name = "kv", .region = 1, .key = {1}, .root = RemotePointer::kOffsetMask};
  EXPECT_FALSE(encode(parsed("read kv.root+8 8"), {&far, 1}));
}

TEST(ChainText, every_step_of_every_hop_is_explained) {
  EXPECT_EQ(explain(parsed("read kv+0x2010 128 indirect slot\n"
                           "allocate kv/0 \"ab\" redirect scratch+0 owned\n"
                           "cas kv+0x2018 eq compare 0x51 swap [scratch+0] conditional retire\n")),
            R"(1  read kv+0x2010 128 indirect slot
     check    kv+0x2010: 8 bytes lie in kv, whose key gives the right to read; else access_denied
     load     8 bytes at kv+0x2010: a slot's word
     hop      to kv+(the word's low 35 bits x 16); none: not_found
     check    the bytes to copy lie in kv, under the same key, with the right to read; else access_denied
     copy     128 bytes (fewer at the end of kv) from where the slot leads
     output   what was copied into the reply; too_large if there is no room

2  allocate kv/0 "ab" redirect scratch+0 owned
     check    the key of kv gives the right to allocate; else access_denied
     take     the first buffer of free list 0; too_large: it has less than 2 bytes; no_space: there is none
     store    2 bytes of data into it
     store    its pointer into scratch+0; the reply gets none
     end      at the chain's end it goes back, unless it was swapped or written in from the scratch

3  cas kv+0x2018 eq compare 0x51 swap [scratch+0] conditional retire
     check    the operation before ended with ok; else cancelled
     check    kv+0x2018: 8 bytes lie in kv, whose key gives the right to swap and retire; else access_denied
     check    the target is a multiple of 8; else invalid_argument
     check    scratch+0: 8 bytes lie in the connection's scratch, which needs no key
     load     8 bytes at scratch+0: what is swapped in
     load     the old 8 bytes at kv+0x2018
     compare  equal; else compare_failed, and the old bytes come all the same
     check    what the old word leads to is a buffer that is out, or nothing; else access_denied
     check    the guard of kv, if it has one, allows it; else access_denied
     store    the new 8 bytes at kv+0x2018
     end      what the old word led to is retired: reused when no chain under way can still lead there
     output   the old bytes into the reply
)");
}

TEST(ChainText, what_would_travel_is_shown_field_by_field) {
  EXPECT_EQ(wire_text(encoded(parsed("cas kv+0x18 gt compare u32:1 swap [scratch+8] swap-mask hex:ff00ff00\n"
                                     "write scratch+8 \"text\"\n"))),
            R"(chain of 112 bytes
  0000  01                       version
  0001  02                       operations
  0002  00 00 00 00 00 00        reserved
1  cas
  0008  04                       opcode        compare_swap
  0009  01                       mode          gt
  000a  04 02                    flags         data-indirect, masked
  000c  04 00 00 00              bytes         4
  0010  18 00 00 00 00 00 07 00  address       region 7, offset 0x18
  0018  f0 de bc 9a 78 56 34 12  key           of the region
  0020  00 00 00 00 00 00 00 00  operand
  0028  01 00 00 00 00 00 00 00  compare       '\x01\x00\x00\x00'
  0030  08 00 00 00 00 00 ff ff  swap          stands at scratch+8
  0038  ff ff ff ff 00 00 00 00  compare mask  which bits are compared
  0040  ff 00 ff 00 00 00 00 00  swap mask     which bits are replaced
2  write
  0048  02                       opcode        write
  0049  00                       mode
  004a  00 00                    flags
  004c  04 00 00 00              bytes         4
  0050  08 00 00 00 00 00 ff ff  address       scratch+8
  0058  00 00 00 00 00 00 00 00  key           none
  0060  00 00 00 00 00 00 00 00  operand
  0068  74 65 78 74 00 00 00 00  data          'text'
)");
  const std::byte wrong[] = {std::byte{1}, std::byte{1}, {}, {}, {}, {}, {}, {}};
  EXPECT_NE(wire_text(wrong).find("refuses"), std::string::npos);
  EXPECT_NE(wire_text({}).find("no chain"), std::string::npos);
}

}  // namespace
}  // namespace refract::chains
