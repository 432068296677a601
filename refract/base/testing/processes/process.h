// SPDX-License-Identifier: Apache-2.0
// Real processes for tests and for the bench: programs, children that run a function, what the
// system says about a process. What is started here ends when its owner goes, and when this process dies.
//
// Threads: any; an object at a time one.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/report.h"
#include "refract/base/testing/processes/files.h"

namespace refract::test {

// Kept by what has started it, in a process group of its own.
class Process {
 public:
  struct Program {
    std::vector<std::string> arguments;  // The first is the program: a path, or a name looked up in PATH.
    std::string output_path;             // What it prints is appended.
    std::string errors_path = {};        // Empty: where its output goes.
    std::string executable = {};         // What is executed under that name; empty: what the name says.
    int last_signal = SIGKILL;           // What it gets when its owner goes or this process dies.
    std::function<void()> before = {};   // In the child, before it executes.
  };
  Process() = default;
  // Runs `body` in a fork; the exit code is what it returns. Ends the program where none can be had.
  static Process run(const std::function<int()>& body);
  // A program that cannot be executed ends with 127 and says so.
  [[nodiscard]] static Reported<Process> start(const Program& program);
  // Likewise, and ends this program where no process can be had.
  static Process execute(const Program& program);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] bool is_running();
  void signal(int number) const;
  void signal_group(int number) const;
  // Its exit code, 128 + the signal that ended it, or -1 if it hangs.
  [[nodiscard]] int wait();
  // However long it takes; likewise.
  [[nodiscard]] int wait_for_end();
  // SIGTERM, and SIGKILL when it has not ended after 10 s.
  void stop();
  // SIGKILL, and waits.
  void kill_now();

 private:
  Process(pid_t pid, int last_signal) noexcept : pid_(pid), last_signal_(last_signal) {}
  [[nodiscard]] static Reported<Process> begin(int last_signal, const std::function<int()>& body);
  [[nodiscard]] bool has_been_reaped(int wait_options);

  pid_t pid_ = -1;
  int last_signal_ = SIGKILL;
  std::optional<int> exit_code_;
};

// Whether a program of that name would be found.
[[nodiscard]] bool is_in_path(const std::string& program);
// kill(2), but never to groups or to all processes, which is what a process id that is not known would mean.
void send_signal(pid_t process, int number);
// Those that ended and were not reaped only if asked for.
[[nodiscard]] std::vector<pid_t> children_of(pid_t parent, bool with_ended = false);
// Clock ticks of user and system time; 0: no such process.
[[nodiscard]] uint64_t cpu_ticks(pid_t process);

// What all threads of a process have taken so far, and what memory it has; zeros: no such process.
struct ProcessUse {
  uint64_t cpu_ns = 0;            // User and system time.
  uint64_t waited_ns = 0;         // That its threads were ready and others had the core.
  uint64_t wake_ups = 0;          // How often they gave up a core to wait for something.
  uint64_t context_switches = 0;  // These, and how often a core was taken from them.
  uint64_t private_bytes = 0;     // Resident, anonymous.
  uint64_t shared_bytes = 0;      // Resident, of memfds and other shared memory, huge pages included.
  uint64_t file_bytes = 0;        // Resident, of programs and libraries.
};
[[nodiscard]] ProcessUse use_of(pid_t process);
// The letter of /proc/PID/stat ('T' stopped, 'Z' ended and not reaped); 0: no such process.
[[nodiscard]] char state_of(pid_t process);
// All its threads: what it held is free. One that waits for a disk takes as long as the disk does.
[[nodiscard]] bool has_ended(pid_t process);

}  // namespace refract::test
