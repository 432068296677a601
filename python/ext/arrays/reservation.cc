// SPDX-License-Identifier: Apache-2.0
// Reservation, the type, and how one is put.
#include <array>
#include <string>
#include <utility>

#include "python/ext/arrays/building.h"
#include "python/ext/hold.h"
#include "python/ext/kv_link.h"

namespace refract::python {

namespace py = pybind11;

namespace {

struct ReservationObject {
  PyObject_HEAD SharedReservation memory;  // Null: let go of.
  py::object hold;
  bool is_a_base;  // An array may refer to this object, without a view.
};

PyTypeObject* g_reservation_type = nullptr;

ReservationObject& object_of(PyObject* self) noexcept {
  return *reinterpret_cast<ReservationObject*>(self);
}

void dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  object_of(self).~ReservationObject();
  type->tp_free(self);
  Py_DECREF(type);
}

const SharedReservation& memory_of(PyObject* self) {
  const ReservationObject& object = object_of(self);
  if (object.memory == nullptr) raise_invalid("this reservation was released", "reserve() again");
  refuse_in_child(hold_of(object.hold).forks, "a reservation");
  return object.memory;
}

Py_ssize_t length(PyObject* self) {
  const SharedReservation& memory = object_of(self).memory;
  return memory == nullptr ? 0 : static_cast<Py_ssize_t>(memory->bytes().size());
}

PyObject* size(PyObject* self, void* /*none*/) {
  return PyLong_FromSsize_t(length(self));
}

PyObject* resize(PyObject* self, PyObject* size) {
  return guarded([&]() -> PyObject* {
    const SharedReservation& memory = memory_of(self);
    const uint64_t bytes = bytes_of(size, "size");
    if (memory->resize(bytes) != Code::kOk) {
      raise({Code::kTooLarge, "resize to " + std::to_string(bytes) + " bytes: fewer were reserved", ""});
    }
    return Py_NewRef(Py_None);
  });
}

PyObject* release(PyObject* self, PyObject* /*none*/) {
  ReservationObject& object = object_of(self);
  object.memory = nullptr;
  if (!object.is_a_base) object.hold = py::object();
  return Py_NewRef(Py_None);
}

PyObject* enter(PyObject* self, PyObject* /*none*/) {
  return Py_NewRef(self);
}

PyObject* leave(PyObject* self, PyObject* const* /*args*/, Py_ssize_t /*count*/) {
  return release(self, nullptr);
}

int export_to(PyObject* self, Py_buffer* view, int flags) {
  int result = -1;
  const PyObject* const none = guarded([&]() -> PyObject* {
    const auto bytes = memory_of(self)->bytes();
    result = fill_view(view, object_of(self).hold, bytes, flags);
    if (result == 0 && is_for_ndarray(flags)) object_of(self).is_a_base = true;
    return nullptr;
  });
  (void)none;
  if (result != 0) view->obj = nullptr;
  return result;
}

void end_export(PyObject* /*self*/, Py_buffer* /*view*/) {}

}  // namespace

BuiltValue::BuiltValue(PyObject* from, PutOptions& options) {
  if (Py_TYPE(from) != g_reservation_type) [[likely]] {
    value_.emplace(from);
    return;
  }
  built_ = memory_of(from);
  options.built_in = built_.get();
}

PyObject* new_reservation(SharedReservation memory) {
  py::object hold = make_writable_hold(memory, memory->bytes());
  PyObject* const object = g_reservation_type->tp_alloc(g_reservation_type, 0);
  if (object == nullptr) raise_pending();
  // What it begins with is Python's.
  new (&object_of(object).memory) SharedReservation(std::move(memory));
  new (&object_of(object).hold) py::object(std::move(hold));
  return object;
}

void add_reservation(py::module_& module) {
  static std::array<PyMethodDef, 5> methods = {{
      {"resize", &resize, METH_O,
       "resize($self, size, /)\n--\n\nHow much of it is the value from now on: at most as much as was "
       "reserved."},
      {"release", &release, METH_NOARGS,
       "release($self)\n--\n\nLets go of the memory now, or with the last view of it. Also: `with "
       "client.reserve(n) as r: ...`."},
      {"__enter__", &enter, METH_NOARGS, nullptr},
      {"__exit__", as_function<&leave>(), METH_FASTCALL, nullptr},
      {nullptr, nullptr, 0, nullptr},
  }};
  static std::array<PyGetSetDef, 3> properties = {{
      {"size", &size, nullptr, "How many bytes.", nullptr},
      {"nbytes", &size, nullptr, "How many bytes.", nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  }};
  static std::array<PyType_Slot, 8> slots = {{
      {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc)},
      {Py_tp_methods, methods.data()},
      {Py_tp_getset, properties.data()},
      {Py_sq_length, reinterpret_cast<void*>(&length)},
      {Py_bf_getbuffer, reinterpret_cast<void*>(&export_to)},
      {Py_bf_releasebuffer, reinterpret_cast<void*>(&end_export)},
      {Py_tp_doc, const_cast<char*>(
                      "Memory in which a value is built, from which put() takes it without a copy on this "
                      "side: a writable\nbuffer. memoryview(r) and numpy.frombuffer(r, dtype) write to it. "
                      "It may be put several times,\nalso with other bytes; they must not change during a "
                      "put.")},
      {0, nullptr},
  }};
  static PyType_Spec spec = {.name = "refract._refract.Reservation",
                             .basicsize = sizeof(ReservationObject),
                             .itemsize = 0,
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = slots.data()};
  g_reservation_type = add_type(module, spec);
}

}  // namespace refract::python
