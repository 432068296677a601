// SPDX-License-Identifier: Apache-2.0
#include "refract/node/keeper/keeper.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>

#include "refract/base/log.h"
#include "refract/base/units.h"
#include "refract/node/config/cluster_nodes.h"
#include "refract/node/server/server.h"

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

// Each client of each shard takes some descriptors; the soft limit of most systems is made for programs that
// call select(), which nothing here does.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

// What epoll says of a descriptor: a kind, and which shard's.
constexpr uint64_t kSignals = 1ULL << 32;
constexpr uint64_t kMeeting = 2ULL << 32;
constexpr uint64_t kLink = 3ULL << 32;
constexpr uint64_t kRings = 4ULL << 32;
constexpr uint64_t kDoors = 5ULL << 32;

// Behind a name's loss: who removes the whole folder is not to find a new file in it.
constexpr uint64_t kMendAfter_ns = 100 * kMillisecond_ns;
// A ring that cannot get its name back now: when it is tried again.
constexpr uint64_t kMendEvery_ns = kSecond_ns;
constexpr uint64_t kMendEveryMax_ns = kMinute_ns;

}  // namespace

Reported<std::unique_ptr<Keeper>> Keeper::open(const NodeConfig& config, const NodeStores& stores) {
  // A process of the same user must not write into the regions through this one (ptrace, /proc/PID/mem), and
  // not take hold of it for later: so before there is a secret or a region.
  prctl(PR_SET_DUMPABLE, 0);
  raise_file_limit();
  std::unique_ptr<Keeper> keeper(new Keeper(config, stores));
  if (auto known = keeper->check_device(); !known) return report(known.error());
  if (auto opened = keeper->open_members(); !opened) return report(opened.error());
  if (auto opened = keeper->open_tcp(); !opened) return report(opened.error());
  if (auto opened = keeper->open_doors(); !opened) return report(opened.error());
  if (auto opened = keeper->open_shards(); !opened) return report(opened.error());
  if (auto opened = keeper->open_descriptors(); !opened) return report(opened.error());
  for (const auto& shard : keeper->shards_) {
    if (auto entered = shard->space().enter(); !entered) return report(entered.error());
  }
  return keeper;
}

Keeper::~Keeper() = default;

void Keeper::look_after_doors() {
  if (!doors_ || stopping_ || doors_->is_running() || system_clock().now_ns() < doors_->start_at_ns()) return;
  doors_->start();
  if (doors_->is_running() && !watch(doors_->link(), kDoors)) {
    log_error("cannot watch the doors: {}", errno_text(errno));
    doors_->start_again();
  }
}

Keeper::Memory Keeper::memory() const noexcept {
  Memory memory{.existed = existed_};
  for (const auto& shard : std::span(shards_).first(config_.server_shards)) {
    memory.bytes += shard->space().bytes();
    memory.bytes_max += shard->space().bytes_max();
  }
  return memory;
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
  bool watched = watch(signals_.get(), kSignals);
  for (size_t index = 0; index < shards_.size(); ++index) {
    watched = watched && watch(shards_[index]->meeting().epoll_descriptor(), kMeeting | index);
  }
  if (data_ && data_->rings().descriptor() >= 0) {
    watched = watched && watch(data_->rings().descriptor(), kRings);
  }
  if (watched) return {};
  return report(Code::kSystem, "cannot watch signals and sockets: " + errno_text(errno));
}

bool Keeper::watch(int descriptor, uint64_t what) const noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = what;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

int Keeper::run(const std::function<void()>& on_ready) {
  // Under a name of its own, so that killing servers by name does not kill the node's memory.
  prctl(PR_SET_NAME, "refract-keeper");
  while (!stopping_) {
    if (wants_mending()) mend_rings();
    if (server_ < 0 && !gave_up_ && system_clock().now_ns() >= start_at_ns_) start_server();
    look_after_shards(on_ready);
    look_after_doors();
    wait(timeout_ms());
    // No client depends on a node that has never been one; its starter should hear of it.
    if (gave_up_ && !was_ready_) break;
  }
  stop_server();
  if (damaged_) return kExitDamaged;
  return (gave_up_ && !was_ready_) || !is_settled_ ? kExitFailed : 0;
}

void Keeper::look_after_shards(const std::function<void()>& on_ready) {
  bool are_serving = server_ >= 0;
  for (const auto& shard : shards_) {
    if (shard->wants_growth()) shard->grow();
    are_serving = are_serving && shard->is_serving();
    if (shard->is_deaf() && server_ >= 0) {
      log_warn("the server does not listen; it is started again");
      kill(server_, SIGKILL);
    }
  }
  if (!are_serving || was_ready_) return;
  was_ready_ = true;
  if (doors_) doors_->node_serves();
  on_ready();
}

bool Keeper::wants_growth() const noexcept {
  return std::ranges::any_of(shards_, [](const auto& shard) { return shard->wants_growth(); });
}

int Keeper::timeout_ms() const {
  if (wants_growth()) return 0;
  uint64_t due = UINT64_MAX;
  if (server_ < 0 && !gave_up_) due = start_at_ns_;
  if (mend_at_ns_ != 0) due = std::min(due, mend_at_ns_);
  if (doors_ && !doors_->is_running()) due = std::min(due, doors_->start_at_ns());
  if (due == UINT64_MAX) return -1;
  const uint64_t now = system_clock().now_ns();
  return now >= due ? 0 : static_cast<int>((due - now) / kMillisecond_ns + 1);
}

void Keeper::wait(int timeout_ms) {
  epoll_event events[8];
  const int count = epoll_wait(epoll_.get(), events, 8, timeout_ms);
  for (int i = 0; i < count; ++i) {
    const uint64_t what = events[i].data.u64;
    const auto index = static_cast<uint32_t>(what);
    if (what == kSignals) {
      read_signals();
    } else if (what == kRings) {
      look_after_rings();
    } else if (what == kDoors) {
      const int link = doors_->link();
      if (link >= 0 && !doors_->take_word()) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link, nullptr);
    } else if (what - index == kMeeting) {
      shards_[index]->meeting().poll();
    } else {
      read_link(*shards_[index]);
    }
  }
}

void Keeper::read_link(KeeperShard& shard) {
  const int descriptor = shard.link_descriptor();
  // It was closed by an event that came before in the same turn.
  if (descriptor < 0) return;
  // A socket at its end is readable for ever; what follows is the server's own end.
  if (!shard.read_link()) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

void Keeper::start_server() {
  std::vector<LinkEnd> links;
  bool ready = prepare_rings();
  for (size_t index = 0; ready && index < shards_.size(); ++index) {
    auto link = shards_[index]->begin_server();
    ready = link && watch(shards_[index]->link_descriptor(), kLink | index);
    if (!link) log_error("{}", link.error().what);
    if (!ready) break;
    links.push_back(std::move(*link));
  }
  const pid_t keeper = getpid();
  const pid_t child = ready ? fork() : -1;
  if (child == 0) become_server(std::move(links), keeper);
  if (child < 0) {
    if (ready) log_error("cannot fork the server: {}", errno_text(errno));
    for (const auto& shard : shards_) shard->drop_link();
    start_at_ns_ = system_clock().now_ns() + kSecond_ns;
    return;
  }
  server_ = child;
}

void Keeper::become_server(std::vector<LinkEnd> links, pid_t keeper) {
  epoll_ = Descriptor();
  signals_ = Descriptor();
  if (doors_) doors_->leave_to_keeper();
  const sigset_t set = keeper_signals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ServerBirth birth{.config = config_,
                    .shards = {},
                    .listener = listener_.get(),
                    .secret = secret_.bytes().empty() ? nullptr : &secret_,
                    .cluster_secret = cluster_secret_.bytes().empty() ? nullptr : &cluster_secret_,
                    .keeper = keeper};
  for (const auto& shard : shards_) {
    const ShardPlan& plan = shard->plan();
    shard->drop_link();
    birth.shards.push_back({.config = config_,
                            .plan = plan,
                            .space = shard->space(),
                            .meeting = shard->meeting(),
                            .link = std::move(links[plan.index]),
                            .members = plan.knows_members && members_ ? &*members_ : nullptr,
                            .cluster_secret = birth.cluster_secret,
                            .redis_secret = redis_secret_.bytes().empty() ? nullptr : &redis_secret_,
                            .data = plan.is_on_disk ? &*data_ : nullptr});
  }
  _exit(run_server(std::move(birth)));
}

void Keeper::read_signals() {
  signalfd_siginfo signal;
  while (read(signals_.get(), &signal, sizeof(signal)) == static_cast<ssize_t>(sizeof(signal))) {
    if (signal.ssi_signo == SIGCHLD) {
      reap();
    } else if (signal.ssi_signo == SIGHUP && members_) {
      reload_members(config_, *members_);
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
    if (doors_ && child == doors_->process()) doors_->on_ended(cause_of(status));
  }
}

void Keeper::on_server_ended(int status) {
  server_ = -1;
  for (const auto& shard : shards_) {
    shard->on_server_ended();
    damaged_ = damaged_ || shard->is_damaged();
  }
  if (stopping_) return;
  if (damaged_) {
    give_up("the stored bytes contradict themselves");
    return;
  }
  if (!was_ready_ && WIFEXITED(status) && WEXITSTATUS(status) == kExitRefused) {
    give_up("it cannot run as the configuration asks");
    return;
  }
  const uint64_t now = system_clock().now_ns();
  if (std::exchange(ends_server_, false)) {
    set_server_state(ServerState::kRestarting);
    start_at_ns_ = now;
    return;
  }
  met_bus_error_ = WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
  crashes_.push_back(now);
  while (now - crashes_.front() > kMinute_ns) crashes_.pop_front();
  log_warn("the server was {}; the memory is the keeper's, and is looked through before the next one serves",
           cause_of(status));
  if (crashes_.size() > config_.restart_limit) {
    give_up("it ended too often within a minute");
    return;
  }
  set_server_state(ServerState::kRestarting);
  const uint64_t doublings = std::min<uint64_t>(crashes_.size() - 1, 10);
  start_at_ns_ = crashes_.size() == 1 ? now : now + (config_.restart_backoff_ns << (doublings - 1));
}

void Keeper::give_up(const char* why) {
  gave_up_ = true;
  log_error("the server is not started again: {}", why);
  const bool has_files = config_.memory_backing.kind == BackingKind::kFile;
  if (damaged_ && has_files) {
    log_error("look at what is stored with: refract check --path {}", config_.memory_backing.folder);
  }
  if (was_ready_) {
    log_error("clients can still read; save what is there with: refract dump --socket {}",
              config_.socket_path);
  }
  set_server_state(ServerState::kGivenUp);
}

void Keeper::set_server_state(ServerState state) {
  for (const auto& shard : shards_) shard->meeting().set_server_state(state);
}

void Keeper::stop_server() {
  // They speak with the server until their end.
  stop_doors();
  set_server_state(ServerState::kStopping);
  stop_running_server();
  for (const auto& shard : shards_) settled(shard->space().leave());
  if (data_) settle_data();
}

void Keeper::settled(const Reported<>& outcome) {
  if (outcome) return;
  is_settled_ = false;
  (void)fail_with(outcome.error());
}

// What the last server left in rings reaches the disk. The page says that they are empty only if all are.
void Keeper::settle_data() {
  bool is_everything = true;
  for (const auto& shard : shards_) {
    const ShardPlan& plan = shard->plan();
    if (!plan.is_on_disk) continue;
    // A shard that was never filled has nothing to add, and what was refused stays as it is.
    if (shard->space().fill_state() != kFillComplete) {
      is_everything = false;
      continue;
    }
    const Reported<> done = settle_log({.config = config_,
                                        .disk = data_->disk(),
                                        .log = data_->log_of(plan.index),
                                        .ring = data_->ring_of(plan.index),
                                        .space = shard->space().addresses().base(),
                                        .value_of = plan.stores.front().value_of});
    is_everything = is_everything && done.has_value();
    settled(done);
  }
  settled(data_->leave(is_everything));
}

bool Keeper::wants_mending() const noexcept {
  return mend_at_ns_ != 0 && system_clock().now_ns() >= mend_at_ns_;
}

void Keeper::look_after_rings() {
  if (!data_->rings().has_lost_names() || mend_at_ns_ != 0) return;
  log_error("a ring of the log has lost its name in {}; the node still has it, and makes another one",
            config_.data_folder);
  mend_at_ns_ = system_clock().now_ns() + kMendAfter_ns;
  mend_every_ns_ = kMendEvery_ns;
}

// Only a ring that is not in use can be copied, so the server ends meanwhile, for some milliseconds. Where
// there is no room for another one it continues as it is.
void Keeper::mend_rings() {
  mend_at_ns_ = 0;
  auto prepared = data_->rings().prepare();
  Reported<> mended = {};
  if (prepared && !prepared->empty()) {
    if (server_ >= 0) {
      ends_server_ = true;
      kill(server_, SIGKILL);
      int status = 0;
      if (waitpid(server_, &status, 0) == server_) on_server_ended(status);
      ends_server_ = false;
    }
    mended = data_->rings().replace(*std::move(prepared));
    if (mended) log_info("the rings of the log have their names again");
  } else if (!prepared) {
    mended = report(prepared.error());
  }
  if (mended) return;
  if (mend_every_ns_ == kMendEvery_ns) {
    log_error("{}: what was acknowledged since the last sync is lost if all processes of this node die now",
              mended.error().to_string());
  }
  mend_at_ns_ = system_clock().now_ns() + mend_every_ns_;
  mend_every_ns_ = std::min(2 * mend_every_ns_, kMendEveryMax_ns);
}

// For the next server.
bool Keeper::prepare_rings() {
  if (!data_) return true;
  const Reported<bool> replaced = data_->rings().replace_damaged();
  Reported<> done = {};
  if (!replaced) done = report(replaced.error());
  // A ring that was cut explains it.
  if (std::exchange(met_bus_error_, false) && replaced && !*replaced) done = data_->move_rings_to_memory();
  if (!done) log_error("{}", done.error().to_string());
  return done.has_value();
}

void Keeper::stop_doors() {
  if (!doors_) return;
  doors_->ask_to_end();
  const uint64_t patience = system_clock().now_ns() + kSecond_ns;
  while (doors_->is_running() && system_clock().now_ns() < patience) wait(100);
  doors_->end_now();
}

void Keeper::stop_running_server() {
  if (server_ < 0) return;
  // One that stands still continues first: behind its end's signal this one could undo a debugger's.
  kill(server_, SIGCONT);
  kill(server_, SIGTERM);
  // The server has nothing to finish: what it acknowledged is in the regions.
  const uint64_t patience = system_clock().now_ns() + 2 * kSecond_ns;
  while (server_ >= 0 && system_clock().now_ns() < patience) wait(100);
  if (server_ >= 0) {
    kill(server_, SIGKILL);
    waitpid(server_, nullptr, 0);
  }
}

}  // namespace refract::node
