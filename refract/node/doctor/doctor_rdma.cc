// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doctor/doctor_rdma.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <charconv>
#include <span>
#include <string>

#include "refract/base/units.h"
#include "refract/fabric/verbs/device_names.h"
#include "refract/fabric/verbs/library.h"
#include "refract/node/config/config.h"

namespace refract::node {
namespace {

namespace verbs = fabric::verbs;

constexpr std::string_view kWithout = "clients read over shared memory and TCP";

// Beside the payload there are headers of RoCE in a packet: 4096 take an interface of some bytes more.
constexpr uint32_t kInterfaceMtuWanted = 4200;

Finding library(const DoctorInputs& inputs, const Reported<std::vector<verbs::DeviceFacts>>& devices) {
  const bool kernel_has_rdma = inputs.system.has_folder("/sys/class/infiniband");
  if (!devices) {
    if (kernel_has_rdma) return {"rdma", Health::kWarn, devices.error().what, devices.error().next};
    return {"rdma", Health::kOk, fmt::format("{}; {}", devices.error().what, kWithout), ""};
  }
  if (devices->empty()) {
    if (kernel_has_rdma && !inputs.system.has_folder("/sys/class/infiniband_verbs")) {
      return {"rdma", Health::kWarn, "the kernel has RDMA, and no program can reach it",
              "modprobe ib_uverbs"};
    }
    return {"rdma", Health::kOk, fmt::format("no device on this host; {}", kWithout), ""};
  }
  std::vector<std::string_view> names;
  for (const verbs::DeviceFacts& device : *devices) names.push_back(device.name);
  const auto cm = verbs::cm_library();
  return {
      "rdma", Health::kOk,
      fmt::format("{} device{}: {}; librdmacm is {}", names.size(), names.size() == 1 ? "" : "s",
                  fmt::join(names, ", "), cm ? "there" : "not there, so addresses are exchanged over TCP"),
      ""};
}

Finding device_of(const verbs::DeviceFacts& device) {
  if (!device.fault.empty()) {
    return {"rdma device", Health::kWarn, fmt::format("{}: {}", device.name, device.fault),
            "run as a user who may open /dev/infiniband/uverbs*, or see what dmesg says about the device"};
  }
  const verbs::DeviceLimits& limits = device.limits;
  Finding finding{
      "rdma device", Health::kOk,
      fmt::format("{}{}{}: {} queue pairs of {} requests, {} READs at once, {} registrations of at most {}",
                  device.name, device.firmware.empty() ? "" : ", firmware ", device.firmware,
                  limits.queue_pairs_max, limits.work_requests_max, limits.reads_out_max, limits.regions_max,
                  bytes_text(limits.region_bytes_max)),
      ""};
  std::string missing;
  if (!limits.has_atomics) missing = "atomics";
  if (limits.receives_max == 0)
    missing += missing.empty() ? "shared receive queues" : " and shared receive queues";
  if (missing.empty()) {
    finding.found += fmt::format("; its atomics {} seen by the CPU's",
                                 limits.atomics_coherent_with_cpu ? "are" : "are not");
    return finding;
  }
  finding.health = Health::kWarn;
  finding.found += "; it has no " + missing;
  finding.mend = "newer firmware, or another device";
  return finding;
}

// The network interface that a port belongs to, as far as its addresses say.
std::string interface_of(const verbs::PortFacts& port) {
  for (const verbs::GidFacts& gid : port.gids) {
    if (!gid.interface.empty()) return gid.interface;
  }
  return "INTERFACE";
}

std::string addresses_of(const verbs::PortFacts& port) {
  std::string list;
  for (const verbs::GidFacts& gid : port.gids) {
    list += fmt::format("{}{} {} ({})", list.empty() ? "" : ", ", gid.index, gid.to_string(),
                        verbs::text(gid.kind));
  }
  return list.empty() ? "none" : list;
}

Finding port_of(const verbs::DeviceFacts& device, const verbs::PortFacts& port) {
  const bool is_ethernet = port.link_layer == verbs::LinkLayer::kEthernet;
  Finding finding{"rdma port", Health::kOk,
                  fmt::format("{} port {}: {}, {}, MTU {} of {}; addresses {}", device.name, port.number,
                              is_ethernet ? "Ethernet" : "InfiniBand", port.state, port.mtu_bytes,
                              port.mtu_bytes_max, addresses_of(port)),
                  ""};
  if (!port.is_active) {
    finding.health = Health::kWarn;
    finding.mend = is_ethernet ? fmt::format("ip link set dev {} up", interface_of(port))
                               : "systemctl start opensm, on one host of the fabric; look at the cable";
  } else if (port.gids.empty()) {
    finding.health = Health::kWarn;
    finding.mend = fmt::format("ip addr add ADDRESS dev {}", interface_of(port));
  } else if (is_ethernet && port.mtu_bytes < port.mtu_bytes_max) {
    finding.health = Health::kWarn;
    finding.mend = fmt::format("ip link set dev {} mtu {}, on every host and switch of the path",
                               interface_of(port), kInterfaceMtuWanted);
  }
  return finding;
}

bool is_named(const DoctorInputs& inputs) {
  return !inputs.rdma_device.empty() && inputs.rdma_device != kRdmaAuto;
}

verbs::DeviceWish wish_of(const DoctorInputs& inputs) {
  return {.device = is_named(inputs) ? inputs.rdma_device : std::string()};
}

// Without a device that is named a node that listens does not start.
Health health_of_none(const DoctorInputs& inputs) {
  return is_named(inputs) && !inputs.listen_address.empty() ? Health::kFail : Health::kWarn;
}

Finding path(const DoctorInputs& inputs, std::span<const verbs::DeviceFacts> devices) {
  if (inputs.rdma_device.empty()) {
    return {"rdma path", Health::kOk, "not taken by a node with this configuration: rdma.device is none", ""};
  }
  const auto choice = verbs::choose(devices, wish_of(inputs));
  if (!choice) return {"rdma path", health_of_none(inputs), choice.error().what, choice.error().next};
  const verbs::GidFacts& gid = choice->gid;
  Finding finding{
      "rdma path", Health::kOk,
      fmt::format("{} port {}, address {} ({}, {}), MTU {}: {}", choice->device, choice->port, gid.index,
                  gid.to_string(), verbs::text(gid.kind), choice->mtu_bytes, choice->why),
      ""};
  if (gid.kind == verbs::GidKind::kRoce2LinkLocal || gid.kind == verbs::GidKind::kRoce1) {
    finding.health = Health::kWarn;
    finding.mend = fmt::format("ip addr add ADDRESS dev {}, so that routers pass it on",
                               gid.interface.empty() ? "INTERFACE" : gid.interface);
  }
  return finding;
}

// Whether this process may pin memory beyond its limit.
bool may_lock_all(const DoctorInputs& inputs) {
  static constexpr std::string_view kLine = "CapEff:";
  static constexpr uint64_t kIpcLock = uint64_t{1} << 14;
  const std::string text = inputs.system.read("/proc/self/status").value_or("");
  for (const std::string_view line : pieces_of(text, '\n')) {
    if (!line.starts_with(kLine)) continue;
    const size_t begin = std::min(line.find_first_not_of(" \t", kLine.size()), line.size());
    uint64_t capabilities = 0;
    (void)std::from_chars(line.data() + begin, line.data() + line.size(), capabilities, 16);
    return (capabilities & kIpcLock) != 0;
  }
  return false;
}

// A registration pins its pages, so all that the node may take must fit.
Finding pinned(const DoctorInputs& inputs, std::span<const verbs::DeviceFacts> devices) {
  const uint64_t lockable = process_limit("Max locked memory", inputs.system);
  const bool is_unbound = lockable == kUnlimited || may_lock_all(inputs);
  Finding finding{
      "rdma memory", Health::kOk,
      fmt::format("{} may be pinned, memory.limit {}", is_unbound ? "all memory" : bytes_text(lockable),
                  bytes_text(inputs.memory_limit_bytes)),
      ""};
  uint64_t chunk = UINT64_MAX;
  for (const verbs::DeviceFacts& device : devices) {
    if (device.fault.empty()) chunk = std::min(chunk, device.limits.region_bytes_max);
  }
  if (chunk < inputs.memory_limit_bytes) {
    finding.found += fmt::format(", in registrations of {}", bytes_text(chunk));
  }
  if (!is_unbound && lockable < inputs.memory_limit_bytes) {
    finding.health = Health::kWarn;
    finding.mend = "ulimit -l unlimited; for a service of systemd LimitMEMLOCK=infinity";
  } else if (inputs.backing.kind == BackingKind::kFile) {
    finding.health = Health::kWarn;
    finding.found += fmt::format(
        "; regions are files in {}, and newer kernels pin no pages of a disk's files", inputs.backing.folder);
    finding.mend = "memory.backing memfd: or hugetlb: (--memory-backing), or a folder on tmpfs";
  }
  return finding;
}

}  // namespace

std::vector<Finding> examine_rdma(const DoctorInputs& inputs,
                                  const Reported<std::vector<verbs::DeviceFacts>>& devices) {
  std::vector<Finding> findings = {library(inputs, devices)};
  if (!devices || devices->empty()) {
    if (health_of_none(inputs) == Health::kFail) {
      const Report why = verbs::check_device_name(inputs.rdma_device, {}).error();
      findings.push_back({"rdma path", Health::kFail, why.what, why.next});
    }
    return findings;
  }
  for (const verbs::DeviceFacts& device : *devices) {
    findings.push_back(device_of(device));
    for (const verbs::PortFacts& port : device.ports) findings.push_back(port_of(device, port));
  }
  findings.push_back(path(inputs, *devices));
  findings.push_back(pinned(inputs, *devices));
  return findings;
}

std::vector<Finding> examine_rdma(const DoctorInputs& inputs) {
  if (!inputs.system.folder.empty()) return examine_rdma(inputs, std::vector<verbs::DeviceFacts>{});
  return examine_rdma(inputs, verbs::list_devices());
}

Reported<verbs::DeviceChoice> rdma_choice(const DoctorInputs& inputs) {
  if (inputs.rdma_device.empty()) {
    return report(Code::kUnsupported, "rdma.device is none", "leave it to auto, or name a device");
  }
  if (!inputs.system.folder.empty() || verbs::device_names().empty()) return report(verbs::no_device_here());
  const auto devices = verbs::list_devices();
  if (!devices) return report(devices.error());
  return verbs::choose(*devices, wish_of(inputs));
}

}  // namespace refract::node
