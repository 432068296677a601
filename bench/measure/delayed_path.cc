// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/delayed_path.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "bench/measure/beside.h"
#include "bench/measure/measure.h"
#include "bench/measure/tcp_socket.h"

#include "refract/base/units.h"
#include "refract/memory/host/descriptor.h"

namespace refract::bench {
namespace {

constexpr const char* kHowTo =
    "as root, with iproute2 installed and /dev/net/tun there: make bars BARS_ARGS='--only tcp-get-far'";
constexpr int kBufferBytes = 32 << 20;
constexpr size_t kChunkBytes = size_t{1} << 20;

// Runs a program to its end. What it wrote is part of the error.
Reported<> run_to_end(const test::TemporaryFolder& folder, std::vector<std::string> arguments) {
  const std::string command = fmt::format("{}", fmt::join(arguments, " "));
  const std::string log = folder.path() + "/command.log";
  Reported<test::Process> process = start_beside({.arguments = std::move(arguments), .output_path = log});
  if (!process) return report(process.error());
  const int code = process->wait_for_end();
  if (code == 0) return {};
  return report(Code::kUnsupported, fmt::format("'{}' ended with {}: {}", command, code, test::tail_of(log)),
                kHowTo);
}

void send_to_whoever_connects(const Descriptor& listener) {
  const Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kBufferBytes, sizeof(kBufferBytes));
  const std::vector<char> chunk(kChunkBytes, 's');
  while (::send(socket.get(), chunk.data(), chunk.size(), MSG_NOSIGNAL) > 0) {
  }
}

// Sockets and devices stay in the namespace they were made in; the step into it is for one thread alone.
template <typename Make>
Reported<Descriptor> make_in(const Descriptor& there, Make make) {
  Reported<Descriptor> made = report(Code::kSystem, "cannot enter a network namespace", kHowTo);
  std::thread([&] {
    if (::setns(there.get(), CLONE_NEWNET) == 0) made = make();
  }).join();
  return made;
}

// Without a name in the file system, it goes with the last descriptor and the last process in it.
Reported<Descriptor> make_namespace() {
  Descriptor made;
  int error_number = 0;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) == 0)
      made = Descriptor(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    error_number = errno;
  }).join();
  if (made) return made;
  return report(Code::kUnsupported, "cannot make a network namespace: " + errno_text(error_number), kHowTo);
}

// Bytes a second that come in between a quarter of the time and its end.
double receive_rate(const Descriptor& socket, double seconds) {
  std::vector<char> chunk(kChunkBytes);
  const uint64_t start_ns = now_ns();
  const auto length_ns = static_cast<uint64_t>(seconds * 1e9);
  uint64_t counted_from_ns = 0;
  uint64_t counted = 0;
  uint64_t now = start_ns;
  while (now - start_ns < length_ns) {
    const ssize_t got = ::recv(socket.get(), chunk.data(), chunk.size(), 0);
    if (got <= 0) return 0;
    now = now_ns();
    if (counted_from_ns != 0) {
      counted += static_cast<uint64_t>(got);
    } else if (now - start_ns > length_ns / 4) {
      counted_from_ns = now;
    }
  }
  return now > counted_from_ns
             ? static_cast<double>(counted) * 1e9 / static_cast<double>(now - counted_from_ns)
             : 0;
}

}  // namespace

Reported<DelayedPath> DelayedPath::create(const Options& options) {
  if (::geteuid() != 0) {
    return report(Code::kUnsupported, "a path with delay needs a network namespace, which only root can make",
                  kHowTo);
  }
  Reported<test::TemporaryFolder> folder = test::TemporaryFolder::make();
  if (!folder) return report(folder.error());
  const auto number = static_cast<unsigned>(::getpid());
  const std::string here = fmt::format("rfh{}", number);
  const std::string there = fmt::format("rft{}", number);
  // 198.18.0.0/15 is set aside for measurements of networks (RFC 2544); eight of its addresses are ours.
  const unsigned net = number % (1U << 14) * 8;
  const auto address = [net](unsigned host) {
    return fmt::format("198.{}.{}.{}", 18 + (net >> 16), net >> 8 & 0xFF, (net & 0xFF) + host);
  };

  DelayedPath path;
  path.near_address_ = address(1);
  path.far_address_ = address(2);
  path.other_far_address_ = address(3);
  Reported<Descriptor> made = make_namespace();
  if (!made) return report(made.error());
  path.namespace_ = std::move(*made);
  Reported<Descriptor> near_end = open_tun(here, options.large_packets);
  if (!near_end) return report(near_end.error());
  Reported<Descriptor> far_end =
      make_in(path.namespace_, [&] { return open_tun(there, options.large_packets); });
  if (!far_end) return report(far_end.error());
  const std::vector<std::vector<std::string>> near_commands = {
      {"ip", "addr", "add", address(1) + "/29", "dev", here},
      {"ip", "link", "set", here, "up", "txqueuelen", "10000"}};
  const std::vector<std::vector<std::string>> far_commands = {
      {"ip", "addr", "add", address(2) + "/29", "dev", there},
      {"ip", "addr", "add", address(3) + "/29", "dev", there},
      {"ip", "link", "set", there, "up", "txqueuelen", "10000"},
      {"ip", "link", "set", "lo", "up"}};
  for (const auto& command : near_commands) {
    if (const Reported<> done = run_to_end(*folder, command); !done) return report(done.error());
  }
  for (const auto& command : far_commands) {
    std::vector<std::string> arguments = path.launcher();
    arguments.insert(arguments.end(), command.begin(), command.end());
    if (const Reported<> done = run_to_end(*folder, arguments); !done) return report(done.error());
  }
  path.packets_ = std::make_unique<HeldPackets>(
      std::move(*near_end), std::move(*far_end),
      HeldPackets::Options{
          .delay_ns = options.round_trip_ns / 2, .bytes_per_s = options.bytes_per_s, .fates = options.fates});
  return path;
}

std::vector<std::string> DelayedPath::launcher() const {
  return {"nsenter", "--net=" + far_network()};
}

std::string DelayedPath::far_network() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), namespace_.get());
}

Reported<double> DelayedPath::stream_rate(double seconds) const {
  const Reported<Descriptor> listener = make_in(namespace_, [this] { return listen_on(far_address_); });
  if (!listener) return report(listener.error());
  const std::jthread far([&] { send_to_whoever_connects(*listener); });
  double rate = 0;
  {
    const Reported<Descriptor> socket = connect_tcp(far_address_, port_of(*listener), kBufferBytes);
    if (!socket) {
      ::shutdown(listener->get(), SHUT_RDWR);
      return report(socket.error());
    }
    rate = receive_rate(*socket, seconds);
  }
  if (rate == 0) return report(Code::kUnavailable, "a plain connection over the delayed path broke");
  return rate;
}

}  // namespace refract::bench
