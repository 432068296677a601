// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/device.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "refract/fabric/verbs/library.h"
#include "refract/fabric/verbs/trouble.h"

namespace refract::fabric::verbs {
namespace {

bool starts_with(const Gid& gid, std::initializer_list<uint8_t> prefix) noexcept {
  return std::equal(prefix.begin(), prefix.end(), gid.begin());
}

bool is_ipv4(const Gid& gid) noexcept {
  return starts_with(gid, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff});
}

bool is_link_local(const Gid& gid) noexcept {
  return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

GidKind kind_of(uint32_t type, const Gid& gid) noexcept {
  if (type == IBV_GID_TYPE_IB) return GidKind::kInfiniBand;
  if (type == IBV_GID_TYPE_ROCE_V1) return GidKind::kRoce1;
  if (is_ipv4(gid)) return GidKind::kRoce2Ipv4;
  return is_link_local(gid) ? GidKind::kRoce2LinkLocal : GidKind::kRoce2Ipv6;
}

uint32_t mtu_bytes_of(ibv_mtu mtu) noexcept {
  return uint32_t{128} << static_cast<uint32_t>(mtu);
}

std::string state_text(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_ACTIVE:
      return "active";
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "waiting for a subnet manager";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE_DEFER:
      return "active, link deferred";
    default:
      return "unknown";
  }
}

uint32_t count_of(int number) noexcept {
  return static_cast<uint32_t>(std::max(number, 0));
}

PortFacts ask_port(const VerbsLibrary& library, ibv_context* context, uint8_t number) {
  PortFacts port{.number = number, .state = "unknown", .gids = {}};
  ibv_port_attr attributes;
  if (library.query_port(context, number, attributes) != 0) return port;
  port.is_active = attributes.state == IBV_PORT_ACTIVE;
  port.state = state_text(attributes.state);
  port.mtu_bytes = mtu_bytes_of(attributes.active_mtu);
  port.mtu_bytes_max = mtu_bytes_of(attributes.max_mtu);
  port.lid = attributes.lid;
  // Drivers of the time before Ethernet leave it unspecified.
  const bool is_ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  port.link_layer = is_ethernet ? LinkLayer::kEthernet : LinkLayer::kInfiniBand;
  for (uint32_t index = 0; index < count_of(attributes.gid_tbl_len); ++index) {
    ibv_gid_entry entry;
    if (library.query_gid(context, number, index, entry) != 0) continue;
    GidFacts gid{.index = index, .interface = {}};
    std::copy_n(entry.gid.raw, gid.gid.size(), gid.gid.begin());
    if (gid.gid == Gid{}) continue;
    gid.kind = kind_of(entry.gid_type, gid.gid);
    std::array<char, IF_NAMESIZE> name{};
    if (entry.ndev_ifindex != 0 && ::if_indextoname(entry.ndev_ifindex, name.data()) != nullptr) {
      gid.interface = name.data();
    }
    port.gids.push_back(std::move(gid));
  }
  return port;
}

void ask_device(const VerbsLibrary& library, ibv_context* context, DeviceFacts& device) {
  ibv_device_attr attributes;
  std::memset(&attributes, 0, sizeof(attributes));
  if (const int error = library.query_device(context, &attributes); error != 0) {
    device.fault =
        explain({.step = Step::kAskDevice, .error = error, .what = "it does not say what it can"}).what;
    return;
  }
  device.firmware = attributes.fw_ver;
  // A queue of reads is told to the peer in 8 bits.
  const auto reads = [](int number) { return std::min<uint32_t>(count_of(number), 255); };
  device.limits = {.region_bytes_max = attributes.max_mr_size,
                   .regions_max = count_of(attributes.max_mr),
                   .queue_pairs_max = count_of(attributes.max_qp),
                   .work_requests_max = count_of(attributes.max_qp_wr),
                   .completions_max = count_of(attributes.max_cqe),
                   .receives_max = attributes.max_srq > 0 ? count_of(attributes.max_srq_wr) : 0,
                   .reads_in_max = reads(attributes.max_qp_rd_atom),
                   .reads_out_max = reads(attributes.max_qp_init_rd_atom),
                   .has_atomics = attributes.atomic_cap != IBV_ATOMIC_NONE,
                   .atomics_coherent_with_cpu = attributes.atomic_cap == IBV_ATOMIC_GLOB};
  for (uint8_t port = 1; port <= attributes.phys_port_cnt; ++port) {
    device.ports.push_back(ask_port(library, context, port));
  }
}

// The devices that the library names; null behind the last.
class DeviceList {
 public:
  explicit DeviceList(const VerbsLibrary& library) noexcept
      : library_(library), devices_(library.get_device_list(&count_)), error_(errno) {}
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  ~DeviceList() {
    if (devices_ != nullptr) library_.free_device_list(devices_);
  }

  [[nodiscard]] std::span<ibv_device*> get() const noexcept {
    return {devices_, devices_ == nullptr ? 0 : count_of(count_)};
  }
  // Of a list that is not available. A kernel without RDMA, or with it and without a device, gives ENOSYS.
  [[nodiscard]] Reported<> outcome() const {
    if (devices_ != nullptr || error_ == ENOSYS) return {};
    Report why = explain(
        {.step = Step::kListDevices, .error = error_, .what = "the list of RDMA devices is not available"});
    why.code = Code::kUnsupported;
    return report(std::move(why));
  }

 private:
  const VerbsLibrary& library_;
  int count_ = 0;
  ibv_device** devices_;
  int error_;
};

const DeviceFacts* find_device(std::span<const DeviceFacts> devices, const DeviceWish& wish) {
  const auto fits = [&wish](const DeviceFacts& device) {
    if (!wish.device.empty()) return device.name == wish.device;
    return device.fault.empty() && std::ranges::any_of(device.ports, &PortFacts::is_active);
  };
  const auto found = std::ranges::find_if(devices, fits);
  return found == devices.end() ? nullptr : &*found;
}

// What the doctor would say, too: the names, and why none fits.
std::string what_there_is(std::span<const DeviceFacts> devices) {
  if (devices.empty()) return "this host has no RDMA device";
  std::string list;
  for (const DeviceFacts& device : devices) {
    list += fmt::format("{}{}", list.empty() ? "there is " : ", ", device.name);
    if (!device.fault.empty()) list += fmt::format(" ({})", device.fault);
    for (const PortFacts& port : device.ports) list += fmt::format(" (port {} {})", port.number, port.state);
  }
  return list;
}

std::string reason_for(const GidFacts& gid) {
  switch (gid.kind) {
    case GidKind::kRoce2Ipv4:
      return "RoCE v2 over IPv4 is routed and congestion-marked like any UDP";
    case GidKind::kRoce2Ipv6:
      return "RoCE v2 over IPv6, for the port has no IPv4 address";
    case GidKind::kRoce2LinkLocal:
      return "RoCE v2 from a link-local address, which reaches this link alone";
    case GidKind::kRoce1:
      return "RoCE v1, which no router passes on, for there is no other";
    case GidKind::kInfiniBand:
      break;
  }
  return "InfiniBand's own address";
}

// Smaller is better; the first index of a kind wins, since an interface's own address stands before others.
const GidFacts* best_gid(const PortFacts& port) noexcept {
  for (const GidKind kind : {GidKind::kInfiniBand, GidKind::kRoce2Ipv4, GidKind::kRoce2Ipv6,
                             GidKind::kRoce2LinkLocal, GidKind::kRoce1}) {
    if (const GidFacts* const found = gid_of_kind(port, kind); found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace

std::string_view text(GidKind kind) noexcept {
  switch (kind) {
    case GidKind::kInfiniBand:
      return "InfiniBand";
    case GidKind::kRoce1:
      return "RoCE v1";
    case GidKind::kRoce2Ipv4:
      return "RoCE v2 IPv4";
    case GidKind::kRoce2Ipv6:
      return "RoCE v2 IPv6";
    case GidKind::kRoce2LinkLocal:
      return "RoCE v2 link-local";
  }
  return "unknown";
}

std::string GidFacts::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> name{};
  const bool is_four = is_ipv4(gid);
  const void* const bytes = gid.data() + (is_four ? 12 : 0);
  (void)::inet_ntop(is_four ? AF_INET : AF_INET6, bytes, name.data(), name.size());
  return name.data();
}

Reported<std::vector<DeviceFacts>> list_devices() {
  const auto library = verbs_library();
  if (!library) return report(library.error());
  const DeviceList list(**library);
  if (auto had = list.outcome(); !had) return report(had.error());
  std::vector<DeviceFacts> devices;
  for (ibv_device* const each : list.get()) {
    DeviceFacts& device = devices.emplace_back();
    device.name = (*library)->get_device_name(each);
    ibv_context* const context = (*library)->open_device(each);
    if (context == nullptr) {
      device.fault = explain({.step = Step::kOpenDevice, .error = errno, .what = "it cannot be opened"}).what;
      continue;
    }
    ask_device(**library, context, device);
    (void)(*library)->close_device(context);
  }
  return devices;
}

const GidFacts* gid_of_kind(const PortFacts& port, GidKind kind) noexcept {
  const auto found = std::ranges::find(port.gids, kind, &GidFacts::kind);
  return found == port.gids.end() ? nullptr : &*found;
}

Reported<DeviceChoice> choose(std::span<const DeviceFacts> devices, const DeviceWish& wish) {
  const auto refuse = [&](std::string what) {
    return report(Code::kUnsupported, std::move(what), what_there_is(devices) + "; refract doctor says more");
  };
  const DeviceFacts* const device = find_device(devices, wish);
  if (device == nullptr) {
    return refuse(wish.device.empty() ? "no RDMA device has an active port"
                                      : fmt::format("there is no RDMA device named '{}'", wish.device));
  }
  const auto port = std::ranges::find_if(device->ports, [&wish](const PortFacts& each) {
    return wish.port == 0 ? each.is_active : each.number == wish.port;
  });
  if (port == device->ports.end() || !port->is_active) {
    return refuse(wish.port == 0 ? fmt::format("{} has no active port", device->name)
                                 : fmt::format("port {} of {} is not active", wish.port, device->name));
  }
  const auto index = static_cast<uint32_t>(std::max(wish.gid_index, 0));
  const auto named = std::ranges::find(port->gids, index, &GidFacts::index);
  const GidFacts* gid = best_gid(*port);
  if (wish.gid_index >= 0) gid = named == port->gids.end() ? nullptr : &*named;
  if (gid == nullptr) {
    return refuse(wish.gid_index < 0 ? fmt::format("port {} of {} has no address", port->number, device->name)
                                     : fmt::format("port {} of {} has no address with index {}", port->number,
                                                   device->name, wish.gid_index));
  }
  uint32_t mtu_bytes = port->mtu_bytes;
  if (wish.mtu_bytes != 0) {
    if (std::popcount(wish.mtu_bytes) != 1 || wish.mtu_bytes < 256 || wish.mtu_bytes > mtu_bytes) {
      return refuse(
          fmt::format("port {} of {} cannot use an MTU of {} bytes: it is a power of two from 256 "
                      "to the {} of the port",
                      port->number, device->name, wish.mtu_bytes, mtu_bytes));
    }
    mtu_bytes = wish.mtu_bytes;
  }
  return DeviceChoice{
      .device = device->name,
      .port = port->number,
      .link_layer = port->link_layer,
      .lid = port->lid,
      .gid = *gid,
      .mtu_bytes = mtu_bytes,
      .why = fmt::format(
          "{}, {}; {}",
          wish.device.empty() ? "the first device with an active port" : "the device that was named",
          wish.port == 0 ? "its first active port" : "the port that was named",
          wish.gid_index < 0 ? reason_for(*gid) : "the address that was named")};
}

Reported<std::unique_ptr<OpenDevice>> OpenDevice::open(const DeviceWish& wish) {
  std::unique_ptr<OpenDevice> opened(new OpenDevice(wish));
  if (auto done = opened->reopen(); !done) return report(done.error());
  return opened;
}

Reported<> OpenDevice::reopen() {
  close();
  const auto library = verbs_library();
  if (!library) return report(library.error());
  auto devices = list_devices();
  if (!devices) return report(devices.error());
  auto choice = choose(*devices, wish_);
  if (!choice) return report(choice.error());
  library_ = *library;
  const DeviceList list(**library);
  int error = ENODEV;  // Gone since it was listed.
  for (ibv_device* const each : list.get()) {
    if (choice->device != library_->get_device_name(each)) continue;
    context_ = library_->open_device(each);
    error = errno;
  }
  if (context_ == nullptr) {
    return report(explain(
        {.step = Step::kOpenDevice, .error = error, .what = fmt::format("cannot open {}", choice->device)}));
  }
  const int flags = ::fcntl(async_fd(), F_GETFL);
  pd_ = library_->alloc_pd(context_);
  if (pd_ == nullptr || ::fcntl(async_fd(), F_SETFL, flags | O_NONBLOCK) != 0) {
    error = errno;
    close();
    return report(explain({.step = Step::kProtectionDomain,
                           .error = error,
                           .what = fmt::format("cannot make a protection domain on {}", choice->device)}));
  }
  facts_ = *std::ranges::find(*devices, choice->device, &DeviceFacts::name);
  choice_ = std::move(*choice);
  return {};
}

void OpenDevice::close() noexcept {
  if (ibv_pd* const pd = std::exchange(pd_, nullptr); pd != nullptr) (void)library_->dealloc_pd(pd);
  ibv_context* const context = std::exchange(context_, nullptr);
  if (context != nullptr) (void)library_->close_device(context);
}

OpenDevice::~OpenDevice() {
  close();
}

bool OpenDevice::is_withdrawn() const noexcept {
  return context_ != nullptr && ::access(context_->device->dev_path, F_OK) != 0;
}

void OpenDevice::look_at_ports() {
  if (context_ == nullptr) return;
  for (PortFacts& port : facts_.ports) port = ask_port(*library_, context_, port.number);
  DeviceWish same = wish_;
  same.device = choice_.device;
  same.port = choice_.port;
  auto choice = choose({&facts_, 1}, same);
  if (!choice) return;
  choice->why = std::move(choice_.why);
  choice_ = std::move(*choice);
}

Reported<> OpenDevice::check_port() const {
  if (port().is_active) return {};
  const std::string& interface = choice_.gid.interface;
  return report(
      Code::kUnavailable, fmt::format("port {} of {} is {}", choice_.port, choice_.device, port().state),
      fmt::format("{}; refract doctor says more",
                  interface.empty() ? "look at its cable and at the subnet manager"
                                    : fmt::format("ip link set dev {} up, at both ends", interface)));
}

const PortFacts& OpenDevice::port() const noexcept {
  return *std::ranges::find(facts_.ports, choice_.port, &PortFacts::number);
}

int OpenDevice::async_fd() const noexcept {
  return context_->async_fd;
}

}  // namespace refract::fabric::verbs
