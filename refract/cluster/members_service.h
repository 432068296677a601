// SPDX-License-Identifier: Apache-2.0
// Tells callers the list of nodes: the answering end of members_wire.h.
//
// Threads: used only by its server's shard.
#pragma once

#include <span>

#include "refract/cluster/members.h"
#include "refract/rpc/server.h"

namespace refract::cluster {

class MembersService final : public rpc::Service {
 public:
  // The members outlive the service; each call is answered by what they are then.
  explicit MembersService(const Members& members) noexcept : members_(members) {}

  // REQUIRES: before the first call. The server outlives its calls.
  void answer_through(rpc::Server& server) noexcept { server_ = &server; }

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;

 private:
  void tell(const rpc::IncomingCall& call);

  const Members& members_;
  rpc::Server* server_ = nullptr;
};

}  // namespace refract::cluster
