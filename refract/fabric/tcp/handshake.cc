// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/handshake.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "refract/base/check.h"

namespace refract::fabric::tcp {
namespace {

// What is hashed: no padding, so each field has its place.
struct Statement {
  std::array<char, 16> from;
  Nonce client_nonce;
  Nonce node_nonce;
  uint16_t version;
  uint16_t client_version;
  uint16_t client_version_oldest;
  uint16_t reserved;
  uint32_t shard;
  uint32_t role;
  Facts facts;  // Zeros in the client's.
};
static_assert(sizeof(Statement) == 96 + sizeof(Facts));
static_assert(std::has_unique_object_representations_v<Statement>);

constexpr std::array<char, 16> kFromClient = {"refract client"};
constexpr std::array<char, 16> kFromNode = {"refract node"};

Mac mac_of(const Secret& secret, const std::array<char, 16>& from, const Transcript& transcript,
           const Facts& facts) noexcept {
  const Statement statement{.from = from,
                            .client_nonce = transcript.client_nonce,
                            .node_nonce = transcript.node_nonce,
                            .version = transcript.version,
                            .client_version = transcript.client_version,
                            .client_version_oldest = transcript.client_version_oldest,
                            .reserved = 0,
                            .shard = transcript.shard,
                            .role = static_cast<uint32_t>(transcript.role),
                            .facts = facts};
  Mac mac{};
  unsigned bytes = 0;
  const auto* const made = HMAC(EVP_sha256(), secret.bytes().data(), static_cast<int>(secret.bytes().size()),
                                reinterpret_cast<const unsigned char*>(&statement), sizeof(statement),
                                reinterpret_cast<unsigned char*>(mac.data()), &bytes);
  REFRACT_CHECK(made != nullptr && bytes == mac.size());
  return mac;
}

// At most what `text` holds, which ends with a zero; a code point is never cut.
void write_text(std::span<char> text, std::string_view what) noexcept {
  size_t bytes = std::min(what.size(), text.size() - 1);
  while (bytes < what.size() && bytes > 0 && (static_cast<unsigned char>(what[bytes]) & 0xc0) == 0x80)
    --bytes;
  std::copy_n(what.begin(), bytes, text.begin());
}

std::string printable(std::string_view text) {
  std::string copy(text);
  std::ranges::replace_if(
      copy, [](char each) { return static_cast<unsigned char>(each) < 0x20 || each == 0x7f; }, '?');
  return copy;
}

}  // namespace

std::string versions_text(uint16_t oldest, uint16_t newest) {
  return oldest == newest ? fmt::format("version {}", newest)
                          : fmt::format("versions {} to {}", oldest, newest);
}

Mac client_mac(const Secret& secret, const Transcript& transcript) noexcept {
  return mac_of(secret, kFromClient, transcript, {});
}

Mac node_mac(const Secret& secret, const Transcript& transcript, const Facts& facts) noexcept {
  return mac_of(secret, kFromNode, transcript, facts);
}

std::string token_of(const Secret& secret, std::string_view protocol) {
  const std::string purpose = fmt::format("refract token {}", protocol);
  Mac mac{};
  unsigned bytes = 0;
  const auto* const made = HMAC(EVP_sha256(), secret.bytes().data(), static_cast<int>(secret.bytes().size()),
                                reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size(),
                                reinterpret_cast<unsigned char*>(mac.data()), &bytes);
  REFRACT_CHECK(made != nullptr && bytes == mac.size());
  std::string text;
  for (const std::byte each : mac) text += fmt::format("{:02x}", static_cast<unsigned>(each));
  return text;
}

bool is_same(const Mac& one, const Mac& other) noexcept {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

Facts facts_to_wire(const NodeFacts& facts) noexcept {
  Facts wire{};
  wire.identity[0] = facts.identity[0];
  wire.identity[1] = facts.identity[1];
  wire.incarnation = facts.incarnation;
  wire.hash_seed = facts.hash_seed;
  wire.shard_index = facts.shard_index;
  wire.shard_count = facts.shard_count;
  wire.copies = static_cast<uint16_t>(facts.copies);
  wire.is_spread = facts.is_spread ? 1 : 0;
  wire.boot_id = facts.boot_id;
  // A path too long for a socket names none.
  if (facts.socket_path.size() <= kSocketPathBytesMax) {
    wire.socket_path_bytes = static_cast<uint32_t>(facts.socket_path.size());
    std::ranges::copy(facts.socket_path, wire.socket_path.begin());
  }
  return wire;
}

Result<NodeFacts> facts_from_wire(const Facts& wire) {
  if (wire.socket_path_bytes > kSocketPathBytesMax || wire.shard_count == 0 ||
      wire.shard_index > wire.shard_count) {
    return fail(Code::kMalformed);
  }
  NodeFacts facts{.identity = {wire.identity[0], wire.identity[1]},
                  .incarnation = wire.incarnation,
                  .hash_seed = wire.hash_seed,
                  .shard_index = wire.shard_index,
                  .shard_count = wire.shard_count,
                  .copies = wire.copies,
                  .is_spread = wire.is_spread != 0,
                  .boot_id = wire.boot_id,
                  .socket_path = std::string(wire.socket_path.data(), wire.socket_path_bytes)};
  if (facts.socket_path.find('\0') != std::string::npos) return fail(Code::kMalformed);
  return facts;
}

Refused refused_to_wire(const Report& report) noexcept {
  Refused wire{};
  wire.code = static_cast<uint32_t>(report.code);
  write_text(wire.text, report.next.empty() ? report.what : report.what + "\n" + report.next);
  return wire;
}

Report refused_from_wire(const Refused& refused) {
  const std::string_view text(refused.text.data(), ::strnlen(refused.text.data(), refused.text.size()));
  const size_t line = text.find('\n');
  Report report{code_from_wire(refused.code), printable(text.substr(0, line)), {}};
  if (line != std::string_view::npos) report.next = printable(text.substr(line + 1));
  // A refusal that says ok would be taken for success.
  if (report.code == Code::kOk) report.code = Code::kMalformed;
  return report;
}

FrameHeader HandshakeReader::header() const noexcept {
  uint64_t word = 0;
  std::memcpy(&word, bytes_.data(), sizeof(word));
  return FrameHeader::from(word);
}

HandshakeReader::Progress HandshakeReader::read(int fd) noexcept {
  for (;;) {
    size_t want = kHeaderBytes;
    if (have_ >= kHeaderBytes) {
      const FrameHeader frame = header();
      const bool sound = frame.kind >= FrameKind::kHello && frame.kind <= FrameKind::kRefused &&
                         frame.code == 0 && frame.bytes <= kHandshakeBytesMax && frame.bytes % 8 == 0;
      if (!sound) return Progress::kNonsense;
      want += frame.bytes;
      if (have_ == want) return Progress::kFrame;
    }
    const ssize_t got = ::recv(fd, bytes_.data() + have_, want - have_, MSG_DONTWAIT);
    if (got == 0) return Progress::kEnded;
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? Progress::kMore : Progress::kEnded;
    }
    have_ += static_cast<size_t>(got);
  }
}

bool send_handshake(int fd, FrameKind kind, std::span<const std::byte> payload) noexcept {
  std::array<std::byte, kHeaderBytes + kHandshakeBytesMax> bytes{};
  const uint64_t word = FrameHeader{.bytes = payload.size(), .kind = kind}.word();
  std::memcpy(bytes.data(), &word, sizeof(word));
  std::ranges::copy(payload, bytes.begin() + kHeaderBytes);
  const size_t whole = kHeaderBytes + payload.size();
  return ::send(fd, bytes.data(), whole, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(whole);
}

}  // namespace refract::fabric::tcp
