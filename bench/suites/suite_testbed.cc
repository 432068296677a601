// SPDX-License-Identifier: Apache-2.0
#include "bench/suites/suite_testbed.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>

#include "refract/prism/operation.h"
#include "refract/rpc/message.h"

namespace refract::bench {
namespace {

uint64_t ns_of(double us) noexcept {
  return static_cast<uint64_t>(std::llround(us * 1e3));
}

}  // namespace

sim::WorldOptions world_of(const Suite& suite, double adds_us) {
  sim::WorldOptions options = {.seed = suite.seed};
  options.link = {.delay_ns = one_way_ns(suite.testbed, adds_us),
                  .jitter_ns = 0,
                  .tail_chance = 0,
                  .tail_ns = 0,
                  .bytes_per_us = 0,
                  .torn_chance = 0};
  options.short_post_chance = 0;
  options.poll_ns = 0;
  options.steps_max = 2'000'000'000;
  return options;
}

sim::MachineOptions machine_of(const Testbed& testbed) {
  return {.bytes_per_us = static_cast<uint64_t>(testbed.port_gbit_per_s * 125),
          .message_header_bytes = testbed.message_header_bytes,
          .one_sided_header_bytes = testbed.one_sided_header_bytes,
          .packet_bytes_max = testbed.packet_bytes_max,
          .one_sided_request_bytes = testbed.one_sided_request_bytes};
}

uint64_t one_way_ns(const Testbed& testbed, double adds_us) noexcept {
  const double wire_bytes =
      2.0 * testbed.one_sided_header_bytes + testbed.one_sided_request_bytes + testbed.read_bytes;
  const double wire_us = wire_bytes / (testbed.port_gbit_per_s * 125);
  return ns_of((testbed.read_us - wire_us + adds_us) / 2);
}

sim::Work work_of(const System& system, const sim::Arrival& arrival) noexcept {
  const Cost* cost = &system.call;
  if (arrival.op != fabric::Op::kSend) {
    cost = &system.read;
  } else if (arrival.message.size() >= sizeof(rpc::MessageHeader)) {
    rpc::MessageHeader header;
    std::memcpy(&header, arrival.message.data(), sizeof(header));
    if (header.method >= prism::kMethodsBegin && header.method < prism::kMethodsEnd) cost = &system.chain;
  }
  return {.core_ns = ns_of(cost->core_us), .delay_ns = ns_of(cost->delay_us)};
}

SimTestbed::SimTestbed(const Suite& suite, const System& system, double adds_us)
    : world_(world_of(suite, adds_us)), server_(&world_.add_host("server")) {
  sim::MachineOptions server = machine_of(suite.testbed);
  server.one_sided_gap_ns = ns_of(suite.testbed.read_gap_us);
  server.cores = system.cores;
  server.work = [system](const sim::Arrival& arrival) { return work_of(system, arrival); };
  server_->install(std::move(server));
  for (uint32_t i = 0; i < suite.testbed.client_hosts; ++i) {
    clients_.push_back(&world_.add_host(fmt::format("client{}", i)));
    clients_.back()->install(machine_of(suite.testbed));
  }
}

}  // namespace refract::bench
