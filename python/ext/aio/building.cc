// SPDX-License-Identifier: Apache-2.0
// build() and reserve() in an event loop, and aio.Build. What they give lies in memory of this process, so
// that both are there at once; the put at the end of a block is awaited.
#include "python/ext/arrays/building.h"

#include <array>
#include <memory>
#include <utility>

#include "python/ext/aio/client.h"
#include "python/ext/aio/operation.h"
#include "python/ext/aio/ready.h"
#include "python/ext/errors.h"
#include "python/ext/kv_link.h"
#include "python/ext/requests/kv_requests_arrays.h"

namespace refract::python::aio {

namespace py = pybind11;

namespace {

struct BuildObject {
  PyObject_HEAD PyObject* turns;
  // Of its put, too, which does not refer to this object: nothing could collect the two.
  std::shared_ptr<Built> built;
};

PyTypeObject* g_build_type = nullptr;

BuildObject& object_of(PyObject* self) noexcept {
  return *reinterpret_cast<BuildObject*>(self);
}

void dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject* const turns = object_of(self).turns;
  object_of(self).~BuildObject();
  Turns::of(turns).let_go();
  Py_DECREF(turns);
  type->tp_free(self);
  Py_DECREF(type);
}

// Fresh memory of much is taken from the system by this thread, without the GIL.
SharedReservation reserved(Turns& turns, const char* name, uint64_t bytes) {
  turns.require_open(name);
  AsyncClient& client = turns.client();
  Result<refract::Reservation> made =
      bytes > kCopiedUnderLock ? without_gil([&] { return client.reserve(bytes); }) : client.reserve(bytes);
  return shared(std::move(made), name);
}

PyObject* begin_block(PyObject* self, PyObject* /*none*/) {
  return guarded([&] { return ready(object_of(self).built->begin()); });
}

PyObject* end_block(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    const std::shared_ptr<Built>& built = object_of(self).built;
    SharedReservation memory = built->end(count > 0 && args[0] == Py_None);
    if (memory == nullptr) return ready(Py_NewRef(Py_False));
    Turns& turns = Turns::of(object_of(self).turns);
    turns.require_here("build");
    turns.require_open("build");
    return turns.begin(std::make_unique<Asking<PutBuiltRequest, AsyncClient>>(turns.client(), std::in_place,
                                                                              built, std::move(memory)));
  });
}

PyObject* version(PyObject* self, void* /*none*/) {
  return object_of(self).built->version_or_none();
}

}  // namespace

PyObject* reserve(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    Turns& turns = turns_of(self, "reserve");
    const py::object held = py::reinterpret_borrow<py::object>(turns.self());
    const uint64_t bytes = reserved_bytes_of({args, count, names});
    return ready_of([&] { return new_reservation(reserved(turns, "reserve", bytes)); });
  });
}

PyObject* build(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    Turns& turns = turns_of(self, "build");
    const py::object held = py::reinterpret_borrow<py::object>(turns.self());
    const BuildArguments given({args, count, names});
    auto built = std::make_shared<Built>(given, reserved(turns, "build", given.bytes));
    PyObject* const object = g_build_type->tp_alloc(g_build_type, 0);
    if (object == nullptr) raise_pending();
    // What it begins with is Python's.
    new (&object_of(object).built) std::shared_ptr<Built>(std::move(built));
    object_of(object).turns = Py_NewRef(turns.self());
    turns.hold();
    return object;
  });
}

void add_build(py::module_& module) {
  static std::array<PyMethodDef, 3> methods = {{
      {"__aenter__", &begin_block, METH_NOARGS, nullptr},
      {"__aexit__", as_function<&end_block>(), METH_FASTCALL, nullptr},
      {nullptr, nullptr, 0, nullptr},
  }};
  static std::array<PyGetSetDef, 2> properties = {{
      {"version", &version, nullptr, "Behind the block: the version that was put. None: nothing was.",
       nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  }};
  static std::array<PyType_Slot, 5> slots = {{
      {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc)},
      {Py_tp_methods, methods.data()},
      {Py_tp_getset, properties.data()},
      {Py_tp_doc, const_cast<char*>("An array that is put at the end of its `async with` block.")},
      {0, nullptr},
  }};
  static PyType_Spec spec = {.name = "refract.aio.Build",
                             .basicsize = sizeof(BuildObject),
                             .itemsize = 0,
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = slots.data()};
  g_build_type = make_type(module, spec);
  module.add_object("AioBuild", py::handle(reinterpret_cast<PyObject*>(g_build_type)));
}

}  // namespace refract::python::aio
