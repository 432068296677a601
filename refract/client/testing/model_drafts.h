// SPDX-License-Identifier: Apache-2.0
// What a model of an owner (model_owner.h) holds of long values: drafts, each of a connection, by their
// handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace refract::test {

class ModelDrafts {
 public:
  // A value has come whole.
  [[nodiscard]] uint64_t begin(int connection) {
    open_[++last_] = connection;
    return last_;
  }
  [[nodiscard]] bool has(uint64_t handle, int connection) const {
    const auto found = open_.find(handle);
    return found != open_.end() && found->second == connection;
  }
  // It is committed, or given back. What is not there stays so.
  void end(uint64_t handle) { open_.erase(handle); }
  void end_of(int connection) {
    std::erase_if(open_, [connection](const auto& one) { return one.second == connection; });
  }
  // The one that was begun first has not been touched for too long.
  void give_up() {
    if (open_.empty()) return;
    open_.erase(open_.begin());
    ++given_up;
  }
  [[nodiscard]] size_t count() const { return open_.size(); }

  size_t given_up = 0;

 private:
  uint64_t last_ = 0;
  std::map<uint64_t, int> open_;
};

}  // namespace refract::test
