// SPDX-License-Identifier: Apache-2.0
#include "python/ext/arguments.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "python/ext/errors.h"
#include "python/ext/gil.h"

#include "refract/client/objects.h"

namespace refract::python {

namespace py = pybind11;

namespace {

std::string type_of(py::handle object) {
  return "'" + std::string(Py_TYPE(object.ptr())->tp_name) + "'";
}

}  // namespace

uint64_t whole_number_of(py::handle number, const char* what, uint64_t largest) {
  // Also numpy's numbers, and none with a fraction.
  const py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(number.ptr()));
  if (!index) {
    PyErr_Clear();
    raise_type(std::string(what) + " is a whole number, not " + type_of(number));
  }
  const unsigned long long value = PyLong_AsUnsignedLongLong(index.ptr());
  const bool is_outside = PyErr_Occurred() != nullptr;
  PyErr_Clear();
  if (is_outside || value > largest) {
    raise_invalid(std::string(what) + " is 0 to " + std::to_string(largest) + ", not " +
                  std::string(py::repr(index)));
  }
  return value;
}

Source::Source(py::handle from, const char* what, const char* instead) {
  if (PyObject_CheckBuffer(from.ptr()) == 0) {
    raise_type(std::string(what) + " is an object with a buffer, such as bytes or a numpy array, not " +
               type_of(from) + "; " + instead);
  }
  if (PyObject_GetBuffer(from.ptr(), &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
    // Some, such as numpy's times, have no format, and bytes all the same.
    PyErr_Clear();
    if (PyObject_GetBuffer(from.ptr(), &view_, PyBUF_C_CONTIGUOUS) != 0) {
      PyErr_Clear();
      view_ = {};
      raise_invalid(std::string(what) + " of type " + type_of(from) + " is not contiguous in the order of C",
                    "pass a copy that is: numpy.ascontiguousarray(array), or bytes(view)");
    }
  }
  if (view_.format != nullptr && std::strchr(view_.format, 'O') != nullptr) {
    PyBuffer_Release(&view_);
    raise_invalid(std::string(what) + " holds references to Python objects, which mean nothing elsewhere",
                  instead);
  }
}

Source::Source(Source&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})) {
  // What the view points to for a buffer of one dimension lies inside of it.
  if (view_.shape == &other.view_.len) view_.shape = &view_.len;
  if (view_.strides == &other.view_.itemsize) view_.strides = &view_.itemsize;
}

Source::~Source() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

std::string id_of(py::handle id) {
  std::string text;
  if (PyUnicode_Check(id.ptr()) != 0) {
    Py_ssize_t length = 0;
    const char* const utf8 = PyUnicode_AsUTF8AndSize(id.ptr(), &length);
    if (utf8 == nullptr) {
      PyErr_Clear();
      raise_invalid("an id of type 'str' has no UTF-8 form", "pass bytes");
    }
    text.assign(utf8, static_cast<size_t>(length));
  } else if (PyObject_CheckBuffer(id.ptr()) != 0) {
    const Source source(id, "an id");
    const auto bytes = source.bytes();
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  } else {
    raise_type("an id is str or bytes, not " + type_of(id));
  }
  if (text.empty() || text.size() > Objects::kIdBytesMax) {
    raise_invalid("an id has 1 to 255 bytes, this one has " + std::to_string(text.size()));
  }
  return text;
}

std::string shown(const std::string& id) {
  return std::string(py::repr(py::bytes(id)));
}

uint64_t ms_of(py::handle seconds, const char* what) {
  if (seconds.is_none()) return kForever_ms;
  if (PyBool_Check(seconds.ptr()) != 0 || PyNumber_Check(seconds.ptr()) == 0) {
    raise_type(std::string(what) + " is a number of seconds or None, not " + type_of(seconds));
  }
  const double value = PyFloat_AsDouble(seconds.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    raise_type(std::string(what) + " is a number of seconds or None, not " + type_of(seconds));
  }
  if (std::isnan(value) || value < 0) {
    raise_invalid(std::string(what) + " is 0 seconds or more, not " + std::string(py::repr(seconds)),
                  "0 does not wait, None waits without an end");
  }
  const double ms = std::ceil(value * 1e3);
  return ms >= 1e18 ? kForever_ms : static_cast<uint64_t>(ms);
}

uint64_t client_timeout_ns(py::handle timeout) {
  constexpr uint64_t kDay_ms = 86'400'000;
  const uint64_t ms = ms_of(timeout, "timeout");
  if (ms == 0 || ms > kDay_ms) {
    raise_invalid("timeout is more than 0 and at most 86,400 seconds, not " + std::string(py::repr(timeout)));
  }
  return ms * 1'000'000;
}

uint64_t bytes_of(py::handle number, const char* what) {
  return whole_number_of(number, what, static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
}

uint64_t birth_of(py::handle birth) {
  return whole_number_of(birth, "birth", std::numeric_limits<uint64_t>::max());
}

std::string metadata_of(py::handle metadata) {
  const Source source(metadata, "metadata");
  const auto bytes = source.bytes();
  if (bytes.size() > Objects::kMetadataBytesMax) {
    raise_invalid("metadata has up to 65,536 bytes, this has " + std::to_string(bytes.size()),
                  "put what is longer into the object, or into one of its own");
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string text_of(py::handle text, const char* what) {
  const py::object path = py::reinterpret_steal<py::object>(PyOS_FSPath(text.ptr()));
  if (!path || PyUnicode_Check(path.ptr()) == 0) {
    PyErr_Clear();
    raise_type(std::string(what) + " is str or a path, not " + type_of(text));
  }
  const auto value = py::reinterpret_borrow<py::str>(path).cast<std::string>();
  if (value.find('\0') != std::string::npos) raise_invalid(std::string(what) + " holds a zero character");
  return value;
}

py::bytes python_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace refract::python
