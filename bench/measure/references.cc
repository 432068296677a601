// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/references.h"

#include <fmt/core.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fstream>

#include "refract/base/units.h"

namespace refract::bench {
namespace {

struct Message {
  uint64_t words[8];
};

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  ::syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

}  // namespace

// Two lines each way: the word that says "here is message n", and the message.
struct EchoPartner::Shared {
  alignas(64) std::atomic<uint32_t> active = 0;  // 1: spin, 0: sleep, 2: leave.
  alignas(64) std::atomic<uint64_t> asked = 0;
  alignas(64) Message question = {};
  alignas(64) std::atomic<uint64_t> answered = 0;
  alignas(64) Message answer = {};
};

Reported<std::unique_ptr<EchoPartner>> EchoPartner::start() {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return report(Code::kSystem, "cannot map a page: " + errno_text(errno));
  auto* shared = new (memory) Shared;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return report(Code::kSystem, "cannot fork: " + errno_text(errno));
  if (pid > 0) return std::unique_ptr<EchoPartner>(new EchoPartner(shared, pid));

  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  pin_to_core(1);
  uint64_t turn = 0;
  Message message = {};
  while (true) {
    const uint32_t active = shared->active.load(std::memory_order_acquire);
    if (active == 2) ::_exit(0);
    if (active == 0) {
      futex(shared->active, FUTEX_WAIT, 0);
      continue;
    }
    if (shared->asked.load(std::memory_order_acquire) == turn) {
      _mm_pause();
      continue;
    }
    ++turn;
    std::memcpy(&message, &shared->question, sizeof(message));
    keep(&message);
    std::memcpy(&shared->answer, &message, sizeof(message));
    shared->answered.store(turn, std::memory_order_release);
  }
}

EchoPartner::~EchoPartner() {
  shared_->active.store(2);
  futex(shared_->active, FUTEX_WAKE, INT_MAX);
  ::waitpid(pid_, nullptr, 0);
  ::munmap(shared_, sizeof(Shared));
}

void EchoPartner::ping_pong(Samples& samples) {
  constexpr uint64_t kWarmUp = 1'000;
  constexpr size_t kSamples = 20'000;
  samples.clear();
  shared_->active.store(1);
  futex(shared_->active, FUTEX_WAKE, INT_MAX);
  Message message = {};
  const uint64_t end_ns = now_ns() + kSecond_ns / 2;
  for (uint64_t i = 0; samples.count() < kSamples; ++i) {
    if (i % 64 == 0 && now_ns() > end_ns) break;
    const uint64_t before = ticks_before();
    message.words[0] = ++turn_;
    std::memcpy(&shared_->question, &message, sizeof(message));
    shared_->asked.store(turn_, std::memory_order_release);
    while (shared_->answered.load(std::memory_order_acquire) != turn_) _mm_pause();
    std::memcpy(&message, &shared_->answer, sizeof(message));
    keep(&message);
    const uint64_t ticks = ticks_after() - before;
    if (i >= kWarmUp) samples.record(ticks);
  }
  shared_->active.store(0);
}

double drift(const Reference& before, const Reference& after, Over over) {
  const auto apart = [](double a, double b) {
    if (a <= 0 || b <= 0) return 0.0;
    return std::max(a, b) / std::min(a, b) - 1;
  };
  const double messages = over == Over::kTcp ? apart(before.tcp_polling_ns, after.tcp_polling_ns)
                                             : apart(before.ping_pong_ns, after.ping_pong_ns);
  return std::max(messages, apart(before.memcpy_gb_per_s, after.memcpy_gb_per_s));
}

Reported<std::unique_ptr<References>> References::start(const Timer& timer) {
  if (core_count() < 2) return std::unique_ptr<References>(new References(timer, nullptr, nullptr));
  Reported<std::unique_ptr<EchoPartner>> partner = EchoPartner::start();
  if (!partner) return report(partner.error());
  Reported<std::unique_ptr<TcpEcho>> tcp_echo = TcpEcho::start();
  if (!tcp_echo) return report(tcp_echo.error());
  return std::unique_ptr<References>(new References(timer, std::move(*partner), std::move(*tcp_echo)));
}

References::References(const Timer& timer, std::unique_ptr<EchoPartner> partner,
                       std::unique_ptr<TcpEcho> tcp_echo)
    : timer_(timer),
      partner_(std::move(partner)),
      tcp_echo_(std::move(tcp_echo)),
      source_(4 * kMiB, 's'),
      target_(4 * kMiB, 't'),
      last_(cpu_time()) {}

References::CpuTime References::cpu_time() {
  // "cpu user nice system idle iowait irq softirq steal ...", in ticks.
  std::ifstream file("/proc/stat");
  std::string name;
  file >> name;
  CpuTime time;
  uint64_t ticks = 0;
  for (int column = 0; column < 8 && file >> ticks; ++column) {
    time.total += ticks;
    if (column == 7) time.stolen = ticks;
  }
  return time;
}

double References::memcpy_gb_per_s() {
  std::vector<double> rates;
  for (int i = 0; i < 200; ++i) {
    const uint64_t before = ticks_before();
    std::memcpy(target_.data(), source_.data(), source_.size());
    keep(target_.data());
    const double ns = timer_.ns(ticks_after() - before);
    rates.push_back(static_cast<double>(source_.size()) / ns);
  }
  return spread_of(std::move(rates)).median;
}

double References::tcp_ns(TcpEcho::Mode mode, Samples& samples) {
  const size_t count = mode == TcpEcho::Mode::kPolling ? 2'000 : 300;
  return tcp_echo_->ping_pong(mode, count, samples) ? timer_.ns(samples.quantile_ticks(0.5)) : 0;
}

Reference References::measure() {
  pin_to_core(0);
  if (keeps_first_ && first_) return *first_;
  Reference reference;
  reference.memcpy_gb_per_s = memcpy_gb_per_s();
  if (partner_) {
    Samples samples(20'000);
    partner_->ping_pong(samples);
    reference.ping_pong_ns = timer_.ns(samples.quantile_ticks(0.5));
    reference.tcp_polling_ns = tcp_ns(TcpEcho::Mode::kPolling, samples);
    reference.tcp_blocking_ns = tcp_ns(TcpEcho::Mode::kBlocking, samples);
  }
  std::ifstream("/proc/loadavg") >> reference.load;
  const CpuTime time = cpu_time();
  if (time.total > last_.total) {
    const auto stolen = static_cast<double>(time.stolen - last_.stolen);
    reference.steal_percent = 100 * stolen / static_cast<double>(time.total - last_.total);
  }
  last_ = time;
  if (keeps_first_) first_ = reference;
  return reference;
}

std::string text(const Reference& reference) {
  return fmt::format(
      "shm {:.0f} ns, tcp {:.1f} us polling, {:.1f} us blocking, {:.1f} GB/s, load {:.2f}, steal {:.1f} %",
      reference.ping_pong_ns, reference.tcp_polling_ns * 1e-3, reference.tcp_blocking_ns * 1e-3,
      reference.memcpy_gb_per_s, reference.load, reference.steal_percent);
}

}  // namespace refract::bench
