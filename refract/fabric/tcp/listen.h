// SPDX-License-Identifier: Apache-2.0
// The listening socket of a node. The keeper makes it and every server that it forks inherits it, so that the
// port, and the clients in its backlog, outlive a crash. Control path.
#pragma once

#include <string>
#include <string_view>

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::fabric::tcp {

// "127.0.0.1:7400", "[::]:7400", "0.0.0.0:0" (any free port): bound, listening, not blocking, closed by exec.
// Numbers only: a name could stand for many addresses.
[[nodiscard]] Reported<Descriptor> listen(std::string_view address);

// Where such a socket listens, in the same form, with the port that it really has.
[[nodiscard]] Reported<std::string> bound_address(int fd);
[[nodiscard]] Reported<uint16_t> bound_port(int fd);

// Whether only programs of this host can reach `address`. kInvalidArgument: it is none.
[[nodiscard]] Reported<bool> is_loopback(std::string_view address);

}  // namespace refract::fabric::tcp
