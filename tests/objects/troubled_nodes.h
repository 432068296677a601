// SPDX-License-Identifier: Apache-2.0
// Nodes of a campaign that share their objects over the simulated network, and all that happens to them:
// kills, memories that are lost, hosts that stop, cuts, lists that change node by node, and a Redis that
// forgets.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/objects/directory_outcome.h"

#include "refract/object/testing/test_cluster.h"

namespace refract::campaign {

class TroubledNodes {
 public:
  using SimMember = object::test::SimMember;
  using Note = std::function<void(std::string_view)>;
  struct Options {
    size_t count = 3;
    object::test::RedisProcess* redis = nullptr;  // Has the directory; null: members are homes.
    size_t broadcast_degree = 0;                  // 0: by the plan, which is a star for small objects.
  };
  // `world` and `outcome` outlive the nodes. `note` is told what happens.
  TroubledNodes(sim::World& world, const Options& options, RunOutcome& outcome, Note note);

  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  [[nodiscard]] SimMember& node(std::string_view name);

  // Something may happen to a node, and to the paths between them. True: a memory was lost.
  [[nodiscard]] bool trouble();
  // All is well again.
  void mend();
  // Nothing is left of what was agreed upon or deleted.
  [[nodiscard]] bool are_calm() const;
  // Nothing is given or made: of what a puller did not say that it is done with, the giver thinks so for half
  // a minute.
  [[nodiscard]] bool have_let_go() const;
  // Behind the last trouble: adds up what they have done. Empty: all are calm and sound.
  [[nodiscard]] std::string sum_up();

 private:
  [[nodiscard]] bool chance(double of) { return world_.prng().chance(of); }
  [[nodiscard]] cluster::MemberList make_list();
  void count(const SimMember& node);
  void note(std::string_view what, size_t node) const;
  [[nodiscard]] static size_t claims_at(const SimMember& node) {
    return node.process->owner.directory->home().count_claims();
  }
  void trouble_redis(const SimMember& node, size_t at);
  void cut();
  void heal();
  void follow(SimMember& node);

  sim::World& world_;
  object::test::RedisProcess* const redis_;
  RunOutcome& outcome_;
  const Note note_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<SimMember>> nodes_;
  std::vector<std::pair<size_t, size_t>> cuts_;
  std::optional<cluster::MemberList> list_;
  uint64_t version_ = 0;
};

}  // namespace refract::campaign
