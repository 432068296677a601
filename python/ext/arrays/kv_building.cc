// SPDX-License-Identifier: Apache-2.0
// build() and reserve() of the client that blocks, and its Build.
#include <array>
#include <memory>
#include <utility>

#include "python/ext/arrays/building.h"
#include "python/ext/kv_link.h"
#include "python/ext/requests/kv_requests_arrays.h"

namespace refract::python {

namespace py = pybind11;

namespace {

struct BuildObject {
  PyObject_HEAD SharedKv link;  // Null: it has ended.
  std::shared_ptr<Built> built;
};

PyTypeObject* g_build_type = nullptr;

BuildObject& object_of(PyObject* self) noexcept {
  return *reinterpret_cast<BuildObject*>(self);
}

void dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  object_of(self).~BuildObject();
  type->tp_free(self);
  Py_DECREF(type);
}

// Fresh memory of much is taken from the system without the lock.
SharedReservation reserved(PyObject* self, const char* name, uint64_t bytes) {
  const SharedKv held = link_of(self, name);
  return shared(waited(held.get(), kForever_ms, [&] { return held->client.reserve(bytes); }), name);
}

PyObject* begin_build(PyObject* self, PyObject* /*none*/) {
  return guarded([&] { return object_of(self).built->begin(); });
}

PyObject* end_build(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    BuildObject& build = object_of(self);
    SharedReservation memory = build.built->end(count > 0 && args[0] == Py_None);
    const SharedKv held = std::exchange(build.link, nullptr);
    if (memory == nullptr) return Py_NewRef(Py_False);
    Waiting::refuse_in_handler(held.get(), "build");
    PutBuiltRequest request(build.built, std::move(memory));
    return outcome_of(held, request);
  });
}

PyObject* version(PyObject* self, void* /*none*/) {
  return object_of(self).built->version_or_none();
}

void add_build(py::module_& module) {
  static std::array<PyMethodDef, 3> methods = {{
      {"__enter__", &begin_build, METH_NOARGS, nullptr},
      {"__exit__", as_function<&end_build>(), METH_FASTCALL, nullptr},
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
      {Py_tp_doc, const_cast<char*>("An array that is put at the end of its `with` block: what "
                                    "Client.build() returns.")},
      {0, nullptr},
  }};
  static PyType_Spec spec = {.name = "refract._refract.Build",
                             .basicsize = sizeof(BuildObject),
                             .itemsize = 0,
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = slots.data()};
  g_build_type = add_type(module, spec);
}

}  // namespace

namespace kv {

PyObject* reserve(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const uint64_t bytes = reserved_bytes_of({args, count, names});
    return new_reservation(reserved(self, "reserve", bytes));
  });
}

PyObject* build(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const BuildArguments given({args, count, names});
    auto built = std::make_shared<Built>(given, reserved(self, "build", given.bytes));
    PyObject* const object = g_build_type->tp_alloc(g_build_type, 0);
    if (object == nullptr) raise_pending();
    // What it begins with is Python's.
    new (&object_of(object).link) SharedKv(link_of(self, "build"));
    new (&object_of(object).built) std::shared_ptr<Built>(std::move(built));
    return object;
  });
}

}  // namespace kv

void add_building(py::module_& module) {
  add_reservation(module);
  add_build(module);
}

}  // namespace refract::python
