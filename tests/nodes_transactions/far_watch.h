// SPDX-License-Identifier: Apache-2.0
// What stands round a node's service of transactions. In every run it sees that a look decides nothing; and
// as a mutation it breaks one of its rules.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "tests/campaign/kv_server.h"

#include "refract/kv/layout/decision_words.h"
#include "refract/kv/layout/transaction_wire.h"
#include "refract/rpc/server.h"

namespace refract::campaign {

class NodeProcess;

class FarWatch final : public rpc::Service {
 public:
  // All outlive the service.
  FarWatch(Mutation mutation, NodeProcess& node, const SharedProcess::Shard& shard,
           rpc::Service& service) noexcept
      : mutation_(mutation), node_(node), shard_(shard), service_(service) {}
  void answer_through(rpc::Server* server) noexcept { server_ = server; }

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_opened(rpc::SessionId session) noexcept override { service_.session_opened(session); }
  void session_closed(rpc::SessionId session) noexcept override;

 private:
  using Method = kv::wire::TransactionMethod;

  void handle(const rpc::IncomingCall& call);
  void hand_on(const rpc::IncomingCall& call) { service_.handle({&call, 1}); }
  void note_part(const rpc::IncomingCall& call);
  void look(const rpc::IncomingCall& call);
  // Without the moment at which other parts expire.
  void decide_timeless(const rpc::IncomingCall& call, size_t part_at);
  void tell_gone(const rpc::IncomingCall& call);
  // True: the call has been answered.
  [[nodiscard]] bool believe(const rpc::IncomingCall& call);
  [[nodiscard]] bool refuse_late(const rpc::IncomingCall& call);

  Mutation mutation_;
  NodeProcess& node_;
  SharedProcess::Shard shard_;
  rpc::Service& service_;
  rpc::Server* server_ = nullptr;
  std::map<uint64_t, std::vector<kv::TransactionName>> parts_;  // By sessions, as they were asked for.
};

}  // namespace refract::campaign
