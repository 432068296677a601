// SPDX-License-Identifier: Apache-2.0
// The worked examples of docs/formats/tcp.md, byte by byte.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "refract/base/testing/needed.h"
#include "refract/fabric/tcp/handshake.h"
#include "refract/fabric/tcp/test_peer.h"

namespace refract::fabric::tcp {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char each : bytes) {
    std::array<char, 4> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(each));
    text += digits.data();
    text += ' ';
  }
  if (!text.empty()) text.pop_back();
  return text;
}

template <typename T>
std::string hex_of(const T& value) {
  return hex({reinterpret_cast<const char*>(&value), sizeof(value)});
}

template <size_t kBytes>
void count_up(std::array<std::byte, kBytes>& bytes, unsigned from) {
  for (size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<std::byte>(from + i);
}

Transcript example_transcript() {
  Transcript transcript{.version = 1, .client_version = 1, .client_version_oldest = 1, .shard = 2};
  count_up(transcript.client_nonce, 0x00);
  count_up(transcript.node_nonce, 0x40);
  return transcript;
}

NodeFacts example_facts() {
  NodeFacts facts{.identity = {0x1111, 0x2222},
                  .incarnation = 3,
                  .hash_seed = 0x4444,
                  .shard_index = 2,
                  .shard_count = 4,
                  .copies = 1,
                  .boot_id = {},
                  .socket_path = "/run/refract/node.sock.2"};
  count_up(facts.boot_id, 0x80);
  return facts;
}

TEST(TcpFormat, headers_are_the_documented_bytes) {
  EXPECT_EQ(hex_of(FrameHeader{.bytes = 11, .kind = FrameKind::kMessage}.word()), "0b 00 00 00 00 00 01 00");
  EXPECT_EQ(hex_of(FrameHeader{.bytes = 8, .kind = FrameKind::kDone, .code = 12}.word()),
            "08 00 00 00 00 00 06 0c");
  EXPECT_EQ(hex_of(FrameHeader{.bytes = uint64_t{4} << 20, .kind = FrameKind::kData}.word()),
            "00 00 40 00 00 00 07 00");
  const FrameHeader back = FrameHeader::from(
      FrameHeader{.bytes = FrameHeader::kBytesMax, .kind = FrameKind::kGoodbye, .code = 255}.word());
  EXPECT_EQ(back.bytes, FrameHeader::kBytesMax);
  EXPECT_EQ(back.kind, FrameKind::kGoodbye);
  EXPECT_EQ(back.code, 255);
}

TEST(TcpFormat, handshake_frames_are_the_documented_bytes) {
  Hello hello{.magic = kWireMagic, .version = 1, .version_oldest = 1, .shard = 2, .role = 0, .nonce = {}};
  count_up(hello.nonce, 0x00);
  EXPECT_EQ(hex_of(hello),
            "52 74 63 70 01 00 01 00 02 00 00 00 00 00 00 00 "
            "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f "
            "10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f");
  hello.version = hello.version_oldest = 2;
  hello.role = static_cast<uint32_t>(Role::kNode);
  EXPECT_EQ(hex_of(hello).substr(0, 3 * 16 - 1), "52 74 63 70 02 00 02 00 02 00 00 00 01 00 00 00");
  Challenge challenge{.version = 1, .secret_wanted = 1, .reserved = 0, .nonce = {}};
  count_up(challenge.nonce, 0x40);
  EXPECT_EQ(hex_of(challenge),
            "01 00 01 00 00 00 00 00 "
            "40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f "
            "50 51 52 53 54 55 56 57 58 59 5a 5b 5c 5d 5e 5f");
  const std::string facts = hex_of(facts_to_wire(example_facts()));
  EXPECT_EQ(facts.substr(0, 3 * 104 - 1),
            "11 11 00 00 00 00 00 00 22 22 00 00 00 00 00 00 "
            "03 00 00 00 00 00 00 00 44 44 00 00 00 00 00 00 "
            "02 00 00 00 04 00 00 00 80 81 82 83 84 85 86 87 "
            "88 89 8a 8b 8c 8d 8e 8f 18 00 00 00 01 00 00 00 "
            "2f 72 75 6e 2f 72 65 66 72 61 63 74 2f 6e 6f 64 "
            "65 2e 73 6f 63 6b 2e 32 00 00 00 00 00 00 00 00 "
            "00 00 00 00 00 00 00 00");
  const Refused refused = refused_to_wire({Code::kUnsupported, "no", "yes"});
  EXPECT_EQ(hex_of(refused).substr(0, 3 * 16 - 1), "0d 00 00 00 00 00 00 00 6e 6f 0a 79 65 73 00 00");
}

// Computed once with another program (hmac of Python) over the bytes that the page describes.
TEST(TcpFormat, facts_say_whether_other_nodes_have_some_of_the_keys) {
  NodeFacts facts = example_facts();
  EXPECT_FALSE(test::needed(facts_from_wire(facts_to_wire(facts))).is_spread);
  facts.is_spread = true;
  EXPECT_TRUE(test::needed(facts_from_wire(facts_to_wire(facts))).is_spread);
  EXPECT_EQ(test::needed(facts_from_wire(facts_to_wire(facts))).copies, 1U);
}

TEST(TcpFormat, proofs_are_the_documented_hmacs) {
  const Secret secret = secret_of("sixteen bytes ok");
  EXPECT_EQ(hex_of(client_mac(secret, example_transcript())),
            "85 a5 f8 21 4d 40 45 37 01 e5 97 6a 65 3d cc b9 "
            "8a 30 2b dd 75 6c 4e e1 99 bb 33 98 18 95 02 9a");
  EXPECT_EQ(hex_of(node_mac(secret, example_transcript(), facts_to_wire(example_facts()))),
            "c9 90 ba ec 67 a4 f4 12 30 bb cc 56 28 30 13 8d "
            "a5 cb 95 6d 53 f3 ab b7 c1 99 c0 c8 ec 97 48 47");
}

TEST(TcpFormat, proofs_of_the_node_role_are_the_documented_hmacs) {
  const Secret secret = secret_of("sixteen bytes ok");
  Transcript transcript = example_transcript();
  transcript.version = transcript.client_version = transcript.client_version_oldest = 2;
  transcript.role = Role::kNode;
  EXPECT_EQ(hex_of(client_mac(secret, transcript)),
            "28 b0 8a 1f 79 19 ea 94 97 26 6a 99 b5 54 6c 2c "
            "c9 2d 33 74 3f 05 71 04 03 1f cf 54 6d fb 5a f7");
  EXPECT_EQ(hex_of(node_mac(secret, transcript, facts_to_wire(example_facts()))),
            "36 9c 58 3b 46 74 90 36 8c 85 a6 9d bb 0e 61 07 "
            "65 e1 25 56 f0 c1 af 7e 3b ff 04 4b 17 c7 78 75");
}

// What really goes over a socket for a message and a one-sided request.
TEST(TcpFormat, what_is_posted_leaves_as_documented) {
  TestNode node;
  const auto domain = test::needed(ClientDomain::create());
  // The peer is a node whose shard never reads: the test reads in its stead.
  const auto listening = listen("127.0.0.1:0");
  ASSERT_TRUE(listening.has_value());
  const auto channel = domain->connect(test::needed(bound_address(listening->get())));
  ASSERT_TRUE(channel.has_value());
  End client(*domain);
  int accepted = -1;
  ASSERT_TRUE(settle_with([&] { client.turn(); },
                          [&] {
                            accepted = ::accept4(listening->get(), nullptr, nullptr, SOCK_CLOEXEC);
                            return accepted >= 0;
                          }));
  RawPeer peer{Descriptor(accepted)};
  HandshakeReader reader;
  const auto turn = [&] { client.turn(); };
  ASSERT_TRUE(settle_with(turn, [&] { return peer.take_frame(reader); }));
  peer.send_frame(FrameKind::kChallenge,
                  Challenge{.version = kWireVersion, .secret_wanted = 0, .reserved = 0, .nonce = {}});
  reader.reset();
  ASSERT_TRUE(settle_with(turn, [&] { return peer.take_frame(reader); }));
  peer.send_frame(FrameKind::kWelcome, Welcome{.mac = {}, .facts = facts_to_wire(example_facts())});
  ASSERT_TRUE(settle_with(turn, [&] { return client.count(Op::kOpened) == 1; }));

  std::array<std::byte, 64> local{};
  const Request read{.token = 1,
                     .local = {local.data(), 64},
                     .remote = {RemotePointer::at(7, 0x100), RemoteKey{0xabcd}},
                     .op = Op::kRead};
  const Request message = send_of("hello world");
  ASSERT_EQ((*channel)->post({&message, 1}), 1u);
  ASSERT_EQ((*channel)->post({&read, 1}), 1u);
  domain->flush();
  std::string bytes;
  ASSERT_TRUE(settle_with(turn, [&] {
    bytes += peer.take();
    return bytes.size() >= 56;
  }));
  EXPECT_EQ(hex(bytes),
            "0b 00 00 00 00 00 01 00 68 65 6c 6c 6f 20 77 6f "
            "72 6c 64 00 00 00 00 00 "
            "18 00 00 00 00 00 02 00 00 01 00 00 00 00 07 00 "
            "cd ab 00 00 00 00 00 00 40 00 00 00 00 00 00 00");
}

}  // namespace
}  // namespace refract::fabric::tcp
