// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doors/door_addresses.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "refract/fabric/tcp/listen.h"
#include "refract/fabric/tcp/socket.h"

namespace refract::node {
namespace {

constexpr int kBacklog = 4096;
constexpr size_t kDoorsMax = 16;
constexpr std::string_view kRedis = "redis:";
// How often an address that is taken is tried.
constexpr int kTries = 50;
constexpr int kBetweenTries_ms = 20;

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Reported<DoorAddress> parse_one(std::string_view text) {
  const auto wrong = [text](std::string_view why) {
    return report(Code::kInvalidArgument, fmt::format("'{}' is no door: {}", text, why),
                  "write redis:HOST:PORT, or redis:/PATH for a Unix socket");
  };
  if (!text.starts_with(kRedis)) return wrong("redis is the only kind there is");
  DoorAddress address{.kind = "redis", .place = std::string(text.substr(kRedis.size()))};
  if (address.is_path()) {
    if (address.place.size() >= sizeof(sockaddr_un::sun_path))
      return wrong("the path is too long for a socket");
    return address;
  }
  auto place = fabric::tcp::split_address(address.place);
  if (!place) return wrong(place.error().what);
  if (!fabric::tcp::resolve(*place, /*numbers_only=*/true)) return wrong("HOST and PORT must be numbers");
  return address;
}

sockaddr_un socket_at(const std::string& path) noexcept {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path, path.data(), std::min(path.size(), sizeof(at.sun_path) - 1));
  return at;
}

bool is_listened_at(const sockaddr_un& at) noexcept {
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return probe && ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)) == 0;
}

Reported<Descriptor> listen_at_path(const std::string& path) {
  const auto failed = [&path](std::string_view what) {
    return report(Code::kSystem, fmt::format("cannot {} {}: {}", what, path, errno_text(errno)),
                  "the folder must be there, and be writable for this user");
  };
  const sockaddr_un at = socket_at(path);
  struct stat there{};
  if (::lstat(path.c_str(), &there) == 0) {
    if (!S_ISSOCK(there.st_mode)) {
      return report(Code::kInUse, path + " is no socket", "name another path, or remove it");
    }
    if (is_listened_at(at)) {
      return report(Code::kInUse, "another program listens on " + path, "stop it, or name another path");
    }
    if (::unlink(path.c_str()) != 0) return failed("replace the socket");
  }
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed("make a socket for");
  // Before it has a name: as the node's own socket it is for the same user alone.
  if (::fchmod(socket.get(), S_IRUSR | S_IWUSR) != 0) return failed("set the mode of");
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0)
    return failed("listen on");
  if (::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0) return failed("set the mode of");
  if (::listen(socket.get(), kBacklog) != 0) return failed("listen on");
  return socket;
}

}  // namespace

Reported<std::vector<DoorAddress>> parse_door_addresses(std::string_view text) {
  std::vector<DoorAddress> addresses;
  while (!trimmed(text).empty()) {
    const size_t end = std::min(text.find(','), text.size());
    auto address = parse_one(trimmed(text.substr(0, end)));
    if (!address) return report(std::move(address).error());
    if (std::ranges::find(addresses, *address) != addresses.end()) {
      return report(Code::kInvalidArgument,
                    fmt::format("{}:{} is named twice", address->kind, address->place));
    }
    if (addresses.size() == kDoorsMax) {
      return report(Code::kInvalidArgument, fmt::format("more than {} doors are named", kDoorsMax));
    }
    addresses.push_back(std::move(*address));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return addresses;
}

Reported<DoorListener> DoorListener::open(const DoorAddress& address) {
  const auto listen = [&address] {
    return address.is_path() ? listen_at_path(address.place) : fabric::tcp::listen(address.place);
  };
  auto socket = listen();
  // The doors of a node that was killed end a moment later, and listen until then.
  for (int i = 0; i < kTries && !socket && socket.error().code == Code::kInUse; ++i) {
    (void)::poll(nullptr, 0, kBetweenTries_ms);
    socket = listen();
  }
  if (!socket) return report(std::move(socket).error());
  if (address.is_path()) return DoorListener(address, std::move(*socket));
  DoorListener listener(address, std::move(*socket));
  auto bound = fabric::tcp::bound_address(listener.descriptor());
  const auto port = fabric::tcp::bound_port(listener.descriptor());
  const auto is_loopback = fabric::tcp::is_loopback(address.place);
  if (!bound) return report(std::move(bound).error());
  if (!port) return report(port.error());
  if (!is_loopback) return report(is_loopback.error());
  listener.address_.place = std::move(*bound);
  listener.port_ = *port;
  listener.is_of_this_host_ = *is_loopback;
  return listener;
}

DoorListener::~DoorListener() {
  if (socket_ && address_.is_path()) (void)::unlink(address_.place.c_str());
}

}  // namespace refract::node
