// SPDX-License-Identifier: Apache-2.0
// The address on which a node is to listen for TCP, as it stands in the configuration: "127.0.0.1:7400",
// "[::1]:7400", "0.0.0.0:0". Numbers, not names: what a name means may change while a node is away.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "refract/base/report.h"

namespace refract::node {

struct ListenAddress {
  std::string host;  // Without brackets.
  uint16_t port = 0;
  bool is_ipv6 = false;
  bool is_loopback = false;  // Nobody but this host can reach it.
};

// The error's `what` says what was expected and what was found, without naming the place.
[[nodiscard]] Reported<ListenAddress> parse_listen_address(std::string_view text);

}  // namespace refract::node
