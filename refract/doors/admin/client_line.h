// SPDX-License-Identifier: Apache-2.0
// A connection as CLIENT LIST tells of it, and which of them a filter means.
//
// Threads: that of the connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refract::doors::redis {

class Session;

// Redis's line of it, with its end.
[[nodiscard]] std::string client_line(const Session& session, uint64_t now_ns);

// All that is said must be so.
struct ClientFilter {
  std::optional<uint64_t> id;
  std::optional<std::string> peer;
  std::optional<std::string> local;
  std::optional<bool> is_subscribed;
  bool is_none = false;  // Of a kind or user that no connection here has.

  [[nodiscard]] bool means(const Session& session) const noexcept;
};

}  // namespace refract::doors::redis
