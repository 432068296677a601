// SPDX-License-Identifier: Apache-2.0
// What the two ends of a verbs channel say to each other over the channel that introduced them. Worked
// example: docs/formats/verbs.md.
//
//   connecting end                                 accepting end
//     Introduction  my queue pair, my address  ->
//                                              <-  Acceptance  mine; or Refusal, and the end
//     Token         by librdmacm, if so asked  ->
//     Greeting      over the queue pairs       ->
//                                              <-  Greeting    over the queue pairs: both are open
//
//   either end, any time later
//     Question      may I use region 7, key K? ->
//                                              <-  Answer      yes, by these device keys; or no
//                                              <-  Revoked     no more
//                                              <-  Broken      yours has lost its other end: introduce
//                                                              yourself again
//
// All integers are little-endian; a message is one struct, an Answer is followed by its device keys. Every
// byte comes from a peer: the decoders return what is sound, or kMalformed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "refract/base/report.h"
#include "refract/fabric/verbs/device.h"
#include "refract/memory/remote_pointer.h"

namespace refract::fabric::verbs {

inline constexpr uint32_t kWireMagic = 0x62727652;  // The bytes "Rvrb".
extern const uint16_t kWireVersion;                 // versions.cc

enum class Kind : uint16_t {
  kIntroduction = 1,
  kAcceptance,
  kRefusal,
  kGreeting,
  kQuestion,
  kAnswer,
  kRevoked,
  kBroken,
  kToken,
};

// How the queue pairs come to be connected.
enum class Way : uint32_t {
  kExchange = 1,  // Each end sets up its own by what it reads here.
  kRdmaCm,        // librdmacm does, by the accepting end's port.
};

struct Header {
  uint32_t magic;
  uint16_t version;
  Kind kind;
};

// Introduction and Acceptance alike: all that the other end needs to set up its queue pair.
struct Introduction {
  Header header;
  uint32_t queue_pair;       // 24 bits.
  uint32_t packet_sequence;  // 24 bits: of the first packet that the sender will send.
  Gid gid;
  uint16_t lid;
  uint8_t gid_kind;    // A GidKind.
  uint8_t link_layer;  // A LinkLayer.
  uint32_t mtu_bytes;
  uint32_t reads_in_max;   // READs and atomics that the sender answers at once.
  uint32_t reads_out_max;  // And that it may ask for at once.
  uint32_t credits;        // Messages that the sender can receive.
  uint32_t message_bytes_max;
  Way way;
  uint32_t port;   // Of an Acceptance by librdmacm: where it listens, at `gid`. Else 0.
  uint64_t token;  // And what is to be shown there.
};

struct Refusal {
  Header header;
  uint32_t code;  // A Code.
  uint32_t reserved;
  std::array<char, 240> text;  // Zero-terminated.
};

// The first message over the queue pair, either way. Zeros follow up to the smaller of both ends' MTU, so
// that a path which loses full packets is found out.
struct Greeting {
  Header header;
};

struct Broken {
  Header header;
  uint32_t queue_pair;  // The receiver's.
  uint32_t reserved;
};

// What librdmacm carries to the accepting end as private data, which it fills up with zeros.
struct Token {
  Header header;
  uint64_t token;
};

struct Question {
  Header header;
  uint64_t region;
  uint64_t key;
};

struct Answer {
  Header header;
  uint64_t region;
  uint64_t key;  // As asked.
  uint64_t bytes;
  uint64_t chunk_bytes;  // All chunks but the last are so long; offsets are the device's addresses.
  uint32_t rights;       // Bit 0: READ, 1: WRITE, 2: atomics.
  uint32_t chunk_count;  // 0: refused. So many 32-bit device keys follow.
};

struct Revoked {
  Header header;
  uint64_t region;
};

static_assert(sizeof(Header) == 8 && sizeof(Introduction) == 72 && sizeof(Refusal) == 256);
static_assert(sizeof(Greeting) == 8 && sizeof(Broken) == 16 && sizeof(Token) == 16);
static_assert(sizeof(Question) == 24 && sizeof(Answer) == 48 && sizeof(Revoked) == 16);
static_assert(std::has_unique_object_representations_v<Introduction> &&
              std::has_unique_object_representations_v<Refusal> &&
              std::has_unique_object_representations_v<Answer>);

inline constexpr uint32_t kChunksMax = 1024;
inline constexpr size_t kWireBytesMax = sizeof(Answer) + kChunksMax * sizeof(uint32_t);

[[nodiscard]] inline Header header_of(Kind kind) noexcept {
  return {.magic = kWireMagic, .version = kWireVersion, .kind = kind};
}

// kMalformed: it is none of ours. kUnsupported: it is, of another version.
[[nodiscard]] Result<Kind> kind_of(std::span<const std::byte> message) noexcept;

// Of an Introduction as of an Acceptance.
[[nodiscard]] Result<Introduction> decode_introduction(std::span<const std::byte> message) noexcept;
[[nodiscard]] Result<Question> decode_question(std::span<const std::byte> message) noexcept;
[[nodiscard]] Result<Revoked> decode_revoked(std::span<const std::byte> message) noexcept;
[[nodiscard]] Result<Broken> decode_broken(std::span<const std::byte> message) noexcept;
// Of private data, which may be longer.
[[nodiscard]] Result<Token> decode_token(std::span<const std::byte> message) noexcept;
// Whether it is a greeting over a path of that MTU.
[[nodiscard]] bool is_greeting(std::span<const std::byte> message, uint32_t mtu_bytes) noexcept;
// Control characters of the peer's text come out as '?'.
[[nodiscard]] Result<Report> decode_refusal(std::span<const std::byte> message);
[[nodiscard]] Refusal encode_refusal(const Report& why) noexcept;

// A region of the peer, as the device is to be asked for it.
struct RemoteRegion {
  RemoteKey key;
  uint64_t bytes = 0;
  uint64_t chunk_bytes = 0;
  Rights rights;
  uint32_t chunk_count = 0;  // 0: refused.
};

struct DecodedAnswer {
  uint16_t region = 0;
  RemoteRegion what;
  std::span<const std::byte> device_keys;  // Into the message; 4 bytes each.
};
[[nodiscard]] Result<DecodedAnswer> decode_answer(std::span<const std::byte> message) noexcept;
// Into `buffer`, of kWireBytesMax bytes; returns the part that was filled.
[[nodiscard]] std::span<const std::byte> encode_answer(uint16_t region, const RemoteRegion& what,
                                                       std::span<const uint32_t> device_keys,
                                                       std::span<std::byte> buffer) noexcept;

}  // namespace refract::fabric::verbs
