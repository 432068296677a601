// SPDX-License-Identifier: Apache-2.0
// A real node for one test: refractd, as built beside the test program, on a socket of its own.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/base/testing/processes/process.h"
#include "refract/client/client.h"

namespace refract::test {

class TestNode {
 public:
  explicit TestNode(std::vector<std::string> flags = {}) : flags_(std::move(flags)) { start(); }
  TestNode(const TestNode&) = delete;
  TestNode& operator=(const TestNode&) = delete;
  ~TestNode() { end(SIGTERM); }

  [[nodiscard]] std::string socket() const { return directory_.path() + "/node.sock"; }
  [[nodiscard]] const std::string& directory() const { return directory_.path(); }
  [[nodiscard]] pid_t keeper() const { return keeper_.pid(); }

  // "127.0.0.1:PORT", as the banner names it, which comes when all shards serve: perhaps after the first
  // socket answers. REQUIRES: the flags ask for it.
  [[nodiscard]] std::string tcp() const {
    std::string address;
    (void)becomes_true([&] {
      std::ifstream log(directory_.path() + "/log");
      bool is_ready = false;
      for (std::string line; std::getline(log, line);) {
        std::istringstream words(line);
        std::string name;
        std::string value;
        if (!(words >> name >> value)) continue;
        if (name == "tcp") address = value;
        is_ready = is_ready || name == "stop";
      }
      return is_ready && !address.empty();
    });
    return address;
  }

  [[nodiscard]] Client connect(const ClientOptions& options = {}) const {
    return connect_to(socket(), options);
  }
  [[nodiscard]] static Client connect_to(const std::string& address, const ClientOptions& options = {}) {
    return needed(Client::connect(address, options));
  }

  // For the next start().
  void set_flags(std::vector<std::string> flags) { flags_ = std::move(flags); }
  // Again on the same socket, after end(). By a thread that outlives the node.
  void start() {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "refractd";
    std::vector<std::string> arguments = {program,         "--config",        "/dev/null",
                                          "--socket-path", socket(),          "--memory-limit",
                                          "192MiB",        "--restart-limit", "1000"};
    arguments.insert(arguments.end(), flags_.begin(), flags_.end());
    keeper_ = Process::execute({.arguments = arguments, .output_path = directory_.path() + "/log"});
    ASSERT_TRUE(becomes_true([&] {
      auto client = Client::connect(socket());
      return client.has_value() && client->ping().has_value();
    })) << "the node did not start; is refractd built beside this test?";
  }

  // Keeper and server at once: what they had in memory is gone.
  void kill_everything() {
    pid_t server = 0;
    {
      auto client = Client::connect(socket());
      // One that has just begun has no server yet, or none that answers.
      if (client && client->ping()) server = static_cast<pid_t>(client->route().server_pid);
    }
    keeper_.signal(SIGKILL);
    if (server > 0) ::kill(server, SIGKILL);
    (void)keeper_.wait();
    (void)becomes_true([&] { return server <= 0 || has_ended(server); });
  }

  void end(int signal) {
    // One that stands still continues before it ends, not after: the leak sanitizer stops a process at its
    // end by a signal of its own, which this one would undo.
    if (signal != SIGKILL) keeper_.signal(SIGCONT);
    keeper_.signal(signal);
    (void)keeper_.wait();
  }

 private:
  TemporaryFolder directory_;
  std::vector<std::string> flags_;
  Process keeper_;
};

inline pid_t server_of(const Client& client) {
  return static_cast<pid_t>(client.route().server_pid);
}

// Bytes that follow from a number, so that what comes back can be checked.
inline std::string value_of(uint64_t number, size_t bytes) {
  std::string value(bytes, '\0');
  uint64_t state = number * 0x9e3779b97f4a7c15U + 1;
  for (size_t at = 0; at < bytes; at += 8) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const uint64_t word = state ^ state >> 32;
    std::memcpy(value.data() + at, &word, std::min<size_t>(8, bytes - at));
  }
  return value;
}

}  // namespace refract::test
