// SPDX-License-Identifier: Apache-2.0
// A durable node on a disk that fails it, and all that a client was told of it.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/process/node_process.h"

#include "refract/base/prng.h"

namespace refract::test {

class WrittenNode {
 public:
  // The folder's parent exists.
  WrittenNode(std::string folder, std::string durability, uint64_t seed)
      : folder_(std::move(folder)), durability_(std::move(durability)), prng_(seed) {}
  WrittenNode(const WrittenNode&) = delete;
  WrittenNode& operator=(const WrittenNode&) = delete;
  ~WrittenNode() = default;

  // Again, when it has ended. Snapshots as often as this says.
  void start(const std::string& snapshot_every = "0ns");
  void kill_everything();
  [[nodiscard]] Node& node() noexcept { return *node_; }
  // A client of some patience: a write that a full disk keeps waiting ends without an answer.
  [[nodiscard]] Client connect() const;

  // A value of its own under some key. Some are so large that the log's ring does not hold them.
  [[nodiscard]] Code put(Client& client);
  // Puts until one is refused because of the log, at most as many as say that none will be. The answers.
  [[nodiscard]] std::map<Code, uint64_t> put_until_refused(Client& client);

  // Nothing, or which key differs from what was acknowledged last and from what may have been stored since.
  [[nodiscard]] std::string difference(Client& client) const;

  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }
  // Sorted.
  [[nodiscard]] std::vector<std::string> files(const std::string& prefix) const;
  // In what the node that runs now, or ran last, said.
  [[nodiscard]] uint64_t times_said(const std::string& words) const;

 private:
  struct Known {
    uint64_t acknowledged = 0;  // A number; 0: none.
    std::vector<uint64_t> perhaps = {};
  };
  std::string folder_;
  std::string durability_;
  Prng prng_;
  std::map<uint64_t, Known> known_;
  uint64_t number_ = 0;
  std::optional<Node> node_;
};

}  // namespace refract::test
