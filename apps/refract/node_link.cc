// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/node_link.h"

#include <algorithm>
#include <utility>

#include "refract/base/clock.h"
#include "refract/client/paths/discovery.h"

namespace refract::cli {

NodeLink::NodeLink() : shard_(system_clock()) {}

NodeLink::~NodeLink() = default;

Reported<std::unique_ptr<NodeLink>> NodeLink::open(const Options& options) {
  std::unique_ptr<NodeLink> link(new NodeLink());
  // Mostly messages are wanted: no caller waits for page tables of what is mapped beside.
  auto settings = client::Settings::make(options.address, {.timeout_ns = options.timeout_ns,
                                                           .populate = false,
                                                           .secret_file = options.secret_file,
                                                           .rdma_device = options.rdma_device});
  if (!settings) return report(settings.error());
  link->settings_ = std::move(*settings);
  if (auto found = link->find(options.timeout_ns); !found) return report(found.error());
  return link;
}

Reported<> NodeLink::find(uint64_t timeout_ns) {
  auto found = block_on(shard_, client::find_node(shard_, *settings_, shard_.refresh_now() + timeout_ns));
  if (!found) return report(found.error());
  const client::TransportRow& row = found->connection->row();
  transport_ = row.name;
  address_ = found->address;
  add(std::move(found->connection), timeout_ns);
  return open_others(row, timeout_ns);
}

Reported<> NodeLink::open_others(const client::TransportRow& row, uint64_t timeout_ns) {
  const uint32_t count = shards_.front().connection->facts().shard_count;
  for (uint32_t index = 1; index < count; ++index) {
    auto begun = client::Connection::begin(
        shard_, row, settings_->request_to(row.shard_address(address_, index)), Paths::kAuto);
    if (!begun) return report(begun.error());
    block_on(shard_, client::await_first_state(shard_, **begun, shard_.refresh_now() + timeout_ns));
    if (!client::has_come_up(**begun)) return report((*begun)->trouble());
    add(std::move(*begun), timeout_ns);
  }
  return {};
}

void NodeLink::add(client::Connection::Owned connection, uint64_t timeout_ns) {
  auto watcher = std::make_unique<observe::Watcher>(connection->rpc().session(), shard_, timeout_ns);
  shards_.push_back({.connection = std::move(connection), .watcher = std::move(watcher)});
}

std::span<const std::byte> NodeLink::memory(size_t shard) const {
  const client::Connection& connection = *shards_[shard].connection;
  if (connection.reader() == nullptr) return {};
  Route route;
  connection.fill(route);
  return {connection.at({0}), route.mapped_bytes};
}

Result<cluster::ToldMembers> NodeLink::members(uint64_t timeout_ns) {
  return block_on(shard_, shards_.front().connection->members(shard_.refresh_now() + timeout_ns));
}

bool NodeLink::is_lost() const noexcept {
  return std::ranges::any_of(shards_, [](const ShardLink& link) {
    return link.connection->state() == client::Connection::State::kEnded;
  });
}

}  // namespace refract::cli
