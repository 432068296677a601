// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/child_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "bench/measure/measure.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

// What the caller has set for nodes of its own must not reach the ones measured here.
std::vector<std::string> clean_environment() {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("REFRACT_")) kept.emplace_back(*entry);
  }
  return kept;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

uint64_t number_after(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == std::string_view::npos) return 0;
  text.remove_prefix(at + name.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t:"), text.size()));
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool is_in_path(const std::string& program) {
  const char* variable = ::getenv("PATH");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const std::string candidate = std::string(rest.substr(0, colon)) + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return true;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return false;
}

Reported<ChildProcess> ChildProcess::start(const Program& program) {
  std::vector<std::string> arguments = program.arguments;
  const std::string executable = program.executable.empty() ? arguments[0] : program.executable;
  std::vector<std::string> environment = clean_environment();
  const std::vector<char*> argument_pointers = pointers_to(arguments);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return report(Code::kSystem, "cannot fork: " + errno_text(errno));
  if (pid > 0) return ChildProcess(pid);

  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  const int log = ::open(program.log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  // The bench sits on one core; what it starts may use all, unless it is bound itself.
  cpu_set_t every;
  CPU_ZERO(&every);
  if (program.cpu >= 0) CPU_SET(program.cpu, &every);
  for (size_t i = 0; program.cpu < 0 && i < core_count(); ++i) CPU_SET(core_number(i), &every);
  ::sched_setaffinity(0, sizeof(every), &every);
  ::execvpe(executable.c_str(), argument_pointers.data(), environment_pointers.data());
  std::fprintf(stderr, "cannot execute %s: %s\n", executable.c_str(), errno_text(errno).c_str());
  ::_exit(127);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), exit_code_(other.exit_code_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(exit_code_, other.exit_code_);
  return *this;
}

ChildProcess::~ChildProcess() {
  stop();
}

bool ChildProcess::is_running() {
  return pid_ >= 0 && !ended(WNOHANG);
}

int ChildProcess::wait() {
  if (pid_ >= 0) (void)ended(0);
  return exit_code_;
}

bool ChildProcess::ended(int options) {
  int status = 0;
  const pid_t got = ::waitpid(pid_, &status, options);
  if (got == 0) return false;
  exit_code_ = got == pid_ && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  pid_ = -1;
  return true;
}

void ChildProcess::stop() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGTERM);
  const uint64_t end_ns = now_ns() + 10 * kSecond_ns;
  while (is_running()) {
    if (now_ns() > end_ns) ::kill(pid_, SIGKILL);
    sleep_ns(2 * kMillisecond_ns);
  }
}

Reported<TemporaryFolder> TemporaryFolder::create() {
  std::error_code error;
  std::string path = std::filesystem::temp_directory_path(error).string() + "/refract-bench-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return report(Code::kSystem, fmt::format("cannot make the folder {}: {}", path, errno_text(errno)));
  }
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    const std::string status = content_of(entry.path().string() + "/status");
    if (number_after(status, "\nPPid") == static_cast<uint64_t>(parent)) children.push_back(pid);
  }
  return children;
}

ProcessUse use_of(pid_t pid) {
  const std::string folder = fmt::format("/proc/{}/", pid);
  const std::string status = content_of(folder + "status");
  ProcessUse use;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(folder + "task", error)) {
    // schedstat's first numbers: nanoseconds on a core, where `stat` counts ticks of 10 ms, and ready
    // without.
    uint64_t cpu_ns = 0;
    uint64_t waited_ns = 0;
    std::ifstream(thread.path().string() + "/schedstat") >> cpu_ns >> waited_ns;
    use.cpu_ns += cpu_ns;
    use.waited_ns += waited_ns;
    const std::string switches = content_of(thread.path().string() + "/status");
    use.context_switches += number_after(switches, "\nvoluntary_ctxt_switches") +
                            number_after(switches, "\nnonvoluntary_ctxt_switches");
  }
  use.private_bytes = number_after(status, "\nRssAnon") * kKiB;
  use.shared_bytes = (number_after(status, "\nRssShmem") + number_after(status, "\nHugetlbPages")) * kKiB;
  use.file_bytes = number_after(status, "\nRssFile") * kKiB;
  return use;
}

uint64_t family_waited_ns() {
  uint64_t waited_ns = 0;
  std::vector<pid_t> family = {::getpid()};
  for (size_t i = 0; i < family.size(); ++i) {
    waited_ns += use_of(family[i]).waited_ns;
    const std::vector<pid_t> children = children_of(family[i]);
    family.insert(family.end(), children.begin(), children.end());
  }
  return waited_ns;
}

std::string tail_of(const std::string& path) {
  const std::string text = content_of(path);
  constexpr size_t kTail = 600;
  return text.size() <= kTail ? text : text.substr(text.size() - kTail);
}

}  // namespace refract::bench
