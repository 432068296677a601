// SPDX-License-Identifier: Apache-2.0
// Read-only bytes that something holds: a pin of an object or a value, or memory of this process. Python sees
// them by the buffer protocol; whatever looks at them that way keeps them held (hold.h).
//
// Threads: the GIL is held in all of it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "python/ext/hold.h"

#include "refract/client/objects.h"

namespace refract::python {

class Buffer {
 public:
  // `keep` keeps `bytes` where and as they are. `is_copy`: they are this process's own.
  Buffer(std::shared_ptr<const void> keep, std::span<const std::byte> bytes, bool is_copy);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual ~Buffer() = default;

  // Raises after release(), and after a fork.
  [[nodiscard]] std::span<const std::byte> bytes() const;
  [[nodiscard]] size_t size() const noexcept { return size_; }
  [[nodiscard]] bool is_copy() const noexcept { return is_copy_; }
  // REQUIRES: it was not released.
  [[nodiscard]] const std::shared_ptr<const void>& keep() const noexcept { return hold_of(hold_).keep; }
  // Lets go now, or with the last view that there is.
  void release() noexcept;

  // The protocol's two slots.
  static int export_to(PyObject* self, Py_buffer* view, int flags) noexcept;
  static void end_export(PyObject* self, Py_buffer* view) noexcept;

 private:
  pybind11::object hold_;  // Null: let go of.
  const std::byte* data_;
  size_t size_;
  bool is_copy_;
  bool is_released_ = false;
  bool is_a_base_ = false;  // An array may refer to this, without a view.
  uint32_t forks_ = forks();
};

// A value of a key, as it was when it was asked for.
class ViewBuffer final : public Buffer {
 public:
  ViewBuffer(std::shared_ptr<const void> keep, std::span<const std::byte> bytes, bool is_copy,
             uint64_t version)
      : Buffer(std::move(keep), bytes, is_copy), version_(version) {}

  [[nodiscard]] uint64_t version() const noexcept { return version_; }

 private:
  uint64_t version_;
};

// A sealed object.
class ObjectBuffer final : public Buffer {
 public:
  explicit ObjectBuffer(const std::shared_ptr<const Object>& object);

  [[nodiscard]] pybind11::bytes id() const { return {id_}; }
  [[nodiscard]] uint64_t birth() const noexcept { return birth_; }
  // Raises as bytes() does.
  [[nodiscard]] const Object& object() const { return *shared_object(); }
  [[nodiscard]] std::shared_ptr<const Object> shared_object() const;

 private:
  std::string id_;
  uint64_t birth_;
};

// A Python object of it.
[[nodiscard]] pybind11::object python_object(Object&& object);

void add_buffers(pybind11::module_& module);

}  // namespace refract::python
