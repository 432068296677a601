// SPDX-License-Identifier: Apache-2.0
// Bodies of the calls by which members tell each other where objects are, as tests send them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "refract/object/directory/directory_wire.h"
#include "refract/object/testing/test_objects.h"

namespace refract::object::test {

// Of the list that both ends have at first.
inline constexpr uint64_t kListVersion = 7;

[[nodiscard]] inline std::string named_body(uint64_t version, std::string_view id, uint64_t birth) {
  return body_of(
      wire::NamedRequest{
          .list_version = version, .birth = birth, .id_bytes = short_of(id.size()), .reserved = {}},
      id);
}
[[nodiscard]] inline std::string change_body(wire::ChangeKind kind, std::string_view id, uint64_t birth,
                                             uint64_t body_bytes = 0, uint32_t copies = 0) {
  return body_of(wire::Change{.birth = birth,
                              .body_bytes = body_bytes,
                              .metadata_bytes = 0,
                              .copies = copies,
                              .id_bytes = short_of(id.size()),
                              .kind = kind,
                              .reserved = {}},
                 id);
}
struct PageOf {
  uint64_t stream = 0;
  bool is_report = false;
  bool is_last = false;
  uint64_t version = kListVersion;
};
[[nodiscard]] inline std::string changes_body(const PageOf& page, const std::vector<std::string>& changes) {
  std::string body = body_of(wire::ChangesRequest{.list_version = page.version,
                                                  .stream = page.stream,
                                                  .count = static_cast<uint32_t>(changes.size()),
                                                  .is_report = static_cast<uint8_t>(page.is_report ? 1 : 0),
                                                  .is_last = static_cast<uint8_t>(page.is_last ? 1 : 0),
                                                  .reserved = {}});
  for (const std::string& change : changes) body.append(change);
  return body;
}
[[nodiscard]] inline std::string look_up_body(uint64_t version, std::string_view id) {
  return body_of(wire::LookUpRequest{.list_version = version,
                                     .id_bytes = short_of(id.size()),
                                     .tells_later = 0,
                                     .pulls = 0,
                                     .reserved = {}},
                 id);
}
[[nodiscard]] inline std::string ask_body(uint64_t version, std::string_view id) {
  return body_of(wire::AskRequest{.list_version = version, .id_bytes = short_of(id.size()), .reserved = {}},
                 id);
}

}  // namespace refract::object::test
