// SPDX-License-Identifier: Apache-2.0
// An awaitable whose outcome is there: `await` of it stays in the coroutine, and makes no future.
//
// Threads: the GIL is held in all of it.
#pragma once

#include <pybind11/pybind11.h>

#include <utility>

namespace refract::python::aio {

// One with this value, which it takes; null: with what was raised, if that is an Exception, else that stays
// raised, and this is null.
[[nodiscard]] PyObject* ready(PyObject* value);

// The same of what `call() -> PyObject*` returns or throws.
template <typename Call>
[[nodiscard]] PyObject* ready_of(Call&& call) {
  PyObject* value = nullptr;
  try {
    value = std::forward<Call>(call)();
  } catch (pybind11::error_already_set& error) {
    error.restore();
  }
  return ready(value);
}

void add_ready(pybind11::module_& module);

}  // namespace refract::python::aio
