// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/layout/numbered_wire.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/kv/layout/clear_wire.h"
#include "refract/kv/layout/operations_body.h"

namespace refract::kv::wire {
namespace {

std::span<const std::byte> bytes_in(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string digits(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}
template <typename T>
std::string digits(const T& value) {
  return digits(std::as_bytes(std::span(&value, 1)));
}

constexpr Operation kPutOfApple{.number = 5,
                                .tag = 7,
                                .value_bytes = 3,
                                .argument = 60'000'000'000,
                                .if_version = 0,
                                .key_bytes = 5,
                                .kind = static_cast<uint8_t>(OperationKind::kPut),
                                .flags = Operation::kIfAbsent | Operation::kForSoLong,
                                .function = 0,
                                .staged = 0,
                                .reserved = 0};
constexpr Operation kAddToFig{.number = 6,
                              .tag = 7,
                              .value_bytes = 8,
                              .argument = 0,
                              .if_version = 0,
                              .key_bytes = 3,
                              .kind = static_cast<uint8_t>(OperationKind::kFunction),
                              .flags = 0,
                              .function = 1,
                              .staged = 0,
                              .reserved = 0};

// Of the worked example of docs/formats/kv-rpc.md, likewise below.
TEST(NumberedWire, a_session_lies_as_the_format_page_says) {
  SessionSecret secret{};
  for (size_t i = 0; i < secret.size(); ++i) secret[i] = std::byte(0x10 + i);
  EXPECT_EQ(digits(SessionRequest{.id = 0x20003, .secret = secret}),
            "0300020000000000"
            "101112131415161718191a1b1c1d1e1f");
  EXPECT_EQ(digits(SessionReply{.id = 0x20003, .secret = secret, .functions = 0x140, .reserved = 0}),
            "0300020000000000"
            "101112131415161718191a1b1c1d1e1f"
            "4001000000000000");
}

TEST(NumberedWire, operations_lie_as_the_format_page_says) {
  OperationsBody body;
  body.acknowledge(4, 62);
  body.acknowledge(3, kPlaceUnknown);
  body.add(kPutOfApple, bytes_in("apple"), bytes_in("red"));
  const uint64_t addend = 2;
  body.add(kAddToFig, bytes_in("fig"), std::as_bytes(std::span(&addend, 1)));
  EXPECT_EQ(digits(body.bytes()),
            "0200020000000000"
            "0400000000003e00"
            "030000000000ffff"
            "05000000000000000700000003000000"
            "005847f80d0000000000000000000000"
            "0500010900000000"
            "6170706c65"
            "726564"
            "06000000000000000700000008000000"
            "00000000000000000000000000000000"
            "0300030001000000"
            "666967"
            "0200000000000000");
  EXPECT_EQ(body.bytes().size(), body.size());
  EXPECT_EQ(body.answer_bytes_max(), 2 * sizeof(OperationAnswer) + kOperationAnswerBytesMax);
  EXPECT_EQ(digits(OperationAnswer{
                .version = 0x10002, .code = 0, .place = 62, .bytes = 0, .flags = 0, .reserved = 0}),
            "0200010000000000"
            "00003e0000000000");
  EXPECT_EQ(digits(OperationAnswer{.version = 0x10005,
                                   .code = 0,
                                   .place = 61,
                                   .bytes = 8,
                                   .flags = OperationAnswer::kToldAgain,
                                   .reserved = 0}) +
                digits(uint64_t{42}),
            "0500010000000000"
            "00003d0008010000"
            "2a00000000000000");
  body.clear();
  EXPECT_EQ(body.operations(), 0u);
  body.may_wait();
  body.add(kPutOfApple, bytes_in("apple"), bytes_in("red"));
  EXPECT_EQ(digits(body.bytes()).substr(0, 16), "0100000001000000") << "nothing of the body before";
}

TEST(NumberedWire, a_step_of_a_clear_lies_as_the_format_page_says) {
  EXPECT_EQ(digits(ClearRequest{.generation = 0xab, .stamp = 0x10009, .cursor = 0x400000000000}),
            "ab00000000000000"
            "0900010000000000"
            "0000000000400000");
  EXPECT_EQ(digits(ClearReply{.generation = 0xab,
                              .stamp = 0x10009,
                              .next = 0x800000000000,
                              .erased = 131,
                              .waits = 0,
                              .reserved = 0}),
            "ab00000000000000"
            "0900010000000000"
            "0000000000800000"
            "8300000000000000"
            "0000000000000000");
}

TEST(NumberedWire, only_whole_steps_of_a_clear_are_taken) {
  const auto request = [](uint64_t generation, uint64_t stamp, uint64_t cursor) {
    const ClearRequest one{.generation = generation, .stamp = stamp, .cursor = cursor};
    return take_clear_request(std::as_bytes(std::span(&one, 1))).has_value();
  };
  EXPECT_TRUE(request(0, 0, 0));
  EXPECT_TRUE(request(7, 9, 0));
  EXPECT_TRUE(request(7, 9, UINT64_MAX));
  EXPECT_FALSE(request(0, 0, 1));
  EXPECT_FALSE(request(0, 9, 0));
  EXPECT_FALSE(request(7, 0, 0));
  const std::string longer(sizeof(ClearRequest) + 1, '\0');
  EXPECT_FALSE(take_clear_request(bytes_in(longer)).has_value());
  EXPECT_FALSE(take_clear_request(bytes_in("short")).has_value());
  ClearReply reply{.generation = 7, .stamp = 9, .next = 0, .erased = 0, .waits = 0, .reserved = 0};
  const auto is_sound = [&] { return take_clear_reply(std::as_bytes(std::span(&reply, 1))).has_value(); };
  EXPECT_TRUE(is_sound() && reply.is_over());
  reply.waits = 1;
  EXPECT_TRUE(is_sound() && !reply.is_over());
  reply.waits = 2;
  EXPECT_FALSE(is_sound());
  reply.waits = 0;
  reply.reserved = 1;
  EXPECT_FALSE(is_sound());
  reply.reserved = 0;
  reply.stamp = 0;
  EXPECT_FALSE(is_sound());
}

TEST(NumberedWire, a_body_is_taken_apart_as_it_was_put_together) {
  OperationsBody body;
  body.acknowledge(kNumberMax, 1'007);
  body.add(kPutOfApple, bytes_in("apple"), bytes_in("red"));
  std::span<const std::byte> left = body.bytes();
  const auto request = take_operations_request(left);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->operations, 1u);
  const auto acknowledged = take<Acknowledged>(left);
  ASSERT_TRUE(acknowledged.has_value());
  EXPECT_EQ(acknowledged->number(), kNumberMax);
  EXPECT_EQ(acknowledged->place(), 1'007u);
  const auto one = take_operation(left);
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(digits(one->operation), digits(kPutOfApple));
  EXPECT_EQ(digits(one->key), digits(bytes_in("apple")));
  EXPECT_EQ(digits(one->value), digits(bytes_in("red")));
  EXPECT_TRUE(left.empty());
  for (size_t bytes = 0; bytes < sizeof(Operation) + 8; ++bytes) {
    std::span<const std::byte> cut = body.bytes().subspan(16, bytes);
    EXPECT_FALSE(take_operation(cut).has_value()) << bytes;
  }
}

TEST(NumberedWire, the_front_of_a_body_has_bounds) {
  const auto is_taken = [](const OperationsRequest& request, size_t acknowledgements) {
    std::vector<std::byte> bytes(sizeof(request) + acknowledgements * sizeof(Acknowledged));
    std::memcpy(bytes.data(), &request, sizeof(request));
    std::span<const std::byte> left = bytes;
    return take_operations_request(left).has_value();
  };
  const OperationsRequest good{.operations = 16, .acknowledged = 64, .flags = 0, .reserved = 0};
  EXPECT_TRUE(is_taken(good, 64));
  EXPECT_FALSE(is_taken(good, 63));
  const auto is_sound = [&](const std::function<void(OperationsRequest&)>& change) {
    OperationsRequest changed = good;
    change(changed);
    return is_taken(changed, 65);
  };
  EXPECT_FALSE(is_sound([](OperationsRequest& one) { one.operations = 0; }));
  EXPECT_FALSE(is_sound([](OperationsRequest& one) { one.operations = 17; }));
  EXPECT_FALSE(is_sound([](OperationsRequest& one) { one.acknowledged = 65; }));
  EXPECT_FALSE(is_sound([](OperationsRequest& one) { one.reserved = 1; }));
  EXPECT_FALSE(is_sound([](OperationsRequest& one) { one.flags = 2; }));
  EXPECT_FALSE(is_sound([](OperationsRequest& one) { one.flags = OperationsRequest::kMayWait; }));
  EXPECT_TRUE(is_sound([](OperationsRequest& one) {
    one.flags = OperationsRequest::kMayWait;
    one.operations = 1;
  }));
}

// Everything that a kind does not have is 0.
TEST(NumberedWire, an_operation_that_makes_no_sense_is_none) {
  const auto of = [](
                      OperationKind kind, const std::function<void(Operation&)>& change = [](Operation&) {}) {
    const OperationForm& form = kOperationForms[static_cast<size_t>(kind)];
    Operation one{};
    one.kind = static_cast<uint8_t>(kind);
    one.number = form.has_number ? 9 : 0;
    one.key_bytes = form.has_key ? 3 : 0;
    one.function = form.has_function ? 1 : 0;
    change(one);
    return is_sound(one);
  };
  using Kind = OperationKind;
  constexpr std::array kAll = {Kind::kWithdraw, Kind::kPut,       Kind::kErase,
                               Kind::kFunction, Kind::kCondition, Kind::kCommit};
  static_assert(kAll.size() == kOperationForms.size());
  for (const Kind kind : kAll) {
    const auto which = static_cast<int>(kind);
    const OperationForm& form = kOperationForms[static_cast<size_t>(kind)];
    EXPECT_TRUE(of(kind)) << which;
    EXPECT_FALSE(of(kind, [](Operation& one) { one.reserved = 1; })) << which;
    EXPECT_FALSE(of(kind, [](Operation& one) { one.number = kNumberMax + 1; })) << which;
    EXPECT_FALSE(of(kind, [](Operation& one) { one.flags = 16; })) << which;
    EXPECT_FALSE(of(kind, [](Operation& one) { one.staged = kStagedKeysPerSession + 1; })) << which;
    EXPECT_EQ(of(kind, [](Operation& one) { one.staged = 1; }), form.has_key) << which;
    EXPECT_FALSE(of(kind, [&](Operation& one) { one.key_bytes = form.has_key ? 0 : 3; })) << which;
    EXPECT_FALSE(of(kind, [&](Operation& one) { one.function = form.has_function ? 0 : 1; })) << which;
    EXPECT_EQ(of(kind, [](Operation& one) { one.argument = 1; }), form.has_argument) << which;
    EXPECT_EQ(of(kind, [](Operation& one) { one.if_version = 1; }), form.has_version) << which;
    EXPECT_EQ(of(kind, [](Operation& one) { one.value_bytes = 8; }), form.value_bytes_max >= 8) << which;
    EXPECT_FALSE(of(kind, [](Operation& one) { one.value_bytes = UINT32_MAX; })) << which;
    EXPECT_EQ(of(kind, [](Operation& one) { one.number = 0; }), kind != Kind::kWithdraw) << which;
    EXPECT_EQ(of(kind,
                 [](Operation& one) {
                   one.number = 0;
                   one.tag = 1;
                 }),
              kind == Kind::kCondition)
        << which << ": a tag orders by numbers";
    for (const uint8_t flag : std::array<uint8_t, 4>{1, 2, 4, 8}) {
      EXPECT_EQ(of(kind, [&](Operation& one) { one.flags = flag; }), (form.flags & flag) != 0) << which;
    }
  }
  EXPECT_FALSE(of(Kind::kCondition, [](Operation& one) { one.number = 1; }));
  EXPECT_FALSE(of(Kind::kCommit, [](Operation& one) { one.value_bytes = 7; }));
  EXPECT_FALSE(of(static_cast<Kind>(5), [](Operation& one) { one.kind = 6; }));
}

TEST(NumberedWire, what_contradicts_itself_is_not_consistent) {
  const auto of = [](OperationKind kind, uint8_t flags, uint64_t argument = 0, uint64_t if_version = 0) {
    Operation one{};
    one.kind = static_cast<uint8_t>(kind);
    one.flags = flags;
    one.argument = argument;
    one.if_version = if_version;
    return is_consistent(one);
  };
  using Kind = OperationKind;
  EXPECT_TRUE(of(Kind::kPut, 0));
  EXPECT_TRUE(of(Kind::kPut, 4));
  EXPECT_TRUE(of(Kind::kPut, 8, 1, 1));
  EXPECT_TRUE(of(Kind::kPut, 1 | 4));
  EXPECT_FALSE(of(Kind::kPut, 1 | 2));
  EXPECT_FALSE(of(Kind::kPut, 1, 0, 1));
  EXPECT_FALSE(of(Kind::kPut, 2, 0, 1));
  EXPECT_FALSE(of(Kind::kPut, 4, 1));
  EXPECT_FALSE(of(Kind::kPut, 4 | 8));
  EXPECT_TRUE(of(Kind::kErase, 0, 0, 1));
  EXPECT_TRUE(of(Kind::kCondition, 1));
  EXPECT_TRUE(of(Kind::kCondition, 0, 0, 1));
  EXPECT_FALSE(of(Kind::kCondition, 0)) << "it asks nothing";
  EXPECT_FALSE(of(Kind::kCondition, 3));
}

TEST(NumberedWire, an_answer_that_makes_no_sense_is_none) {
  const auto is_taken = [](const OperationAnswer& answer, size_t behind) {
    std::vector<std::byte> bytes(sizeof(answer) + behind);
    std::memcpy(bytes.data(), &answer, sizeof(answer));
    std::span<const std::byte> left = bytes;
    return take_operation_answer(left).has_value() && left.empty();
  };
  const OperationAnswer good{.version = 1, .code = 0, .place = 0, .bytes = 8, .flags = 1, .reserved = 0};
  EXPECT_TRUE(is_taken(good, 8));
  EXPECT_FALSE(is_taken(good, 7));
  OperationAnswer odd = good;
  odd.reserved = 1;
  EXPECT_FALSE(is_taken(odd, 8));
  odd = good;
  odd.bytes = kOperationAnswerBytesMax + 1;
  EXPECT_FALSE(is_taken(odd, kOperationAnswerBytesMax + 1));
  odd = good;
  odd.flags = 4;
  EXPECT_FALSE(is_taken(odd, 8));
}

// Page 077: "on the shortest channel a call has ten functions".
TEST(NumberedWire, the_answers_of_ten_functions_fit_the_shortest_message) {
  const auto all = [](size_t operations, OperationKind kind) {
    return operations * (sizeof(OperationAnswer) + answer_bytes_max(kind));
  };
  EXPECT_LE(all(10, OperationKind::kFunction), kBodyBytesMin);
  EXPECT_GT(all(11, OperationKind::kFunction), kBodyBytesMin);
  EXPECT_LE(all(kOperationsPerCall, OperationKind::kErase), kBodyBytesMin);
}

}  // namespace
}  // namespace refract::kv::wire
