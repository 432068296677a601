// SPDX-License-Identifier: Apache-2.0
// Where a client is told to find its node.
#pragma once

#include <string>
#include <string_view>

#include "refract/base/report.h"

namespace refract::client {

// The socket's path that `address` names: a path, "shm:PATH", "refract://PATH" with an absolute path, or
// nothing for the default socket. kInvalidArgument: no such form; kUnsupported: it names another host.
[[nodiscard]] Reported<std::string> socket_path_of(std::string_view address);

}  // namespace refract::client
