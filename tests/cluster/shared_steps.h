// SPDX-License-Identifier: Apache-2.0
// One call of a client of three nodes, in the middle of which a process that it needs is killed or stopped:
// what the client is told, and what is left of it on all nodes.
//
// The object is made through node a, which is its holder; its home is b; what is pulled and broadcast is so
// by a client of c.
//
// Threads: one.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "tests/cluster/shared_nodes.h"

#include "refract/base/prng.h"

namespace refract::test {

enum class SharedStep : uint8_t { kCreate, kSeal, kPull, kBroadcast };
enum class StepVictim : uint8_t { kClient, kHome, kHolder, kRedis };
enum class StepBlow : uint8_t {
  kStopped,     // For a second.
  kKilled,      // Its memory stays; another server comes at once.
  kNodeKilled,  // Keeper and server: the memory is lost.
};
struct StepTrouble {
  SharedStep step{};
  StepVictim victim{};
  StepBlow blow{};
};
// "pull, holder killed"
[[nodiscard]] std::string text_of(const StepTrouble& trouble);

class SharedSteps {
 public:
  // The home of all ids, outside of the nodes: how it is hit, and how it comes back.
  struct Outside {
    std::function<void(StepBlow)> hit;
    std::function<void(StepBlow)> mend;
  };
  explicit SharedSteps(SharedNodes& nodes) : SharedSteps(nodes, Outside()) {}
  SharedSteps(SharedNodes& nodes, Outside outside) : nodes_(nodes), outside_(std::move(outside)) {}

  // Empty: the client was told what is true, or an error that its call documents; afterwards the object is
  // whole on all nodes or on none, it can be removed, and no byte and no holder of it is left.
  [[nodiscard]] std::string run(const StepTrouble& trouble);

  // Of all runs: how many blows came before the call had ended, how many calls were done in spite of a stop,
  // and what the clients were told.
  [[nodiscard]] size_t met() const noexcept { return met_; }
  [[nodiscard]] size_t unharmed() const noexcept { return unharmed_; }
  [[nodiscard]] const std::string& told() const noexcept { return told_; }

 private:
  class Caller;
  void hit(const StepTrouble& trouble, Caller& caller);
  [[nodiscard]] std::string mend(const StepTrouble& trouble, Caller& caller);
  [[nodiscard]] std::string judge_answer(const StepTrouble& trouble, Caller& caller);
  [[nodiscard]] Code said_by(size_t node, const std::string& id);
  [[nodiscard]] std::string judge_end(const StepTrouble& trouble, const Caller& caller);

  SharedNodes& nodes_;
  const Outside outside_;
  Prng prng_{1};
  uint64_t runs_ = 0;
  size_t met_ = 0;
  size_t unharmed_ = 0;
  std::string told_;
  pid_t hit_server_ = -1;
};

}  // namespace refract::test
