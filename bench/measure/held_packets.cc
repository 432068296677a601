// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/held_packets.h"

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
#include <iterator>
#include <utility>

#include "bench/measure/measure.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

// The longest packet of IP and the header that tells how it is to be cut.
constexpr size_t kPacketBytesMax = (64 << 10) + 64;
constexpr size_t kPacketsATurn = 64;
// Of that header, before each packet: the kernel's virtio_net_hdr, which C++ cannot include.
constexpr size_t kCutHeaderBytes = 10;

}  // namespace

Reported<Descriptor> open_tun(const std::string& name, bool large_packets) {
  Descriptor device(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq request = {};
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  const unsigned long offload = large_packets ? TUN_F_CSUM | TUN_F_TSO4 : TUN_F_CSUM;
  if (!device || ::ioctl(device.get(), TUNSETIFF, &request) != 0 ||
      ::ioctl(device.get(), TUNSETOFFLOAD, offload) != 0) {
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

HeldPackets::Packet HeldPackets::take_spare() {
  Packet packet;
  if (!spare_.empty()) {
    packet = std::move(spare_.back());
    spare_.pop_back();
  }
  packet.bytes.resize(kPacketBytesMax);
  return packet;
}

void HeldPackets::hold(Way& way, Packet packet) {
  if (way.held_bytes + packet.used > options_.held_bytes_max) {
    spare_.push_back(std::move(packet));
    return;
  }
  way.held_bytes += packet.used;
  // Nearly always the last one.
  auto place = way.held.end();
  while (place != way.held.begin() && std::prev(place)->due_ns > packet.due_ns) --place;
  way.held.insert(place, std::move(packet));
}

size_t HeldPackets::take(Way& way) {
  size_t taken = 0;
  for (; taken < kPacketsATurn; ++taken) {
    Packet packet = take_spare();
    const ssize_t got = ::read(way.from, packet.bytes.data(), packet.bytes.size());
    if (got <= 0) {
      spare_.push_back(std::move(packet));
      break;
    }
    packet.used = static_cast<size_t>(got);
    const uint64_t sending_ns = packet.used * kSecond_ns / options_.bytes_per_s;
    way.busy_until_ns = std::max(way.busy_until_ns, now_ns()) + sending_ns;
    PacketFates::Fate fate;
    if (options_.fates != nullptr && packet.used > kCutHeaderBytes) {
      fate = options_.fates->fate_of(std::span(packet.bytes).first(packet.used).subspan(kCutHeaderBytes));
    }
    packet.due_ns = way.busy_until_ns + options_.delay_ns + fate.delay_ns;
    for (; fate.copies > 1; --fate.copies) {
      Packet copy = take_spare();
      copy.due_ns = packet.due_ns;
      copy.used = packet.used;
      std::copy_n(packet.bytes.begin(), packet.used, copy.bytes.begin());
      hold(way, std::move(copy));
    }
    if (fate.copies == 1) {
      hold(way, std::move(packet));
    } else {
      spare_.push_back(std::move(packet));
    }
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
