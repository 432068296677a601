// SPDX-License-Identifier: Apache-2.0
// What the language of chains says, and what it says about texts that are no chain.
#include "apps/chains/chain_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace refract::chains {
namespace {

using prism::ChainRights;
using prism::Flag;
using prism::Opcode;

Reported<ParsedChain> parse(std::string_view text) {
  return parse_chain({.name = "t.chain", .text = text});
}

std::string fault_of(std::string_view text) {
  const auto chain = parse(text);
  return chain ? "no fault" : chain.error().what;
}

TEST(ChainText, every_operation_is_read_with_its_operands_and_flags) {
  const auto chain = parse(
      "# The words of the language, all of them.\n"
      "let place = kv+0x2000   # a name\n"
      "let step = 2*8\n"
      "\n"
      "read kv+0x1000 64\n"
      "read place+step 128 indirect slot conditional\n"
      "  read scratch+8 0x100 indirect bounded in other\n"
      "write kv.root+8 \"a\\n\\x00\" hex:00_ff u16:0x0102 7 place\r\n"
      "write place [scratch+0] 16 indirect\n"
      "allocate kv/3 \"text\" slot template 0x7e00000000000000 redirect scratch+16 owned\n"
      "cas place eq compare 5 swap [scratch+16] conditional retire slot\n"
      "cas place gt compare u32:1 swap u32:2 compare-mask u32:0xff\n"
      "cas scratch+0 lt compare [kv+8] swap [scratch+8] bytes 24\n"
      "add kv+16 1 indirect");
  ASSERT_TRUE(chain) << chain.error().to_string();
  const std::vector<Statement>& all = chain->statements;
  ASSERT_EQ(all.size(), 10U);
  EXPECT_EQ(all[0].address.text(), "kv+0x1000");
  EXPECT_EQ(all[0].bytes, 64U);
  EXPECT_EQ(all[0].source, "read kv+0x1000 64");
  EXPECT_EQ(all[0].at, (Position{5, 1}));
  EXPECT_EQ(all[1].address.text(), "kv+0x2010");
  EXPECT_EQ(all[1].flags, Flag::kIndirect | Flag::kSlotWord | Flag::kConditional);
  EXPECT_EQ(all[2].at, (Position{7, 3}));
  EXPECT_EQ(all[2].store, "other");
  EXPECT_EQ(all[3].address.text(), "kv.root+0x8");
  EXPECT_EQ(all[3].bytes, 3U + 2 + 2 + 8 + 8);
  EXPECT_EQ(all[3].source, R"(write kv.root+8 "a\n\x00" hex:00_ff u16:0x0102 7 place)");
  EXPECT_EQ(all[4].from->text(), "scratch+0");
  EXPECT_EQ(all[4].flags, Flag::kIndirect | Flag::kDataIndirect);
  EXPECT_EQ(all[5].address.offset, 3U);
  EXPECT_EQ(all[5].number, 0x7e00000000000000U);
  EXPECT_EQ(all[5].redirect, 16U);
  EXPECT_EQ(all[6].bytes, 8U);
  EXPECT_EQ(all[6].flags, Flag::kConditional | Flag::kRetire | Flag::kSlotWord | Flag::kDataIndirect);
  EXPECT_EQ(all[7].bytes, 4U);
  EXPECT_EQ(all[7].flags, Flag::kMasked);
  EXPECT_EQ(all[8].bytes, 24U);
  EXPECT_EQ(all[8].flags, Flag::kCompareIndirect | Flag::kDataIndirect);
  EXPECT_EQ(all[9].opcode, Opcode::kFetchAdd);
  EXPECT_EQ(all[9].number, 1U);
}

TEST(ChainText, a_chain_asks_for_the_rights_that_its_operations_need) {
  const auto rights = [](std::string_view text) -> int {
    const auto chain = parse(text);
    return chain && chain->stores.size() == 1 ? chain->stores[0].rights.bits : -1;
  };
  EXPECT_EQ(rights("read kv+0 8"), ChainRights::kRead);
  EXPECT_EQ(rights("read scratch+0 8 indirect in kv"), ChainRights::kRead);
  EXPECT_EQ(rights("write kv+0 \"x\""), ChainRights::kWrite);
  EXPECT_EQ(rights("write kv+0 \"x\" indirect"), ChainRights::kWrite | ChainRights::kRead);
  EXPECT_EQ(rights("write scratch+0 [kv+0] 8"), ChainRights::kRead);
  EXPECT_EQ(rights("allocate kv/0 1"), ChainRights::kAllocate);
  EXPECT_EQ(rights("cas kv+0 eq compare 1 swap 2"), ChainRights::kAtomic);
  EXPECT_EQ(rights("cas kv+0 eq compare 1 swap 2 retire"), ChainRights::kAtomic | ChainRights::kAllocate);
  EXPECT_EQ(rights("add kv+0 1"), ChainRights::kAtomic);
  EXPECT_EQ(rights("write scratch+0 kv+16"), 0) << "a pointer into a store is written, and nothing opened";
  EXPECT_EQ(parse("read scratch+0 8")->stores.size(), 0U);
}

struct Fault {
  const char* text;
  const char* what;  // With the place.
};

constexpr Fault kFaults[] = {
    {"", "t.chain: there is no operation in it"},
    {"# nothing\n", "t.chain: there is no operation in it"},
    {"reed kv+0 8", "t.chain:1:1: expected read, write, allocate, cas, add or let, found 'reed'"},
    {"\n\n  8", "t.chain:3:3: expected read, write, allocate, cas, add or let, found '8'"},
    {"read", "t.chain:1:5: expected an address, as kv+0x1000 or scratch+8, found the end of the line"},
    {"read 0x1000 8", "t.chain:1:6: expected an address, as kv+0x1000 or scratch+8, found the number 0x1000"},
    {"read kv+0x1000 indirect", "t.chain:1:16: expected a number of bytes, found 'indirect'"},
    {"read kv+0 kv+8", "t.chain:1:11: expected a number of bytes, found the place kv+0x8"},
    {"read kv+0 70000", "t.chain:1:11: expected a number of bytes of at most 65536, found 70000"},
    {"read kv+0 12x", "t.chain:1:11: expected a number, as 64 or 0x40, found '12x'"},
    {"read kv+0 0x", "t.chain:1:11: expected a number, as 64 or 0x40, found '0x'"},
    {"read kv+18446744073709551616 8", "t.chain:1:9: '18446744073709551616' does not fit into 64 bits"},
    {"read kv+0x1000000000000 8", "t.chain:1:9: an offset has 48 bits"},
    {"let a = 0xffffffffffffffff+1", "t.chain:1:28: the sum does not fit into 64 bits"},
    {"let a = 0xffffffffffffffff*2", "t.chain:1:28: the product does not fit into 64 bits"},
    {"read kv+kv 8", "t.chain:1:9: a place can only have numbers added, and this is a second place"},
    {"read kv+indirect 8", "t.chain:1:9: expected an address, as kv+0x1000 or scratch+8, found 'indirect'"},
    {"read kv.size 8", "t.chain:1:6: 'kv.size' is nothing: a store has a root, as kv.root, and offsets"},
    {"read kv+0 8 indirct",
     "t.chain:1:13: expected indirect, bounded, slot, conditional, redirect or the end of"},
    {"read kv+0 8 owned",
     "t.chain:1:13: read knows no 'owned': it takes indirect, bounded, slot, conditional, redirect"},
    {"read kv+0 8 indirect indirect", "t.chain:1:22: 'indirect' stands here twice"},
    {"read kv+0 8 !", "t.chain:1:13: '!' begins no word, number or text"},
    {"read kv+0 8 conditional", "t.chain:1:13: there is no operation before the first to be conditional on"},
    {"read kv+0 8 bounded", "t.chain:1:13: a bound stands behind a pointer: bounded needs indirect"},
    {"read kv+0 8 indirect slot bounded", "t.chain:1:27: a slot word has no bound behind it"},
    {"read kv+0 8 slot", "t.chain:1:13: a slot word is followed or retired: slot needs indirect or retire"},
    {"read kv+4 8 indirect", "t.chain:1:6: a pointer stands at a multiple of 8"},
    {"read kv+0 8 redirect",
     "t.chain:1:21: expected a place in the scratch, as scratch+0, found the end of the line"},
    {"read kv+0 8 redirect kv+0", "t.chain:1:22: expected a place in the scratch, as scratch+0"},
    {"read kv+0 8 redirect scratch+4",
     "t.chain:1:22: expected a place in the scratch that is a multiple of 8"},
    {"read kv+0 16 redirect scratch+56",
     "t.chain:1:23: 16 bytes from scratch+56 on do not fit: the scratch has 64"},
    {"read scratch+60 8", "t.chain:1:6: 8 bytes from scratch+60 on do not fit: the scratch has 64"},
    {"read scratch+56 8 indirect bounded",
     "t.chain:1:6: 16 bytes from scratch+56 on do not fit: the scratch has 64"},
    {"read scratch+0 8 indirect in 7", "t.chain:1:30: expected the name of a store, found '7'"},
    {"read scratch+0 8 indirect in scratch", "t.chain:1:30: expected the name of a store"},
    {"write kv+0",
     "t.chain:1:11: expected data: \"text\", hex:0011, u32:5, a number or an address, found the end"},
    {"write kv+0 \"abc", "t.chain:1:12: expected '\"' at the text's end, found the end of the line"},
    {"write kv+0 \"a\\qb\"",
     "t.chain:1:14: expected \\n, \\t, \\0, \\\", \\\\ or \\x and two hexadecimal digits"},
    {"write kv+0 hex:0g", "t.chain:1:17: expected a hexadecimal digit, found 'g'"},
    {"write kv+0 hex:012",
     "t.chain:1:12: expected two hexadecimal digits a byte, found an odd number of them"},
    {"write kv+0 u8:256", "t.chain:1:15: expected a number of at most 255, found 256"},
    {"write kv+0 [scratch+0]", "t.chain:1:23: expected a number of bytes, found the end of the line"},
    {"write kv+0 [scratch+0 8", "t.chain:1:23: expected ']', found '8'"},
    {"write kv+0 [kw+0] 8", "t.chain:1:13: one operation touches one store, and this is 'kw' beside 'kv'"},
    {"allocate kv+0 \"x\"", "t.chain:1:12: expected '/' and the number of a free list, found '+'"},
    {"allocate scratch/0 1", "t.chain:1:10: expected the name of a store: free lists belong to stores"},
    {"allocate 7/0 1", "t.chain:1:10: expected a store and a free list, as kv/0, found '7'"},
    {"allocate kv/x 1", "t.chain:1:13: expected the number of a free list, found the place x+0x0"},
    {"allocate kv/0 1 owned", "t.chain:1:17: a chain owns what its scratch leads to: owned needs redirect"},
    {"allocate kv/0 1 template 256", "t.chain:1:1: only a slot word has a template: add slot"},
    {"allocate kv/0 1 slot template 1",
     "t.chain:1:1: the template's bits 0x1 are the executor's: place and stamp"},
    {"cas kv+0 ne compare 1 swap 2", "t.chain:1:10: expected eq, gt or lt, found 'ne'"},
    {"cas kv+0 eq 1 swap 2", "t.chain:1:13: expected compare, found '1'"},
    {"cas kv+0 eq compare 1", "t.chain:1:22: expected swap, found the end of the line"},
    {"cas kv+0 eq compare 1 swap u32:2",
     "t.chain:1:28: what is swapped in has 4 bytes, where the operands have 8"},
    {"cas kv+0 eq compare [scratch+0] swap [scratch+8]",
     "t.chain:1:21: how long the operands are is nowhere said"},
    {"cas kv+0 eq compare \"012345678901234567890123456789012\" swap 1",
     "t.chain:1:21: operands have at most 32 bytes, these have 33"},
    {"cas kv+0 eq compare 1 swap 2 swap-mask u8:1",
     "t.chain:1:40: the mask has 1 bytes, where the operands have 8"},
    {"cas kv+0 eq compare 1 swap 2 swap-mask 1 swap-mask 1", "t.chain:1:42: 'swap-mask' stands here twice"},
    {"cas kv+4 eq compare 1 swap 2", "t.chain:1:5: operands of 8 bytes and more stand at a multiple of 8"},
    {"cas kv+6 eq compare u32:1 swap u32:2", "t.chain:1:5: 4 bytes from here on cross a multiple of 8"},
    {"cas kv+0 eq compare u32:1 swap u32:2 retire",
     "t.chain:1:38: what is retired is led to by a whole word"},
    {"cas scratch+0 eq compare 1 swap 2 retire", "t.chain:1:35: what stands in the scratch is no store's"},
    {"cas kv+0 eq compare [scratch+60] swap 2", "t.chain:1:22: 8 bytes from scratch+60 on do not fit"},
    {"add kv+4 1", "t.chain:1:5: operands of 8 bytes and more stand at a multiple of 8"},
    {"add kv+8", "t.chain:1:9: expected what is to be added, found the end of the line"},
    {"let", "t.chain:1:4: expected a name, found the end of the line"},
    {"let slot = 1", "t.chain:1:5: expected a name of your own, found 'slot'"},
    {"let a.b = 1", "t.chain:1:5: expected a name of your own, found 'a.b'"},
    {"let a 1", "t.chain:1:7: expected '=', found '1'"},
    {"let a = 1 2", "t.chain:1:11: expected the end of the line, found '2'"},
    {"let a = 1\nlet a = 2", "t.chain:2:5: 'a' has a value already"},
};

TEST(ChainText, each_fault_is_named_with_its_place_and_what_was_expected) {
  for (const Fault& fault : kFaults) {
    EXPECT_TRUE(fault_of(fault.text).starts_with(fault.what))
        << fault.text << "\n  said " << fault_of(fault.text);
  }
}

TEST(ChainText, a_fault_shows_its_line_with_a_mark_under_the_place) {
  const auto chain = parse("read kv+0 8\nread kv+0x1000 indirect\n");
  ASSERT_FALSE(chain);
  EXPECT_EQ(chain.error().next, "read kv+0x1000 indirect\n                 ^");
  // Where letters are not columns there is no mark.
  EXPECT_EQ(parse("read\tkv+0 8 owned").error().next, "read\\x09kv+0 8 owned");
}

TEST(ChainText, a_chain_is_no_longer_than_an_executor_takes) {
  std::string text;
  for (size_t i = 0; i < prism::kOperationsMax; ++i) text += "read kv+0 8\n";
  EXPECT_TRUE(parse(text));
  EXPECT_EQ(fault_of(text + "read kv+0 8"), "t.chain:17:1: a chain has at most 16 operations");
  const std::string longest(prism::kTransferBytesMax, 'x');
  EXPECT_TRUE(parse("write kv+0 \"" + longest + "\""));
  EXPECT_EQ(fault_of("write kv+0 \"" + longest + "\" \"y\""),
            "t.chain:1:65551: one operation carries at most 65536 bytes");
}

}  // namespace
}  // namespace refract::chains
