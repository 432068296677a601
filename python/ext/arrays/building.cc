// SPDX-License-Identifier: Apache-2.0
#include "python/ext/arrays/building.h"

#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "python/ext/errors.h"
#include "python/ext/hold.h"
#include "python/ext/requests/kv_requests.h"

namespace refract::python {

namespace py = pybind11;

namespace {

// What an array of this shape takes; nothing: more than any value.
std::optional<uint64_t> bytes_of_array(uint64_t item_bytes, std::span<const uint64_t> shape) {
  uint64_t bytes = item_bytes;
  for (const uint64_t length : shape) {
    if (length == 0) return 0;
  }
  for (const uint64_t length : shape) {
    if (length > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / bytes) return std::nullopt;
    bytes *= length;
  }
  return bytes;
}

std::vector<uint64_t> shape_of(PyObject* shape) {
  std::vector<uint64_t> lengths;
  if (PyIndex_Check(shape) != 0) {
    lengths.push_back(bytes_of(shape, "a length"));
    return lengths;
  }
  const py::object all = py::reinterpret_steal<py::object>(PySequence_Tuple(shape));
  if (!all) raise_pending();
  for (const py::handle length : all) lengths.push_back(bytes_of(length, "a length"));
  return lengths;
}

ArrayShape wanted_shape(PyObject* shape, PyObject* order) {
  ArrayShape wanted{.lengths = shape_of(shape)};
  if (order == nullptr) return wanted;
  const std::string name = PyUnicode_Check(order) != 0 ? py::str(py::handle(order)).cast<std::string>() : "";
  if (name != "C" && name != "F") raise_invalid("order is 'C' or 'F'");
  wanted.is_fortran = name == "F";
  return wanted;
}

}  // namespace

uint64_t reserved_bytes_of(const Arguments& given) {
  const auto [size] = taken("reserve", given, std::array{"size"}, 1, 1);
  const uint64_t bytes = bytes_of(size, "size");
  if (bytes == 0) raise_invalid("reserve of no bytes");
  return bytes;
}

SharedReservation shared(Result<refract::Reservation>&& made, const char* call) {
  if (!made) raise(explain_call(call, nullptr, made.code(), {Code::kOk, "", ""}));
  return std::make_shared<refract::Reservation>(std::move(*made));
}

BuildArguments::BuildArguments(const Arguments& given) {
  const auto [one, lengths, dtype, order, ttl, if_absent, if_version, timeout] =
      taken("build", given,
            std::array{"key", "shape", "dtype", "order", "ttl", "if_absent", "if_version", "timeout"}, 3, 2);
  (void)key_of(one);
  key = one;
  options = put_options(ttl, if_absent, if_version);
  timeout_ms = timeout_ms_of(timeout);
  type = wanted_dtype(dtype == nullptr ? Py_None : dtype);
  shape = wanted_shape(lengths, order);
  header = npy_header(literal_of(type), shape.is_fortran, shape.lengths);
  const std::optional<uint64_t> items_bytes = bytes_of_array(item_bytes_of(type), shape.lengths);
  if (!items_bytes || *items_bytes > std::numeric_limits<int64_t>::max() - header.size()) {
    raise(explain_call("build", key, Code::kTooLarge, {Code::kOk, "", ""}));
  }
  bytes = header.size() + *items_bytes;
}

Built::Built(const BuildArguments& given, const SharedReservation& memory)
    : key(py::reinterpret_borrow<py::object>(given.key)),
      options(given.options),
      timeout_ms(given.timeout_ms),
      memory_(memory),
      forks_(forks()) {
  std::memcpy(memory->bytes().data(), given.header.data(), given.header.size());
  array_ =
      array_over(make_writable_hold(memory, memory->bytes()), given.header.size(), given.type, given.shape);
}

PyObject* Built::begin() {
  if (is_begun_ || !array_) raise_invalid("a build is for one `with` block", "build() again");
  refuse_in_child(forks_, "a build");
  is_begun_ = true;
  return Py_NewRef(array_.ptr());
}

SharedReservation Built::end(bool is_well) {
  array_ = py::object();
  const SharedReservation memory = std::exchange(memory_, nullptr);
  return is_well ? memory : nullptr;
}

PyObject* Built::version_or_none() const {
  return version == 0 ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(version);
}

}  // namespace refract::python
