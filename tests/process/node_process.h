// SPDX-License-Identifier: Apache-2.0
// Real processes for tests: a node (refractd as it is built), and children that run a function.
//
// Everything started here is killed when its owner goes, and when the test itself dies. Nothing here asserts
// on time: deadlines are so long that only what hangs meets them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "refract/client/client.h"

namespace refract::test {

// After so long something hangs, however slow the machine is.
inline constexpr uint64_t kPatience_ns = 120'000'000'000;

void sleep_ms(uint64_t milliseconds);
// Asks again and again; false: not within kPatience_ns.
[[nodiscard]] bool becomes_true(const std::function<bool()>& condition);

// A folder below TMPDIR, open to other users, removed with all that lies in it.
class TestFolder {
 public:
  TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder();
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

[[nodiscard]] std::string read_whole(const std::string& path);
[[nodiscard]] bool write_whole(const std::string& path, const std::string& text);

// A process of the test's own, in a process group of its own.
class Process {
 public:
  Process() = default;
  // Runs `body` in a fork; the exit code is what it returns.
  static Process run(const std::function<int()>& body);
  // Executes; output and errors go to these files. 127: it could not. `before` runs in the child first.
  struct Program {
    std::vector<std::string> arguments;
    std::string output_path;
    std::string errors_path;
    std::function<void()> before = {};
  };
  static Process execute(const Program& program);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] bool is_running();
  void signal(int number) const;
  void signal_group(int number) const;
  // Its exit code, 128 + the signal that ended it, or -1 if it hangs.
  [[nodiscard]] int wait();
  // SIGKILL, and waits.
  void kill_now();

 private:
  explicit Process(pid_t pid) noexcept : pid_(pid) {}
  pid_t pid_ = -1;
  std::optional<int> exit_code_;
};

// kill(2), but never to groups or to all processes, which is what a process id that is not known would mean.
void send_signal(pid_t process, int number);
// Those that ended and were not reaped only if asked for.
[[nodiscard]] std::vector<pid_t> children_of(pid_t parent, bool with_ended = false);
// Clock ticks of user and system time; 0: no such process.
[[nodiscard]] uint64_t cpu_ticks(pid_t process);
// What all threads of a process have taken so far; zeros: no such process.
struct ProcessUse {
  uint64_t cpu_ns = 0;    // User and system time.
  uint64_t wake_ups = 0;  // How often they gave up a core to wait for something.
};
[[nodiscard]] ProcessUse use_of(pid_t process);
// The letter of /proc/PID/stat ('T' stopped, 'Z' ended and not reaped); 0: no such process.
[[nodiscard]] char state_of(pid_t process);

// All its threads: what it held is free. One that waits for a disk takes as long as the disk does.
[[nodiscard]] bool has_ended(pid_t process);

struct NodeOptions {
  std::vector<std::string> arguments = {};  // Further flags.
  std::vector<std::string> launcher = {};   // Stands before the program: "unshare --pid ...".
  std::string program = {};                 // Empty: refractd.
  std::function<void()> before = {};        // In the child, before it executes.
  std::string socket_path = {};             // Empty: in the node's folder.
  bool waits = true;                        // For the banner, or the end.
};

// refractd with a socket in a folder of its own, its configuration file ignored.
class Node {
 public:
  // Waits for the banner, which says that every shard serves, or for the end; unless told not to.
  explicit Node(NodeOptions options = {});

  // The banner came.
  [[nodiscard]] bool is_up();
  [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }
  // Where it listens on TCP, as the banner says: "127.0.0.1:7400"; empty: nowhere.
  [[nodiscard]] std::string tcp_address() const;
  [[nodiscard]] Process& process() noexcept { return process_; }
  [[nodiscard]] pid_t keeper() const noexcept { return process_.pid(); }
  // The one that runs now; -1: none.
  [[nodiscard]] pid_t server() const;
  // Waits for one that is not `before`.
  [[nodiscard]] pid_t next_server(pid_t before) const;
  [[nodiscard]] std::string output() const { return read_whole(folder_.path() + "/output"); }
  [[nodiscard]] std::string errors() const { return read_whole(folder_.path() + "/errors"); }
  // SIGKILL to keeper and server, as nearly at one moment as may be: the keeper first, which would bring the
  // server's last changes to the disk. Returns when both are gone.
  void kill_everything();
  // SIGTERM, and the exit code.
  [[nodiscard]] int stop();
  // A client, after waiting for a node that is about to come; fails the test and ends it if there is none.
  [[nodiscard]] Client connect(const ClientOptions& options = {.timeout_ns = kPatience_ns}) const;
  // Likewise, over TCP.
  [[nodiscard]] Client connect_tcp(const ClientOptions& options = {.timeout_ns = kPatience_ns}) const;

 private:
  [[nodiscard]] Client connect_to(const std::string& address, const ClientOptions& options) const;

  TestFolder folder_;
  std::string socket_path_;
  Process process_;
};

}  // namespace refract::test
