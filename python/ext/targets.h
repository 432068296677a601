// SPDX-License-Identifier: Apache-2.0
// Where values are copied to: memory of the program's, held for the time of a call.
//
// Threads: the GIL is held in all of it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <span>

namespace refract::python {

// An object with a writable buffer, a tensor of torch's on the CPU, or (address, bytes), which is believed.
class Target {
 public:
  // Raises TypeError where it is none of these; InvalidArgument where it cannot be written, is not contiguous
  // in the order of C, or holds references to Python objects.
  explicit Target(pybind11::handle to);
  Target(Target&& other) noexcept;
  Target& operator=(Target&&) = delete;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  ~Target();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  void take_buffer(pybind11::handle to);

  Py_buffer view_{};
  std::span<std::byte> bytes_;
};

}  // namespace refract::python
