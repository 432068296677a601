// SPDX-License-Identifier: Apache-2.0
// The part of a shard's server that has the list of nodes, of which the first shard tells clients, and by
// which that of objects reaches the others. The keeper decides which list that is.
#include <unistd.h>

#include <utility>
#include <vector>

#include "refract/base/log.h"
#include "refract/cluster/members_wire.h"
#include "refract/fabric/shm/descriptors.h"
#include "refract/node/server/shard_server.h"

namespace refract::node {
namespace {

// Nothing: it is no whole list.
std::optional<cluster::MemberList> list_in(int descriptor) {
  const uint64_t bytes = fabric::shm::fixed_length(descriptor);
  if (bytes > cluster::wire::kPageBytesMax) return std::nullopt;
  std::vector<std::byte> page(bytes);
  if (::pread(descriptor, page.data(), bytes, 0) != static_cast<ssize_t>(bytes)) return std::nullopt;
  auto decoded = cluster::wire::decode_page(page);
  if (!decoded || decoded->head.here != decoded->head.count) return std::nullopt;
  return cluster::MemberList{.version = decoded->head.version, .members = std::move(decoded->members)};
}

}  // namespace

void ShardServer::make_members() {
  if (birth_.members == nullptr) return;
  auto members = cluster::Members::create(birth_.members->list(), birth_.members->self_name());
  if (!members) return log_error("{}{}", name_, members.error().what);
  members_.emplace(std::move(*members));
  if (birth_.plan.index == 0) members_service_.emplace(*members_);
  const bool has_keys = birth_.plan.index < birth_.config.server_shards;
  if (has_keys && birth_.config.kv_placement != 0 && birth_.cluster_secret != nullptr) {
    lines_.emplace(shard_, *birth_.cluster_secret, *members_);
  }
  const bool is_of_objects = birth_.plan.index == object_shard(birth_.config);
  if (!is_of_objects || birth_.cluster_secret == nullptr) return;
  peers_.emplace(shard_, *birth_.cluster_secret);
  // None: members are homes.
  auto address = parse_redis_address(birth_.config.objects_directory);
  if (address) redis_.emplace(shard_, std::move(*address), birth_.redis_secret);
}

bool ShardServer::is_node(rpc::SessionId session) const noexcept {
  const fabric::Channel* const channel = rpc_ ? rpc_->channel(session) : nullptr;
  const fabric::Channel* const socket = channel != nullptr ? socket_of(*channel) : nullptr;
  return socket != nullptr && fabric::tcp::ServerDomain::role_of(*socket) == fabric::tcp::Role::kNode;
}

void ShardServer::take_members(int descriptor) {
  auto list = list_in(descriptor);
  const bool is_taken = list && members_ && members_->take(std::move(*list)).has_value();
  if (is_taken) return;
  // What the keeper has taken makes sense. The next server is told by its birth.
  log_error("{}the keeper's list of nodes cannot be read", name_);
  shard_.stop();
}

}  // namespace refract::node
