// SPDX-License-Identifier: Apache-2.0
// The configurations of a node that change the code behind what README promises: with and without a log, as a
// cache, with several shards, over TCP. A promise is tested in each of them.
#pragma once

#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/process/node_process.h"

namespace refract::test {

struct Configuration {
  const char* name = "";
  const char* durability = "none";
  const char* eviction = "none";
  const char* shards = "1";
  bool by_tcp = false;  // Its clients come over TCP.

  [[nodiscard]] bool has_log() const { return std::string_view(durability) != "none"; }
  [[nodiscard]] bool is_cache() const { return std::string_view(eviction) != "none"; }
};

// In the names of tests and their failures.
void PrintTo(const Configuration& configuration, std::ostream* out);

[[nodiscard]] std::span<const Configuration> configurations();

// A store of a configuration: a folder, and the nodes that serve it, one after the other.
class ConfiguredStore {
 public:
  // `further`: flags for its nodes.
  explicit ConfiguredStore(const Configuration& configuration, std::vector<std::string> further = {});

  // Starts a node, which must be up. REQUIRES: none runs.
  void start();
  // SIGKILL for all processes of the node.
  void kill_everything();
  // SIGTERM; the exit code.
  [[nodiscard]] int stop();

  [[nodiscard]] const Configuration& configuration() const noexcept { return configuration_; }
  [[nodiscard]] Node& node() { return *node_; }
  // As the configuration says.
  [[nodiscard]] Client connect(const ClientOptions& options = {.timeout_ns = kPatience_ns}) const;

 private:
  Configuration configuration_;
  std::vector<std::string> further_;
  TemporaryFolder folder_;
  std::optional<Node> node_;
};

}  // namespace refract::test
