// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/wire.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "refract/base/check.h"

namespace refract::fabric::verbs {
namespace {

constexpr uint32_t kNumber24Max = (uint32_t{1} << 24) - 1;

// Of exactly that length; `kind` of the header has been looked at.
template <typename T>
Result<T> copy_of(std::span<const std::byte> message) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  T copy;
  if (message.size() != sizeof(T)) return fail(Code::kMalformed);
  std::memcpy(&copy, message.data(), sizeof(T));
  return copy;
}

bool is_mtu(uint32_t bytes) noexcept {
  return std::popcount(bytes) == 1 && bytes >= 256 && bytes <= 4096;
}

}  // namespace

Result<Kind> kind_of(std::span<const std::byte> message) noexcept {
  if (message.size() < sizeof(Header)) return fail(Code::kMalformed);
  Header header;
  std::memcpy(&header, message.data(), sizeof(header));
  if (header.magic != kWireMagic) return fail(Code::kMalformed);
  if (header.version != kWireVersion) return fail(Code::kUnsupported);
  if (header.kind < Kind::kIntroduction || header.kind > Kind::kToken) return fail(Code::kMalformed);
  return header.kind;
}

Result<Introduction> decode_introduction(std::span<const std::byte> message) noexcept {
  auto copy = copy_of<Introduction>(message);
  if (!copy) return copy;
  const bool is_sound = copy->queue_pair <= kNumber24Max && copy->packet_sequence <= kNumber24Max &&
                        copy->gid_kind <= static_cast<uint8_t>(GidKind::kRoce2LinkLocal) &&
                        copy->link_layer <= static_cast<uint8_t>(LinkLayer::kEthernet) &&
                        is_mtu(copy->mtu_bytes) && copy->reads_in_max <= 255 && copy->reads_out_max <= 255 &&
                        copy->credits > 0 && copy->credits <= 65'535 && copy->message_bytes_max >= 64;
  const bool is_acceptance = copy->header.kind == Kind::kAcceptance;
  const bool is_by_exchange = copy->way == Way::kExchange && copy->port == 0 && copy->token == 0;
  const bool is_by_rdma_cm = copy->way == Way::kRdmaCm && copy->port <= UINT16_MAX &&
                             (copy->port != 0) == is_acceptance && (copy->token != 0) == is_acceptance;
  if (!is_sound || (!is_by_exchange && !is_by_rdma_cm)) return fail(Code::kMalformed);
  return copy;
}

Result<Question> decode_question(std::span<const std::byte> message) noexcept {
  auto copy = copy_of<Question>(message);
  if (copy && copy->region > UINT16_MAX) return fail(Code::kMalformed);
  return copy;
}

Result<Revoked> decode_revoked(std::span<const std::byte> message) noexcept {
  auto copy = copy_of<Revoked>(message);
  if (copy && copy->region > UINT16_MAX) return fail(Code::kMalformed);
  return copy;
}

Result<Broken> decode_broken(std::span<const std::byte> message) noexcept {
  auto copy = copy_of<Broken>(message);
  if (copy && copy->queue_pair > kNumber24Max) return fail(Code::kMalformed);
  return copy;
}

Result<Token> decode_token(std::span<const std::byte> message) noexcept {
  const auto kind = kind_of(message);
  if (!kind) return fail(kind.error());
  if (*kind != Kind::kToken || message.size() < sizeof(Token)) return fail(Code::kMalformed);
  auto copy = copy_of<Token>(message.first(sizeof(Token)));
  // Zero stands for none.
  if (copy && copy->token == 0) return fail(Code::kMalformed);
  return copy;
}

bool is_greeting(std::span<const std::byte> message, uint32_t mtu_bytes) noexcept {
  const auto kind = kind_of(message);
  return kind && *kind == Kind::kGreeting && message.size() == mtu_bytes;
}

Result<Report> decode_refusal(std::span<const std::byte> message) {
  const auto copy = copy_of<Refusal>(message);
  if (!copy) return fail(copy.error());
  const auto end = std::ranges::find(copy->text, '\0');
  std::string text(copy->text.begin(), end);
  for (char& each : text) {
    if (static_cast<unsigned char>(each) < 0x20 || each == 0x7f) each = '?';
  }
  const Code code = code_from_wire(copy->code);
  return Report{code == Code::kOk ? Code::kMalformed : code, std::move(text), {}};
}

Refusal encode_refusal(const Report& why) noexcept {
  Refusal refusal{.header = header_of(Kind::kRefusal),
                  .code = static_cast<uint32_t>(why.code),
                  .reserved = 0,
                  .text = {}};
  const size_t bytes = std::min(why.what.size(), refusal.text.size() - 1);
  std::copy_n(why.what.begin(), bytes, refusal.text.begin());
  return refusal;
}

Result<DecodedAnswer> decode_answer(std::span<const std::byte> message) noexcept {
  if (message.size() < sizeof(Answer)) return fail(Code::kMalformed);
  const auto copy = copy_of<Answer>(message.first(sizeof(Answer)));
  if (!copy) return fail(copy.error());
  const std::span<const std::byte> keys = message.subspan(sizeof(Answer));
  if (copy->region > UINT16_MAX || copy->chunk_count > kChunksMax || copy->rights > 7 ||
      keys.size() != copy->chunk_count * sizeof(uint32_t)) {
    return fail(Code::kMalformed);
  }
  DecodedAnswer answer{.region = static_cast<uint16_t>(copy->region),
                       .what = {.key = {copy->key},
                                .bytes = copy->bytes,
                                .chunk_bytes = copy->chunk_bytes,
                                .rights = {.read = (copy->rights & 1) != 0,
                                           .write = (copy->rights & 2) != 0,
                                           .atomic = (copy->rights & 4) != 0},
                                .chunk_count = copy->chunk_count},
                       .device_keys = keys};
  if (copy->chunk_count == 0) return answer;
  // Then every offset inside the region has its chunk.
  const bool is_covered = copy->bytes > 0 && copy->bytes <= RemotePointer::kOffsetMask &&
                          copy->chunk_bytes > 0 && copy->chunk_bytes % 8 == 0 &&
                          (copy->bytes - 1) / copy->chunk_bytes == copy->chunk_count - 1;
  if (!is_covered) return fail(Code::kMalformed);
  return answer;
}

std::span<const std::byte> encode_answer(uint16_t region, const RemoteRegion& what,
                                         std::span<const uint32_t> device_keys,
                                         std::span<std::byte> buffer) noexcept {
  const Answer answer{
      .header = header_of(Kind::kAnswer),
      .region = region,
      .key = what.key.bits,
      .bytes = what.bytes,
      .chunk_bytes = what.chunk_bytes,
      .rights = (what.rights.read ? 1U : 0U) | (what.rights.write ? 2U : 0U) | (what.rights.atomic ? 4U : 0U),
      .chunk_count = static_cast<uint32_t>(device_keys.size())};
  const size_t bytes = sizeof(answer) + device_keys.size_bytes();
  REFRACT_CHECK(device_keys.size() <= kChunksMax && bytes <= buffer.size());
  std::memcpy(buffer.data(), &answer, sizeof(answer));
  if (!device_keys.empty()) {
    std::memcpy(buffer.data() + sizeof(answer), device_keys.data(), device_keys.size_bytes());
  }
  return buffer.first(bytes);
}

}  // namespace refract::fabric::verbs
