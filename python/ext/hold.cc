// SPDX-License-Identifier: Apache-2.0
#include "python/ext/hold.h"

#include <pthread.h>

#include <array>
#include <cstdlib>
#include <new>
#include <utility>

#include "python/ext/errors.h"
#include "python/ext/kv_link.h"

namespace refract::python {

namespace py = pybind11;

namespace {

PyTypeObject* g_hold_type = nullptr;
uint32_t g_forks = 0;

// Where nothing lies: numpy wants an address of nothing, too.
std::byte g_nothing{};

HoldObject& object_of(PyObject* self) noexcept {
  return *reinterpret_cast<HoldObject*>(self);
}

void dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  object_of(self).~HoldObject();
  type->tp_free(self);
  Py_DECREF(type);
}

int export_to(PyObject* self, Py_buffer* view, int flags) {
  const HoldObject& hold = object_of(self);
  return fill_view(view, py::reinterpret_borrow<py::object>(self), hold.bytes, flags);
}

// numpy refers to a memoryview of an object that has this, and else to the object with no view of it.
void end_export(PyObject* /*self*/, Py_buffer* /*view*/) {}

PyObject* is_copy(PyObject* self, void* /*none*/) {
  return PyBool_FromLong(object_of(self).is_copy ? 1 : 0);
}

PyObject* made(std::shared_ptr<const void> keep, std::span<std::byte> bytes, Access access, bool is_copy) {
  PyObject* const object = g_hold_type->tp_alloc(g_hold_type, 0);
  if (object == nullptr) raise_pending();
  // What it begins with is Python's.
  HoldObject& hold = object_of(object);
  new (&hold.keep) std::shared_ptr<const void>(std::move(keep));
  hold.bytes = bytes.empty() ? std::span{&g_nothing, 0} : bytes;
  hold.access = access;
  hold.is_copy = is_copy;
  hold.forks = g_forks;
  return object;
}

}  // namespace

uint32_t forks() noexcept {
  return g_forks;
}

void refuse_in_child(uint32_t forks_then, const char* what) {
  if (forks_then != g_forks) raise(explain(Code::kForked, what));
}

std::shared_ptr<std::byte> fresh_memory(size_t bytes) noexcept {
  constexpr size_t kLine = 64;
  const size_t whole = bytes > SIZE_MAX - kLine ? 0 : (bytes + kLine - 1) / kLine * kLine;
  if (whole == 0 && bytes != 0) return nullptr;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kLine, whole == 0 ? kLine : whole));
  if (memory == nullptr) return nullptr;
  return {memory, [](std::byte* taken) { std::free(taken); }};
}

py::object make_hold(std::shared_ptr<const void> keep, std::span<const std::byte> bytes, bool is_copy) {
  auto* const at = const_cast<std::byte*>(bytes.data());
  return py::reinterpret_steal<py::object>(
      made(std::move(keep), {at, bytes.size()}, Access::kReadOnly, is_copy));
}

py::object make_writable_hold(std::shared_ptr<const void> keep, std::span<std::byte> bytes) {
  return py::reinterpret_steal<py::object>(made(std::move(keep), bytes, Access::kWritable, true));
}

int fill_view(Py_buffer* view, const py::object& hold, std::span<const std::byte> part, int flags) noexcept {
  const bool is_read_only = hold_of(hold).access == Access::kReadOnly;
  auto* const at = part.empty() ? &g_nothing : const_cast<std::byte*>(part.data());
  // The view refers to the hold. One that is to be written is refused.
  return PyBuffer_FillInfo(view, hold.ptr(), at, static_cast<Py_ssize_t>(part.size()), is_read_only ? 1 : 0,
                           flags);
}

void add_hold(py::module_& module) {
  static std::array<PyGetSetDef, 2> properties = {{
      {"is_copy", &is_copy, nullptr, "Whether the bytes are in this process's own memory.", nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  }};
  static std::array<PyType_Slot, 6> slots = {{
      {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc)},
      {Py_tp_getset, properties.data()},
      {Py_bf_getbuffer, reinterpret_cast<void*>(&export_to)},
      {Py_bf_releasebuffer, reinterpret_cast<void*>(&end_export)},
      {Py_tp_doc, const_cast<char*>("What keeps the bytes of views and arrays: the base of each of them.")},
      {0, nullptr},
  }};
  static PyType_Spec spec = {.name = "refract._refract.Hold",
                             .basicsize = sizeof(HoldObject),
                             .itemsize = 0,
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = slots.data()};
  g_hold_type = add_type(module, spec);
  if (::pthread_atfork(nullptr, nullptr, [] { ++g_forks; }) != 0) {
    PyErr_NoMemory();
    raise_pending();
  }
}

}  // namespace refract::python
