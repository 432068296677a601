// SPDX-License-Identifier: Apache-2.0
// The worked examples of docs/formats/verbs.md, byte by byte, and what the decoders refuse.
#include "refract/fabric/verbs/wire.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace refract::fabric::verbs {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte each : bytes) {
    std::array<char, 4> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned>(each));
    text += text.empty() ? "" : " ";
    text += digits.data();
  }
  return text;
}

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

Introduction example() {
  return {.header = header_of(Kind::kIntroduction),
          .queue_pair = 0x11,
          .packet_sequence = 0x123456,
          .gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1},
          .lid = 0,
          .gid_kind = static_cast<uint8_t>(GidKind::kRoce2Ipv4),
          .link_layer = static_cast<uint8_t>(LinkLayer::kEthernet),
          .mtu_bytes = 4096,
          .reads_in_max = 128,
          .reads_out_max = 128,
          .credits = 32,
          .message_bytes_max = 8192,
          .way = Way::kExchange,
          .port = 0,
          .token = 0};
}

Introduction example_acceptance() {
  Introduction acceptance = example();
  acceptance.header = header_of(Kind::kAcceptance);
  acceptance.way = Way::kRdmaCm;
  acceptance.port = 0x8001;
  acceptance.token = 0x1122334455667788;
  return acceptance;
}

RemoteRegion example_region() {
  return {.key = {0xabcd},
          .bytes = 256 * 1024,
          .chunk_bytes = 256 * 1024,
          .rights = {.read = true},
          .chunk_count = 1};
}

std::vector<std::byte> example_answer() {
  std::array<std::byte, kWireBytesMax> buffer;
  const std::array<uint32_t, 1> keys = {0x1234};
  const auto bytes = encode_answer(7, example_region(), keys, buffer);
  return {bytes.begin(), bytes.end()};
}

TEST(VerbsWire, messages_are_the_documented_bytes) {
  EXPECT_EQ(hex(bytes_of(example())),
            "52 76 72 62 02 00 01 00 11 00 00 00 56 34 12 00 00 00 00 00 00 00 00 00 "
            "00 00 ff ff 0a 4d 00 01 00 00 02 02 00 10 00 00 80 00 00 00 80 00 00 00 "
            "20 00 00 00 00 20 00 00 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00");
  EXPECT_EQ(hex(bytes_of(example_acceptance()).subspan(48)),
            "20 00 00 00 00 20 00 00 02 00 00 00 01 80 00 00 88 77 66 55 44 33 22 11");
  const Question question{.header = header_of(Kind::kQuestion), .region = 7, .key = 0xabcd};
  EXPECT_EQ(hex(bytes_of(question)),
            "52 76 72 62 02 00 05 00 07 00 00 00 00 00 00 00 cd ab 00 00 00 00 00 00");
  EXPECT_EQ(hex(example_answer()),
            "52 76 72 62 02 00 06 00 07 00 00 00 00 00 00 00 cd ab 00 00 00 00 00 00 "
            "00 00 04 00 00 00 00 00 00 00 04 00 00 00 00 00 01 00 00 00 01 00 00 00 34 12 00 00");
  const Revoked revoked{.header = header_of(Kind::kRevoked), .region = 7};
  EXPECT_EQ(hex(bytes_of(revoked)), "52 76 72 62 02 00 07 00 07 00 00 00 00 00 00 00");
  EXPECT_EQ(hex(bytes_of(Greeting{header_of(Kind::kGreeting)})), "52 76 72 62 02 00 04 00");
  const Broken broken{.header = header_of(Kind::kBroken), .queue_pair = 0x11, .reserved = 0};
  EXPECT_EQ(hex(bytes_of(broken)), "52 76 72 62 02 00 08 00 11 00 00 00 00 00 00 00");
  const Token token{.header = header_of(Kind::kToken), .token = 0x1122334455667788};
  EXPECT_EQ(hex(bytes_of(token)), "52 76 72 62 02 00 09 00 88 77 66 55 44 33 22 11");
}

TEST(VerbsWire, what_is_encoded_comes_back) {
  const auto introduction = decode_introduction(bytes_of(example()));
  ASSERT_TRUE(introduction.has_value());
  EXPECT_EQ(introduction->gid, example().gid);
  EXPECT_EQ(introduction->packet_sequence, 0x123456u);

  const std::vector<std::byte> message = example_answer();
  const auto answer = decode_answer(message);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->region, 7);
  EXPECT_EQ(answer->what.key, RemoteKey{0xabcd});
  EXPECT_TRUE(answer->what.rights.read);
  EXPECT_FALSE(answer->what.rights.write || answer->what.rights.atomic);
  EXPECT_EQ(answer->device_keys.size(), 4u);

  const auto refusal = decode_refusal(bytes_of(encode_refusal({Code::kOverloaded, "full\nup", ""})));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, Code::kOverloaded);
  EXPECT_EQ(refusal->what, "full?up") << "control characters of a peer do not reach a terminal";
}

TEST(VerbsWire, introductions_outside_what_a_device_can_are_refused) {
  const auto code_of = [](auto change) {
    Introduction introduction = example();
    change(introduction);
    return decode_introduction(bytes_of(introduction)).code();
  };
  EXPECT_EQ(code_of([](Introduction&) {}), Code::kOk);
  EXPECT_EQ(code_of([](Introduction& it) { it.queue_pair = 1U << 24; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Introduction& it) { it.packet_sequence = 1U << 24; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Introduction& it) { it.mtu_bytes = 1500; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Introduction& it) { it.mtu_bytes = 8192; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Introduction& it) { it.gid_kind = 5; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Introduction& it) { it.reads_in_max = 256; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Introduction& it) { it.credits = 0; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Introduction& it) { it.message_bytes_max = 63; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Introduction& it) { it.way = static_cast<Way>(0); }), Code::kMalformed);
  EXPECT_EQ(code_of([](Introduction& it) { it.way = static_cast<Way>(3); }), Code::kMalformed);
  EXPECT_EQ(code_of([](Introduction& it) { it.port = 1; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Introduction& it) { it.way = Way::kRdmaCm; }), Code::kOk);
  const Introduction introduction = example();
  const std::span<const std::byte> whole = bytes_of(introduction);
  EXPECT_EQ(decode_introduction(whole.first(whole.size() - 1)).code(), Code::kMalformed);
}

TEST(VerbsWire, who_accepts_by_librdmacm_names_a_port_and_a_token) {
  const auto code_of = [](auto change) {
    Introduction acceptance = example_acceptance();
    change(acceptance);
    return decode_introduction(bytes_of(acceptance)).code();
  };
  EXPECT_EQ(code_of([](Introduction&) {}), Code::kOk);
  EXPECT_EQ(code_of([](Introduction& it) { it.port = 0; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Introduction& it) { it.port = 65'536; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Introduction& it) { it.token = 0; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Introduction& it) { it.way = Way::kExchange; }), Code::kMalformed);
}

TEST(VerbsWire, a_token_is_found_in_private_data_that_was_filled_up) {
  std::array<std::byte, 56> data{};
  const Token token{.header = header_of(Kind::kToken), .token = 42};
  std::memcpy(data.data(), &token, sizeof(token));
  const auto decoded = decode_token(data);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->token, 42u);
  EXPECT_EQ(decode_token(std::span(data).first(15)).code(), Code::kMalformed);
  EXPECT_EQ(decode_token({}).code(), Code::kMalformed);
  data[8] = {};
  EXPECT_EQ(decode_token(data).code(), Code::kMalformed) << "zero is no token";
  const Broken other{.header = header_of(Kind::kBroken), .queue_pair = 1, .reserved = 0};
  EXPECT_EQ(decode_token(bytes_of(other)).code(), Code::kMalformed);
}

TEST(VerbsWire, a_greeting_fills_a_packet) {
  std::vector<std::byte> message(1024);
  const Greeting greeting{.header = header_of(Kind::kGreeting)};
  std::memcpy(message.data(), &greeting, sizeof(greeting));
  EXPECT_TRUE(is_greeting(message, 1024));
  EXPECT_FALSE(is_greeting(message, 4096));
  EXPECT_FALSE(is_greeting(std::span(message).first(8), 1024));
  message[0] = {};
  EXPECT_FALSE(is_greeting(message, 1024));
}

TEST(VerbsWire, an_answer_names_a_device_key_for_every_byte_of_the_region) {
  const auto code_of = [](auto change) {
    std::vector<std::byte> message = example_answer();
    Answer answer;
    std::memcpy(&answer, message.data(), sizeof(answer));
    change(answer);
    std::memcpy(message.data(), &answer, sizeof(answer));
    return decode_answer(message).code();
  };
  EXPECT_EQ(code_of([](Answer&) {}), Code::kOk);
  EXPECT_EQ(code_of([](Answer& it) { it.bytes += 1; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Answer& it) { it.bytes = 0; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Answer& it) { it.bytes = ~uint64_t{0}; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Answer& it) { it.chunk_bytes = 0; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Answer& it) { it.chunk_bytes = 12; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Answer& it) { it.chunk_count = 2; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Answer& it) { it.region = 65'536; }), Code::kMalformed);
  EXPECT_EQ(code_of([](Answer& it) { it.rights = 8; }), Code::kMalformed);
}

TEST(VerbsWire, other_versions_are_told_from_nonsense) {
  Greeting notice{.header = header_of(Kind::kGreeting)};
  EXPECT_EQ(kind_of(bytes_of(notice)).code(), Code::kOk);
  notice.header.version = static_cast<uint16_t>(kWireVersion + 1);
  EXPECT_EQ(kind_of(bytes_of(notice)).code(), Code::kUnsupported);
  notice.header.magic ^= 1;
  EXPECT_EQ(kind_of(bytes_of(notice)).code(), Code::kMalformed);
  notice = {.header = header_of(static_cast<Kind>(10))};
  EXPECT_EQ(kind_of(bytes_of(notice)).code(), Code::kMalformed);
  EXPECT_EQ(kind_of(bytes_of(notice).first(7)).code(), Code::kMalformed);
}

}  // namespace
}  // namespace refract::fabric::verbs
