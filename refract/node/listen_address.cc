// SPDX-License-Identifier: Apache-2.0
#include "refract/node/listen_address.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>

#include <charconv>

namespace refract::node {
namespace {

constexpr uint32_t kLoopbackNet = 127;

bool take_host(ListenAddress& address) {
  in_addr four{};
  in6_addr six{};
  if (!address.is_ipv6 && ::inet_pton(AF_INET, address.host.c_str(), &four) == 1) {
    address.is_loopback = ntohl(four.s_addr) >> 24 == kLoopbackNet;
    return true;
  }
  if (address.is_ipv6 && ::inet_pton(AF_INET6, address.host.c_str(), &six) == 1) {
    const bool is_mapped = IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == kLoopbackNet;
    address.is_loopback = IN6_IS_ADDR_LOOPBACK(&six) || is_mapped;
    return true;
  }
  return false;
}

}  // namespace

Reported<ListenAddress> parse_listen_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  ListenAddress address;
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    address.is_ipv6 = host.starts_with('[') && host.ends_with(']');
    if (address.is_ipv6) host = host.substr(1, host.size() - 2);
    address.host = host;
    const std::string_view port = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
    const bool is_number = error == std::errc() && end == port.data() + port.size();
    if (is_number && take_host(address)) return address;
  }
  return report(
      Code::kInvalidArgument,
      fmt::format("expected ADDRESS:PORT in numbers, such as 127.0.0.1:7400 or [::]:7400, found '{}'", text));
}

}  // namespace refract::node
