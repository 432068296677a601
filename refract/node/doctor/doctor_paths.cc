// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doctor/doctor_paths.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "refract/fabric/verbs/device_names.h"
#include "refract/node/doctor/loop_back.h"

namespace refract::node {
namespace {

namespace verbs = fabric::verbs;

// Ten paths among them.
constexpr size_t kPortsMax = 4;

constexpr std::string_view kShm = "two ends of this process, over shared memory";
constexpr std::string_view kTcp = "two ends of this process, over the loop-back interface";

std::string text(const verbs::DeviceWish& port) {
  return fmt::format("{} port {}", port.device, port.port);
}

std::string text(const PortPath& path) {
  if (path.from.device == path.to.device && path.from.port == path.to.port) {
    return fmt::format("{} to itself", text(path.from));
  }
  return fmt::format("{} to {}", text(path.from), text(path.to));
}

std::vector<verbs::DeviceFacts> devices_here() {
  if (verbs::device_names().empty()) return {};
  auto devices = verbs::list_devices();
  return devices ? std::move(*devices) : std::vector<verbs::DeviceFacts>{};
}

Finding tried(std::string_view name, std::string_view path, Reported<std::unique_ptr<LoopBack>> ends,
              const SelfTestOptions& options) {
  if (!ends) return finding_of(name, path, report(std::move(ends).error()));
  return finding_of(name, path, measure(**ends, options.meter));
}

}  // namespace

std::vector<PortPath> port_paths(std::span<const verbs::DeviceFacts> devices) {
  std::vector<verbs::DeviceWish> ports;
  for (const verbs::DeviceFacts& device : devices) {
    for (const verbs::PortFacts& port : device.ports) {
      const bool is_usable = device.fault.empty() && port.is_active && !port.gids.empty();
      if (is_usable && ports.size() < kPortsMax)
        ports.push_back({.device = device.name, .port = port.number});
    }
  }
  std::vector<PortPath> paths;
  paths.reserve(ports.size() * (ports.size() + 1) / 2);
  for (const verbs::DeviceWish& port : ports) paths.push_back({.from = port, .to = port});
  for (size_t i = 0; i < ports.size(); ++i) {
    for (size_t k = i + 1; k < ports.size(); ++k) paths.push_back({.from = ports[i], .to = ports[k]});
  }
  return paths;
}

Finding finding_of(std::string_view name, std::string_view path, const Reported<PathFigures>& figures) {
  Finding finding{std::string(name), Health::kOk, std::string(path) + ": ", ""};
  if (!figures) {
    finding.health = Health::kWarn;
    finding.found += figures.error().what;
    finding.mend = figures.error().next;
    if (finding.mend.empty()) finding.mend = "see what the kernel says about it (dmesg)";
    return finding;
  }
  finding.found += text(*figures);
  finding.figures = {{"read_ns_p50", figures->read.ns_p50},
                     {"read_ns_p99", figures->read.ns_p99},
                     {"message_ns_p50", figures->message.ns_p50},
                     {"message_ns_p99", figures->message.ns_p99}};
  for (const PathFigures::Bandwidth& of : figures->large) {
    const uint64_t kib = of.request_bytes / kKiB;
    finding.figures.push_back({fmt::format("read_{}kib_bytes_per_s", kib), of.read_bytes_per_s});
    finding.figures.push_back({fmt::format("write_{}kib_bytes_per_s", kib), of.write_bytes_per_s});
  }
  return finding;
}

uint64_t self_test_figures() {
  return kFiguresOfPath * (2 + port_paths(devices_here()).size());
}

std::vector<Finding> self_test(const SelfTestOptions& options) {
  const auto begin = [&options](std::string_view path) {
    if (options.on_path) options.on_path(path);
  };
  std::vector<Finding> findings;
  begin(kShm);
  findings.push_back(tried("self-test shm", kShm, LoopBack::over_shm(), options));
  begin(kTcp);
  findings.push_back(tried("self-test tcp", kTcp, LoopBack::over_tcp(), options));
  for (const PortPath& path : port_paths(devices_here())) {
    begin(text(path));
    findings.push_back(
        tried("self-test verbs", text(path), LoopBack::over_verbs(path.from, path.to), options));
    Finding& last = findings.back();
    const bool is_pair = path.from.device != path.to.device || path.from.port != path.to.port;
    if (is_pair && last.health != Health::kOk) last.mend += "; nothing, if they lie in networks of their own";
  }
  return findings;
}

}  // namespace refract::node
