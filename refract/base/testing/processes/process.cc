// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/processes/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "refract/base/clock.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"

namespace refract::test {
namespace {

constexpr uint64_t kLook_ms = 2;

void redirect(const std::string& path, int target) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file >= 0) (void)::dup2(file, target);
}

std::string in_proc(pid_t process, std::string_view name) {
  return "/proc/" + std::to_string(process) + "/" + std::string(name);
}

// The fields of /proc/PID/stat behind the name, which may hold blanks; the first is the state.
std::vector<std::string> stat_fields(pid_t process, std::string_view name = "stat") {
  const std::string text = read_whole(in_proc(process, name));
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(text.substr(name_end + 1));
  return {std::istream_iterator<std::string>(rest), std::istream_iterator<std::string>()};
}

// Of processes or threads, as long as they are there.
std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> numbers;
  std::error_code gone;
  for (std::filesystem::directory_iterator at(folder, gone);
       !gone && at != std::filesystem::directory_iterator(); at.increment(gone)) {
    const pid_t number = std::atoi(at->path().filename().c_str());
    if (number > 0) numbers.push_back(number);
  }
  return numbers;
}

// A busy host may let a thread run on for some milliseconds.
bool has_stopped(pid_t process) {
  for (const pid_t thread : numbers_in(in_proc(process, "task"))) {
    const auto fields = stat_fields(process, "task/" + std::to_string(thread) + "/stat");
    if (!fields.empty() && fields[0] != "T" && fields[0] != "t" && fields[0] != "Z") return false;
  }
  return true;
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

Reported<Process> Process::begin(int last_signal, const std::function<int()>& body) {
  (void)std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return report(Code::kSystem, "cannot fork: " + errno_text(errno));
  if (child > 0) return Process(child, last_signal);
  (void)::prctl(PR_SET_PDEATHSIG, last_signal);
  if (::getppid() != parent) ::_exit(126);
  // Ctrl-C of its group is not its parent's.
  (void)::setpgid(0, 0);
  const int code = body();
  (void)std::fflush(nullptr);
  ::_exit(code);
}

Process Process::run(const std::function<int()>& body) {
  return needed(begin(SIGKILL, body));
}

Reported<Process> Process::start(const Program& program) {
  std::vector<std::string> texts = program.arguments;
  std::vector<char*> arguments;
  arguments.reserve(texts.size() + 1);
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  const std::string& executable = program.executable.empty() ? texts[0] : program.executable;
  return begin(program.last_signal, [&] {
    redirect(program.output_path, STDOUT_FILENO);
    redirect(program.errors_path.empty() ? program.output_path : program.errors_path, STDERR_FILENO);
    if (program.before) program.before();
    // A change of the user forgets it.
    (void)::prctl(PR_SET_PDEATHSIG, program.last_signal);
    (void)::execvp(executable.c_str(), arguments.data());
    std::fprintf(stderr, "cannot execute %s: %s\n", executable.c_str(), errno_text(errno).c_str());
    return 127;
  });
}

Process Process::execute(const Program& program) {
  return needed(start(program));
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), last_signal_(other.last_signal_), exit_code_(other.exit_code_) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(last_signal_, other.last_signal_);
  std::swap(exit_code_, other.exit_code_);
  return *this;
}

Process::~Process() {
  if (last_signal_ == SIGKILL) {
    kill_now();
  } else {
    stop();
  }
}

bool Process::has_been_reaped(int wait_options) {
  int status = 0;
  pid_t got = 0;
  do {
    got = ::waitpid(pid_, &status, wait_options);
  } while (got < 0 && errno == EINTR);
  if (got != pid_) return false;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

bool Process::is_running() {
  return !exit_code_ && pid_ > 0 && !has_been_reaped(WNOHANG);
}

void Process::signal(int number) const {
  if (!exit_code_) send_signal(pid_, number);
}

void Process::signal_group(int number) const {
  if (!exit_code_ && pid_ > 1) (void)::kill(-pid_, number);
}

int Process::wait() {
  if (pid_ <= 0 || !becomes_true([this] { return !is_running(); })) return -1;
  return *exit_code_;
}

int Process::wait_for_end() {
  if (pid_ > 0 && !exit_code_) (void)has_been_reaped(0);
  return exit_code_.value_or(-1);
}

void Process::stop() {
  signal(SIGTERM);
  const uint64_t end_ns = system_clock().now_ns() + 10 * kSecond_ns;
  while (is_running() && system_clock().now_ns() < end_ns) sleep_ms(kLook_ms);
  kill_now();
}

void Process::kill_now() {
  if (!is_running()) return;
  send_signal(pid_, SIGKILL);
  (void)has_been_reaped(0);
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

void send_signal(pid_t process, int number) {
  if (process <= 1) return;
  (void)::kill(process, number);
  if (number == SIGSTOP) (void)becomes_true([&] { return has_stopped(process); });
}

std::vector<pid_t> children_of(pid_t parent, bool with_ended) {
  std::vector<pid_t> children;
  for (const pid_t process : numbers_in("/proc")) {
    const auto fields = stat_fields(process);
    if (fields.size() > 1 && (with_ended || fields[0] != "Z") && fields[1] == std::to_string(parent))
      children.push_back(process);
  }
  return children;
}

uint64_t cpu_ticks(pid_t process) {
  const auto fields = stat_fields(process);
  return fields.size() > 12 ? std::stoull(fields[11]) + std::stoull(fields[12]) : 0;
}

ProcessUse use_of(pid_t process) {
  ProcessUse use;
  const std::string threads = in_proc(process, "task");
  for (const pid_t thread : numbers_in(threads)) {
    const std::string folder = threads + "/" + std::to_string(thread);
    // Its first numbers: nanoseconds on a core, where `stat` counts ticks of 10 ms, and ready without one.
    uint64_t cpu_ns = 0;
    uint64_t waited_ns = 0;
    std::istringstream(read_whole(folder + "/schedstat")) >> cpu_ns >> waited_ns;
    use.cpu_ns += cpu_ns;
    use.waited_ns += waited_ns;
    const std::string status = read_whole(folder + "/status");
    const uint64_t own = number_after(status, "\nvoluntary_ctxt_switches");
    use.wake_ups += own;
    use.context_switches += own + number_after(status, "\nnonvoluntary_ctxt_switches");
  }
  const std::string status = read_whole(in_proc(process, "status"));
  use.private_bytes = number_after(status, "\nRssAnon") * kKiB;
  use.shared_bytes = (number_after(status, "\nRssShmem") + number_after(status, "\nHugetlbPages")) * kKiB;
  use.file_bytes = number_after(status, "\nRssFile") * kKiB;
  return use;
}

char state_of(pid_t process) {
  const auto fields = stat_fields(process);
  return fields.empty() ? '\0' : fields[0][0];
}

bool has_ended(pid_t process) {
  // The first thread counts as ended while others still run.
  for (const pid_t thread : numbers_in(in_proc(process, "task"))) {
    const char state = state_of(thread);
    if (state != '\0' && state != 'Z' && state != 'X') return false;
  }
  return true;
}

}  // namespace refract::test
