// SPDX-License-Identifier: Apache-2.0
// token: what another protocol asks for in place of a node's secret.
#include <string>

#include "apps/refract/commands.h"
#include "apps/refract/terminal.h"

#include "refract/fabric/tcp/handshake.h"
#include "refract/fabric/tcp/secret.h"

namespace refract::cli {

int run_token(const Invocation& invocation) {
  if (invocation.keys.size() != 1 || invocation.keys.front() != "redis") {
    return complain({Code::kInvalidArgument, "token: name the protocol, which can be redis",
                     "refract token --help has an example"});
  }
  if (invocation.secret_file.empty()) {
    return complain({Code::kInvalidArgument, "token: --secret-file is missing",
                     "name the file that the node's auth.secret_file names, or a copy of it"});
  }
  const auto secret = fabric::tcp::read_secret(invocation.secret_file);
  if (!secret) return complain(secret.error());
  return write_out(fabric::tcp::token_of(*secret, invocation.keys.front()) + "\n");
}

}  // namespace refract::cli
