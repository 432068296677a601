// SPDX-License-Identifier: Apache-2.0
// What nodes have told of the list of nodes, for all threads of a client: each has connections of its own,
// and would ask again. A node's names are fixed for its life; addresses may be newer by now.
//
// Bounded: nodes that are no more are forgotten, and asked again if they are.
// Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "refract/cluster/members_call.h"

namespace refract::client {

class KnownNodes {
 public:
  static constexpr size_t kMax = 2 * cluster::kMembersMax;
  using Identity = std::array<uint64_t, 2>;

  // Nothing: it was not asked yet.
  [[nodiscard]] std::optional<cluster::ToldMembers> told_by(const Identity& node) const {
    const std::scoped_lock lock(mutex_);
    const auto found = told_.find(node);
    return found == told_.end() ? std::nullopt : std::optional(found->second);
  }
  void note(const Identity& node, const cluster::ToldMembers& told) {
    const std::scoped_lock lock(mutex_);
    if (told_.size() >= kMax) told_.clear();
    told_.insert_or_assign(node, told);
  }

 private:
  mutable std::mutex mutex_;
  std::map<Identity, cluster::ToldMembers> told_;
};

}  // namespace refract::client
