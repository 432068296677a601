// SPDX-License-Identifier: Apache-2.0
// Bodies of calls about objects, as tests send them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "refract/object/layout/object_layout.h"
#include "refract/object/layout/object_wire.h"
#include "refract/object/owner/elsewhere.h"

namespace refract::object::test {

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

template <typename T>
[[nodiscard]] std::string body_of(const T& fixed, std::string_view behind = {}) {
  std::string body(reinterpret_cast<const char*>(&fixed), sizeof(fixed));
  return body.append(behind);
}
[[nodiscard]] inline uint16_t short_of(size_t bytes) {
  return static_cast<uint16_t>(bytes);
}

struct Lengths {
  uint64_t body = 0;
  uint32_t metadata = 0;

  [[nodiscard]] uint64_t filled() const {
    return ObjectParts{.body_bytes = body, .metadata_bytes = metadata, .id_bytes = 0}.filled_bytes();
  }
};
[[nodiscard]] inline std::string create_body(std::string_view id, uint64_t claim, const Lengths& lengths,
                                             uint64_t timeout_ns = 0, bool wants_window = false) {
  return body_of(wire::CreateRequest{.claim = claim,
                                     .body_bytes = lengths.body,
                                     .timeout_ns = timeout_ns,
                                     .metadata_bytes = lengths.metadata,
                                     .id_bytes = short_of(id.size()),
                                     .wants_window = static_cast<uint8_t>(wants_window ? 1 : 0),
                                     .reserved = 0},
                 id);
}
[[nodiscard]] inline std::string fill_body(std::string_view id, uint64_t claim, uint64_t filled_bytes,
                                           const wire::Place& source, uint64_t timeout_ns = kSecond_ns) {
  return body_of(wire::FillRequest{.claim = claim,
                                   .filled_bytes = filled_bytes,
                                   .source = source,
                                   .timeout_ns = timeout_ns,
                                   .id_bytes = short_of(id.size()),
                                   .reserved = {}},
                 id);
}
[[nodiscard]] inline std::string id_body(std::string_view id, uint64_t birth_or_claim, uint8_t flag = 0) {
  return body_of(
      wire::IdRequest{.birth = birth_or_claim, .id_bytes = short_of(id.size()), .flag = flag, .reserved = {}},
      id);
}
[[nodiscard]] inline std::string put_body(std::string_view id, uint64_t claim, std::string_view body,
                                          std::string_view metadata = {}, uint64_t timeout_ns = 0) {
  return body_of(wire::PutRequest{.claim = claim,
                                  .timeout_ns = timeout_ns,
                                  .body_bytes = static_cast<uint32_t>(body.size()),
                                  .metadata_bytes = static_cast<uint32_t>(metadata.size()),
                                  .id_bytes = short_of(id.size()),
                                  .reserved = {}},
                 id)
      .append(body)
      .append(metadata);
}
[[nodiscard]] inline std::string many_body(std::span<const std::string> puts) {
  std::string body = body_of(wire::CountRequest{.count = static_cast<uint32_t>(puts.size()), .reserved = 0});
  for (const std::string& put : puts) body.append((8 - body.size() % 8) % 8, '\0').append(put);
  return body;
}
[[nodiscard]] inline std::string await_body(std::string_view id, uint64_t timeout_ns = 0,
                                            TransferWish by = TransferWish::kAuto, uint8_t flags = 0) {
  return body_of(wire::AwaitRequest{.timeout_ns = timeout_ns,
                                    .id_bytes = short_of(id.size()),
                                    .transfer = static_cast<uint8_t>(by),
                                    .flags = flags,
                                    .reserved = {}},
                 id);
}

}  // namespace refract::object::test
