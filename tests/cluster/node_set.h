// SPDX-License-Identifier: Apache-2.0
// Nodes that belong together: each in processes of its own, with a list in a file that all of them read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/process/node_process.h"

#include "refract/base/testing/processes/process.h"
#include "refract/client/client.h"

namespace refract::test {

class NodeSet {
 public:
  struct Options {
    std::vector<std::string> arguments = {};  // Further flags of each; kName stands for its own.
    std::string list = {};                    // Empty: version 1, with addresses at which no node is.
    std::string program = {};                 // Empty: refractd.
  };
  static constexpr std::string_view kName = "{name}";
  // Starts one node for each name, one after the other.
  explicit NodeSet(std::vector<std::string> names) : NodeSet(std::move(names), {}) {}
  NodeSet(std::vector<std::string> names, const Options& options);

  [[nodiscard]] size_t size() const noexcept { return names_.size(); }
  [[nodiscard]] const std::string& name(size_t index) const noexcept { return names_[index]; }
  [[nodiscard]] Node& node(size_t index) noexcept { return *nodes_[index]; }
  [[nodiscard]] const std::string& list_path() const noexcept { return list_path_; }

  // The list of a version with the addresses at which the nodes listen, and what further lines say.
  [[nodiscard]] std::string true_list(uint64_t version, const std::string& further = {}) const;
  // Puts another list into the file, in one step, as an operator should.
  void write_list(const std::string& text) const;
  // Tells all nodes to look at the file again.
  void hang_up();
  // Both; then waits until all nodes that run tell the list, which has this version, to clients.
  void move_to(const std::string& list, uint64_t version);
  // Starts one that has ended again, at its address and with the list that is in the file now. Its Node is
  // another one.
  void start_again(size_t index);

 private:
  [[nodiscard]] std::unique_ptr<Node> started(const std::string& name, const std::string& address) const;

  TemporaryFolder folder_;
  Options options_;
  std::string list_path_ = folder_.path() + "/nodes";
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

// "7 *a=10.0.0.1:7400 b=10.0.0.2:7400": what a node tells; "unsupported" and the like where it does not.
[[nodiscard]] std::string told_by(Client& client);
// Waits until a node tells a list of this version. Returns what it tells then.
[[nodiscard]] std::string told_when(Client& client, uint64_t version);

}  // namespace refract::test
