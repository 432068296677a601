// SPDX-License-Identifier: Apache-2.0
// One run of the directory's campaign: clients of all nodes put, get, delete, rank, keep copies of and
// broadcast a few ids, while the nodes have their troubles; then all that they were told is judged.
//
// Of two puts of one id one succeeds, a get returns what was put and was not deleted, and says that there is
// none only if there is none. A node that a broadcast is told of has the object, and what was deleted is not
// brought back by one. An object of which two copies were counted outlives the loss of any one memory.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/objects/directory_outcome.h"
#include "tests/objects/judged_ids.h"
#include "tests/objects/kept_copies.h"
#include "tests/objects/troubled_nodes.h"

#include "refract/object/testing/test_cluster.h"
#include "refract/object/testing/test_sim_client.h"

namespace refract::campaign {

struct RunOptions {
  uint64_t seed = 1;
  object::test::RedisProcess* redis = nullptr;  // Has the directory, and is emptied; null: members are homes.
};

class DirectoryRun {
 public:
  explicit DirectoryRun(const RunOptions& options);
  // Once.
  [[nodiscard]] RunOutcome run();

 private:
  static constexpr size_t kIds = 6;
  static constexpr uint64_t kRun_ns = kSecond_ns;
  static constexpr uint64_t kPatience_ns = 200 * kSecond_ns;

  struct Worker {
    std::unique_ptr<object::test::SimClient> client;
    uint32_t number = 0;
    uint64_t call = 0;  // 0: none is under way.
    object::wire::Method method{};
    size_t operation = 0;
    size_t id = 0;
    std::string name = {};  // Of the id when it was begun.
    bool has_put = false;   // Its last call has made the object of that id.
    uint64_t begun = 0;     // kCopies: KeptCopies::begin().
  };

  [[nodiscard]] bool chance(double of) { return world_.prng().chance(of); }

  // --- What clients ask ---
  void work(Worker& worker);
  void wish(Worker& worker);
  void start(Worker& worker, JudgedIds::Operation call, const std::string& body);
  void start_get(Worker& worker);
  void start_broadcast(Worker& worker);
  void start_put(Worker& worker);
  void start_delete(Worker& worker);

  // --- What they are told ---
  void finish(Worker& worker);
  void ranked(const object::test::Answer& answer, JudgedIds::Return& result);
  void got(const object::test::Answer& answer, JudgedIds::Return& result);
  void finish_broadcast(const Worker& worker, const object::test::Answer& answer, JudgedIds::Return result);
  // What a node has that a broadcast told of.
  [[nodiscard]] JudgedIds::Return brought_to(const Worker& worker, const std::string& node);
  // False: the id has ended.
  [[nodiscard]] bool erased(const Worker& worker, const object::test::Answer& answer,
                            JudgedIds::Return& result);

  // --- The end ---
  void calm();
  // All nodes say the same of each id, and that is judged with the rest.
  void compare();
  void expect_kept(const std::string& id);
  void expect_gone(const std::string& id);

  const bool waits_for_idle_;  // Half a minute, which is long for a simulation: some runs.
  sim::World world_;
  RunOutcome outcome_;
  JudgedIds ids_{kIds};
  TroubledNodes nodes_;
  std::vector<Worker> workers_;
  KeptCopies kept_;
  std::vector<std::string> gone_;  // Ids whose delete missed some nodes.
  uint64_t last_value_ = 0;
};

}  // namespace refract::campaign
