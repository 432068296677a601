// SPDX-License-Identifier: Apache-2.0
// Where the doors listen: the list of doors.listen, and its sockets.
//
// Threads: any; control path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::node {

struct DoorAddress {
  std::string kind;   // "redis"
  std::string place;  // "127.0.0.1:6379", or the path of a Unix socket.

  [[nodiscard]] bool is_path() const noexcept { return place.starts_with('/'); }
  [[nodiscard]] bool operator==(const DoorAddress&) const = default;
};

// "redis:127.0.0.1:6379, redis:/run/redis.sock". kInvalidArgument: which entry, and what is wrong with it.
[[nodiscard]] Reported<std::vector<DoorAddress>> parse_door_addresses(std::string_view text);

// What listens. A path goes with it.
class DoorListener {
 public:
  // A socket that is there already, and at which nothing listens, is replaced. kInUse: something does.
  [[nodiscard]] static Reported<DoorListener> open(const DoorAddress& address);
  DoorListener(const DoorListener&) = delete;
  DoorListener& operator=(const DoorListener&) = delete;
  DoorListener(DoorListener&&) noexcept = default;
  DoorListener& operator=(DoorListener&&) = delete;
  ~DoorListener();

  // Closes it here. A path stays.
  void drop() noexcept { socket_ = Descriptor(); }
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  // As it was opened: the port is a number here that is not 0.
  [[nodiscard]] const DoorAddress& address() const noexcept { return address_; }
  [[nodiscard]] uint16_t port() const noexcept { return port_; }  // 0: a path.
  [[nodiscard]] bool is_of_this_host() const noexcept { return is_of_this_host_; }

 private:
  DoorListener(DoorAddress address, Descriptor socket) noexcept
      : address_(std::move(address)), socket_(std::move(socket)) {}

  DoorAddress address_;
  Descriptor socket_;
  uint16_t port_ = 0;
  bool is_of_this_host_ = true;
};

}  // namespace refract::node
