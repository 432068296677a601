// SPDX-License-Identifier: Apache-2.0
#include "python/ext/waiting.h"

#include <algorithm>
#include <string>

#include "python/ext/errors.h"

namespace refract::python {

namespace {

constexpr uint64_t kMillisecond_ns = 1'000'000;
constexpr uint64_t kForever_ns = std::numeric_limits<uint64_t>::max();

}  // namespace

thread_local constinit Waiting* Waiting::latest_ = nullptr;

Waiting::Waiting(const void* client, uint64_t timeout_ms)
    : client_(client), outer_(latest_), state_(nullptr), timeout_ms_(timeout_ms) {
  if (timeout_ms != kForever_ms) begun_ns_ = now_ns();
  latest_ = this;
  state_ = PyEval_SaveThread();
}

Waiting::~Waiting() {
  take_gil(state_);
  latest_ = outer_;
}

uint64_t Waiting::may_wait_ns() {
  return latest_ == nullptr ? kForever_ns : latest_->ask();
}

uint64_t Waiting::ask() {
  if (is_over_) return 0;
  uint64_t left_ns = kForever_ns;
  if (timeout_ms_ != kForever_ms) {
    const uint64_t whole_ns =
        timeout_ms_ > kForever_ns / kMillisecond_ns ? kForever_ns : timeout_ms_ * kMillisecond_ns;
    left_ns = whole_ns - std::min(whole_ns, now_ns() - begun_ns_);
    is_over_ = left_ns == 0;
    if (is_over_) return 0;
  }
  if (!is_main_thread()) return left_ns;
  // Before the first sleep of a call there is mostly nothing to handle, and the lock is another thread's.
  if (std::exchange(was_asked_, true)) {
    take_gil(state_);
    is_in_handler_ = true;
    is_over_ = PyErr_CheckSignals() != 0;  // What was raised stays set.
    is_in_handler_ = false;
    state_ = PyEval_SaveThread();
    if (is_over_) return 0;
  }
  return std::min(left_ns, kSlice_ms * kMillisecond_ns);
}

void Waiting::refuse_in_handler(const void* client, const char* call) {
  for (const Waiting* one = latest_; one != nullptr; one = one->outer_) {
    if (one->client_ == client && one->is_in_handler_) {
      raise_invalid(
          std::string(call) + " was called by a handler of a signal, while a call of this client waits",
          "set a flag in the handler, or raise there, which ends the call");
    }
  }
}

}  // namespace refract::python
