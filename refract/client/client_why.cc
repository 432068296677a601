// SPDX-License-Identifier: Apache-2.0
// Where requests go, and why: for people.
#include <fmt/format.h>

#include <string>

#include "refract/base/units.h"
#include "refract/client/async_client.h"
#include "refract/client/client.h"

namespace refract {
namespace {

std::string line_of(const RouteNode& node) {
  if (node.transport.empty()) {
    return fmt::format("of nodes   {} at {}: not needed yet\n", node.name, node.address);
  }
  const std::string_view reads = node.direct ? "direct reads" : "by the server";
  return fmt::format("of nodes   {} at {}: {}, {}{}\n", node.name, node.address, node.transport, reads,
                     node.is_reached ? "" : ", gone");
}

std::string text_of(const Route& route) {
  std::string text = fmt::format("node       {}\n", route.address);
  text += fmt::format("transport  {}: {}\n", route.transport, route.chosen);
  for (const OtherTransport& other : route.others) {
    text += fmt::format("           not {}: {}\n", other.transport, other.reason);
  }
  text += fmt::format("server     {}, incarnation {}", route.server, route.incarnation);
  // Over a network the process is not told, which would mean nothing there.
  if (route.server_pid != 0) text += fmt::format(", process {}", route.server_pid);
  if (route.shards > 1) text += fmt::format(", {} of {} shards reached", route.shards_reached, route.shards);
  const std::string_view reads = route.direct ? "direct" : route.chain ? "by chains" : "by the server";
  text += fmt::format("\nreads      {}: {}\n", reads, route.reason);
  if (!route.device.empty()) text += fmt::format("           through {}\n", route.device);
  if (route.regions > 0) {
    text += fmt::format("           {} MiB mapped, in {} region{}\n", route.mapped_bytes / kMiB,
                        route.regions, route.regions == 1 ? "" : "s");
  }
  const std::string_view chains = route.chain ? "by chains where the entry is there, else " : "";
  text += fmt::format("writes     {}by the server, one message each way over {}\n", chains, route.transport);
  for (const RouteNode& node : route.nodes) text += line_of(node);
  return text;
}

}  // namespace

std::string Client::why() const {
  return text_of(route());
}

std::string AsyncClient::why() const {
  return text_of(route());
}

}  // namespace refract
