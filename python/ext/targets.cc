// SPDX-License-Identifier: Apache-2.0
#include "python/ext/targets.h"

#include <cstring>
#include <string>
#include <utility>

#include "python/ext/arguments.h"
#include "python/ext/errors.h"

namespace refract::python {

namespace py = pybind11;

namespace {

std::string type_of(py::handle object) {
  return "'" + std::string(Py_TYPE(object.ptr())->tp_name) + "'";
}

std::span<std::byte> memory_at(uint64_t address, uint64_t bytes) {
  if (address > UINTPTR_MAX - bytes || (address == 0 && bytes > 0)) {
    raise_invalid("no memory of " + std::to_string(bytes) + " bytes lies at address " +
                  std::to_string(address));
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the program says that it is one.
  return {reinterpret_cast<std::byte*>(static_cast<uintptr_t>(address)), bytes};
}

// torch's tensors have no buffer; by numpy() those of bfloat16 have none either.
bool is_tensor(py::handle to) {
  return py::hasattr(to, "data_ptr") && py::hasattr(to, "is_contiguous") && py::hasattr(to, "element_size") &&
         py::hasattr(to, "numel");
}

std::span<std::byte> memory_of_tensor(py::handle to) {
  const py::object device = py::getattr(to, "device", py::none());
  const py::object type = py::getattr(device, "type", py::str("cpu"));
  if (!type.equal(py::str("cpu"))) {
    raise_invalid("a target of type " + type_of(to) + " lies on " + std::string(py::str(device)),
                  "pass one on the CPU, and copy it from there");
  }
  if (!to.attr("is_contiguous")().cast<bool>()) {
    raise_invalid("a target of type " + type_of(to) + " is not contiguous", "pass one that is");
  }
  const uint64_t number = whole_number_of(to.attr("numel")(), "numel()", INT64_MAX);
  const uint64_t each = whole_number_of(to.attr("element_size")(), "element_size()", 1024);
  if (each != 0 && number > INT64_MAX / each) raise_invalid("a target has more bytes than there are");
  return memory_at(whole_number_of(to.attr("data_ptr")(), "data_ptr()", UINT64_MAX), number * each);
}

}  // namespace

Target::Target(py::handle to) {
  if (PyObject_CheckBuffer(to.ptr()) != 0) {
    take_buffer(to);
  } else if (PyTuple_CheckExact(to.ptr()) != 0 && PyTuple_GET_SIZE(to.ptr()) == 2) {
    const uint64_t address = whole_number_of(PyTuple_GET_ITEM(to.ptr(), 0), "an address", UINT64_MAX);
    bytes_ = memory_at(address, bytes_of(PyTuple_GET_ITEM(to.ptr(), 1), "the bytes at an address"));
  } else if (is_tensor(to)) {
    bytes_ = memory_of_tensor(to);
  } else {
    raise_type(
        "a target is an object with a writable buffer, such as a bytearray or a numpy array, or (address, "
        "bytes), not " +
        type_of(to));
  }
}

void Target::take_buffer(py::handle to) {
  constexpr int kWanted = PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE;
  if (PyObject_GetBuffer(to.ptr(), &view_, kWanted | PyBUF_FORMAT) != 0) {
    // Some, such as numpy's times, have no format, and bytes all the same.
    PyErr_Clear();
    if (PyObject_GetBuffer(to.ptr(), &view_, kWanted) != 0) {
      PyErr_Clear();
      const bool is_read_only = PyObject_GetBuffer(to.ptr(), &view_, PyBUF_C_CONTIGUOUS) == 0;
      if (is_read_only) PyBuffer_Release(&view_);
      PyErr_Clear();
      view_ = {};
      if (is_read_only) {
        raise_invalid("a target of type " + type_of(to) + " is read-only",
                      "pass one that may be written, such as a bytearray or a copy of an array");
      }
      raise_invalid("a target of type " + type_of(to) + " is not contiguous in the order of C",
                    "pass one that is, and copy it from there");
    }
  }
  if (view_.format != nullptr && std::strchr(view_.format, 'O') != nullptr) {
    PyBuffer_Release(&view_);
    raise_invalid("a target holds references to Python objects, which no bytes may replace");
  }
  bytes_ = {static_cast<std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
}

Target::Target(Target&& other) noexcept
    : view_(std::exchange(other.view_, Py_buffer{})), bytes_(other.bytes_) {
  // What the view points to for a buffer of one dimension lies inside of it.
  if (view_.shape == &other.view_.len) view_.shape = &view_.len;
  if (view_.strides == &other.view_.itemsize) view_.strides = &view_.itemsize;
}

Target::~Target() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

}  // namespace refract::python
