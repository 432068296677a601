// SPDX-License-Identifier: Apache-2.0
// Values that are built where the node reads them (docs/design/036): Reservation, some bytes, and Build, an
// array that is put at the end of its block.
//
// The memory of a reservation serves the next one. A program may keep an array over it longer than the
// reservation lives, so that it goes back with the last view of it (hold.h), and what such a view writes
// later is in no other value.
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "python/ext/arrays/numpy.h"
#include "python/ext/hold.h"
#include "python/ext/kv_link.h"

namespace refract::python {

namespace py = pybind11;

namespace {

using SharedReservation = std::shared_ptr<refract::Reservation>;

struct ReservationObject {
  PyObject_HEAD SharedReservation memory;  // Null: let go of.
  py::object hold;
};

struct BuildObject {
  PyObject_HEAD SharedKv link;
  SharedReservation memory;  // Null: it has ended.
  py::object key;
  py::object array;  // Null: it has ended.
  PutOptions options;
  uint64_t timeout_ms;
  uint64_t version;  // 0: it was not put, or not yet.
  uint32_t forks;
  bool is_entered;
};

PyTypeObject* g_reservation_type = nullptr;
PyTypeObject* g_build_type = nullptr;

template <typename Object>
Object& object_of(PyObject* self) noexcept {
  return *reinterpret_cast<Object*>(self);
}

template <typename Object>
void dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  object_of<Object>(self).~Object();
  type->tp_free(self);
  Py_DECREF(type);
}

// Fresh memory of much is taken from the system without the lock.
SharedReservation reserved(PyObject* self, const char* name, uint64_t bytes) {
  const SharedKv held = link_of(self, name);
  auto outcome = asked_for_outcome<SharedReservation>(
      held, kForever_ms, [&](Client& client) -> Result<SharedReservation> {
        Result<refract::Reservation> made = client.reserve(bytes);
        if (!made) return fail(made.code());
        return std::make_shared<refract::Reservation>(std::move(*made));
      });
  if (outcome.result) return std::move(*outcome.result);
  raise(explain_call(name, nullptr, outcome.result.code(), {Code::kOk, "", ""}));
}

const SharedReservation& memory_of(PyObject* self) {
  const ReservationObject& object = object_of<ReservationObject>(self);
  if (object.memory == nullptr) raise_invalid("this reservation was released", "reserve() again");
  refuse_in_child(hold_of(object.hold).forks, "a reservation");
  return object.memory;
}

Py_ssize_t length(PyObject* self) {
  const SharedReservation& memory = object_of<ReservationObject>(self).memory;
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
  ReservationObject& object = object_of<ReservationObject>(self);
  object.memory = nullptr;
  object.hold = py::object();
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
    result = fill_view(view, object_of<ReservationObject>(self).hold, bytes, flags);
    return nullptr;
  });
  (void)none;
  if (result != 0) view->obj = nullptr;
  return result;
}

void end_export(PyObject* /*self*/, Py_buffer* /*view*/) {}

// What an array of this shape takes; nothing: more than any value.
std::optional<uint64_t> bytes_of_array(uint64_t item_bytes, std::span<const uint64_t> shape) {
  uint64_t bytes = item_bytes;
  for (const uint64_t length : shape) {
    if (length == 0) return 0;
  }
  for (const uint64_t length : shape) {
    if (length > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / bytes) return std::nullopt;
    bytes *= length;
  }
  return bytes;
}

std::vector<uint64_t> shape_of(PyObject* shape) {
  std::vector<uint64_t> lengths;
  if (PyIndex_Check(shape) != 0) {
    lengths.push_back(bytes_of(shape, "a length"));
    return lengths;
  }
  const py::object all = py::reinterpret_steal<py::object>(PySequence_Tuple(shape));
  if (!all) raise_pending();
  for (const py::handle length : all) lengths.push_back(bytes_of(length, "a length"));
  return lengths;
}

ArrayShape wanted_shape(PyObject* shape, PyObject* order) {
  ArrayShape wanted{.lengths = shape_of(shape)};
  if (order == nullptr) return wanted;
  const std::string name = PyUnicode_Check(order) != 0 ? py::str(py::handle(order)).cast<std::string>() : "";
  if (name != "C" && name != "F") raise_invalid("order is 'C' or 'F'");
  wanted.is_fortran = name == "F";
  return wanted;
}

PyObject* begin_build(PyObject* self, PyObject* /*none*/) {
  return guarded([&]() -> PyObject* {
    BuildObject& build = object_of<BuildObject>(self);
    if (build.is_entered || !build.array) raise_invalid("a build is for one `with` block", "build() again");
    refuse_in_child(build.forks, "a build");
    build.is_entered = true;
    return Py_NewRef(build.array.ptr());
  });
}

PyObject* end_build(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    BuildObject& build = object_of<BuildObject>(self);
    build.array = py::object();
    const SharedReservation memory = std::exchange(build.memory, nullptr);
    const SharedKv held = std::exchange(build.link, nullptr);
    const bool is_well = count > 0 && args[0] == Py_None;
    if (memory == nullptr || !is_well) return Py_NewRef(Py_False);
    Waiting::refuse_in_handler(held.get(), "build");
    const Bytes key = key_of(build.key);
    const auto outcome = asked_for_outcome<uint64_t>(
        held, build.timeout_ms, [&](Client& client) { return client.put(key, *memory, build.options); });
    if (!outcome.result)
      raise(explain_call("build", build.key.ptr(), outcome.result.code(), outcome.trouble));
    build.version = *outcome.result;
    return Py_NewRef(Py_False);
  });
}

PyObject* version(PyObject* self, void* /*none*/) {
  const uint64_t number = object_of<BuildObject>(self).version;
  return number == 0 ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(number);
}

template <typename Object>
PyObject* made(PyTypeObject* type) {
  PyObject* const object = type->tp_alloc(type, 0);
  if (object == nullptr) raise_pending();
  return object;
}

py::object hold_over(const SharedReservation& memory) {
  return make_writable_hold(memory, memory->bytes());
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
      {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc<ReservationObject>)},
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
      {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc<BuildObject>)},
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

BuiltValue::BuiltValue(PyObject* from, PutOptions& options) {
  if (Py_TYPE(from) != g_reservation_type) [[likely]] {
    value_.emplace(from);
    return;
  }
  built_ = memory_of(from);
  options.built_in = built_.get();
}

namespace kv {

PyObject* reserve(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [size] = taken("reserve", {args, count, names}, std::array{"size"}, 1, 1);
    const uint64_t bytes = bytes_of(size, "size");
    if (bytes == 0) raise_invalid("reserve of no bytes");
    SharedReservation memory = reserved(self, "reserve", bytes);
    py::object hold = hold_over(memory);
    PyObject* const object = made<ReservationObject>(g_reservation_type);
    // What it begins with is Python's.
    ReservationObject& reservation = object_of<ReservationObject>(object);
    new (&reservation.memory) SharedReservation(std::move(memory));
    new (&reservation.hold) py::object(std::move(hold));
    return object;
  });
}

PyObject* build(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [key, shape, dtype, order, ttl, if_absent, if_version, timeout] = taken(
        "build", {args, count, names},
        std::array{"key", "shape", "dtype", "order", "ttl", "if_absent", "if_version", "timeout"}, 3, 2);
    (void)link_of(self, "build");
    (void)key_of(key);
    const PutOptions options = put_options(ttl, if_absent, if_version);
    const uint64_t timeout_ms = timeout_ms_of(timeout);
    const py::object type = wanted_dtype(dtype == nullptr ? Py_None : dtype);
    const ArrayShape wanted = wanted_shape(shape, order);
    const std::string header = npy_header(literal_of(type), wanted.is_fortran, wanted.lengths);
    const std::optional<uint64_t> items_bytes = bytes_of_array(item_bytes_of(type), wanted.lengths);
    if (!items_bytes || *items_bytes > std::numeric_limits<int64_t>::max() - header.size()) {
      raise(explain_call("build", key, Code::kTooLarge, {Code::kOk, "", ""}));
    }
    SharedReservation memory = reserved(self, "build", header.size() + *items_bytes);
    std::memcpy(memory->bytes().data(), header.data(), header.size());
    py::object array = array_over(hold_over(memory), header.size(), type, wanted);
    PyObject* const object = made<BuildObject>(g_build_type);
    // What it begins with is Python's.
    BuildObject& building = object_of<BuildObject>(object);
    new (&building.link) SharedKv(link_of(self, "build"));
    new (&building.memory) SharedReservation(std::move(memory));
    new (&building.key) py::object(py::reinterpret_borrow<py::object>(key));
    new (&building.array) py::object(std::move(array));
    new (&building.options) PutOptions(options);
    building.timeout_ms = timeout_ms;
    building.forks = forks();
    return object;
  });
}

}  // namespace kv

void add_building(py::module_& module) {
  add_reservation(module);
  add_build(module);
}

}  // namespace refract::python
