// SPDX-License-Identifier: Apache-2.0
// What a keeper opens before its server starts: each refuses what it cannot have, and names the setting.
#include <algorithm>
#include <array>
#include <ranges>
#include <utility>

#include "refract/base/log.h"
#include "refract/base/prng.h"
#include "refract/cluster/placement.h"
#include "refract/fabric/tcp/handshake.h"
#include "refract/fabric/tcp/listen.h"
#include "refract/fabric/verbs/device_names.h"
#include "refract/node/config/cluster_nodes.h"
#include "refract/node/config/knob_values.h"
#include "refract/node/keeper/keeper.h"
#include "refract/node/space/predecessor.h"

namespace refract::node {
namespace {

std::unexpected<Report> of_setting(std::string_view key, Report why) {
  why.what = std::string(key) + ": " + why.what;
  return report(std::move(why));
}

}  // namespace

// By what the kernel names alone: the libraries that open devices start threads, and have no business here.
Reported<> Keeper::check_device() const {
  const std::string& wanted = config_.rdma_device;
  if (wanted.empty() || wanted == kRdmaAuto) return {};
  if (config_.listen_address.empty()) {
    log_warn("rdma.device is {}, and without listen.address no client comes by RDMA", wanted);
    return {};
  }
  auto known = fabric::verbs::check_device_name(wanted, fabric::verbs::device_names());
  if (known) return {};
  return of_setting("rdma.device", std::move(known).error());
}

Reported<> Keeper::open_members() {
  if (config_.cluster_nodes.empty()) return {};
  auto members = load_members(config_);
  if (!members) return report(members.error());
  members_.emplace(std::move(*members));
  if (config_.kv_copies != 0)
    config_.kv_placement = cluster::placement_of(members_->list(), members_->self());
  if (!config_.cluster_secret_file.empty()) {
    auto secret = fabric::tcp::read_secret(config_.cluster_secret_file);
    if (!secret) return of_setting("cluster.secret_file", std::move(secret).error());
    cluster_secret_ = std::move(*secret);
  }
  if (!config_.objects_directory_secret_file.empty()) {
    auto secret = fabric::tcp::read_secret(config_.objects_directory_secret_file);
    if (!secret) return of_setting("objects.directory_secret_file", std::move(secret).error());
    redis_secret_ = std::move(*secret);
  }
  // The server's shards that have the list now, and those of each next one.
  members_->call_on_change([this](const cluster::Members& now) {
    for (const auto& shard : shards_) {
      if (shard->plan().knows_members) shard->tell(now);
    }
  });
  return {};
}

Reported<> Keeper::open_tcp() {
  if (!config_.auth_secret_file.empty()) {
    auto secret = fabric::tcp::read_secret(config_.auth_secret_file);
    if (!secret) return of_setting("auth.secret_file", std::move(secret).error());
    secret_ = std::move(*secret);
  }
  if (config_.listen_address.empty()) return {};
  auto listener = take_from_predecessor([this] { return fabric::tcp::listen(config_.listen_address); });
  if (!listener) return report(listener.error());
  auto address = fabric::tcp::bound_address(listener->get());
  if (!address) return report(address.error());
  const auto port = fabric::tcp::bound_port(listener->get());
  if (!port) return report(port.error());
  listener_ = std::move(*listener);
  tcp_address_ = std::move(*address);
  tcp_port_ = *port;
  return {};
}

Reported<> Keeper::open_doors() {
  if (config_.doors_listen.empty()) return {};
  const auto addresses = parse_door_addresses(config_.doors_listen);
  if (!addresses) return of_setting("doors.listen", addresses.error());
  auto doors = DoorsKeeper::open(
      *addresses,
      {.node = config_.socket_path,
       .threads = config_.doors_threads,
       .password = secret_.bytes().empty() ? "" : fabric::tcp::token_of(secret_, "redis"),
       .tcp_port = 0,
       .memory_limit_bytes = config_.memory_limit_bytes,
       .eviction = config_.memory_eviction == kv::EvictionPolicy::kNone             ? "noeviction"
                   : config_.memory_eviction == kv::EvictionPolicy::kLeastOftenUsed ? "allkeys-lfu"
                                                                                    : "allkeys-lru",
       .durability = knob_values::show_durability(config_),
       .folder = config_.durability == Durability::kNone ? std::string() : config_.data_folder});
  if (!doors) return of_setting("doors.listen", std::move(doors).error());
  doors_.emplace(std::move(*doors));
  return {};
}

Reported<> Keeper::open_shards() {
  auto origin = find_store(config_);
  if (!origin) return report(origin.error());
  existed_ = origin->existed;
  if (config_.durability != Durability::kNone) {
    auto data = DataFolder::open(config_);
    if (!data) return report(std::move(data).error());
    data_.emplace(std::move(*data));
    *origin = data_->origin();
    existed_ = data_->existed();
  } else {
    warn_of_unused_data(config_);
  }
  const std::array<uint64_t, 2> identity = {secure_random_u64(), secure_random_u64()};
  // Shard 0 is last: a client that finds its files, or its socket, finds the others'.
  for (const ShardPlan& plan : plan_shards(config_, stores_) | std::views::reverse) {
    auto shard = KeeperShard::open(
        {.config = config_, .plan = plan, .origin = *origin, .identity = identity, .tcp_port = tcp_port_});
    if (!shard) return report(shard.error());
    shards_.push_back(std::move(*shard));
  }
  std::ranges::reverse(shards_);
  return {};
}

}  // namespace refract::node
