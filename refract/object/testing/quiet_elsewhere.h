// SPDX-License-Identifier: Apache-2.0
// Other nodes of which nothing is heard: what a test asks of them it answers itself, in a class of its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/object/owner/elsewhere.h"

namespace refract::object::test {

// Grants all claims; no other call is ever answered, and no session is a node's.
class QuietElsewhere : public Elsewhere {
 public:
  void answer_to(Asker* /*asker*/) noexcept override {}
  [[nodiscard]] bool needs_claim(std::string_view /*id*/) const noexcept override { return false; }
  [[nodiscard]] std::optional<Code> claim(std::string_view /*id*/, uint64_t /*birth*/,
                                          uint64_t /*ticket*/) override {
    return Code::kOk;
  }
  void unclaim(std::string_view /*id*/, uint64_t /*birth*/) override {}
  void want(std::string_view /*id*/, uint64_t /*arrival*/, const PullWish& /*wish*/) override {}
  void remove(std::string_view /*id*/, uint64_t /*birth*/, uint64_t /*ticket*/) override {}
  void locate(std::string_view /*id*/, TakeLocated /*take*/) override {}
  void set_copies(std::string_view /*id*/, uint64_t /*birth*/, uint8_t /*wanted*/, uint64_t /*until_ns*/,
                  TakeCopies /*take*/) override {}
  void rank(std::vector<std::string> /*ids*/, uint64_t /*until_ns*/, TakeRanked /*take*/) override {}
  void broadcast(std::string_view /*id*/, std::vector<std::string> /*nodes*/, uint64_t /*until_ns*/,
                 TakeBroadcasted /*take*/) override {}
  void release(uint64_t /*bytes*/) override {}
  [[nodiscard]] std::vector<std::string> away() const override { return {}; }
  void sealed(std::string_view /*id*/, const Object& /*object*/) override {}
  void deleted(std::string_view /*id*/, const Object& /*object*/) override {}
  [[nodiscard]] bool is_node(rpc::SessionId /*session*/) const noexcept override { return false; }
  void passed_on(rpc::SessionId /*session*/, std::string_view /*id*/) override {}
  [[nodiscard]] bool may_fetch(rpc::SessionId /*session*/) const noexcept override { return true; }
};

}  // namespace refract::object::test
