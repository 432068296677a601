// SPDX-License-Identifier: Apache-2.0
// What calls of the key-value client are given. They are functions of C's API, METH_FASTCALL: a small get
// costs less than what pybind11 takes to find its function (docs/design/072).
//
// Threads: the GIL is held in all of it.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "python/ext/arguments.h"
#include "python/ext/errors.h"

#include "refract/client/types.h"

namespace refract::python {

// The arguments of one call, as METH_FASTCALL | METH_KEYWORDS has them.
struct Arguments {
  PyObject* const* values;
  Py_ssize_t positional;
  PyObject* names;  // Of those behind the positional ones; null: none.
};

// Each argument by the number of its name; null where it was not given. The first `positional` of the names
// may be given by place, and the first `required` of them must be there. Raises TypeError.
void take_arguments(const char* call, const Arguments& given, std::span<const char* const> names,
                    size_t positional, size_t required, std::span<PyObject*> taken);

template <size_t N>
[[nodiscard]] std::array<PyObject*, N> taken(const char* call, const Arguments& given,
                                             const std::array<const char*, N>& names, size_t positional,
                                             size_t required) {
  std::array<PyObject*, N> slots{};
  take_arguments(call, given, names, positional, required, slots);
  return slots;
}

// The bytes of a key that the caller holds: str as UTF-8, or bytes. Raises TypeError; InvalidArgument where
// str has no UTF-8 form.
[[nodiscard]] Bytes key_of(pybind11::handle key);
// The key as it was given, for people: 'a', b'a', or how many bytes where it is long.
[[nodiscard]] std::string shown_key(pybind11::handle key);

// What is put, as long as this lives: bytes, or any other C-contiguous buffer.
class Value {
 public:
  explicit Value(pybind11::handle from);

  [[nodiscard]] Bytes bytes() const noexcept { return bytes_; }

 private:
  std::optional<Source> source_;  // Nothing: they are those of bytes, which never change.
  Bytes bytes_;
};

// None or nothing: 0. Else more than 0 seconds.
[[nodiscard]] uint64_t ttl_ns_of(PyObject* ttl);
// None or nothing: kForever_ms, which leaves it to the client's.
[[nodiscard]] uint64_t timeout_ms_of(PyObject* timeout);
[[nodiscard]] bool flag_of(PyObject* flag);
[[nodiscard]] int64_t addend_of(PyObject* addend);  // Nothing: 1.

// A function of C around one that throws. What was raised is set.
template <typename Call>
[[nodiscard]] PyObject* guarded(Call&& call) noexcept {
  try {
    return std::forward<Call>(call)();
  } catch (pybind11::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

}  // namespace refract::python
