// SPDX-License-Identifier: Apache-2.0
// Arrays as values, in numpy's own form, which are read where the node has them.
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "python/ext/arrays/numpy.h"
#include "python/ext/hold.h"
#include "python/ext/kv_link.h"
#include "python/ext/requests/kv_requests_arrays.h"
#include "python/ext/requests/kv_requests_views.h"

namespace refract::python {

namespace py = pybind11;

namespace {

// From here on values start on a cache line in the node (docs/formats/kv-table.md).
constexpr uint64_t kAlignedValueBytes = 4096;

[[noreturn]] void raise_malformed(PyObject* key) {
  raise({Code::kMalformed, "array of " + shown_key(key) + ": the value is no array in numpy's form",
         "put_array() and numpy.save() make them; get() has the bytes"});
}

// In this process's memory, aligned, and without a pin.
py::object copied(std::span<const std::byte> bytes) {
  const std::shared_ptr<std::byte> memory = fresh_memory(bytes.size());
  if (memory == nullptr) {
    PyErr_NoMemory();
    raise_pending();
  }
  std::memcpy(memory.get(), bytes.data(), bytes.size());
  return make_hold(memory, {memory.get(), bytes.size()}, true);
}

py::object held(Viewed&& seen) {
  const bool is_copy = seen.is_copy();
  if (seen.bytes().size() < kAlignedValueBytes) return copied(seen.bytes());
  Viewed::Kept kept = std::move(seen).keep();
  return make_hold(std::move(kept.keep), kept.bytes, is_copy);
}

}  // namespace

py::object array_of(PyObject* key, Viewed&& seen) {
  const std::optional<NpyHeader> header = read_npy(seen.bytes());
  if (!header) raise_malformed(key);
  try {
    const py::object dtype = dtype_of(header->type);
    // As numpy reckons: an array over less than it says would be read beyond its end.
    if (item_bytes_of(dtype) != header->type.bytes) raise_malformed(key);
    return array_over(held(std::move(seen)), header->items_at, dtype, {header->shape, header->is_fortran});
  } catch (py::error_already_set& error) {
    // What numpy does not know, such as a field that is there twice.
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError)) throw;
  }
  raise_malformed(key);
}

namespace kv {

PyObject* put_array(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return asked_for<PutArrayRequest>(self, {args, count, names});
}

}  // namespace kv
}  // namespace refract::python
