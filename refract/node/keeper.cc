// SPDX-License-Identifier: Apache-2.0
#include "refract/node/keeper.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "refract/base/log.h"
#include "refract/base/units.h"
#include "refract/node/server.h"

namespace refract::node {
namespace {

using fabric::shm::ServerState;

constexpr uint64_t kMinute_ns = 60 * kSecond_ns;

sigset_t keeper_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

std::string cause_of(int status) {
  if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    return std::string("killed by SIG") + (name != nullptr ? name : std::to_string(WTERMSIG(status)));
  }
  return "ended with code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Reported<std::unique_ptr<Keeper>> Keeper::open(const NodeConfig& config) {
  auto space = StoreSpace::open(config);
  if (!space) return report(space.error());
  std::unique_ptr<Keeper> keeper(new Keeper(config, std::move(*space)));
  if (auto opened = keeper->open_meeting(); !opened) return report(opened.error());
  if (auto opened = keeper->open_descriptors(); !opened) return report(opened.error());
  return keeper;
}

Keeper::~Keeper() = default;

Reported<> Keeper::open_meeting() {
  fabric::shm::MeetingOptions options;
  options.path = config_.socket_path;
  options.space_bytes_max = space_.bytes_max();
  options.connections_max = config_.clients_max;
  options.on_attach = [this](const fabric::shm::Attachment& attachment) {
    send({.kind = LinkKind::kAttach, .id = attachment.id}, {attachment.memory_fd, attachment.doorbell_fd});
  };
  options.on_detach = [this](uint64_t id) { send({.kind = LinkKind::kDetach, .id = id}); };
  auto meeting = fabric::shm::Meeting::open(std::move(options));
  if (!meeting) return report(meeting.error());
  meeting_ = std::move(*meeting);
  for (const StoreSpace::Held& held : space_.regions()) {
    if (auto offered = offer(held); !offered) return offered;
  }
  return {};
}

Reported<> Keeper::offer(const StoreSpace::Held& held) {
  auto descriptor = held.region.read_descriptor();
  if (!descriptor) return report(descriptor.error());
  return meeting_->offer_region({.region = held.region.id(),
                                 .base = held.region.base(),
                                 .bytes = held.region.bytes(),
                                 .read_fd = *descriptor,
                                 .key = held.key});
}

Reported<> Keeper::open_descriptors() {
  const sigset_t set = keeper_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!signals_ || !epoll_) {
    return report(Code::kSystem, "cannot watch signals and sockets: " + errno_text(errno),
                  "raise the limit of open files (ulimit -n)");
  }
  for (const int descriptor : {signals_.get(), meeting_->epoll_descriptor()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
  }
  return {};
}

int Keeper::run() {
  // Under a name of its own, so that nobody who kills servers by name kills the node's memory.
  prctl(PR_SET_NAME, "refract-keeper");
  // A process of the same user must not write into the regions through this one (ptrace, /proc/PID/mem).
  prctl(PR_SET_DUMPABLE, 0);
  while (!stopping_) {
    if (server_ < 0 && !gave_up_ && system_clock().now_ns() >= start_at_ns_) start_server();
    if (space_.is_growing() && !populated_) grow();
    wait(timeout_ms());
  }
  stop_server();
  return 0;
}

int Keeper::timeout_ms() const {
  if (space_.is_growing() && !populated_) return 0;
  if (server_ >= 0 || gave_up_) return -1;
  const uint64_t now = system_clock().now_ns();
  return now >= start_at_ns_ ? 0 : static_cast<int>((start_at_ns_ - now) / kMillisecond_ns + 1);
}

void Keeper::wait(int timeout_ms) {
  epoll_event events[8];
  const int count = epoll_wait(epoll_.get(), events, 8, timeout_ms);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.fd == signals_.get()) {
      read_signals();
    } else if (events[i].data.fd == meeting_->epoll_descriptor()) {
      meeting_->poll();
    } else if (events[i].data.fd == link_.descriptor()) {
      read_link();
    }
  }
}

void Keeper::start_server() {
  auto link = make_link();
  if (!link) {
    log_error("{}", link.error().what);
    start_at_ns_ = system_clock().now_ns() + kSecond_ns;
    return;
  }
  meeting_->begin_incarnation();
  const pid_t keeper = getpid();
  const pid_t child = fork();
  if (child == 0) {
    link->keeper.close();
    epoll_ = Descriptor();
    signals_ = Descriptor();
    const sigset_t set = keeper_signals();
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    _exit(run_server({.config = config_,
                      .space = space_,
                      .meeting = *meeting_,
                      .link = std::move(link->server),
                      .keeper = keeper}));
  }
  if (child < 0) {
    log_error("cannot fork the server: {}", errno_text(errno));
    start_at_ns_ = system_clock().now_ns() + kSecond_ns;
    return;
  }
  server_ = child;
  link_ = std::move(link->keeper);
  epoll_event event{.events = EPOLLIN, .data = {.fd = link_.descriptor()}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, link_.descriptor(), &event);
}

void Keeper::read_signals() {
  signalfd_siginfo signal;
  while (read(signals_.get(), &signal, sizeof(signal)) == static_cast<ssize_t>(sizeof(signal))) {
    if (signal.ssi_signo == SIGCHLD) {
      reap();
    } else {
      stopping_ = true;
    }
  }
}

void Keeper::reap() {
  // As process 1 of a container the keeper inherits orphans: all are reaped, only the server's end matters.
  int status = 0;
  for (pid_t child = 0; (child = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (child == server_) on_server_ended(status);
  }
}

void Keeper::on_server_ended(int status) {
  read_link();
  server_ = -1;
  link_.close();
  if (stopping_) return;
  // A region that the server had not taken over yet belongs to the next one, which inherits it.
  if (populated_) finish_growth();
  if (damaged_) {
    give_up("the stored bytes contradict themselves; look at them with: refract check");
    return;
  }
  const uint64_t now = system_clock().now_ns();
  crashes_.push_back(now);
  while (now - crashes_.front() > kMinute_ns) crashes_.pop_front();
  log_warn("the server was {}; nothing that it acknowledged is lost", cause_of(status));
  if (crashes_.size() > config_.restart_limit) {
    give_up("it ended too often within a minute");
    return;
  }
  meeting_->set_server_state(ServerState::kRestarting);
  const uint64_t doublings = std::min<uint64_t>(crashes_.size() - 1, 10);
  start_at_ns_ = crashes_.size() == 1 ? now : now + (config_.restart_backoff_ns << (doublings - 1));
}

void Keeper::give_up(const char* why) {
  gave_up_ = true;
  log_error("the server is not started again: {}", why);
  log_error("clients can still read; save what is there with: refract dump --socket {}", config_.socket_path);
  meeting_->set_server_state(ServerState::kGivenUp);
}

void Keeper::send(const LinkMessage& message, std::initializer_list<int> descriptors) {
  if (server_ < 0) return;
  if (link_.send(message, descriptors)) return;
  // It has just ended, and the signal that says so is on its way; the next server is told by its birth.
  if (errno == EPIPE || errno == ECONNRESET) return;
  // A server that is stopped for long reads nothing until the socket is full. The next one is told by its
  // birth.
  log_warn("the server does not listen; it is started anew");
  kill(server_, SIGKILL);
}

void Keeper::read_link() {
  bool ended = false;
  while (auto received = link_.receive(ended)) {
    const LinkMessage& message = received->message;
    if (message.kind == LinkKind::kServing) {
      meeting_->server_changed();
    } else if (message.kind == LinkKind::kWant) {
      on_want(message.bytes);
    } else if (message.kind == LinkKind::kMapped) {
      if (populated_) finish_growth();
    } else if (message.kind == LinkKind::kDamaged) {
      log_error("the space is damaged at offset {}", message.base);
      damaged_ = true;
    }
  }
  // A socket at its end is readable for ever; what follows is the server's own end.
  if (ended) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link_.descriptor(), nullptr);
}

void Keeper::on_want(uint64_t bytes) {
  if (space_.is_growing()) return;
  const uint64_t region_bytes = space_.next_region_bytes(bytes);
  if (region_bytes == 0) {
    send({.kind = LinkKind::kRefused, .code = static_cast<uint32_t>(Code::kNoSpace)});
    return;
  }
  if (auto begun = space_.begin_growth(region_bytes); !begun) refuse_growth(begun.error());
}

void Keeper::refuse_growth(const Report& why) {
  log_warn("the node cannot grow: {}", why.what);
  if (!why.next.empty()) log_warn("{}", why.next);
  send({.kind = LinkKind::kRefused, .code = static_cast<uint32_t>(Code::kNoSpace)});
}

void Keeper::grow() {
  auto done = space_.grow_some();
  if (!done) {
    refuse_growth(done.error());
    return;
  }
  if (!*done) return;
  populated_ = true;
  if (server_ < 0) {
    finish_growth();
    return;
  }
  const Region& region = space_.growing();
  send({.kind = LinkKind::kMapRegion, .region = region.id(), .base = region.base(), .bytes = region.bytes()},
       {region.write_descriptor()});
}

void Keeper::finish_growth() {
  populated_ = false;
  if (auto finished = space_.finish_growth(); !finished) {
    refuse_growth(finished.error());
    return;
  }
  const StoreSpace::Held& held = space_.regions().back();
  // Readers first: the server must not point into what they cannot map.
  if (auto offered = offer(held); !offered) {
    log_error("{}", offered.error().what);
    return;
  }
  log_info("grown to {} MiB of {} MiB", space_.bytes() / kMiB, space_.bytes_max() / kMiB);
  send({.kind = LinkKind::kRegionReady,
        .region = held.region.id(),
        .base = held.region.base(),
        .bytes = held.region.bytes(),
        .key = held.key.bits});
}

void Keeper::stop_server() {
  meeting_->set_server_state(ServerState::kStopping);
  if (server_ < 0) return;
  kill(server_, SIGTERM);
  kill(server_, SIGCONT);
  // The server has nothing to finish: what it acknowledged is in the regions.
  const uint64_t patience = system_clock().now_ns() + 2 * kSecond_ns;
  while (server_ >= 0 && system_clock().now_ns() < patience) wait(100);
  if (server_ >= 0) {
    kill(server_, SIGKILL);
    waitpid(server_, nullptr, 0);
  }
}

}  // namespace refract::node
