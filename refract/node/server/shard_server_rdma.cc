// SPDX-License-Identifier: Apache-2.0
// The part of a shard's server that is there only where the host has an RDMA device.
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "refract/base/log.h"
#include "refract/fabric/verbs/device.h"
#include "refract/fabric/verbs/device_names.h"
#include "refract/node/doctor/doctor.h"
#include "refract/node/doctor/doctor_rdma.h"
#include "refract/node/server/shard_server.h"

namespace refract::node {
namespace {

// What refract doctor would say is not well with the device that was taken, and what mends it.
void warn_of_trouble(const NodeConfig& config, const fabric::verbs::DeviceChoice& choice) {
  for (const Finding& finding : examine_rdma(doctor_inputs(config))) {
    const bool is_of_another = (finding.name == "rdma device" || finding.name == "rdma port") &&
                               !finding.found.starts_with(choice.device);
    if (finding.health == Health::kOk || is_of_another) continue;
    log_warn("{}: {}; {}", finding.name, finding.found, finding.mend);
  }
}

}  // namespace

Reported<> ShardServer::open_rdma() {
  if (!tcp_) return {};
  // All shards have the same device, so that one of them speaks for all.
  const bool is_speaker = birth_.plan.index == 0;
  const std::string& wanted = birth_.config.rdma_device;
  const bool is_named = wanted != kRdmaAuto;
  std::string_view why_none;
  if (wanted.empty()) why_none = "rdma.device is none";
  if (!is_named && fabric::verbs::device_names().empty()) why_none = "this host has no RDMA device";
  if (!why_none.empty()) {
    if (is_speaker) log_info("no client comes by RDMA: {}", why_none);
    return {};
  }
  auto opened = fabric::verbs::ServerDomain::create(
      *tcp_,
      {.device = {.device = is_named ? wanted : std::string()}, .connect_by = birth_.config.rdma_connect_by});
  if (!opened) {
    const Report& why = opened.error();
    if (is_named) return report(why);
    log_warn("{}no client comes by RDMA: {}; {}", name_, why.what, why.next);
    return {};
  }
  rdma_ = std::move(*opened);
  if (!is_speaker) return {};
  const fabric::verbs::DeviceChoice& choice = rdma_->device();
  log_info("clients may come by RDMA to {} port {}, {} ({}), MTU {}: {}", choice.device, choice.port,
           choice.gid.to_string(), fabric::verbs::text(choice.gid.kind), choice.mtu_bytes, choice.why);
  warn_of_trouble(birth_.config, choice);
  return {};
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
  add("verbs.greetings_lost", rdma.greetings_lost);
  add("verbs.unknown_tokens", rdma.unknown_tokens);
}

}  // namespace refract::node
