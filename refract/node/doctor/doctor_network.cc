// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doctor/doctor_network.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "refract/base/default_socket.h"
#include "refract/base/units.h"
#include "refract/fabric/shm/descriptors.h"
#include "refract/fabric/shm/listen.h"
#include "refract/fabric/shm/node_page.h"
#include "refract/fabric/shm/wire.h"
#include "refract/fabric/tcp/listen.h"
#include "refract/fabric/tcp/secret.h"
#include "refract/node/doctor/doctor_directory.h"

namespace refract::node {
namespace {

constexpr int kAnswer_ms = 500;

// Clients that come at once wait here until the node accepts them.
constexpr uint64_t kBacklogWanted = 1024;

// What a path of 10 ms and 1 GB/s has in flight, and as much again for what the kernel keeps account of.
constexpr uint64_t kBufferWanted = 20 * kMiB;

// Whether a node of ours listens there: it answers a Hello, if only to say that it has no room.
enum class Listener : uint8_t { kNobody, kOurs, kSilent, kForbidden };

Listener listener_at(const std::string& path) {
  namespace shm = fabric::shm;
  const auto socket = shm::connect_to(path);
  if (!socket) {
    if (socket.error().code == Code::kAccessDenied) return Listener::kForbidden;
    struct stat status{};
    // A dead node's socket refuses; what else is there is another kind of socket, or is too busy to answer.
    const bool is_dead = socket.error().what.starts_with("no node answers");
    return is_dead || ::stat(path.c_str(), &status) != 0 ? Listener::kNobody : Listener::kSilent;
  }
  const shm::Hello hello{shm::head_of(shm::MessageKind::kHello), shm::kWireVersionLowest,
                         shm::kWireVersionHighest, 0};
  if (!shm::send_message(socket->get(), std::as_bytes(std::span(&hello, 1)))) return Listener::kSilent;
  pollfd wanted{.fd = socket->get(), .events = POLLIN, .revents = 0};
  (void)::poll(&wanted, 1, kAnswer_ms);
  std::array<std::byte, sizeof(shm::Refused)> message{};
  std::array<Descriptor, 4> descriptors;
  const auto received = shm::receive_message(socket->get(), message, descriptors);
  shm::MessageHead head{};
  std::memcpy(&head, message.data(), sizeof(head));
  const bool is_ours = received.outcome == shm::ReceivedMessage::Outcome::kMessage &&
                       received.bytes >= sizeof(head) && head.magic == shm::kWireMagic;
  return is_ours ? Listener::kOurs : Listener::kSilent;
}

// The nearest folder above `path` that exists.
std::string existing_folder(std::string path) {
  struct stat status{};
  do {
    path.resize(std::max<size_t>(path.rfind('/'), 1));
  } while (path.size() > 1 && ::stat(path.c_str(), &status) != 0);
  return path;
}

Finding socket_at(const std::string& path) {
  if (!path.starts_with('/') || path.size() > kSocketPathBytesMax) {
    return {"socket", Health::kFail,
            fmt::format("'{}' is no absolute path of at most {} bytes", path, kSocketPathBytesMax),
            "choose another path with --socket-path"};
  }
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      return {"socket", Health::kFail, fmt::format("{} is there and no socket", path),
              "remove it, or choose another path with --socket-path"};
    }
    switch (listener_at(path)) {
      case Listener::kOurs:
        return {"socket", Health::kWarn, fmt::format("a node is running at {}", path),
                "nothing, if that is the one; for a second one choose another path with --socket-path"};
      case Listener::kSilent:
        return {"socket", Health::kFail,
                fmt::format("another process listens at {} and is no node that answers", path),
                "stop it, or choose another path with --socket-path"};
      case Listener::kForbidden:
        return {"socket", Health::kFail, fmt::format("{} belongs to another user", path),
                "choose another path with --socket-path"};
      case Listener::kNobody:
        break;
    }
  }
  const std::string above = existing_folder(path);
  if (::access(above.c_str(), W_OK | X_OK) != 0) {
    return {"socket", Health::kFail, fmt::format("{}: {}", above, errno_text(errno)),
            "run as the owner of the folder, or choose another path with --socket-path"};
  }
  return {"socket", Health::kOk,
          status.st_mode != 0 ? path + " is left from a node that is gone" : path + " is free", ""};
}

Finding sockets(const DoctorInputs& inputs) {
  Finding first = socket_at(inputs.socket_path);
  for (uint32_t shard = 1; first.health == Health::kOk && shard < inputs.shards; ++shard) {
    Finding other = socket_at(fabric::shm::shard_socket_path(inputs.socket_path, shard));
    if (other.health != Health::kOk) return other;
  }
  return first;
}

Finding port(const DoctorInputs& inputs, bool is_running) {
  const auto listener = fabric::tcp::listen(inputs.listen_address);
  if (listener) return {"port", Health::kOk, inputs.listen_address + " is free", ""};
  // Most likely by the node that was found at the socket.
  if (is_running && listener.error().code == Code::kInUse) {
    return {"port", Health::kWarn,
            inputs.listen_address + " is in use, and so is the socket: a node is running",
            "nothing, if that is the one; for a second one choose another port with --listen-address"};
  }
  return {"port", Health::kFail, listener.error().what, listener.error().next};
}

Finding secret(const DoctorInputs& inputs) {
  if (inputs.secret_file.empty()) {
    return {"secret", Health::kOk, "none: every program of this host is let in", ""};
  }
  const auto read = fabric::tcp::read_secret(inputs.secret_file);
  if (!read) return {"secret", Health::kFail, read.error().what, read.error().next};
  return {"secret", Health::kOk,
          fmt::format("{} has {} bytes, for its owner alone", inputs.secret_file, read->bytes().size()), ""};
}

Finding backlog(const DoctorInputs& inputs) {
  const uint64_t most =
      leading_number(inputs.system.read("/proc/sys/net/core/somaxconn").value_or("")).value_or(0);
  Finding finding{"backlog", Health::kOk, fmt::format("{} connections may wait to be accepted", most), ""};
  if (most >= kBacklogWanted) return finding;
  finding.health = Health::kWarn;
  finding.mend = fmt::format("sysctl net.core.somaxconn={}", 4 * kBacklogWanted);
  return finding;
}

// The third number of such a file: up to where the kernel lets a socket's buffer grow by itself.
uint64_t largest_buffer(const DoctorInputs& inputs, std::string_view file) {
  std::string text = inputs.system.read(file).value_or("");
  for (char& letter : text) letter = letter == '\t' ? ' ' : letter;
  uint64_t last = 0;
  for (const std::string_view piece : pieces_of(text, ' ')) last = leading_number(piece).value_or(last);
  return last;
}

Finding buffers(const DoctorInputs& inputs, bool is_loopback) {
  const uint64_t receive = largest_buffer(inputs, "/proc/sys/net/ipv4/tcp_rmem");
  const uint64_t send = largest_buffer(inputs, "/proc/sys/net/ipv4/tcp_wmem");
  Finding finding{
      "tcp buffers", Health::kOk,
      fmt::format("grow to {} for receiving, {} for sending", bytes_text(receive), bytes_text(send)), ""};
  if (is_loopback || (receive >= kBufferWanted && send >= kBufferWanted)) return finding;
  finding.health = Health::kWarn;
  finding.found += fmt::format("; 1 GB/s over 10 ms takes {}", bytes_text(kBufferWanted));
  finding.mend = "sysctl net.ipv4.tcp_rmem='4096 131072 33554432' net.ipv4.tcp_wmem='4096 65536 33554432'";
  return finding;
}

}  // namespace

std::vector<Finding> examine_network(const DoctorInputs& inputs) {
  std::vector<Finding> findings = {sockets(inputs)};
  if (!inputs.directory.empty()) findings.push_back(examine_directory(inputs));
  if (inputs.listen_address.empty()) return findings;
  const bool is_running = findings.front().health == Health::kWarn;
  const auto is_loopback = fabric::tcp::is_loopback(inputs.listen_address);
  findings.push_back(port(inputs, is_running));
  findings.push_back(secret(inputs));
  findings.push_back(backlog(inputs));
  findings.push_back(buffers(inputs, is_loopback && *is_loopback));
  return findings;
}

}  // namespace refract::node
