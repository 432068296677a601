// SPDX-License-Identifier: Apache-2.0
// How the two ends of a fresh connection come to trust each other. Worked example: docs/formats/tcp.md.
//
//   client                                         node
//     Hello       versions, shard, role, nonce ->
//                                              <-  Challenge  version chosen, is a secret wanted, nonce
//     Proof       client's HMAC                ->
//                                              <-  Welcome    node's HMAC, NodeFacts; or Refused and the end
//
// The HMACs (SHA-256, keyed by the secret of the role) cover which end speaks, both nonces, the versions, the
// shard and the role, the node's also the facts. So neither can be replayed or reflected, no version can be
// talked down, and no proof of one role is one of the other. The secret itself never travels. Refused may
// take the place of Challenge, too.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "refract/base/report.h"
#include "refract/fabric/tcp/facts.h"
#include "refract/fabric/tcp/frame.h"
#include "refract/fabric/tcp/secret.h"
#include "refract/memory/host/descriptor.h"

namespace refract::fabric::tcp {

inline constexpr uint32_t kWireMagic = 0x70637452;  // The bytes "Rtcp".
// versions.cc
extern const uint16_t kWireVersion;
extern const uint16_t kWireVersionOldest;
inline constexpr uint16_t kWireVersionOfRoles = 2;   // The first one in which Hello names a role.
inline constexpr uint16_t kWireVersionOfCopies = 3;  // The first one whose clients look at Facts::copies.

// "version 1", "versions 1 to 2".
[[nodiscard]] std::string versions_text(uint16_t oldest, uint16_t newest);

using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

// The first 16 bytes stay as they are in every version; later ones may append.
struct Hello {
  uint32_t magic;
  uint16_t version;  // The newest that the client speaks.
  uint16_t version_oldest;
  uint32_t shard;
  uint32_t role;  // A Role. 0 before kWireVersionOfRoles.
  Nonce nonce;
};
struct Challenge {
  uint16_t version;  // That both speak from now on.
  uint16_t secret_wanted;
  uint32_t reserved;
  Nonce nonce;
};
struct Proof {
  Mac mac;  // Zeros where no secret is wanted.
};
struct Facts {
  uint64_t identity[2];
  uint64_t incarnation;
  uint64_t hash_seed;
  uint32_t shard_index;
  uint32_t shard_count;
  std::array<std::byte, 16> boot_id;
  uint32_t socket_path_bytes;
  uint16_t copies;     // Not 0: only to a client that speaks kWireVersionOfCopies. Likewise the next.
  uint16_t is_spread;  // 0 or 1.
  std::array<char, 112> socket_path;
};
struct Welcome {
  Mac mac;  // Zeros where no secret is wanted.
  Facts facts;
};
struct Refused {
  uint32_t code;  // A Code.
  uint32_t reserved;
  std::array<char, 240> text;  // What and, behind a newline, what to do. Zero-terminated.
};
static_assert(sizeof(Hello) == 48 && sizeof(Challenge) == 40 && sizeof(Proof) == 32);
static_assert(sizeof(Facts) == 176 && sizeof(Welcome) == 208 && sizeof(Refused) == 248);
static_assert(std::has_unique_object_representations_v<Hello> &&
              std::has_unique_object_representations_v<Challenge> &&
              std::has_unique_object_representations_v<Welcome> &&
              std::has_unique_object_representations_v<Refused>);

// Of any handshake frame, appended fields of later versions included.
inline constexpr size_t kHandshakeBytesMax = 512;

// What the HMACs speak of, gathered by each end as the handshake proceeds.
struct Transcript {
  Nonce client_nonce{};
  Nonce node_nonce{};
  uint16_t version = 0;  // The chosen one.
  uint16_t client_version = 0;
  uint16_t client_version_oldest = 0;
  uint32_t shard = 0;
  Role role = Role::kClient;
};
[[nodiscard]] Mac client_mac(const Secret& secret, const Transcript& transcript) noexcept;
// What another protocol asks for in place of the secret, which it would send in clear: it follows from the
// secret, and opens nothing else. 64 hexadecimal digits.
[[nodiscard]] std::string token_of(const Secret& secret, std::string_view protocol);
[[nodiscard]] Mac node_mac(const Secret& secret, const Transcript& transcript, const Facts& facts) noexcept;
// In a time that says nothing about where they differ.
[[nodiscard]] bool is_same(const Mac& one, const Mac& other) noexcept;

[[nodiscard]] Facts facts_to_wire(const NodeFacts& facts) noexcept;
[[nodiscard]] Result<NodeFacts> facts_from_wire(const Facts& facts);
[[nodiscard]] Refused refused_to_wire(const Report& report) noexcept;
// The text is the peer's: control characters come out as '?'.
[[nodiscard]] Report refused_from_wire(const Refused& refused);

// Reads one frame of a handshake from a socket that does not block, and not a byte behind it: what follows
// belongs to the connection.
class HandshakeReader {
 public:
  enum class Progress : uint8_t { kMore, kFrame, kEnded, kNonsense };
  // After kFrame: kind() and frame<T>() until reset().
  [[nodiscard]] Progress read(int fd) noexcept;
  [[nodiscard]] FrameKind kind() const noexcept { return header().kind; }
  // kMalformed: shorter than that.
  template <typename T>
  [[nodiscard]] Result<T> frame() const noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    return header().bytes < sizeof(T) ? Result<T>(fail(Code::kMalformed))
                                      : Result<T>(std::bit_cast<T>(prefix<sizeof(T)>()));
  }
  void reset() noexcept { have_ = 0; }
  [[nodiscard]] bool has_begun() const noexcept { return have_ > 0; }

 private:
  [[nodiscard]] FrameHeader header() const noexcept;
  template <size_t kBytes>
  [[nodiscard]] std::array<std::byte, kBytes> prefix() const noexcept {
    std::array<std::byte, kBytes> copy;
    std::copy_n(bytes_.begin() + kHeaderBytes, kBytes, copy.begin());
    return copy;
  }

  std::array<std::byte, kHeaderBytes + kHandshakeBytesMax> bytes_{};
  size_t have_ = 0;
};

// Sends one frame whole; a fresh socket has room for it. False: it did not take it.
[[nodiscard]] bool send_handshake(int fd, FrameKind kind, std::span<const std::byte> payload) noexcept;
template <typename T>
[[nodiscard]] bool send_handshake(int fd, FrameKind kind, const T& payload) noexcept {
  return send_handshake(fd, kind, std::as_bytes(std::span(&payload, 1)));
}

}  // namespace refract::fabric::tcp
