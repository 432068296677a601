// SPDX-License-Identifier: Apache-2.0
#include "refract/client/link/address.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "refract/base/default_socket.h"
#include "refract/fabric/verbs/device_names.h"

namespace refract::client {

namespace {

constexpr std::string_view kScheme = "refract://";
constexpr std::string_view kForms =
    "give a socket's path, tcp:HOST:PORT, verbs:HOST:PORT, or refract://HOST:PORT";

std::unexpected<Report> wrong(std::string_view address, std::string_view why,
                              std::string_view next = kForms) {
  return report(Code::kInvalidArgument, fmt::format("'{}' is no address of a node: {}", address, why),
                std::string(next));
}

std::optional<std::string> decode_percent(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned value = 0;
    const char* begin = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(begin, begin + 2, value, 16).ptr != begin + 2)
      return std::nullopt;
    decoded += static_cast<char>(value);
    i += 2;
  }
  return decoded;
}

Reported<> take_path(std::string_view address, std::string_view path, Target& target) {
  if (path.empty()) return wrong(address, "a path is missing");
  if (path.find('\0') != std::string_view::npos) return wrong(address, "the path has a zero byte");
  if (path.size() > kSocketPathBytesMax) {
    return report(Code::kInvalidArgument,
                  fmt::format("the socket path has {} bytes, and {} are possible: {}", path.size(),
                              kSocketPathBytesMax, path),
                  "use a shorter path");
  }
  target.socket_path = path;
  return {};
}

// What is meant for another program, or lacks its beginning, is not taken for a socket's name.
Reported<> take_bare_path(std::string_view address, Target& target) {
  const size_t scheme_end = address.find("://");
  if (scheme_end != std::string_view::npos && address.find('/') > scheme_end) {
    return wrong(address, fmt::format("there is no scheme '{}://'", address.substr(0, scheme_end)));
  }
  const size_t colon = address.rfind(':');
  const bool names_port = colon != std::string_view::npos && colon + 1 < address.size() &&
                          address.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  if (names_port && address.find('/') == std::string_view::npos) {
    return wrong(address, "it looks like a host and a port",
                 fmt::format("write refract://{0}, or ./{0} for a socket of that name", address));
  }
  return take_path(address, address, target);
}

Reported<Place> place_in(std::string_view address, std::string_view text) {
  std::string_view host = text;
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return wrong(address, "the bracket of its IPv6 address is not closed");
    host = text.substr(1, end - 1);
    if (host.find(':') == std::string_view::npos) {
      return wrong(address, "only an IPv6 address stands in brackets",
                   "write it like refract://127.0.0.1:7400");
    }
    if (end + 1 < text.size() && text[end + 1] != ':') {
      return wrong(address, "behind the bracket comes a colon and the port");
    }
    port = end + 1 < text.size() ? text.substr(end + 2) : std::string_view();
  } else if (const size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (host.find(':') != std::string_view::npos) {
      return wrong(address, "an IPv6 address stands in brackets", "write it like refract://[::1]:7400");
    }
  }
  if (host.empty()) return wrong(address, "the host is missing");
  if (host.find_first_of(std::string_view("/ \0", 3)) != std::string_view::npos) {
    return wrong(address, fmt::format("'{}' is no host", host));
  }
  if (port.empty()) {
    return wrong(address, "the port is missing", "the node's listen.address says it: refract://HOST:PORT");
  }
  unsigned number = 0;
  const auto read = std::from_chars(port.data(), port.data() + port.size(), number);
  if (read.ec != std::errc() || read.ptr != port.data() + port.size() || number == 0 || number > 65'535) {
    return wrong(address, fmt::format("'{}' is no port", port), "ports are numbers from 1 to 65535");
  }
  return Place{.host = std::string(host), .port = static_cast<uint16_t>(number)};
}

Reported<> take_host(std::string_view address, std::string_view text, Target& target) {
  auto place = place_in(address, text);
  if (!place) return report(std::move(place).error());
  target.host = std::move(place->host);
  target.port = place->port;
  return {};
}

// HOST:PORT,HOST:PORT
Reported<> take_hosts(std::string_view address, std::string_view text, Target& target) {
  const size_t comma = text.find(',');
  if (auto taken = take_host(address, text.substr(0, comma), target); !taken) return taken;
  for (size_t at = comma; at != std::string_view::npos;) {
    const size_t next = text.find(',', at + 1);
    auto place = place_in(address, text.substr(at + 1, next - at - 1));
    if (!place) return report(std::move(place).error());
    target.others.push_back(std::move(*place));
    at = next;
  }
  return {};
}

Reported<> take_transport(std::string_view name, Target& target) {
  if (name == "auto") {
    target.preference = Preference::kAuto;
  } else if (name == "shm") {
    target.preference = Preference::kShm;
  } else if (name == "verbs") {
    target.preference = Preference::kVerbs;
  } else if (name == "tcp") {
    target.preference = Preference::kTcp;
  } else {
    return report(Code::kUnsupported, fmt::format("there is no transport '{}'", name),
                  "there are auto, shm, verbs and tcp");
  }
  return {};
}

Reported<> take_paths(std::string_view name, Target& target) {
  if (name == "direct") {
    target.paths = Paths::kAuto;
  } else if (name == "chain") {
    target.paths = Paths::kChain;
  } else if (name == "rpc") {
    target.paths = Paths::kRpc;
  } else {
    return report(Code::kUnsupported, fmt::format("there is no path '{}'", name),
                  "there are direct, chain and rpc");
  }
  return {};
}

Reported<> take_query(std::string_view address, std::string_view query, Target& target) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = pair.find('=');
    const std::string_view key = pair.substr(0, equals);
    const auto value = decode_percent(equals == std::string_view::npos ? "" : pair.substr(equals + 1));
    if (!value) {
      return wrong(address, fmt::format("in '{}' a percent sign is not followed by two digits", pair),
                   "write %25 for a percent sign");
    }
    if (key == "transport") {
      if (auto taken = take_transport(*value, target); !taken) return taken;
    } else if (key == "path") {
      if (auto taken = take_paths(*value, target); !taken) return taken;
    } else if (key == "secret_file") {
      if (value->empty() || value->find('\0') != std::string::npos) {
        return wrong(address, "the path of its secret_file is missing");
      }
      target.secret_file = *value;
    } else if (key == "device") {
      if (!fabric::verbs::is_device_name(*value)) {
        return wrong(address, fmt::format("'{}' is no name of an RDMA device", *value),
                     "write device=NAME, auto or none; refract doctor lists the names");
      }
      target.rdma_device = *value;
    } else {
      return wrong(address, fmt::format("it asks for '{}', which does not exist", key),
                   "a query may have transport, path, secret_file and device");
    }
  }
  return {};
}

Reported<> take_rest_of_scheme(std::string_view address, Target& target) {
  std::string_view place = address.substr(kScheme.size());
  const size_t query = place.find('?');
  if (query != std::string_view::npos) {
    if (auto taken = take_query(address, place.substr(query + 1), target); !taken) return taken;
    place = place.substr(0, query);
  }
  if (place.empty() || place == "/") {
    return wrong(
        address, "the host is missing",
        "give refract://HOST:PORT, refract:///PATH of a socket, or no address for this host's default");
  }
  if (place.front() == '/') {
    if (auto taken = take_path(address, place, target); !taken) return taken;
  } else {
    if (place.back() == '/') place.remove_suffix(1);
    if (auto taken = take_hosts(address, place, target); !taken) return taken;
  }
  if (target.is_path() &&
      (target.preference == Preference::kTcp || target.preference == Preference::kVerbs)) {
    return wrong(address, "TCP and RDMA lead to a host and a port, not to a socket's path",
                 "write refract://HOST:PORT?transport=tcp");
  }
  return {};
}

}  // namespace

bool Target::is_loopback() const noexcept {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string Target::text() const {
  if (is_path()) return socket_path;
  const bool needs_brackets = host.find(':') != std::string::npos;
  return needs_brackets ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Target Target::at(Place place) const {
  Target target = *this;
  if (is_path()) target.preference = Preference::kAuto;
  target.socket_path.clear();
  target.others.clear();
  target.host = std::move(place.host);
  target.port = place.port;
  return target;
}

std::vector<Target> Target::each() const {
  if (others.empty()) return {*this};
  std::vector<Target> each = {at({.host = host, .port = port})};
  for (const Place& place : others) each.push_back(at(place));
  return each;
}

Reported<Target> parse_address(std::string_view address) {
  constexpr std::string_view kShm = "shm:";
  constexpr std::string_view kTcp = "tcp:";
  constexpr std::string_view kVerbs = "verbs:";
  Target target;
  Reported<> taken;
  if (address.empty()) {
    target.socket_path = default_socket_path();
  } else if (address.starts_with(kScheme)) {
    taken = take_rest_of_scheme(address, target);
  } else if (address.starts_with(kTcp)) {
    target.preference = Preference::kTcp;
    taken = take_hosts(address, address.substr(kTcp.size()), target);
  } else if (address.starts_with(kVerbs)) {
    target.preference = Preference::kVerbs;
    taken = take_hosts(address, address.substr(kVerbs.size()), target);
  } else if (address.starts_with(kShm)) {
    target.preference = Preference::kShm;
    taken = take_path(address, address.substr(kShm.size()), target);
  } else {
    taken = take_bare_path(address, target);
  }
  if (!taken) return report(std::move(taken).error());
  return target;
}

Reported<std::string> socket_path_of(std::string_view address) {
  auto target = parse_address(address);
  if (!target) return report(std::move(target).error());
  if (target->is_path()) return target->socket_path;
  return report(Code::kUnsupported, fmt::format("{} leads over the network, and this needs a path", address),
                "give the path of a socket of this host");
}

}  // namespace refract::client
