// SPDX-License-Identifier: Apache-2.0
#include "refract/client/address.h"

#include <fmt/format.h>

#include "refract/base/default_socket.h"

namespace refract::client {

Reported<std::string> socket_path_of(std::string_view address) {
  constexpr std::string_view kNext = "give the path of a node's socket, or leave it out for the default one";
  if (address.empty()) return default_socket_path();
  std::string_view path = address;
  if (path.starts_with("refract://")) {
    path.remove_prefix(std::string_view("refract://").size());
    if (path.empty() || path == "/") return default_socket_path();
    if (path.front() != '/') {
      return report(Code::kUnsupported,
                    fmt::format("{} names another host, which this version cannot reach", address),
                    std::string(kNext));
    }
  } else if (path.starts_with("shm:")) {
    path.remove_prefix(std::string_view("shm:").size());
  }
  if (path.empty() || path.find('\0') != std::string_view::npos) {
    return report(Code::kInvalidArgument, fmt::format("'{}' is no address of a node", address),
                  std::string(kNext));
  }
  if (path.size() > kSocketPathBytesMax) {
    return report(Code::kInvalidArgument,
                  fmt::format("the socket path has {} bytes, and {} are possible: {}", path.size(),
                              kSocketPathBytesMax, path),
                  "use a shorter path");
  }
  return std::string(path);
}

}  // namespace refract::client
