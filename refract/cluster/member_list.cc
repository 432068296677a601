// SPDX-License-Identifier: Apache-2.0
#include "refract/cluster/member_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "refract/base/printable.h"

namespace refract::cluster {
namespace {

constexpr std::string_view kVersion = "version";

bool is_letter_or_digit(char letter) noexcept {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9');
}

bool is_plain(char letter) noexcept {
  return is_letter_or_digit(letter) || letter == '.' || letter == '-' || letter == '_';
}

bool is_of_ipv6(char letter) noexcept {
  return is_plain(letter) || letter == ':' || letter == '%';
}

// Of a host without brackets. A colon makes it an IPv6 address.
bool is_host(std::string_view host) noexcept {
  if (host.empty() || host.size() > kHostBytesMax) return false;
  return std::ranges::all_of(host, host.find(':') == std::string_view::npos ? is_plain : is_of_ipv6);
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// A whole number without sign, blank or anything behind it.
template <typename Number>
std::optional<Number> number_of(std::string_view text) noexcept {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::unexpected<Report> refuse(std::string what) {
  return report(Code::kInvalidArgument, std::move(what), "a list is like: a=10.0.0.1:7400,b=10.0.0.2:7400");
}

std::string quoted(std::string_view text) {
  // What is longer is no name and no address, and need not be repeated whole.
  constexpr size_t kShown = 80;
  return fmt::format("'{}{}'", printable(text.substr(0, kShown)), text.size() > kShown ? "..." : "");
}

// "HOST:PORT", with an IPv6 address in brackets.
bool take_address(std::string_view text, Member& member) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  std::string_view host = text.substr(0, colon);
  const auto port = number_of<uint16_t>(text.substr(colon + 1));
  const bool has_brackets = host.starts_with('[') && host.ends_with(']');
  if (has_brackets) host = host.substr(1, host.size() - 2);
  const bool is_ipv6 = host.find(':') != std::string_view::npos;
  if (!port || *port == 0 || is_ipv6 != has_brackets || !is_host(host)) return false;
  member.host = host;
  member.port = *port;
  return true;
}

class Parser {
 public:
  explicit Parser(ListForm form) noexcept : form_(form) {}

  [[nodiscard]] Reported<MemberList> parse(std::string_view text) {
    if (text.size() > kListTextBytesMax) {
      return refuse(fmt::format("a list has at most {} bytes, and this one more", kListTextBytesMax));
    }
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      ++line_;
      if (auto taken = take_line(text.substr(0, end)); !taken) return report(taken.error());
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (!has_version_ && form_ == ListForm::kFile) {
      return refuse("a list in a file begins with its version, as in: version = 1");
    }
    std::ranges::sort(list_.members, {}, &Member::name);
    if (auto sound = check(list_); !sound) return report(sound.error());
    return std::move(list_);
  }

 private:
  [[nodiscard]] Reported<> take_line(std::string_view line) {
    line = line.substr(0, line.find('#'));
    while (!line.empty()) {
      const size_t end = std::min(line.find(','), line.size());
      const std::string_view entry = trimmed(line.substr(0, end));
      line.remove_prefix(std::min(end + 1, line.size()));
      if (entry.empty()) continue;
      if (auto taken = take_entry(entry); !taken) return taken;
    }
    return {};
  }

  [[nodiscard]] Reported<> take_entry(std::string_view entry) {
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) {
      return refuse(fmt::format("{}{}: expected NAME=HOST:PORT", place(), quoted(entry)));
    }
    const std::string_view name = trimmed(entry.substr(0, equals));
    const std::string_view value = trimmed(entry.substr(equals + 1));
    if (name == kVersion) return take_version(value);
    if (auto sound = check_name(name); !sound) {
      return report(sound.error().code, place() + sound.error().what, sound.error().next);
    }
    Member member{.name = std::string(name), .host = {}, .port = 0};
    if (!take_address(value, member)) {
      return refuse(fmt::format(
          "{}{} of node '{}' is no HOST:PORT: a name, an IPv4 address or an IPv6 address in brackets, then a "
          "port from 1 to 65535",
          place(), quoted(value), name));
    }
    if (list_.members.size() == kMembersMax) {
      return refuse(fmt::format("{}there are more than {} nodes", place(), kMembersMax));
    }
    list_.members.push_back(std::move(member));
    return {};
  }

  [[nodiscard]] Reported<> take_version(std::string_view value) {
    if (has_version_ || !list_.members.empty()) {
      return refuse(fmt::format("{}the version stands once, before the nodes", place()));
    }
    const auto version = number_of<uint64_t>(value);
    if (!version || *version == 0) {
      return refuse(fmt::format("{}version: expected a number from 1 on, found {}", place(), quoted(value)));
    }
    list_.version = *version;
    has_version_ = true;
    return {};
  }

  [[nodiscard]] std::string place() const {
    return form_ == ListForm::kFile ? fmt::format("line {}: ", line_) : std::string();
  }

  const ListForm form_;
  MemberList list_{.version = 1, .members = {}};
  bool has_version_ = false;
  uint32_t line_ = 0;
};

}  // namespace

std::string Member::address() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

std::optional<size_t> MemberList::index_of(std::string_view name) const noexcept {
  const auto found = std::ranges::lower_bound(members, name, {}, &Member::name);
  if (found == members.end() || found->name != name) return std::nullopt;
  return static_cast<size_t>(found - members.begin());
}

Reported<> check_name(std::string_view name) {
  const bool is_sound = !name.empty() && name.size() <= kNameBytesMax && is_letter_or_digit(name.front()) &&
                        std::ranges::all_of(name, is_plain) && name != kVersion;
  if (is_sound) return {};
  return report(
      Code::kInvalidArgument, fmt::format("{} cannot be the name of a node", quoted(name)),
      fmt::format("a name has 1 to {} letters, digits and . - _, begins with a letter or digit, and "
                  "is not version",
                  kNameBytesMax));
}

Reported<> check(const MemberList& list) {
  if (list.version == 0) return refuse("the version of a list is a number from 1 on");
  if (list.members.empty()) return refuse("the list names no node");
  if (list.members.size() > kMembersMax) {
    return refuse(
        fmt::format("there are {} nodes, at most {} are possible", list.members.size(), kMembersMax));
  }
  std::vector<std::pair<std::string, const Member*>> addresses;
  for (const Member& member : list.members) {
    if (auto sound = check_name(member.name); !sound) return sound;
    if (!is_host(member.host) || member.port == 0) {
      return refuse(fmt::format("node '{}' has no address", member.name));
    }
    addresses.emplace_back(member.address(), &member);
  }
  for (size_t i = 1; i < list.members.size(); ++i) {
    const std::string& name = list.members[i].name;
    if (list.members[i - 1].name == name) {
      return refuse(fmt::format("there are two nodes of the name '{}'", name));
    }
    if (list.members[i - 1].name > name) return refuse("the nodes are not in the order of their names");
  }
  std::ranges::sort(addresses);
  const auto twice = std::ranges::adjacent_find(
      addresses, [](const auto& one, const auto& other) { return one.first == other.first; });
  if (twice == addresses.end()) return {};
  return refuse(fmt::format("nodes '{}' and '{}' have the same address, {}", twice->second->name,
                            std::next(twice)->second->name, twice->first));
}

Reported<MemberList> parse_member_list(std::string_view text, ListForm form) {
  return Parser(form).parse(text);
}

std::string to_text(const MemberList& list) {
  std::string text = fmt::format("{}={}", kVersion, list.version);
  for (const Member& member : list.members) text += fmt::format(",{}={}", member.name, member.address());
  return text;
}

std::string names_text(const MemberList& list) {
  constexpr size_t kShown = 10;
  std::string text;
  const size_t count = list.members.size();
  for (size_t i = 0; i < std::min(count, kShown); ++i) {
    if (i > 0) text += i + 1 == count ? " and " : ", ";
    text += list.members[i].name;
  }
  if (count > kShown) text += fmt::format(" and so on, {} nodes", count);
  return text;
}

}  // namespace refract::cluster
