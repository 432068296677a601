// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/shm/listen.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace refract::fabric::shm {
namespace {

constexpr int kBacklog = 256;

Reported<sockaddr_un> address_of(std::string_view path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.find('\0') != std::string_view::npos) {
    return report(Code::kInvalidArgument, "the socket's path is empty or contains a zero byte",
                  "choose another");
  }
  if (path.size() >= sizeof(address.sun_path)) {
    return report(Code::kInvalidArgument,
                  fmt::format("the socket's path has {} bytes, and the system allows {}: {}", path.size(),
                              sizeof(address.sun_path) - 1, path),
                  "choose a shorter path");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Reported<> make_directory(const std::string& directory) {
  struct stat status{};
  if (::stat(directory.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return {};
    return report(Code::kInvalidArgument, fmt::format("{} is not a directory", directory),
                  "choose another path");
  }
  const std::string above = directory_of(directory);
  if (above != directory) {
    if (auto made = make_directory(above); !made) return made;
  }
  if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return report(Code::kSystem, fmt::format("cannot make the directory {}: {}", directory, errno_text(errno)),
                "make it, or choose another path");
}

Reported<Descriptor> packet_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket) return socket;
  return report(Code::kSystem, fmt::format("cannot make a socket: {}", errno_text(errno)));
}

std::unexpected<Report> in_use(const std::string& path) {
  return report(Code::kInUse, fmt::format("cannot listen at {}: another process answers there", path),
                "stop it, or choose another path");
}

// Removes what a dead process left. REQUIRES: the directory is locked.
Reported<> clear_the_way(const std::string& path, const sockaddr_un& address) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return report(Code::kInvalidArgument, fmt::format("{} exists and is not a socket", path),
                  "remove it, or choose another path");
  }
  auto probe = packet_socket();
  if (!probe) return report(probe.error());
  if (::connect(probe->get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return in_use(path);
  }
  // Only this means that no process listens; a full queue (EAGAIN) or another kind of socket (EPROTOTYPE) is
  // alive.
  if (errno != ECONNREFUSED) return in_use(path);
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return report(Code::kSystem, fmt::format("cannot remove the dead socket {}: {}", path, errno_text(errno)),
                "remove it, or choose another path");
}

// A node lets in its own user and root alone, so a listener of another user is no node for this process: a
// user that can write into the folder has put a socket there, and would be told everything.
Reported<> check_listener(int socket, std::string_view path) {
  ucred who{};
  socklen_t bytes = sizeof(who);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0) {
    return report(Code::kSystem, fmt::format("cannot tell who listens at {}: {}", path, errno_text(errno)));
  }
  const uid_t self = ::geteuid();
  if (self == 0 || who.uid == 0 || who.uid == self) return {};
  return report(Code::kAccessDenied,
                fmt::format("user {} listens at {}: not this user, and not root", who.uid, path),
                "look at who owns the folder of the socket, and name a node of your own");
}

}  // namespace

namespace {

// Nodes that start at the same time in one directory hold it for milliseconds each.
bool lock_soon(int directory) {
  constexpr int kTries = 200;
  constexpr useconds_t kPause_us = 10'000;
  for (int i = 0; i < kTries; ++i) {
    if (::flock(directory, LOCK_EX | LOCK_NB) == 0) return true;
    (void)::usleep(kPause_us);
  }
  return false;
}

}  // namespace

Reported<Descriptor> listen_at(const std::string& path, uint32_t mode) {
  const auto address = address_of(path);
  if (!address) return report(address.error());
  const std::string directory = directory_of(path);
  if (auto made = make_directory(directory); !made) return report(made.error());
  // Between finding a dead socket and listening, no other process may do the same.
  const Descriptor lock(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock) {
    return report(Code::kSystem,
                  fmt::format("cannot open the directory {}: {}", directory, errno_text(errno)),
                  "check its permissions, or choose another path");
  }
  if (!lock_soon(lock.get())) {
    return report(Code::kInUse, fmt::format("another process is about to listen in {}", directory),
                  "try again");
  }
  if (auto clear = clear_the_way(path, *address); !clear) return report(clear.error());
  auto socket = packet_socket();
  if (!socket) return report(socket.error());
  // Before bind, so that the file never has other rights than these.
  (void)::fchmod(socket->get(), mode);
  if (::bind(socket->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0 ||
      ::listen(socket->get(), kBacklog) != 0) {
    if (errno == EADDRINUSE) return in_use(path);
    return report(Code::kSystem, fmt::format("cannot listen at {}: {}", path, errno_text(errno)),
                  "check the directory's permissions, or choose another path");
  }
  if (::chmod(path.c_str(), mode) != 0) {
    return report(Code::kSystem, fmt::format("cannot set the rights of {}: {}", path, errno_text(errno)));
  }
  return socket;
}

Reported<Descriptor> connect_to(std::string_view path) {
  const auto address = address_of(path);
  if (!address) return report(address.error());
  auto socket = packet_socket();
  if (!socket) return report(socket.error());
  if (::connect(socket->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0) {
    if (auto checked = check_listener(socket->get(), path); !checked) return report(checked.error());
    return socket;
  }
  switch (errno) {
    case EAGAIN:
      return report(Code::kOverloaded, fmt::format("the node at {} is busy with others", path));
    case ENOENT:
    case ECONNREFUSED:
      return report(Code::kUnavailable, fmt::format("no node answers at {}", path),
                    "start one, or check the path");
    case EACCES:
      return report(Code::kAccessDenied, fmt::format("no permission to connect to {}", path),
                    "use the user that started the node");
    default:
      return report(Code::kUnavailable, fmt::format("cannot connect to {}: {}", path, errno_text(errno)),
                    "check that the path is a node's socket");
  }
}

}  // namespace refract::fabric::shm
