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
          .message_bytes_max = 8192};
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
            "52 76 72 62 01 00 01 00 11 00 00 00 56 34 12 00 00 00 00 00 00 00 00 00 "
            "00 00 ff ff 0a 4d 00 01 00 00 02 02 00 10 00 00 80 00 00 00 80 00 00 00 "
            "20 00 00 00 00 20 00 00");
  const Question question{.header = header_of(Kind::kQuestion), .region = 7, .key = 0xabcd};
  EXPECT_EQ(hex(bytes_of(question)),
            "52 76 72 62 01 00 05 00 07 00 00 00 00 00 00 00 cd ab 00 00 00 00 00 00");
  EXPECT_EQ(hex(example_answer()),
            "52 76 72 62 01 00 06 00 07 00 00 00 00 00 00 00 cd ab 00 00 00 00 00 00 "
            "00 00 04 00 00 00 00 00 00 00 04 00 00 00 00 00 01 00 00 00 01 00 00 00 34 12 00 00");
  const Revoked revoked{.header = header_of(Kind::kRevoked), .region = 7};
  EXPECT_EQ(hex(bytes_of(revoked)), "52 76 72 62 01 00 07 00 07 00 00 00 00 00 00 00");
  EXPECT_EQ(hex(bytes_of(Notice{header_of(Kind::kReady)})), "52 76 72 62 01 00 04 00");
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
  const std::span<const std::byte> whole = bytes_of(example());
  EXPECT_EQ(decode_introduction(whole.first(whole.size() - 1)).code(), Code::kMalformed);
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
  Notice notice{.header = header_of(Kind::kReady)};
  EXPECT_EQ(kind_of(bytes_of(notice)).code(), Code::kOk);
  notice.header.version = 2;
  EXPECT_EQ(kind_of(bytes_of(notice)).code(), Code::kUnsupported);
  notice.header.magic ^= 1;
  EXPECT_EQ(kind_of(bytes_of(notice)).code(), Code::kMalformed);
  notice = {.header = header_of(static_cast<Kind>(9))};
  EXPECT_EQ(kind_of(bytes_of(notice)).code(), Code::kMalformed);
  EXPECT_EQ(kind_of(bytes_of(notice).first(7)).code(), Code::kMalformed);
}

}  // namespace
}  // namespace refract::fabric::verbs
