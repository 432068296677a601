// SPDX-License-Identifier: Apache-2.0
// Which RDMA devices this host has, what they can do, and through which port and address a domain reaches
// its peers, with the reason.
//
// Looking and choosing are apart: list_devices() asks the system, choose() decides from what was found, so
// that the doctor prints both and a test needs no device. Control path: these calls allocate and may wait
// some milliseconds.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/report.h"

struct ibv_context;  // NOLINT(readability-identifier-naming)
struct ibv_pd;       // NOLINT(readability-identifier-naming)

namespace refract::fabric::verbs {

struct VerbsLibrary;

enum class LinkLayer : uint8_t { kUnknown, kInfiniBand, kEthernet };

// What an entry of a port's table of addresses is. Only the same kind at both ends makes a path.
enum class GidKind : uint8_t { kInfiniBand, kRoce1, kRoce2Ipv4, kRoce2Ipv6, kRoce2LinkLocal };
[[nodiscard]] std::string_view text(GidKind kind) noexcept;

using Gid = std::array<uint8_t, 16>;  // In network order.

struct GidFacts {
  uint32_t index = 0;
  Gid gid{};
  GidKind kind = GidKind::kInfiniBand;
  std::string interface;  // "eth0"; empty where the kernel names none.

  [[nodiscard]] std::string to_string() const;  // "10.77.0.1" or "fe80::1".
};

struct PortFacts {
  uint8_t number = 0;
  bool is_active = false;
  std::string state;  // "active", "down", ...
  LinkLayer link_layer = LinkLayer::kUnknown;
  uint32_t mtu_bytes = 0;      // In use now.
  uint32_t mtu_bytes_max = 0;  // Of which the port is capable.
  uint16_t lid = 0;
  std::vector<GidFacts> gids;  // Without the empty ones.
};

struct DeviceLimits {
  uint64_t region_bytes_max = 0;  // Of one registration.
  uint32_t regions_max = 0;
  uint32_t queue_pairs_max = 0;
  uint32_t work_requests_max = 0;  // Of one queue of a queue pair.
  uint32_t completions_max = 0;    // Of one completion queue.
  uint32_t receives_max = 0;       // Of one shared receive queue; 0: there are none.
  uint32_t reads_in_max = 0;       // READs and atomics that a queue pair answers at once.
  uint32_t reads_out_max = 0;      // And that it may have asked for.
  bool has_atomics = false;
  bool atomics_coherent_with_cpu = false;
};

struct DeviceFacts {
  std::string name;  // "mlx5_0"
  std::string firmware;
  DeviceLimits limits;
  std::vector<PortFacts> ports;
  std::string fault;  // Why it could not be asked; empty: it answered.
};

// kUnsupported: the library is missing, or the kernel has no RDMA. An empty list: it has, but no device.
[[nodiscard]] Reported<std::vector<DeviceFacts>> list_devices();

// What the operator insists on; what is left out is chosen.
struct DeviceWish {
  std::string device;
  uint8_t port = 0;
  int32_t gid_index = -1;
  uint32_t mtu_bytes = 0;  // 256, 512, 1024, 2048 or 4096; 0: what the port uses.
};

struct DeviceChoice {
  std::string device;
  uint8_t port = 0;
  LinkLayer link_layer = LinkLayer::kUnknown;
  uint16_t lid = 0;
  GidFacts gid;
  uint32_t mtu_bytes = 0;
  std::string why;  // "the first active port; RoCE v2 over IPv4 is routable and ..."
};

// The first device with an active port unless the wish names one; of its addresses RoCE v2 over IPv4 before
// IPv6 before link-local ones before RoCE v1. kUnsupported: nothing fits, with what there is instead.
[[nodiscard]] Reported<DeviceChoice> choose(std::span<const DeviceFacts> devices, const DeviceWish& wish);
// The address of that port that a peer with one of `kind` can be reached from, best first; null: none.
[[nodiscard]] const GidFacts* gid_of_kind(const PortFacts& port, GidKind kind) noexcept;

// A device opened for one domain, with the domain's protection domain. Everything made in it goes first.
//
// A device may be taken away under us (unplugged, reset, its module removed). Some say so by an event;
// others, Soft-RoCE among them, continue to work, and their removal waits until the last user has closed
// them. So the object outlives what it has opened: close(), and reopen() once the device is back.
class OpenDevice {
 public:
  // Opens what choose() finds for the wish.
  [[nodiscard]] static Reported<std::unique_ptr<OpenDevice>> open(const DeviceWish& wish);
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;
  ~OpenDevice();

  // Closes it if it is open and opens what choose() finds for the same wish now, which may be another device
  // if the wish names none.
  [[nodiscard]] Reported<> reopen();
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return context_ != nullptr; }
  // The kernel wants the device back. Costs a system call.
  [[nodiscard]] bool is_withdrawn() const noexcept;
  // Addresses, MTU and state of the ports as they are now; a link that went down takes its addresses with it,
  // and they come back at other indices. What was chosen before stays where nothing fits at the moment.
  void look_at_ports();
  // kUnavailable, with what to do: the port was not active at the last look.
  [[nodiscard]] Reported<> check_port() const;

  [[nodiscard]] const VerbsLibrary& calls() const noexcept { return *library_; }
  [[nodiscard]] ibv_context* context() const noexcept { return context_; }
  [[nodiscard]] ibv_pd* pd() const noexcept { return pd_; }
  [[nodiscard]] const DeviceFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] const PortFacts& port() const noexcept;
  [[nodiscard]] const DeviceChoice& choice() const noexcept { return choice_; }
  // Of asynchronous events; does not block.
  [[nodiscard]] int async_fd() const noexcept;

 private:
  explicit OpenDevice(DeviceWish wish) noexcept : wish_(std::move(wish)) {}

  DeviceWish wish_;
  const VerbsLibrary* library_ = nullptr;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  DeviceFacts facts_;
  DeviceChoice choice_;
};

}  // namespace refract::fabric::verbs
