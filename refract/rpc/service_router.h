// SPDX-License-Identifier: Apache-2.0
// Two services behind one server: each call goes to the one whose methods it names.
//
// Calls reach a service in the order they came, in batches as large as the traffic allows; a batch that is
// for the first service alone, which is the common one, is handed on whole. More than two services are
// routers behind routers.
//
// Threads: used only by the server's shard.
#pragma once

#include <cstdint>
#include <span>

#include "refract/rpc/server.h"

namespace refract::rpc {

class ServiceRouter : public Service {
 public:
  // Methods below `methods_end` are the first service's, all others the second's. Both outlive the router.
  ServiceRouter(Service& first, uint16_t methods_end, Service& second) noexcept
      : first_(first), second_(second), methods_end_(methods_end) {}

  void handle(std::span<const IncomingCall> calls) noexcept override;
  // Both services are told of every session.
  void session_opened(SessionId session) noexcept override;
  void session_closed(SessionId session) noexcept override;

 private:
  [[nodiscard]] bool is_first(const IncomingCall& call) const noexcept {
    return call.header.method < methods_end_;
  }

  Service& first_;
  Service& second_;
  uint16_t methods_end_;
};

}  // namespace refract::rpc
