// SPDX-License-Identifier: Apache-2.0
// Where a node listens, and a client looks, when no option says otherwise: one rule for both.
#pragma once

#include <sys/types.h>

#include <string>

namespace refract {

// The longest path that a Unix socket address holds, without the closing zero.
inline constexpr size_t kSocketPathBytesMax = 107;

// $XDG_RUNTIME_DIR/refract/node.sock; without such a folder /run/refract/node.sock for root and
// /tmp/refract-UID/node.sock for others. Reads the environment: not while another thread changes it.
[[nodiscard]] std::string default_socket_path();

// The rule itself. `runtime_folder`: the value of XDG_RUNTIME_DIR; null or not absolute: there is none.
[[nodiscard]] std::string default_socket_path(const char* runtime_folder, uid_t user);

}  // namespace refract
