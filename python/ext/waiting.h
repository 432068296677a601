// SPDX-License-Identifier: Apache-2.0
// A call of the key-value client that waits, or copies much: without the lock of the interpreter, ended by a
// signal whose handler raises (of the main thread), and by a timeout of its own.
//
// Threads: each object is for the thread that made it. The GIL is held when it is made, and again when it has
// gone.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <utility>

#include "python/ext/gil.h"

namespace refract::python {

class Waiting {
 public:
  // `client` names what is called: a handler of a signal that runs meanwhile must not call it, and
  // `refuse_in_handler` says so. `timeout_ms`: kForever_ms leaves it to the client's.
  Waiting(const void* client, uint64_t timeout_ms);
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting();

  // What ClientOptions::may_wait_ns asks.
  [[nodiscard]] static uint64_t may_wait_ns();
  // Whether any call of this thread waits, further up its stack.
  [[nodiscard]] static bool is_any() noexcept { return latest_ != nullptr; }
  // Raises where this runs inside of a handler of a signal that came while the same client was waiting.
  static void refuse_in_handler(const void* client, const char* call);

  // `call` has the GIL.
  template <typename Call>
  auto with_gil(Call&& call) {
    take_gil(state_);
    auto result = std::forward<Call>(call)();
    state_ = PyEval_SaveThread();
    return result;
  }

 private:
  [[nodiscard]] uint64_t ask();

  // Initial-exec, as a call to find it would cost as much as a small get.
  [[gnu::tls_model("initial-exec")]] static thread_local constinit Waiting* latest_;

  const void* client_;
  Waiting* outer_;
  PyThreadState* state_;
  uint64_t timeout_ms_;
  uint64_t begun_ns_ = 0;  // Where it has a timeout.
  bool was_asked_ = false;
  bool is_over_ = false;
  bool is_in_handler_ = false;
};

// `call` touches nothing of Python. Raises what a handler of a signal raised, and what `client` refuses.
template <typename Call>
auto waited(const void* client, uint64_t timeout_ms, Call&& call) {
  auto result = [&] {
    const Waiting waiting(client, timeout_ms);
    return std::forward<Call>(call)();
  }();
  if (PyErr_Occurred() != nullptr) throw pybind11::error_already_set();
  return result;
}

}  // namespace refract::python
