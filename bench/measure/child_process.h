// SPDX-License-Identifier: Apache-2.0
// A program that the bench runs beside itself, and what the system says about a process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "refract/base/report.h"

namespace refract::bench {

// Ends with its owner, and with the bench if that dies.
class ChildProcess {
 public:
  struct Program {
    std::vector<std::string> arguments;  // The first is the program: a path, or a name looked up in PATH.
    std::string log_path;                // Where its output goes.
    std::string executable = {};         // What is executed under that name; empty: what the name says.
    int cpu = -1;  // The system's number of the core that it may use; -1: all that this process had.
  };
  // A program that cannot be executed ends with 127 and says so in its log.
  [[nodiscard]] static Reported<ChildProcess> start(const Program& program);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  // SIGTERM, and SIGKILL when it has not ended after 10 s.
  void stop();
  [[nodiscard]] bool is_running();
  // Until it ends by itself, unless it has; its exit code, or -1 where a signal ended it.
  [[nodiscard]] int wait();
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

 private:
  explicit ChildProcess(pid_t pid) noexcept : pid_(pid) {}
  [[nodiscard]] bool ended(int wait_options);

  pid_t pid_;  // -1: ended, or moved from.
  int exit_code_ = -1;
};

// Whether a program of that name would be found.
[[nodiscard]] bool is_in_path(const std::string& program);

// A folder below TMPDIR, removed with all that lies in it.
class TemporaryFolder {
 public:
  [[nodiscard]] static Reported<TemporaryFolder> create();
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  explicit TemporaryFolder(std::string path) noexcept : path_(std::move(path)) {}
  std::string path_;
};

// The processes whose parent is `parent`.
[[nodiscard]] std::vector<pid_t> children_of(pid_t parent);

// What /proc shows of a process to everyone; zeros when it is gone.
struct ProcessUse {
  uint64_t cpu_ns = 0;
  uint64_t waited_ns = 0;  // That its threads were ready and others had the core.
  uint64_t context_switches = 0;
  uint64_t private_bytes = 0;  // Resident, anonymous.
  uint64_t shared_bytes = 0;   // Resident, of memfds and other shared memory, huge pages included.
  uint64_t file_bytes = 0;     // Resident, of programs and libraries.
};
[[nodiscard]] ProcessUse use_of(pid_t pid);
// How long this process, and all that it started, have waited for cores so far.
[[nodiscard]] uint64_t family_waited_ns();

// All of a file; empty where there is none.
[[nodiscard]] std::string content_of(const std::string& path);
// The last lines of a file, for the error that mentions it.
[[nodiscard]] std::string tail_of(const std::string& path);

}  // namespace refract::bench
