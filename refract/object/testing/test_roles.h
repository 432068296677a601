// SPDX-License-Identifier: Apache-2.0
// Who is a node, for tests that have no secrets.
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "refract/object/directory/directory_wire.h"
#include "refract/rpc/server.h"

namespace refract::object::test {

// Sessions in the node role are those that call as nodes do: for tests that have no secrets.
class Roles final : public rpc::Service {
 public:
  explicit Roles(rpc::Service& behind) : behind_(behind) {}
  void handle(std::span<const rpc::IncomingCall> calls) noexcept override {
    for (const rpc::IncomingCall& call : calls) {
      if (call.header.method >= wire::kDirectoryMethodsBegin) nodes_.insert(call.from.session.bits);
    }
    behind_.handle(calls);
  }
  void session_opened(rpc::SessionId session) noexcept override { behind_.session_opened(session); }
  void session_closed(rpc::SessionId session) noexcept override {
    behind_.session_closed(session);
    nodes_.erase(session.bits);
  }
  [[nodiscard]] bool is_node(rpc::SessionId session) const { return nodes_.contains(session.bits); }

 private:
  rpc::Service& behind_;
  std::set<uint64_t> nodes_;
};

}  // namespace refract::object::test
