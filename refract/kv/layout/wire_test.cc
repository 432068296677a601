// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/layout/wire.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/kv/layout/batch_wire.h"
#include "refract/kv/layout/many_wire.h"
#include "refract/kv/layout/pull_wire.h"
#include "refract/kv/layout/remote_wire.h"
#include "refract/kv/layout/transaction_wire.h"
#include "refract/memory/remote_pointer.h"

namespace refract::kv::wire {
namespace {

template <typename T>
std::string hex(const T& value, std::string_view behind = {}) {
  std::string bytes(reinterpret_cast<const char*>(&value), sizeof(value));
  bytes += behind;
  std::string text;
  for (const char byte : bytes) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

// Of the worked example of docs/formats/kv-rpc.md, likewise below.
TEST(Wire, regions_lie_as_the_format_page_says) {
  EXPECT_EQ(hex(RegionsRequest{.first = 0}), "0000000000000000");
  EXPECT_EQ(hex(RegionsReply{.wall_ns = 10'000'000'000, .regions = 1, .reserved = 0}) +
                hex(RegionEntry{.start = 0,
                                .bytes = 64 << 20,
                                .address = RemotePointer::at(1, 0).bits,
                                .key = 0x1122'3344'5566'7788}),
            "00e40b5402000000"
            "0100000000000000"
            "0000000000000000"
            "0000000400000000"
            "0000000000000100"
            "8877665544332211");
}

TEST(Wire, a_pulled_put_lies_as_the_format_page_says) {
  EXPECT_EQ(hex(PutPulledRequest{.key = {.key_bytes = 5, .staged = 0, .flags = 0, .value_bytes = 1 << 20},
                                 .if_version = 0,
                                 .ttl_ns = 0,
                                 .address = RemotePointer::at(0xc000, 0).bits,
                                 .address_key = 0x1122'3344'5566'7788,
                                 .timeout_ns = 1'000'000'000},
                "apple"),
            "0500000000001000"
            "0000000000000000"
            "0000000000000000"
            "00000000000000c0"
            "8877665544332211"
            "00ca9a3b00000000"
            "6170706c65");
}

TEST(Wire, a_batch_lies_as_the_format_page_says) {
  EXPECT_EQ(hex(BatchRequest{.conditions = 1,
                             .writes = 1,
                             .staged_bytes = 0,
                             .identity = {.client = 0, .sequence = 0, .repeats_ns = 0}}) +
                hex(ConditionOfBatch{.version = 7,
                                     .value_bytes = 0,
                                     .key_bytes = 5,
                                     .kind = static_cast<uint8_t>(ConditionKind::kVersion),
                                     .reserved = 0},
                    "apple") +
                hex(WriteOfBatch{.argument = static_cast<uint64_t>(-2),
                                 .value_bytes = 0,
                                 .key_bytes = 3,
                                 .kind = static_cast<uint8_t>(WriteKind::kAdd),
                                 .detail = 0},
                    "fig") +
                hex(WriteOfBatch{.argument = 0x140,
                                 .value_bytes = 2,
                                 .key_bytes = 3,
                                 .kind = static_cast<uint8_t>(WriteKind::kFunction),
                                 .detail = 3},
                    "fig!!"),
            "0100010000000000"
            "000000000000000000000000000000000000000000000000"
            "07000000000000000000000005000300"
            "6170706c65"
            "feffffffffffffff0000000003000300"
            "666967"
            "40010000000000000200000003000403"
            "6669672121");
  EXPECT_EQ(hex(BatchReply{.code = 0, .failed = 2, .bytes = 16, .view = 0}) +
                hex(WrittenOfBatch{.version = 9, .sum = 40}),
            "0000020010000000"
            "0000000000000000"
            "0900000000000000"
            "2800000000000000");
  EXPECT_EQ(hex(RowOfBatch{.version = 9,
                           .code = static_cast<uint16_t>(Code::kInvalidArgument),
                           .answer_bytes = 1,
                           .reserved = {},
                           .answer = {std::byte{2}}})
                .substr(0, 36),
            "0900000000000000"
            "0400010000000000"
            "0200");
}

TEST(Wire, a_part_of_a_transaction_lies_as_the_format_page_says) {
  EXPECT_EQ(hex(PartRequest{.place = 0x0001000000002000,
                            .number = 0x100001,
                            .tried_ns = 1'000,
                            .not_after_wall_ns = 0x1122334455667788,
                            .batch = {.conditions = 0,
                                      .writes = 1,
                                      .staged_bytes = 0,
                                      .identity = {.client = 0, .sequence = 0, .repeats_ns = 0}}}),
            "0020000000000100"
            "0100100000000000"
            "e803000000000000"
            "8877665544332211"
            "0000010000000000"
            "000000000000000000000000000000000000000000000000");
  EXPECT_EQ(hex(PartReply{.batch = {.code = 0, .failed = 1, .bytes = 16, .view = 0},
                          .looked_wall_ns = 0x1122334455667700,
                          .expires_wall_ns = 0x1122334455667788}) +
                hex(WrittenOfBatch{.version = 9, .sum = 0}),
            "0000010010000000"
            "0000000000000000"
            "0077665544332211"
            "8877665544332211"
            "0900000000000000"
            "0000000000000000");
}

TEST(Wire, keys_of_one_call_lie_as_the_format_page_says) {
  ManyBody body;
  body.add_get(std::as_bytes(std::span<const char>("apple", 5)));
  body.add_get(std::as_bytes(std::span<const char>("fig", 3)));
  body.add_get(std::as_bytes(std::span<const char>("0123456789abcdef", 16)));
  std::string text;
  for (const std::byte byte : body.bytes()) text += hex(byte);
  EXPECT_EQ(text,
            "0300000000000000"
            "05006170706c65"
            "0300666967"
            "100030313233343536373839616263646566");
  body.clear();
  body.add_get(std::as_bytes(std::span<const char>("fig", 3)));
  text.clear();
  for (const std::byte byte : body.bytes()) text += hex(byte);
  EXPECT_EQ(text,
            "0100000000000000"
            "0300666967")
      << "nothing of the body before";
  EXPECT_EQ(
      hex(ManyEntry{.version = 0x10002, .expires_wall_ns = 0, .value_bytes = 3, .code = 0, .reserved = 0},
          "red") +
          hex(ManyEntry{.version = 0,
                        .expires_wall_ns = 0,
                        .value_bytes = 0,
                        .code = static_cast<uint16_t>(Code::kNotFound),
                        .reserved = 0}),
      "0200010000000000"
      "0000000000000000"
      "0300000000000000"
      "726564"
      "0000000000000000"
      "0000000000000000"
      "0000000001000000");
}

TEST(Wire, puts_of_one_call_lie_as_the_format_page_says) {
  const auto bytes_of = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  ManyBody body;
  body.add_put(bytes_of("apple"), bytes_of("red"), 60'000'000'000);
  std::string text;
  for (const std::byte byte : body.bytes()) text += hex(byte);
  EXPECT_EQ(text,
            "0100000000000000"
            "005847f80d000000"
            "0300000005000000"
            "6170706c65"
            "726564");
  EXPECT_EQ(hex(ManyVersion{.version = 0x10002, .code = 0, .reserved = 0, .reserved_end = 0}),
            "0200010000000000"
            "0000000000000000");
}

TEST(Wire, an_answer_to_many_that_makes_no_sense_is_none) {
  const ManyEntry good{.version = 1, .expires_wall_ns = 0, .value_bytes = 3, .code = 0, .reserved = 0};
  const auto is_taken = [](const ManyEntry& entry, size_t behind) {
    std::vector<std::byte> bytes(sizeof(entry) + behind);
    std::memcpy(bytes.data(), &entry, sizeof(entry));
    std::span<const std::byte> left = bytes;
    return take_many_answer(left).has_value();
  };
  EXPECT_TRUE(is_taken(good, 3));
  EXPECT_FALSE(is_taken(good, 2));
  ManyEntry odd = good;
  odd.reserved = 1;
  EXPECT_FALSE(is_taken(odd, 3));
  odd = good;
  odd.value_bytes = UINT32_MAX;
  EXPECT_FALSE(is_taken(odd, 3));
  // What did not fit says how long it is.
  odd = good;
  odd.code = static_cast<uint16_t>(Code::kTooLarge);
  EXPECT_TRUE(is_taken(odd, 0));
  std::span<const std::byte> nothing;
  EXPECT_FALSE(take_many_answer(nothing).has_value());
}

TEST(Wire, bodies_lie_as_the_format_page_says) {
  EXPECT_EQ(hex(PutRequest{.key = {.key_bytes = 5, .staged = 0, .flags = KeyRef::kIfAbsent, .value_bytes = 3},
                           .if_version = 0,
                           .ttl_ns = 60'000'000'000},
                "applered"),
            "0500000103000000"
            "0000000000000000"
            "005847f80d000000"
            "6170706c65"
            "726564");
  EXPECT_EQ(hex(KeyRef{.key_bytes = 5, .staged = 0, .flags = 0, .value_bytes = 0}, "apple"),
            "0500000000000000"
            "6170706c65");
  EXPECT_EQ(hex(GetReply{.version = 0x10002, .value_bytes = 3, .expires_wall_ns = 0, .view = 0}, "red"),
            "0200010000000000"
            "0300000000000000"
            "0000000000000000"
            "0000000000000000"
            "726564");
  EXPECT_EQ(hex(EraseRequest{.key = {.key_bytes = 40'000, .staged = 2, .flags = 0, .value_bytes = 0},
                             .if_version = 0x10002}),
            "409c020000000000"
            "0200010000000000");
  EXPECT_EQ(hex(StageKeyRequest{.place = 1, .reserved = 0, .offset = 0x7ff8, .reserved_end = 0}),
            "0100f87f00000000");
  EXPECT_EQ(hex(ScanReply{.next = 0x8000, .page_bytes = 21, .view = 0, .keys = 1, .reserved = 0}) +
                hex(ScanEntry{.version = 0x10002, .value_bytes = 3, .key_bytes = 5, .reserved = 0}, "apple"),
            "0080000000000000"
            "1500000000000000"
            "0000000000000000"
            "0100000000000000"
            "0200010000000000"
            "0300000005000000"
            "6170706c65");
  EXPECT_EQ(
      hex(KeyRef{.key_bytes = 5, .staged = 0, .flags = KeyRef::kWantsWindow, .value_bytes = 0}, "apple"),
      "0500000200000000"
      "6170706c65");
  EXPECT_EQ(hex(GetReply{.version = 0x10002, .value_bytes = 1 << 22, .expires_wall_ns = 0, .view = 0x10003}) +
                hex(WindowReply{.address = uint64_t{0x8001} << 48, .key = 0x1122334455667788}),
            "0200010000000000"
            "0000400000000000"
            "0000000000000000"
            "0300010000000000"
            "0000000000000180"
            "8877665544332211");
  EXPECT_EQ(
      hex(EraseRequest{.key = {.key_bytes = 5, .staged = 0, .flags = KeyRef::kIdentified, .value_bytes = 0},
                       .if_version = 0}) +
          hex(Identity{.client = 42, .sequence = 5, .repeats_ns = 3}, "apple"),
      "0500000400000000"
      "0000000000000000"
      "2a00000000000000"
      "0500000000000000"
      "0300000000000000"
      "6170706c65");
  EXPECT_EQ(hex(PutPieceRequest{.upload = 7, .offset = 32'752}), "0700000000000000f07f000000000000");
  EXPECT_EQ(hex(ViewPieceRequest{.view = 7, .offset = 1, .bytes = 2}),
            "0700000000000000"
            "0100000000000000"
            "0200000000000000");
}

TEST(Wire, every_method_has_a_name_of_its_own) {
  std::set<std::string_view> names;
  for (uint16_t number = 1; number < kMethods; ++number) {
    const std::string_view text = name(static_cast<Method>(number));
    EXPECT_FALSE(text.empty()) << number;
    EXPECT_TRUE(names.insert(text).second) << text;
  }
  EXPECT_TRUE(names.insert(name(Method::kGetMany)).second);
  EXPECT_TRUE(names.insert(name(Method::kPutMany)).second);
  EXPECT_EQ(name(Method::kPutCommit), "put_commit");
  EXPECT_EQ(name(Method::kStageKey), "stage_key");
  EXPECT_TRUE(name(static_cast<Method>(0)).empty());
  EXPECT_TRUE(name(static_cast<Method>(kMethods)).empty());
  EXPECT_TRUE(name(static_cast<Method>(0xffff)).empty());
}

TEST(Wire, take_gives_nothing_of_a_body_that_is_too_short) {
  const std::vector<std::byte> bytes(sizeof(GetReply), std::byte{1});
  for (size_t length = 0; length <= bytes.size(); ++length) {
    std::span<const std::byte> body = std::span(bytes).first(length);
    const auto reply = take<GetReply>(body);
    EXPECT_EQ(reply.has_value(), length == bytes.size());
    EXPECT_EQ(body.size(), length == bytes.size() ? 0 : length) << "a body that is refused stays as it is";
  }
}

}  // namespace
}  // namespace refract::kv::wire
