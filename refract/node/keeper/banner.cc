// SPDX-License-Identifier: Apache-2.0
#include "refract/node/keeper/banner.h"

#include <fmt/format.h>
#include <unistd.h>

#include "refract/base/default_socket.h"
#include "refract/base/units.h"
#include "refract/cluster/placement.h"
#include "refract/memory/host/limits.h"
#include "refract/node/config/redis_address.h"

namespace refract::node {

namespace {

// Which part of the keys is here.
std::string slots_line(const NodeConfig& config, const cluster::Members& members) {
  const size_t slots = cluster::slots_of(members.list(), members.self()).count();
  const bool is_reached = !config.listen_address.empty();
  return fmt::format(
      "  keys     of {} of {} slots; the other nodes have the rest{}\n", slots, cluster::kSlots,
      is_reached ? "" : " (without --listen-address programs of other hosts do not reach these)");
}

// What is lost with what.
std::string data_line(const NodeConfig& config) {
  switch (config.durability) {
    case Durability::kAlways:
      return fmt::format("  data     in {}: a write is acknowledged when it is on the disk\n",
                         config.data_folder);
    case Durability::kEverySecond:
      return fmt::format(
          "  data     in {}: a write is acknowledged when it is in the log, which is on the disk a second "
          "later\n",
          config.data_folder);
    case Durability::kNone:
      break;
  }
  if (config.memory_backing.kind == BackingKind::kFile) {
    return fmt::format("  data     in {}: there again after a stop; lost if the host crashes\n",
                       config.memory_backing.folder);
  }
  return "  data     in memory only: lost when the node stops or the host crashes (--data-durability "
         "everysec "
         "keeps them)\n";
}

std::string directory_line(const NodeConfig& config) {
  const auto address = parse_redis_address(config.objects_directory);
  return address ? "  where    each is: in " + to_text(*address) + "\n" : "";
}

// Of a node that has objects and a list of nodes.
std::string sharing_line(const NodeConfig& config) {
  const std::string& secret = config.cluster_secret_file;
  return secret.empty() ? "  sharing  no: objects stay on this node (--cluster-secret-file shares them)\n"
                        : "  sharing  objects, with the nodes that know the secret in " + secret + "\n" +
                              directory_line(config);
}

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
  if (keeper.doors()) {
    for (const DoorListener& listener : keeper.doors()->listeners()) {
      const std::string how = listener.address().is_path() ? "redis-cli -s " + listener.address().place
                                                           : fmt::format("redis-cli -p {}", listener.port());
      text += fmt::format("  {:<8} {} ({})\n", listener.address().kind, listener.address().place, how);
    }
  }
  text += data_line(config);
  if (config.server_shards > 1) text += fmt::format("  shards   {}\n", config.server_shards);
  if (has_objects(config)) {
    text += fmt::format("  objects  up to {}, in memory only: lost when the node stops\n",
                        bytes_text(config.objects_limit_bytes));
    if (keeper.members()) text += sharing_line(config);
  }
  if (const auto& members = keeper.members()) {
    const size_t count = members->list().members.size();
    text += fmt::format("  cluster  {} of {} node{}, list version {}\n", members->self_name(), count,
                        count == 1 ? "" : "s", members->list().version);
    if (config.kv_placement != 0) text += slots_line(config, *members);
  }
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
  const Backing& backing = keeper.config().memory_backing;
  const bool has_log = keeper.config().durability != Durability::kNone;
  if (!has_log && backing.kind != BackingKind::kFile) {
    return "Stopped. The data were in memory only and are gone. To keep them next time: "
           "--data-durability everysec, or refract dump.\n";
  }
  const std::string& folder = has_log ? keeper.config().data_folder : backing.folder;
  if (!keeper.is_settled()) {
    return fmt::format(
        "Stopped. NOT all of the data are in {}: what is missing, and what to do, stands above.\n", folder);
  }
  return fmt::format("Stopped. The data stay in {}; start with the same {} to have them again.\n", folder,
                     has_log ? "--data-folder" : "--memory-backing");
}

}  // namespace refract::node
