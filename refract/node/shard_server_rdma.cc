// SPDX-License-Identifier: Apache-2.0
// The part of a shard's server that is there only where the host has an RDMA device.
#include <fmt/format.h>

#include <span>
#include <utility>

#include "refract/base/log.h"
#include "refract/fabric/verbs/device.h"
#include "refract/node/shard_server.h"

namespace refract::node {

Reported<> ShardServer::open_rdma() {
  const std::string& wanted = birth_.config.rdma_device;
  if (!tcp_ || wanted.empty()) return {};
  const bool is_named = wanted != kRdmaAuto;
  auto opened =
      fabric::verbs::ServerDomain::create(*tcp_, {.device = {.device = is_named ? wanted : std::string()}});
  if (opened) {
    rdma_ = std::move(*opened);
    const fabric::verbs::DeviceChoice& choice = rdma_->device();
    log_info("{}clients may come by RDMA to {} port {}, {}", name_, choice.device, choice.port,
             choice.gid.to_string());
    return {};
  }
  if (is_named) return report(opened.error());
  // Most hosts have no device, which is nothing to speak of; one that could not be used is.
  const auto devices = fabric::verbs::list_devices();
  if (devices && !devices->empty()) log_warn("{}nobody can come by RDMA: {}", name_, opened.error().what);
  return {};
}

void ShardServer::offer_to_rdma(uint64_t base, uint64_t bytes) {
  if (!remote_) return;
  const auto offered = remote_->add({.start = {base}, .bytes = std::span(writer_.base() + base, bytes)});
  if (!offered) log_warn("{}what lies there is read by messages: {}", name_, offered.error().what);
}

void ShardServer::add_rdma_counters(const observe::AddCounter& add) const {
  const fabric::verbs::DomainCounters& rdma = rdma_->counters();
  add("verbs.opened", rdma.opened);
  add("verbs.closed", rdma.closed);
  add("verbs.doorbells", rdma.doorbells);
  add("verbs.work_requests", rdma.work_requests);
  add("verbs.receives", rdma.receives);
  add("verbs.registrations", rdma.registrations);
  add("verbs.remote_access_errors", rdma.remote_access_errors);
  add("verbs.retries_exceeded", rdma.retries_exceeded);
  add("verbs.other_errors", rdma.other_errors);
  add("verbs.overrun_peers", rdma.overrun_peers);
  add("verbs.malformed", rdma.malformed);
  add("verbs.device_events", rdma.device_events);
}

}  // namespace refract::node
