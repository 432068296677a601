// SPDX-License-Identifier: Apache-2.0
#include "tests/process/node_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "refract/base/clock.h"

namespace refract::test {
namespace {

constexpr uint64_t kLook_ms = 5;

void redirect(const std::string& path, int target) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file >= 0) (void)::dup2(file, target);
}

// In the child: it dies with the test, and Ctrl-C of its group is not the test's.
void settle(pid_t parent) {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(126);
  (void)::setpgid(0, 0);
}

// The fields of /proc/PID/stat behind the name, which may hold blanks; the first is the state.
std::vector<std::string> stat_fields(pid_t process) {
  const std::string text = read_whole("/proc/" + std::to_string(process) + "/stat");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(text.substr(name_end + 1));
  return {std::istream_iterator<std::string>(rest), std::istream_iterator<std::string>()};
}

}  // namespace

void sleep_ms(uint64_t milliseconds) {
  const timespec pause{.tv_sec = static_cast<time_t>(milliseconds / 1'000),
                       .tv_nsec = static_cast<long>(milliseconds % 1'000 * 1'000'000)};
  (void)::nanosleep(&pause, nullptr);
}

bool becomes_true(const std::function<bool()>& condition) {
  const uint64_t begun_ns = system_clock().now_ns();
  while (!condition()) {
    if (system_clock().now_ns() - begun_ns > kPatience_ns) return false;
    sleep_ms(kLook_ms);
  }
  return true;
}

TestFolder::TestFolder() {
  std::string name = std::filesystem::temp_directory_path() / "refract-test-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    std::perror("cannot make a folder for the test");
    std::abort();
  }
  path_ = name;
  (void)::chmod(path_.c_str(), 0777);
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_whole(const std::string& path) {
  // No stream: those throw when a process ends while its files in /proc are read.
  std::string text;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char piece[4096];
  for (ssize_t got = 0; (got = ::read(file, piece, sizeof(piece))) > 0;) {
    text.append(piece, static_cast<size_t>(got));
  }
  (void)::close(file);
  return text;
}

bool write_whole(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return !file.fail();
}

Process Process::run(const std::function<int()>& body) {
  (void)std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    std::perror("cannot fork");
    std::abort();
  }
  if (child == 0) {
    settle(parent);
    const int code = body();
    (void)std::fflush(nullptr);
    ::_exit(code);
  }
  return Process(child);
}

Process Process::execute(const Program& program) {
  return run([&] {
    redirect(program.output_path, STDOUT_FILENO);
    redirect(program.errors_path, STDERR_FILENO);
    if (program.before) program.before();
    // A change of the user forgets it.
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::vector<char*> arguments;
    for (const std::string& argument : program.arguments) {
      arguments.push_back(const_cast<char*>(argument.c_str()));
    }
    arguments.push_back(nullptr);
    (void)::execvp(arguments[0], arguments.data());
    return 127;
  });
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), exit_code_(other.exit_code_) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(exit_code_, other.exit_code_);
  return *this;
}

Process::~Process() {
  if (pid_ > 0) kill_now();
}

bool Process::is_running() {
  if (exit_code_ || pid_ <= 0) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return true;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return false;
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

void Process::kill_now() {
  if (!is_running()) return;
  send_signal(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void send_signal(pid_t process, int number) {
  if (process > 1) (void)::kill(process, number);
}

std::vector<pid_t> children_of(pid_t parent, bool with_ended) {
  std::vector<pid_t> children;
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return children;
  while (const dirent* entry = ::readdir(folder)) {
    const pid_t process = std::atoi(entry->d_name);
    if (process <= 1) continue;
    const auto fields = stat_fields(process);
    if (fields.size() > 1 && (with_ended || fields[0] != "Z") && fields[1] == std::to_string(parent))
      children.push_back(process);
  }
  (void)::closedir(folder);
  return children;
}

uint64_t cpu_ticks(pid_t process) {
  const auto fields = stat_fields(process);
  return fields.size() > 12 ? std::stoull(fields[11]) + std::stoull(fields[12]) : 0;
}

ProcessUse use_of(pid_t process) {
  static constexpr std::string_view kSwitches = "\nvoluntary_ctxt_switches:";
  ProcessUse use;
  std::error_code gone;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", gone)) {
    // The first number counts nanoseconds, where `stat` has ticks of 10 ms.
    uint64_t cpu_ns = 0;
    std::ifstream(thread.path() / "schedstat") >> cpu_ns;
    use.cpu_ns += cpu_ns;
    const std::string status = read_whole(thread.path() / "status");
    const size_t at = status.find(kSwitches);
    if (at != std::string::npos) use.wake_ups += std::stoull(status.substr(at + kSwitches.size()));
  }
  return use;
}

char state_of(pid_t process) {
  const auto fields = stat_fields(process);
  return fields.empty() ? '\0' : fields[0][0];
}

bool has_ended(pid_t process) {
  // The first thread counts as ended while others still run.
  std::error_code gone;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", gone)) {
    const char state = state_of(std::atoi(thread.path().filename().c_str()));
    if (state != '\0' && state != 'Z' && state != 'X') return false;
  }
  return true;
}

Node::Node(NodeOptions options)
    : socket_path_(options.socket_path.empty() ? folder_.path() + "/node.sock" : options.socket_path) {
  std::vector<std::string> arguments = std::move(options.launcher);
  const std::string program = options.program.empty() ? REFRACTD_PATH : options.program;
  arguments.insert(arguments.end(), {program, "--socket-path", socket_path_});
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  process_ = Process::execute({.arguments = arguments,
                               .output_path = folder_.path() + "/output",
                               .errors_path = folder_.path() + "/errors",
                               .before = options.before});
  if (options.waits) (void)becomes_true([this] { return is_up() || !process_.is_running(); });
}

bool Node::is_up() {
  return output().find("Refract is ready.") != std::string::npos;
}

pid_t Node::server() const {
  const std::vector<pid_t> children = children_of(keeper());
  return children.empty() ? -1 : children.front();
}

pid_t Node::next_server(pid_t before) const {
  pid_t now = -1;
  (void)becomes_true([&] {
    now = server();
    return now > 0 && now != before;
  });
  return now;
}

void Node::kill_everything() {
  const pid_t last = server();
  send_signal(keeper(), SIGKILL);
  send_signal(last, SIGKILL);
  (void)process_.wait();
  (void)becomes_true([last] { return last <= 0 || has_ended(last); });
}

int Node::stop() {
  process_.signal(SIGTERM);
  return process_.wait();
}

std::string Node::tcp_address() const {
  static constexpr std::string_view kLine = "\n  tcp      ";
  const std::string text = output();
  const size_t start = text.find(kLine);
  if (start == std::string::npos) return {};
  const size_t begin = start + kLine.size();
  return text.substr(begin, text.find(' ', begin) - begin);
}

Client Node::connect(const ClientOptions& options) const {
  return connect_to(socket_path_, options);
}

Client Node::connect_tcp(const ClientOptions& options) const {
  return connect_to("tcp:" + tcp_address(), options);
}

Client Node::connect_to(const std::string& address, const ClientOptions& options) const {
  auto client = Client::connect(address, options);
  if (client) return std::move(*client);
  std::fprintf(stderr, "no client: %s\nthe node said:\n%s\n", client.error().to_string().c_str(),
               errors().c_str());
  std::abort();
}

}  // namespace refract::test
