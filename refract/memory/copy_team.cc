// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/copy_team.h"

#include <emmintrin.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <string_view>
#include <system_error>

#include "refract/memory/host/descriptor.h"
#include "refract/memory/remote_visible.h"
#include "refract/memory/streaming_copy.h"

namespace refract {

namespace {

// The kernel's line is "0.20 0.18 0.12 1/80 11206": load averages, threads that run of all that there are.
[[nodiscard]] unsigned running_in(std::string_view line) noexcept {
  for (int field = 0; field < 3; ++field) {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) return 0;
    line.remove_prefix(space + 1);
  }
  unsigned running = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), running);
  return error == std::errc() && end != line.data() + line.size() && *end == '/' ? running : 0;
}

// What a thread inherits from the one that starts it.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

unsigned free_cores() noexcept {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (::sched_getaffinity(0, sizeof(mine), &mine) != 0) return 0;
  const auto cores = static_cast<unsigned>(CPU_COUNT(&mine));
  if (cores < 2) return 0;
  const Descriptor file(::open("/proc/loadavg", O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return 0;
  std::array<char, 128> text;
  const ssize_t bytes = ::read(file.get(), text.data(), text.size());
  if (bytes <= 0) return 0;
  // The caller runs, too, so a machine with nothing else to do says 1.
  const unsigned running = running_in({text.data(), static_cast<size_t>(bytes)});
  return running == 0 || running >= cores ? 0 : cores - running;
}

void CopyTrials::note(bool is_helped, uint64_t ns, size_t bytes) noexcept {
  if (round_ < kTrials) {
    double& best = best_[is_helped ? 1 : 0];
    const double cost = static_cast<double>(ns) / static_cast<double>(bytes);
    best = best == 0 ? cost : std::min(best, cost);
  }
  ++round_;
  if (round_ == kTrials) pays_ = best_[1] != 0 && best_[1] * 1.25 <= best_[0];
  if (round_ == kPeriod) *this = {};
}

CopyTeam::~CopyTeam() {
  if (helpers() == 0 || ::getpid() != process_) return;
  is_over_.store(true, std::memory_order_relaxed);
  calls_.fetch_add(1, std::memory_order_release);
  calls_.notify_all();
  for (unsigned i = 0; i < helpers(); ++i) ::pthread_join(threads_[i], nullptr);
}

void CopyTeam::copy(std::byte* target, const std::byte* source, size_t bytes) noexcept {
  if (bytes < kBytesMin || options_.threads_max < 2 || is_taken_.exchange(true, std::memory_order_acquire)) {
    copy_alone(target, source, bytes);
    return;
  }
  const Job job{
      .target = target, .source = source, .bytes = bytes, .pieces = (bytes + kPieceBytes - 1) / kPieceBytes};
  const bool wants_help = trials_.wants_help();
  const unsigned helpers = wants_help ? helpers_for(job.pieces) : 0;
  const uint64_t start_ns = options_.clock.now_ns();
  if (helpers > 0) {
    copy_together(job, helpers);
  } else {
    copy_alone(target, source, bytes);
  }
  // A trial that found no free core is tried again.
  if (wants_help == (helpers > 0)) trials_.note(wants_help, options_.clock.now_ns() - start_ns, bytes);
  is_taken_.store(false, std::memory_order_release);
}

void CopyTeam::copy_alone(std::byte* target, const std::byte* source, size_t bytes) const noexcept {
  if (options_.past_caches) {
    store_streaming(target, source, bytes);
  } else {
    copy_possibly_torn(target, source, bytes);
  }
}

unsigned CopyTeam::helpers_for(size_t pieces) noexcept {
  if (helpers() > 0 && ::getpid() != process_) return 0;
  const auto wanted = static_cast<unsigned>(
      std::min<size_t>({std::min(options_.threads_max, kThreadsMax) - 1, options_.free_cores(), pieces - 1}));
  if (wanted > helpers()) start_up_to(wanted);
  return std::min(wanted, helpers());
}

// Where no more threads can be started, those that are there do.
void CopyTeam::start_up_to(unsigned wanted) noexcept {
  const SignalsBlocked blocked;
  process_ = ::getpid();
  unsigned started = helpers();
  while (started < wanted) {
    // tidy: allow(thread) It touches nothing but the bytes of a copy.
    if (::pthread_create(&threads_[started], nullptr, &CopyTeam::help, this) != 0) break;
    (void)::pthread_setname_np(threads_[started], "refract-copy");
    ++started;
  }
  started_.store(started, std::memory_order_relaxed);
}

void* CopyTeam::help(void* team) noexcept {
  static_cast<CopyTeam*>(team)->help();
  return nullptr;
}

void CopyTeam::copy_together(const Job& job, unsigned helpers) noexcept {
  job_ = job;
  next_piece_.store(0, std::memory_order_relaxed);
  was_helped_.store(false, std::memory_order_relaxed);
  door_.store(kOpen, std::memory_order_release);
  calls_.fetch_add(1, std::memory_order_release);
  for (unsigned i = 0; i < helpers; ++i) calls_.notify_one();
  (void)copy_pieces();
  wait_for_helpers();
  if (was_helped_.load(std::memory_order_relaxed)) shared_.fetch_add(1, std::memory_order_relaxed);
}

// Whether there was one.
bool CopyTeam::copy_pieces() noexcept {
  bool has_copied = false;
  for (;;) {
    const size_t piece = next_piece_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= job_.pieces) return has_copied;
    const size_t at = piece * kPieceBytes;
    copy_alone(job_.target + at, job_.source + at, std::min(kPieceBytes, job_.bytes - at));
    has_copied = true;
  }
}

void CopyTeam::help() noexcept {
  // The call that started it may be the first that it answers.
  uint32_t answered = 0;
  for (;;) {
    calls_.wait(answered, std::memory_order_acquire);
    answered = calls_.load(std::memory_order_acquire);
    if (is_over_.load(std::memory_order_relaxed)) return;
    if (!enter()) continue;
    if (copy_pieces()) was_helped_.store(true, std::memory_order_relaxed);
    leave();
  }
}

bool CopyTeam::enter() noexcept {
  uint32_t door = door_.load(std::memory_order_relaxed);
  while ((door & kOpen) != 0) {
    if (door_.compare_exchange_weak(door, door + 1, std::memory_order_acquire, std::memory_order_relaxed))
      return true;
  }
  return false;
}

void CopyTeam::leave() noexcept {
  if (door_.fetch_sub(1, std::memory_order_release) == 1) door_.notify_one();
}

// A helper may still copy one of the last pieces.
void CopyTeam::wait_for_helpers() noexcept {
  uint32_t inside = door_.fetch_and(~kOpen, std::memory_order_acquire) & ~kOpen;
  for (int looks = 0; inside != 0; ++looks) {
    if (looks < 4096) {
      _mm_pause();
    } else {
      door_.wait(inside, std::memory_order_relaxed);
    }
    inside = door_.load(std::memory_order_acquire);
  }
}

}  // namespace refract
