// SPDX-License-Identifier: Apache-2.0
// Bytes that something keeps where they are: a pin of the node's memory, a reservation, memory of this
// process. It is an object of Python's, and each view of the bytes refers to it: memoryviews, arrays and
// their slices by whatever they take for their base. So what keeps the bytes goes with the last of them,
// without a count of our own.
//
// Threads: the GIL is held in all of it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <span>

namespace refract::python {

enum class Access : uint8_t { kReadOnly, kWritable };

struct HoldObject {
  PyObject_HEAD std::shared_ptr<const void> keep;
  std::span<std::byte> bytes;
  Access access;
  bool is_copy;  // They are this process's own.
  uint32_t forks;
};

// `bytes` of nothing may be anywhere. A view of what is kept read-only can never be written.
[[nodiscard]] pybind11::object make_hold(std::shared_ptr<const void> keep, std::span<const std::byte> bytes,
                                         bool is_copy);
[[nodiscard]] pybind11::object make_writable_hold(std::shared_ptr<const void> keep,
                                                  std::span<std::byte> bytes);
[[nodiscard]] inline const HoldObject& hold_of(const pybind11::object& object) noexcept {
  return *reinterpret_cast<const HoldObject*>(object.ptr());
}

// A view of a part of what is held, for who asks another object for it. -1: what is wrong is set.
[[nodiscard]] int fill_view(Py_buffer* view, const pybind11::object& hold, std::span<const std::byte> part,
                            int flags) noexcept;

// Whether so asks numpy.ndarray(buffer=...), which then refers to the object that it asked, and ends its
// view: what that holds must stay as long as the object itself.
[[nodiscard]] constexpr bool is_for_ndarray(int flags) noexcept {
  return (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && (flags & PyBUF_FORMAT) == 0;
}

// Some fresh memory, where a cache line begins; null: there is none.
[[nodiscard]] std::shared_ptr<std::byte> fresh_memory(size_t bytes) noexcept;

// Of a handle that belongs to the process from which this one was forked: raises Forked. What was made is
// counted by how often the process had been forked then.
[[nodiscard]] uint32_t forks() noexcept;
void refuse_in_child(uint32_t forks_then, const char* what);

void add_hold(pybind11::module_& module);

}  // namespace refract::python
