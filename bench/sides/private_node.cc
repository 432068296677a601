// SPDX-License-Identifier: Apache-2.0
#include "bench/sides/private_node.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "bench/measure/measure.h"
#include "bench/measure/tcp_socket.h"

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/memory/host/descriptor.h"

namespace refract::bench {

namespace {

std::vector<std::string> arguments_for(const NodeOptions& options, const std::string& folder) {
  std::vector<std::string> arguments = options.launcher;
  const auto add = [&arguments](const char* flag, std::string value) {
    arguments.emplace_back(flag);
    arguments.push_back(std::move(value));
  };
  arguments.push_back(options.program.empty() ? default_node_program() : options.program);
  add("--config", "/dev/null");
  add("--socket-path", folder + "/node.sock");
  add("--memory-limit", fmt::format("{}B", options.memory_limit_bytes));
  add("--memory-backing", options.backing);
  add("--restart-limit", "1000");
  add("--restart-backoff", "0ns");
  const bool is_bound = options.is_bound && core_count() > 1;
  add("--server-cpu", fmt::format("{}", is_bound ? core_number(1) : -1));
  if (options.shards != 1) add("--server-shards", fmt::format("{}", options.shards));
  if (!options.spin.empty()) add("--server-spin", options.spin);
  if (!options.durability.empty()) {
    add("--data-durability", options.durability);
    add("--data-folder", options.data_folder.empty() ? folder + "/data" : options.data_folder);
  }
  if (!options.eviction.empty()) add("--memory-eviction", options.eviction);
  if (options.objects_limit_bytes != 0)
    add("--objects-limit", fmt::format("{}B", options.objects_limit_bytes));
  if (options.clients_max != 0) add("--clients-max", fmt::format("{}", options.clients_max));
  if (options.snapshots_at_full_speed) add("--data-snapshot-rate", "64TiB");
  arguments.insert(arguments.end(), options.further.begin(), options.further.end());
  return arguments;
}

// Readable by its owner alone, or the node would not have it.
Reported<> write_secret(const std::string& path) {
  const std::string secret = fmt::format("{:016x}{:016x}\n", secure_random_u64(), secure_random_u64());
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file || ::write(file.get(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size())) {
    return report(Code::kSystem, fmt::format("cannot write {}: {}", path, errno_text(errno)));
  }
  return {};
}

// The first lines of its output say so.
bool is_ready(const std::string& log_path) {
  std::ifstream log(log_path);
  for (std::string line; std::getline(log, line);) {
    if (line.starts_with("Refract is ready")) return true;
  }
  return false;
}

// The child of the keeper that is the process of the doors, or the first one that is not; -1: none.
pid_t child_of(pid_t keeper, bool is_doors) {
  for (const pid_t child : test::children_of(keeper)) {
    const std::string name = test::read_whole(fmt::format("/proc/{}/comm", child));
    if ((name == "refract-doors\n") == is_doors) return child;
  }
  return -1;
}

}  // namespace

Reported<PrivateNode> PrivateNode::start(const NodeOptions& options) {
  Reported<test::TemporaryFolder> folder = test::TemporaryFolder::make();
  if (!folder) return report(folder.error());
  const std::string path = folder->path();
  test::Process::Program program{.arguments = arguments_for(options, path),
                                 .output_path = path + "/node.log"};
  std::string tcp_address;
  if (!options.listen_address.empty()) {
    const Reported<uint16_t> port = options.listen_port != 0 ? options.listen_port : free_port();
    if (!port) return report(port.error());
    const std::string where = fmt::format("{}:{}", options.listen_address, *port);
    program.arguments.insert(program.arguments.end(), {"--listen-address", where});
    tcp_address = fmt::format("refract://{}?transport=tcp", where);
    if (!options.listen_address.starts_with("127.")) {
      const std::string secret = path + "/secret";
      if (const Reported<> written = write_secret(secret); !written) return report(written.error());
      program.arguments.insert(program.arguments.end(), {"--auth-secret-file", secret});
      tcp_address += "&secret_file=" + secret;
    }
  }
  uint16_t door_port = 0;
  if (options.has_door) {
    const Reported<uint16_t> port = free_port();
    if (!port) return report(port.error());
    door_port = *port;
    program.arguments.insert(program.arguments.end(),
                             {"--doors-listen", fmt::format("redis:127.0.0.1:{}", door_port)});
  }
  Reported<test::Process> process = start_beside(program);
  if (!process) return report(process.error());

  PrivateNode node(std::move(*folder), std::move(*process));
  node.tcp_address_ = std::move(tcp_address);
  node.door_port_ = door_port;
  const uint64_t end_ns = now_ns() + 120 * kSecond_ns;
  // Where there is much to read from a disk, clients are let in only when all of it is there.
  while (!is_ready(program.output_path) || (options.has_door && node.doors() < 0)) {
    if (!node.process_.is_running() || now_ns() > end_ns) {
      return report(Code::kUnavailable, fmt::format("{} did not start:\n{}", program.arguments[0],
                                                    test::tail_of(program.output_path)));
    }
    sleep_ns(2 * kMillisecond_ns);
  }
  return node;
}

pid_t PrivateNode::server() const {
  return child_of(keeper(), false);
}

pid_t PrivateNode::doors() const {
  return child_of(keeper(), true);
}

uint64_t resident_bytes(const PrivateNode& node, uint64_t region_bytes) {
  const test::ProcessUse keeper = test::use_of(node.keeper());
  const test::ProcessUse server = test::use_of(node.server());
  return keeper.private_bytes + server.private_bytes + region_bytes +
         std::max(keeper.file_bytes, server.file_bytes);
}

std::unexpected<Report> failed(std::string_view call, Code code) {
  return report(code, fmt::format("{} failed: {} ({})", call, info(code).sentence, text(code)));
}

std::string default_node_program() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "refractd").string();
}

}  // namespace refract::bench
