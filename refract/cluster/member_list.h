// SPDX-License-Identifier: Apache-2.0
// The nodes that belong together: a name and an address each, under a version.
//
//   version = 7
//   a = 10.0.0.1:7400     # One line for each node.
//   b = [fd00::2]:7400
//
// In a setting the same stands in one line, with commas between: a=10.0.0.1:7400,b=10.0.0.2:7400. There
// version=N may be left out, and is 1.
//
// Control path: everything here allocates. Threads: any, each list one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"

namespace refract::cluster {

inline constexpr size_t kMembersMax = 255;    // An index fits a byte.
inline constexpr size_t kNameBytesMax = 63;   // Letters, digits and . - _; the first is a letter or digit.
inline constexpr size_t kHostBytesMax = 253;  // As the longest name of a host.
// Of a file with a list. A list of the longest names and hosts has less.
inline constexpr size_t kListTextBytesMax = size_t{128} * 1024;

struct Member {
  std::string name;
  std::string host;  // A name, an IPv4 address, or an IPv6 address without brackets.
  uint16_t port = 0;

  // "10.0.0.7:7400", "[fd00::2]:7400".
  [[nodiscard]] std::string address() const;
  bool operator==(const Member&) const = default;
};

struct MemberList {
  uint64_t version = 0;         // From 1 on.
  std::vector<Member> members;  // In the order of their names, whatever order they were given in.

  // Nothing: no member has this name.
  [[nodiscard]] std::optional<size_t> index_of(std::string_view name) const noexcept;
  bool operator==(const MemberList&) const = default;
};

// Whether it could have been parsed: what another process says is looked at by this. The sentence names what
// is wrong.
[[nodiscard]] Reported<> check(const MemberList& list);
// What may be a member's name; the sentence of a refusal repeats the name.
[[nodiscard]] Reported<> check_name(std::string_view name);

enum class ListForm : uint8_t {
  kSetting,  // In one line; without a version it is version 1.
  kFile,     // Must have a version, since a file is read again. Refusals name the line.
};
// kInvalidArgument, with a sentence that names the entry.
[[nodiscard]] Reported<MemberList> parse_member_list(std::string_view text, ListForm form);

// "version=7,a=10.0.0.1:7400,b=10.0.0.2:7400": parse_member_list() makes the same list of it.
[[nodiscard]] std::string to_text(const MemberList& list);
// "a, b and c": for sentences. Of more than ten names the first ones, and how many there are.
[[nodiscard]] std::string names_text(const MemberList& list);

}  // namespace refract::cluster
