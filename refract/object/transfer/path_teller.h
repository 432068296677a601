// SPDX-License-Identifier: Apache-2.0
// Tells clients what this node has learned of its ways to other nodes (refract object paths).
//
// Threads: only the shard that owns the objects.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "refract/object/layout/object_paths_wire.h"
#include "refract/object/transfer/path_memory.h"
#include "refract/rpc/server.h"

namespace refract::object {

// A member's name, and what pulls from it have taught: in the order of the list.
using NamedPaths = std::vector<std::pair<std::string, const PathMemory*>>;

class PathTeller final : public rpc::Service {
 public:
  class Source {
   public:
    virtual ~Source() = default;
    [[nodiscard]] virtual NamedPaths paths() const = 0;
  };
  // Outlives this.
  explicit PathTeller(const Source& source) noexcept : source_(source) {}

  // As TransferGiver has it.
  void answer_through(rpc::Server* server) noexcept { server_ = server; }
  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;

 private:
  void tell(const rpc::Responder& to, std::span<const std::byte> body);

  const Source& source_;
  rpc::Server* server_ = nullptr;
};

}  // namespace refract::object
