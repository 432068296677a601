// SPDX-License-Identifier: Apache-2.0
#include "tests/process/configurations.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>

namespace refract::test {
namespace {

constexpr std::array kConfigurations = {
    Configuration{.name = "default"},
    Configuration{.name = "everysec", .durability = "everysec"},
    Configuration{.name = "always", .durability = "always"},
    Configuration{.name = "lru", .eviction = "lru"},
    Configuration{.name = "two_shards", .shards = "2"},
    Configuration{.name = "tcp", .by_tcp = true},
    Configuration{.name = "everysec_lfu", .durability = "everysec", .eviction = "lfu"},
    Configuration{.name = "everysec_two_shards_tcp", .durability = "everysec", .shards = "2", .by_tcp = true},
    Configuration{.name = "always_lru_two_shards", .durability = "always", .eviction = "lru", .shards = "2"},
};

}  // namespace

void PrintTo(const Configuration& configuration, std::ostream* out) {
  *out << configuration.name;
}

std::span<const Configuration> configurations() {
  return kConfigurations;
}

ConfiguredStore::ConfiguredStore(const Configuration& configuration, std::vector<std::string> further)
    : configuration_(configuration), further_(std::move(further)) {}

void ConfiguredStore::start() {
  NodeOptions options{.arguments = {"--memory-initial", "8MiB", "--restart-backoff", "0ns",
                                    "--data-durability", configuration_.durability, "--memory-eviction",
                                    configuration_.eviction, "--server-shards", configuration_.shards}};
  std::vector<std::string>& flags = options.arguments;
  if (configuration_.has_log()) flags.insert(flags.end(), {"--data-folder", folder_.path() + "/data"});
  if (configuration_.by_tcp) flags.insert(flags.end(), {"--listen-address", "127.0.0.1:0"});
  flags.insert(flags.end(), further_.begin(), further_.end());
  node_.emplace(std::move(options));
  ASSERT_TRUE(node_->is_up()) << configuration_.name << ": " << node_->errors();
}

void ConfiguredStore::kill_everything() {
  node_->kill_everything();
  node_.reset();
}

int ConfiguredStore::stop() {
  const int code = node_->stop();
  node_.reset();
  return code;
}

Client ConfiguredStore::connect(const ClientOptions& options) const {
  return configuration_.by_tcp ? node_->connect_tcp(options) : node_->connect(options);
}

}  // namespace refract::test
