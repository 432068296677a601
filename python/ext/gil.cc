// SPDX-License-Identifier: Apache-2.0
#include "python/ext/gil.h"

#include <cxxabi.h>
#include <unistd.h>

#include "python/ext/errors.h"

namespace refract::python {

void take_gil(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (abi::__forced_unwind&) {
    // The interpreter has ended, and with it this thread, which nothing joins: the process ends now.
    for (;;) (void)::pause();
  }
}

void check_signals() {
  if (PyErr_CheckSignals() != 0) raise_pending();
}

bool is_main_thread() noexcept {
  return ::gettid() == ::getpid();
}

}  // namespace refract::python
