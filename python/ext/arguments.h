// SPDX-License-Identifier: Apache-2.0
// What calls are given, taken apart and checked: ids, buffers, times. Raises what says which argument was
// wrong, and what to pass.
//
// Threads: the GIL is held in all of it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace refract::python {

// The bytes of an object with the buffer protocol, as long as this lives: nothing resizes or frees it
// meanwhile.
class Source {
 public:
  // `what` names the argument, `instead` what takes other objects. Raises TypeError where it has no buffer;
  // InvalidArgument where that is not C-contiguous, or holds references to Python objects.
  Source(pybind11::handle from, const char* what, const char* instead = "put_value() takes any object");
  Source(Source&& other) noexcept;
  Source& operator=(Source&&) = delete;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  ~Source();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

// str, as UTF-8, or what has a buffer; 1 to 255 bytes.
[[nodiscard]] std::string id_of(pybind11::handle id);
// b'weights', as Python writes it.
[[nodiscard]] std::string shown(const std::string& id);
// Seconds as milliseconds, rounded up. None: for ever.
[[nodiscard]] uint64_t ms_of(pybind11::handle seconds, const char* what);
// Of connect(): more than 0, and at most a day.
[[nodiscard]] uint64_t client_timeout_ns(pybind11::handle timeout);
// 0 to `largest`; also numpy's numbers, and none with a fraction.
[[nodiscard]] uint64_t whole_number_of(pybind11::handle number, const char* what, uint64_t largest);
// A length or a count: 0 to 2^63 - 1.
[[nodiscard]] uint64_t bytes_of(pybind11::handle number, const char* what);
// Any of the numbers that name a birth.
[[nodiscard]] uint64_t birth_of(pybind11::handle birth);
// Of metadata: as Source, up to 64 KiB.
[[nodiscard]] std::string metadata_of(pybind11::handle metadata);
[[nodiscard]] std::string text_of(pybind11::handle text, const char* what);
[[nodiscard]] pybind11::bytes python_bytes(std::span<const std::byte> bytes);

}  // namespace refract::python
