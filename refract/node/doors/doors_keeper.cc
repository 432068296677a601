// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doors/doors_keeper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <span>
#include <utility>

#include "refract/base/clock.h"
#include "refract/base/log.h"
#include "refract/base/units.h"
#include "refract/fabric/shm/descriptors.h"

namespace refract::node {
namespace {

constexpr uint64_t kPauseFirst_ns = 50 * kMillisecond_ns;
constexpr uint64_t kPauseLongest_ns = 2 * kSecond_ns;
// One that lasted so long shows that the next may follow at once.
constexpr uint64_t kWellAfter_ns = 10 * kSecond_ns;

// Beside this program.
std::string program_path() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string self(path.data(), length > 0 ? static_cast<size_t>(length) : 0);
  return self.substr(0, self.rfind('/') + 1) + std::string(kDoorsProgram);
}

// Behind a fork: nothing but system calls. No descriptor but the link is left, no signal blocked; it dies
// with its keeper.
[[noreturn]] void become_doors(const char* program, int link, pid_t keeper) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(1);
  // Not by way of 3 where another one lies there: dup2 closes that.
  if (link != kDoorsLink && dup2(link, kDoorsLink) < 0) _exit(1);
  (void)fcntl(kDoorsLink, F_SETFD, 0);
  if (close_range(kDoorsLink + 1, ~0U, 0) != 0) _exit(1);
  char* const arguments[] = {const_cast<char*>(program),
                             nullptr};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  char* const environment[] = {nullptr};
  execve(program, arguments, environment);
  _exit(127);
}

}  // namespace

Reported<DoorsKeeper> DoorsKeeper::open(const std::vector<DoorAddress>& addresses, DoorsBirth birth) {
  std::vector<DoorListener> listeners;
  for (const DoorAddress& address : addresses) {
    auto listener = DoorListener::open(address);
    if (!listener) return report(std::move(listener).error());
    if (!listener->is_of_this_host() && birth.password.empty()) {
      return report(Code::kInvalidArgument,
                    fmt::format("{}:{} is reached from other hosts, and nothing is asked of those who come",
                                address.kind, address.place),
                    "set auth.secret_file, or listen on 127.0.0.1");
    }
    if (birth.tcp_port == 0) birth.tcp_port = listener->port();
    listeners.push_back(std::move(*listener));
  }
  birth.is_loading = true;
  return DoorsKeeper(std::move(listeners), std::move(birth));
}

void DoorsKeeper::start() {
  started_ns_ = system_clock().now_ns();
  start_at_ns_ = started_ns_ + kPauseLongest_ns;
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return log_error("cannot start the doors: {}", errno_text(errno));
  }
  link_ = Descriptor(ends[0]);
  const Descriptor theirs(ends[1]);
  const std::string program = program_path();
  const pid_t keeper = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) become_doors(program.c_str(), theirs.get(), keeper);
  if (child < 0) {
    link_ = Descriptor();
    return log_error("cannot fork the doors: {}", errno_text(errno));
  }
  process_ = child;
}

bool DoorsKeeper::take_word() {
  std::array<std::byte, 16> word{};
  const auto received = fabric::shm::receive_message(link_.get(), word, {});
  using Outcome = fabric::shm::ReceivedMessage::Outcome;
  if (received.outcome == Outcome::kNothing) return true;
  if (received.outcome == Outcome::kEnded) return false;
  std::vector<int> descriptors;
  descriptors.reserve(listeners_.size());
  for (const DoorListener& listener : listeners_) descriptors.push_back(listener.descriptor());
  const std::string text = to_text(birth_);
  is_told_ = fabric::shm::send_message(link_.get(), std::as_bytes(std::span(text)), descriptors);
  if (is_told_) return true;
  log_error("cannot tell the doors where to listen: {}", errno_text(errno));
  start_again();
  return false;
}

void DoorsKeeper::node_serves() {
  if (!std::exchange(birth_.is_loading, false) || !is_told_) return;
  const std::array<std::byte, 1> word{};
  if (!fabric::shm::send_message(link_.get(), word)) start_again();
}

void DoorsKeeper::start_again() noexcept {
  if (process_ > 0) (void)::kill(process_, SIGKILL);
}

void DoorsKeeper::leave_to_keeper() noexcept {
  for (DoorListener& listener : listeners_) listener.drop();
  link_ = Descriptor();
}

void DoorsKeeper::on_ended(const std::string& cause) {
  process_ = -1;
  link_ = Descriptor();
  is_told_ = false;
  if (is_ending_) return;
  const uint64_t now_ns = system_clock().now_ns();
  const bool was_well = now_ns - started_ns_ >= kWellAfter_ns;
  pause_ns_ = was_well || pause_ns_ == 0 ? kPauseFirst_ns : std::min(2 * pause_ns_, kPauseLongest_ns);
  start_at_ns_ = now_ns + pause_ns_;
  log_warn("the doors were {}; their connections are lost, and the next process of theirs starts in {} ms",
           cause, pause_ns_ / kMillisecond_ns);
}

void DoorsKeeper::ask_to_end() {
  is_ending_ = true;
  if (process_ <= 0) return;
  // One that stands still continues first.
  (void)::kill(process_, SIGCONT);
  (void)::kill(process_, SIGTERM);
}

void DoorsKeeper::end_now() {
  if (process_ <= 0) return;
  (void)::kill(process_, SIGKILL);
  (void)::waitpid(process_, nullptr, 0);
  process_ = -1;
}

}  // namespace refract::node
