// SPDX-License-Identifier: Apache-2.0
#include "bench/held_packets.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "bench/measure.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

// The longest packet of IP and the header that tells how it is to be cut.
constexpr size_t kPacketBytesMax = (64 << 10) + 64;
constexpr size_t kPacketsATurn = 64;

}  // namespace

Reported<Descriptor> open_tun(const std::string& name) {
  Descriptor device(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq request = {};
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  constexpr unsigned long kLargePackets = TUN_F_CSUM | TUN_F_TSO4;
  if (!device || ::ioctl(device.get(), TUNSETIFF, &request) != 0 ||
      ::ioctl(device.get(), TUNSETOFFLOAD, kLargePackets) != 0) {
    return report(Code::kUnsupported, fmt::format("cannot make a TUN device: {}", errno_text(errno)),
                  "run as root, with /dev/net/tun there");
  }
  return device;
}

HeldPackets::HeldPackets(Descriptor here, Descriptor there, const Options& options)
    : options_(options),
      here_(std::move(here)),
      there_(std::move(there)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  ways_[0].from = ways_[1].to = here_.get();
  ways_[0].to = ways_[1].from = there_.get();
  thread_ = std::jthread([this] { run(); });
}

HeldPackets::~HeldPackets() {
  ::eventfd_write(stop_.get(), 1);
}

void HeldPackets::run() {
  unpin();
  ::prctl(PR_SET_TIMERSLACK, 1);
  eventfd_t stopped = 0;
  while (::eventfd_read(stop_.get(), &stopped) != 0) {
    size_t did = 0;
    for (Way& way : ways_) did += take(way) + release(way);
    if (did == 0) wait();
  }
}

size_t HeldPackets::take(Way& way) {
  size_t taken = 0;
  for (; taken < kPacketsATurn; ++taken) {
    Packet packet;
    if (!spare_.empty()) {
      packet = std::move(spare_.back());
      spare_.pop_back();
    }
    packet.bytes.resize(kPacketBytesMax);
    const ssize_t got = ::read(way.from, packet.bytes.data(), packet.bytes.size());
    if (got <= 0) {
      spare_.push_back(std::move(packet));
      break;
    }
    packet.used = static_cast<size_t>(got);
    if (way.held_bytes + packet.used > options_.held_bytes_max) {
      spare_.push_back(std::move(packet));
      continue;
    }
    const uint64_t sending_ns = packet.used * kSecond_ns / options_.bytes_per_s;
    way.busy_until_ns = std::max(way.busy_until_ns, now_ns()) + sending_ns;
    packet.due_ns = way.busy_until_ns + options_.delay_ns;
    way.held_bytes += packet.used;
    way.held.push_back(std::move(packet));
  }
  return taken;
}

size_t HeldPackets::release(Way& way) {
  size_t released = 0;
  const uint64_t now = now_ns();
  while (!way.held.empty() && way.held.front().due_ns <= now && released < kPacketsATurn) {
    Packet packet = std::move(way.held.front());
    way.held.pop_front();
    way.held_bytes -= packet.used;
    // A packet that the device does not take is lost, as packets are.
    (void)!::write(way.to, packet.bytes.data(), packet.used);
    spare_.push_back(std::move(packet));
    ++released;
  }
  return released;
}

void HeldPackets::wait() {
  uint64_t due_ns = kForever_ns;
  for (const Way& way : ways_) {
    if (!way.held.empty()) due_ns = std::min(due_ns, way.held.front().due_ns);
  }
  std::array<pollfd, 3> wanted = {{{.fd = here_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = there_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = stop_.get(), .events = POLLIN, .revents = 0}}};
  const uint64_t now = now_ns();
  const uint64_t left_ns = due_ns > now ? std::min<uint64_t>(due_ns - now, kSecond_ns) : 0;
  const timespec timeout = {.tv_sec = static_cast<time_t>(left_ns / kSecond_ns),
                            .tv_nsec = static_cast<long>(left_ns % kSecond_ns)};
  ::ppoll(wanted.data(), wanted.size(), &timeout, nullptr);
}

}  // namespace refract::bench
