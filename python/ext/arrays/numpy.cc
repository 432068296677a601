// SPDX-License-Identifier: Apache-2.0
#include "python/ext/arrays/numpy.h"

#include <array>

#include "python/ext/arguments.h"
#include "python/ext/errors.h"

namespace refract::python {

namespace py = pybind11;

namespace {

// Of numpy. They live as long as the interpreter.
struct Numpy {
  PyObject* ndarray;
  PyObject* dtype;
  PyObject* asarray;
  PyObject* ascontiguousarray;
  PyObject* descr_to_dtype;
  PyObject* dtype_to_descr;
  PyObject* order_c;
  PyObject* order_f;
};

const Numpy& numpy() {
  static const Numpy* known = nullptr;
  if (known == nullptr) [[unlikely]] {
    const py::module_ module = py::module_::import("numpy");
    const py::module_ format = py::module_::import("numpy.lib.format");
    const auto name = [](const py::module_& from, const char* what) {
      return from.attr(what).cast<py::object>().release().ptr();
    };
    known = new Numpy{.ndarray = name(module, "ndarray"),
                      .dtype = name(module, "dtype"),
                      .asarray = name(module, "asarray"),
                      .ascontiguousarray = name(module, "ascontiguousarray"),
                      .descr_to_dtype = name(format, "descr_to_dtype"),
                      .dtype_to_descr = name(format, "dtype_to_descr"),
                      .order_c = py::str("C").release().ptr(),
                      .order_f = py::str("F").release().ptr()};
  }
  return *known;
}

py::object called(PyObject* function, PyObject* argument) {
  PyObject* const made = PyObject_CallOneArg(function, argument);
  if (made == nullptr) raise_pending();
  return py::reinterpret_steal<py::object>(made);
}

py::object attribute(py::handle of, const char* name) {
  return of.attr(name).cast<py::object>();
}

py::tuple tuple_of(std::span<const uint64_t> lengths) {
  py::tuple tuple(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) tuple[i] = lengths[i];
  return tuple;
}

// Fields as numpy writes them: ('name', '<f8'), with a shape, with a title.
py::object description_of(const NpyType& type) {
  if (!type.text.empty()) return py::str(type.text);
  py::list fields;
  for (const NpyField& field : type.fields) {
    py::object name = py::str(field.name);
    if (field.title) name = py::make_tuple(py::str(*field.title), name);
    const py::object inner = description_of(field.type);
    fields.append(field.shape.empty() ? py::make_tuple(name, inner)
                                      : py::make_tuple(name, inner, tuple_of(field.shape)));
  }
  return fields;
}

bool has_fields(py::handle dtype) {
  return !attribute(dtype, "names").is_none();
}

bool flag(py::handle flags, const char* name) {
  return attribute(flags, name).cast<bool>();
}

}  // namespace

py::object dtype_of(const NpyType& type) {
  if (!type.text.empty()) return called(numpy().dtype, py::str(type.text).ptr());
  return called(numpy().descr_to_dtype, description_of(type).ptr());
}

py::object wanted_dtype(py::handle dtype) {
  py::object type = called(numpy().dtype, dtype.ptr());
  if (attribute(type, "hasobject").cast<bool>()) {
    raise_invalid("an array of type " + std::string(py::str(type)) +
                      " holds references to Python objects, which mean nothing elsewhere",
                  "put(key, pickle.dumps(array)) makes bytes of it");
  }
  if (item_bytes_of(type) == 0) {
    raise_invalid("items of type " + std::string(py::repr(type)) + " have no bytes",
                  "give them a length: 'S8'");
  }
  return type;
}

uint64_t item_bytes_of(py::handle dtype) {
  return attribute(dtype, "itemsize").cast<uint64_t>();
}

std::string literal_of(py::handle dtype) {
  if (!has_fields(dtype)) return py::repr(attribute(dtype, "str")).cast<std::string>();
  return py::repr(called(numpy().dtype_to_descr, dtype.ptr())).cast<std::string>();
}

py::object array_over(const py::object& hold, uint64_t at, const py::object& dtype, const ArrayShape& shape) {
  const Numpy& known = numpy();
  const py::tuple lengths = tuple_of(shape.lengths);
  const py::int_ offset(at);
  const std::array<PyObject*, 6> given = {lengths.ptr(), dtype.ptr(),
                                          hold.ptr(),    offset.ptr(),
                                          Py_None,       shape.is_fortran ? known.order_f : known.order_c};
  PyObject* const made = PyObject_Vectorcall(known.ndarray, given.data(), given.size(), nullptr);
  if (made == nullptr) raise_pending();
  return py::reinterpret_steal<py::object>(made);
}

ArraySource::ArraySource(py::handle from) : array_(called(numpy().asarray, from.ptr())) {
  const py::object dtype = wanted_dtype(attribute(array_, "dtype"));
  py::object flags = attribute(array_, "flags");
  if (!flag(flags, "c_contiguous") && !flag(flags, "f_contiguous")) {
    array_ = called(numpy().ascontiguousarray, array_.ptr());
    flags = attribute(array_, "flags");
  }
  const bool is_fortran = !flag(flags, "c_contiguous");
  std::vector<uint64_t> lengths;
  for (const py::handle length : attribute(array_, "shape").cast<py::tuple>()) {
    lengths.push_back(length.cast<uint64_t>());
  }
  header_ = npy_header(literal_of(dtype), is_fortran, lengths);
  if (PyObject_GetBuffer(array_.ptr(), &view_, PyBUF_ANY_CONTIGUOUS) != 0) raise_pending();
}

ArraySource::~ArraySource() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

}  // namespace refract::python
