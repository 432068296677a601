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
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "refract/client/link/address.h"
#include "refract/cluster/members_call.h"
#include "refract/cluster/placement.h"
#include "refract/cluster/routing.h"

namespace refract::client {

class KnownNodes {
 public:
  static constexpr size_t kMax = 2 * cluster::kMembersMax;
  using Identity = std::array<uint64_t, 2>;

  // Where a client begins.
  struct First {
    cluster::ToldMembers told;
    Target target;  // Where the node that told is.
  };

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

  // Of the first thread that found one. Nothing: none has, or the node that was found is alone.
  [[nodiscard]] std::optional<First> first() const {
    const std::scoped_lock lock(mutex_);
    return first_;
  }
  void begin_with(First first) {
    const std::scoped_lock lock(mutex_);
    first_ = std::move(first);
  }

  // By these names. As long as this: it takes milliseconds to make one, and 64 KiB.
  [[nodiscard]] const cluster::Routing& routing_of(const cluster::MemberList& list) {
    const std::scoped_lock lock(mutex_);
    for (const auto& one : routings_) {
      if (cluster::have_same_names(one->list, list)) return one->routing;
    }
    routings_.push_back(std::make_unique<Made>(list));
    return routings_.back()->routing;
  }

 private:
  struct Made {
    explicit Made(const cluster::MemberList& of) : list(of), routing(of) {}
    cluster::MemberList list;
    cluster::Routing routing;
  };

  mutable std::mutex mutex_;
  std::map<Identity, cluster::ToldMembers> told_;
  std::optional<First> first_;
  std::vector<std::unique_ptr<const Made>> routings_;
};

}  // namespace refract::client
