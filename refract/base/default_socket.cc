// SPDX-License-Identifier: Apache-2.0
#include "refract/base/default_socket.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>

namespace refract {

std::string default_socket_path() {
  return default_socket_path(std::getenv("XDG_RUNTIME_DIR"), geteuid());
}

std::string default_socket_path(const char* runtime_folder, uid_t user) {
  if (runtime_folder != nullptr && runtime_folder[0] == '/') {
    return fmt::format("{}/refract/node.sock", runtime_folder);
  }
  if (user == 0) return "/run/refract/node.sock";
  return fmt::format("/tmp/refract-{}/node.sock", user);
}

}  // namespace refract
