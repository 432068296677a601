// SPDX-License-Identifier: Apache-2.0
#include "refract/node/banner.h"

#include <fmt/format.h>
#include <unistd.h>

#include "refract/base/default_socket.h"
#include "refract/base/units.h"

namespace refract::node {

namespace {

// What only some nodes have.
std::string further_lines(const Keeper& keeper) {
  const NodeConfig& config = keeper.config();
  std::string text;
  if (!keeper.tcp_address().empty()) {
    const std::string who = config.auth_secret_file.empty()
                                ? "programs of this host"
                                : "for those who know the secret in " + config.auth_secret_file;
    text += fmt::format("  tcp      {} ({})\n", keeper.tcp_address(), who);
  }
  if (config.durability != Durability::kNone) {
    text += fmt::format("  data     in {}: a write is acknowledged when it is {}\n", config.data_folder,
                        config.durability == Durability::kAlways
                            ? "on the disk"
                            : "in the log, which is on the disk a second later");
  }
  if (config.server_shards > 1) text += fmt::format("  shards   {}\n", config.server_shards);
  return text;
}

}  // namespace

std::string start_banner(const Keeper& keeper, const std::string& client) {
  const NodeConfig& config = keeper.config();
  const Keeper::Memory memory = keeper.memory();
  const bool is_default = config.socket_path == default_socket_path();
  const std::string cli = is_default ? client : client + " --socket " + config.socket_path;
  std::string text = fmt::format(
      "Refract is ready.\n"
      "  memory   {} MiB taken, grows to {} MiB ({})\n"
      "  socket   {}\n"
      "{}"
      "  stop     Ctrl-C, or: kill {}\n",
      memory.bytes / kMiB, memory.bytes_max / kMiB, to_uri(config.memory_backing), config.socket_path,
      further_lines(keeper), getpid());
  if (memory.existed) text += "  data     what the node held before is there again\n";
  text += fmt::format(
      "Try, in another terminal:\n"
      "  $ {0} put greeting 'hello, memory'\n"
      "  $ {0} get greeting\n"
      "  $ {0} load /var/lib/dpkg/status\n",
      cli);
  return text;
}

std::string stop_banner(const Keeper& keeper) {
  if (keeper.config().durability != Durability::kNone) {
    return fmt::format(
        "Stopped. The data stay in {}; start with the same --data-folder to have them again.\n",
        keeper.config().data_folder);
  }
  const Backing& backing = keeper.config().memory_backing;
  if (backing.kind == BackingKind::kFile) {
    return fmt::format(
        "Stopped. The data stay in {}; start with the same --memory-backing to have them again.\n",
        backing.folder);
  }
  return "Stopped. The data were in memory only and are gone. To keep them next time: "
         "--data-durability everysec, or refract dump.\n";
}

}  // namespace refract::node
