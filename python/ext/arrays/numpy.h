// SPDX-License-Identifier: Apache-2.0
// Arrays of numpy, which is imported when the first of them is asked for: types as numpy has them, arrays
// over memory that is held, and the bytes of those that a program gives.
//
// Threads: the GIL is held in all of it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "python/ext/arrays/npy_header.h"

namespace refract::python {

// numpy's dtype of what a header says. Raises what numpy raises of a type that it does not know.
[[nodiscard]] pybind11::object dtype_of(const NpyType& type);
// Of any object that numpy.dtype() takes. Raises InvalidArgument where its items are references to objects,
// or nothing.
[[nodiscard]] pybind11::object wanted_dtype(pybind11::handle dtype);
[[nodiscard]] uint64_t item_bytes_of(pybind11::handle dtype);
// The literal that a header has for it.
[[nodiscard]] std::string literal_of(pybind11::handle dtype);

// numpy.ndarray over what is held from `at` on. It and each slice of it refer to the hold. It can be written
// only where the hold can.
struct ArrayShape {
  std::vector<uint64_t> lengths;
  bool is_fortran = false;
};
[[nodiscard]] pybind11::object array_over(const pybind11::object& hold, uint64_t at,
                                          const pybind11::object& dtype, const ArrayShape& shape);

// An array of the program's, as long as this lives, in the form that it is put in.
class ArraySource {
 public:
  // Whatever numpy.asarray() takes. What is contiguous in neither order is copied.
  explicit ArraySource(pybind11::handle from);
  ArraySource(const ArraySource&) = delete;
  ArraySource& operator=(const ArraySource&) = delete;
  ~ArraySource();

  [[nodiscard]] const std::string& header() const noexcept { return header_; }
  [[nodiscard]] std::span<const std::byte> items() const noexcept {
    return {static_cast<const std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  pybind11::object array_;
  Py_buffer view_{};
  std::string header_;
};

}  // namespace refract::python
