// SPDX-License-Identifier: Apache-2.0
// Read-only bytes that something holds: an object's pin, or memory of this process. Python sees them by the
// buffer protocol; whatever looks at them that way keeps them held.
//
// Threads: the GIL is held in all of it.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "refract/client/objects.h"

namespace refract::python {

class Buffer {
 public:
  // `hold` keeps `bytes` where and as they are. `is_copy`: they are this process's own.
  Buffer(std::shared_ptr<const void> hold, std::span<const std::byte> bytes, bool is_copy) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual ~Buffer() = default;

  // Raises after release(), and after a fork.
  [[nodiscard]] std::span<const std::byte> bytes() const;
  [[nodiscard]] size_t size() const noexcept { return size_; }
  [[nodiscard]] bool is_copy() const noexcept { return is_copy_; }
  [[nodiscard]] const std::shared_ptr<const void>& hold() const noexcept { return hold_; }
  // Lets go now, or with the last view that there is.
  void release() noexcept;

  // The protocol's two slots.
  static int export_to(PyObject* self, Py_buffer* view, int flags) noexcept;
  static void end_export(PyObject* self, Py_buffer* view) noexcept;

 private:
  std::shared_ptr<const void> hold_;
  const std::byte* data_;
  size_t size_;
  bool is_copy_;
  bool is_released_ = false;
  Py_ssize_t exports_ = 0;
  pid_t process_ = ::getpid();
};

// A sealed object.
class ObjectBuffer final : public Buffer {
 public:
  explicit ObjectBuffer(const std::shared_ptr<const Object>& object);

  [[nodiscard]] pybind11::bytes id() const { return {id_}; }
  [[nodiscard]] uint64_t birth() const noexcept { return birth_; }
  // Raises as bytes() does.
  [[nodiscard]] const Object& object() const;

 private:
  std::string id_;
  uint64_t birth_;
};

// A Python object of it.
[[nodiscard]] pybind11::object python_object(Object&& object);

void add_buffers(pybind11::module_& module);

}  // namespace refract::python
