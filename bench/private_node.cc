// SPDX-License-Identifier: Apache-2.0
#include "bench/private_node.h"

#include <fmt/core.h>

#include <filesystem>
#include <utility>

#include "bench/measure.h"

#include "refract/base/units.h"

namespace refract::bench {

Reported<PrivateNode> PrivateNode::start(const NodeOptions& options) {
  Reported<TemporaryFolder> folder = TemporaryFolder::create();
  if (!folder) return report(folder.error());
  const std::string path = folder->path();
  ChildProcess::Program program{.arguments = {}, .log_path = path + "/node.log"};
  program.arguments = {
      options.program.empty() ? default_node_program() : options.program,
      "--config",
      "/dev/null",
      "--socket-path",
      path + "/node.sock",
      "--memory-limit",
      fmt::format("{}B", options.memory_limit_bytes),
      "--memory-backing",
      options.backing,
      "--restart-limit",
      "1000",
      "--restart-backoff",
      "0ns",
      "--server-cpu",
      fmt::format("{}", core_count() > 1 ? core_number(1) : -1),
  };
  program.arguments.insert(program.arguments.end(), options.arguments.begin(), options.arguments.end());
  Reported<ChildProcess> process = ChildProcess::start(program);
  if (!process) return report(process.error());

  PrivateNode node(std::move(*folder), std::move(*process));
  const uint64_t end_ns = now_ns() + 30 * kSecond_ns;
  while (!std::filesystem::exists(node.socket_path_) || node.server() < 0) {
    if (!node.process_.is_running() || now_ns() > end_ns) {
      return report(Code::kUnavailable,
                    fmt::format("{} did not start:\n{}", program.arguments[0], tail_of(program.log_path)));
    }
    sleep_ns(2 * kMillisecond_ns);
  }
  return node;
}

pid_t PrivateNode::server() const {
  const std::vector<pid_t> children = children_of(keeper());
  return children.empty() ? -1 : children.front();
}

std::string default_node_program() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "refractd").string();
}

}  // namespace refract::bench
