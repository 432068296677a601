// SPDX-License-Identifier: Apache-2.0
#include "python/ext/kv_arguments.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "python/ext/gil.h"

namespace refract::python {

namespace py = pybind11;

namespace {

constexpr const char* kInstead = "pickle.dumps(value) makes bytes of most objects, and str.encode() of text";

std::string type_of(py::handle object) {
  return "'" + std::string(Py_TYPE(object.ptr())->tp_name) + "'";
}

std::string counted(size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// Which of the names this is; as many as there are: none.
size_t place_of(PyObject* name, std::span<const char* const> names) {
  size_t place = 0;
  while (place < names.size() && PyUnicode_CompareWithASCIIString(name, names[place]) != 0) ++place;
  return place;
}

}  // namespace

void take_arguments(const char* call, const Arguments& given, std::span<const char* const> names,
                    size_t positional, size_t required, std::span<PyObject*> taken) {
  const auto by_place = static_cast<size_t>(given.positional);
  if (by_place > positional) {
    raise_type(std::string(call) + "() takes " + counted(positional, "argument") + " by place, not " +
               std::to_string(by_place));
  }
  std::copy_n(given.values, by_place, taken.begin());
  const Py_ssize_t named = given.names == nullptr ? 0 : PyTuple_GET_SIZE(given.names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(given.names, i);
    const size_t place = place_of(name, names);
    const bool is_known = place < names.size();
    if (!is_known || taken[place] != nullptr) {
      raise_type(std::string(call) + (is_known ? "() got twice: " : "() has no argument ") +
                 std::string(py::str(py::handle(name))));
    }
    taken[place] = given.values[given.positional + i];
  }
  for (size_t i = 0; i < required; ++i) {
    if (taken[i] == nullptr) raise_type(std::string(call) + "() misses its argument " + names[i]);
  }
}

Bytes key_of(py::handle key) {
  if (PyBytes_Check(key.ptr()) != 0) {
    return std::string_view(PyBytes_AS_STRING(key.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(key.ptr())));
  }
  if (PyUnicode_Check(key.ptr()) == 0) raise_type("a key is str or bytes, not " + type_of(key));
  Py_ssize_t length = 0;
  // What it makes of other characters than ASCII's stays with the str.
  const char* const utf8 = PyUnicode_AsUTF8AndSize(key.ptr(), &length);
  if (utf8 == nullptr) {
    PyErr_Clear();
    raise_invalid("a key of type 'str' has no UTF-8 form", "pass bytes");
  }
  return std::string_view(utf8, static_cast<size_t>(length));
}

std::string shown_key(py::handle key) {
  constexpr size_t kShown = 80;
  const size_t bytes = key_of(key).size();
  return bytes > kShown ? "a key of " + std::to_string(bytes) + " bytes" : std::string(py::repr(key));
}

Value::Value(py::handle from) {
  if (PyBytes_CheckExact(from.ptr()) != 0) {
    bytes_ =
        std::string_view(PyBytes_AS_STRING(from.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(from.ptr())));
    return;
  }
  source_.emplace(from, "a value", kInstead);
  bytes_ = source_->bytes();
}

uint64_t ttl_ns_of(PyObject* ttl) {
  constexpr uint64_t kMs_ns = 1'000'000;
  // Some 292 years, beyond which an entry's moment fits no 64 bits.
  constexpr uint64_t kMax_ms = std::numeric_limits<int64_t>::max() / kMs_ns;
  if (ttl == nullptr || ttl == Py_None) return 0;
  const uint64_t ms = ms_of(ttl, "ttl");
  if (ms == 0) raise_invalid("ttl is more than 0 seconds", "without ttl an entry stays; erase() removes it");
  return std::min(ms, kMax_ms) * kMs_ns;
}

uint64_t timeout_ms_of(PyObject* timeout) {
  return timeout == nullptr ? kForever_ms : ms_of(timeout, "timeout");
}

bool flag_of(PyObject* flag) {
  if (flag == nullptr) return false;
  const int is_true = PyObject_IsTrue(flag);
  if (is_true < 0) raise_pending();
  return is_true != 0;
}

int64_t addend_of(PyObject* addend) {
  if (addend == nullptr) return 1;
  const py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(addend));
  if (!index) {
    PyErr_Clear();
    raise_type("an addend is a whole number, not " + type_of(addend));
  }
  const long long value = PyLong_AsLongLong(index.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    raise_invalid("an addend has 64 bits with a sign, unlike " + std::string(py::repr(index)));
  }
  return value;
}

}  // namespace refract::python
