// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/name_lookup.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <utility>

#include "refract/base/units.h"
#include "refract/memory/host/descriptor.h"

namespace refract::fabric::tcp {
namespace {

// Signals are for the program's own threads.
bool start_detached(void* (*body)(void*), void* argument) {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return false;
  sigset_t all;
  sigfillset(&all);
  pthread_t thread;
  const bool started = ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
                       ::pthread_attr_setsigmask_np(&attributes, &all) == 0 &&
                       ::pthread_create(&thread, &attributes, body, argument) == 0;
  ::pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace

struct NameLookup::State {
  explicit State(HostAndPort of) : place(std::move(of)) {}
  const HostAndPort place;
  Descriptor bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex;
  std::condition_variable ended;
  std::optional<Found> found;  // Guarded by mutex.
};

void* NameLookup::run(void* handed) {
  const std::unique_ptr<std::shared_ptr<State>> own(static_cast<std::shared_ptr<State>*>(handed));
  State& state = **own;
  Found found = resolve(state.place, /*numbers_only=*/false);
  const std::scoped_lock guard(state.mutex);
  state.found.emplace(std::move(found));
  state.ended.notify_one();
  const uint64_t one = 1;
  (void)!::write(state.bell.get(), &one, sizeof(one));
  return nullptr;
}

Reported<NameLookup> NameLookup::begin(const HostAndPort& place) {
  auto state = std::make_shared<State>(place);
  if (!state->bell) {
    return report(Code::kSystem, fmt::format("cannot make an event descriptor: {}", errno_text(errno)),
                  "raise the limit on open files (ulimit -n)");
  }
  auto handed = std::make_unique<std::shared_ptr<State>>(state);
  // The thread owns it from its start on.
  std::shared_ptr<State>* const given = handed.release();
  if (!start_detached(run, given)) {
    handed.reset(given);
    return report(Code::kSystem, fmt::format("no thread to look up host '{}'", place.host),
                  "write its address in numbers, or raise the limit on processes (ulimit -u)");
  }
  return NameLookup(std::move(state));
}

int NameLookup::descriptor() const noexcept {
  return state_->bell.get();
}

std::optional<NameLookup::Found> NameLookup::take() {
  const std::scoped_lock guard(state_->mutex);
  return std::exchange(state_->found, std::nullopt);
}

void NameLookup::wait(uint64_t timeout_ns) {
  constexpr uint64_t kWaitMax_ns = 3600 * kSecond_ns;
  std::unique_lock guard(state_->mutex);
  const auto timeout = std::chrono::nanoseconds(std::min(timeout_ns, kWaitMax_ns));
  (void)state_->ended.wait_for(guard, timeout, [&] { return state_->found.has_value(); });
}

Reported<std::vector<SocketAddress>> resolve_within(const HostAndPort& place, uint64_t timeout_ns) {
  if (auto in_numbers = resolve(place, /*numbers_only=*/true)) return in_numbers;
  auto lookup = NameLookup::begin(place);
  if (!lookup) return resolve(place, /*numbers_only=*/false);
  lookup->wait(timeout_ns);
  if (auto found = lookup->take()) return std::move(*found);
  return report(Code::kDeadlineExceeded,
                fmt::format("cannot find host '{}': no name server has answered in time", place.host),
                "look at /etc/resolv.conf, or write the host's address in numbers");
}

}  // namespace refract::fabric::tcp
