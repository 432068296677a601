// SPDX-License-Identifier: Apache-2.0
// The ids of a campaign, each as long as it may be judged as one register: what clients asked of them and
// were told, and whether any order of that explains it.
//
// A delete that missed a node, or a memory that is lost, ends an id: another one takes its place.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/testing/linearizability/history.h"

namespace refract::campaign {

class JudgedIds {
 public:
  using Operation = linearizability::Operation;
  using Return = linearizability::Recorder::Return;

  explicit JudgedIds(size_t count);

  [[nodiscard]] size_t size() const noexcept { return ids_.size(); }
  [[nodiscard]] const std::string& name(size_t at) const noexcept { return ids_[at].name; }
  // For pictures.
  [[nodiscard]] uint32_t client(std::string_view name) { return recorder_.client(name); }

  // A call that concerns the id at `at`; its key is set here. Returns its number.
  [[nodiscard]] size_t begin(size_t at, Operation call, uint64_t now_ns);
  // It returns. REQUIRES: the id has not ended meanwhile.
  void end(size_t at, size_t operation, const Return& result);
  // Behind end(): the same call has told one more thing.
  void tells_also(size_t operation, const Return& result);
  [[nodiscard]] const Operation& operation(size_t number) { return recorder_.operation(number); }

  // What was not answered by then may have happened or not, and deletes on some nodes.
  void renew(size_t at);
  // From a delete's call on, of which it is not known that it has reached all, nodes may differ.
  void forget_from(size_t erase);
  [[nodiscard]] bool has_put_since(size_t erase);
  // Whether a delete of the same id was under way at any time since this call began.
  [[nodiscard]] bool is_deleted_beside(size_t operation);

  // Something that a person who replays a seed wants to know.
  void note(uint64_t now_ns, std::string_view event);
  // Prints what was said of an id, where one seed is replayed.
  void show(std::string_view name);
  // Empty: some order explains all. Once.
  [[nodiscard]] std::string judge();

 private:
  struct Id {
    std::string name;
    uint32_t key = 0;
    std::vector<size_t> operations = {};  // Under way: they tell nothing if the id ends before they do.
  };
  void show(uint32_t key) const;
  void forget_from(uint64_t began, uint32_t key);
  void forget_gets_beside_deletes();

  linearizability::Recorder recorder_;
  std::vector<Id> ids_;
  uint64_t last_id_ = 0;
  const bool shows_;
  std::vector<std::string> events_;
};

}  // namespace refract::campaign
