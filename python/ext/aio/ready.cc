// SPDX-License-Identifier: Apache-2.0
#include "python/ext/aio/ready.h"

#include <array>

#include "python/ext/errors.h"
#include "python/ext/kv_link.h"

namespace refract::python::aio {

namespace py = pybind11;

namespace {

struct ReadyObject {
  PyObject_HEAD PyObject* value;
  bool is_error;
};

PyTypeObject* g_type = nullptr;

ReadyObject& object_of(PyObject* self) {
  return *reinterpret_cast<ReadyObject*>(self);
}

void dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  Py_XDECREF(object_of(self).value);
  type->tp_free(self);
  Py_DECREF(type);
}

// What an await of CPython 3.10 or later calls: no exception is made for the value.
PySendResult send_to(PyObject* self, PyObject* /*value*/, PyObject** result) {
  const ReadyObject& object = object_of(self);
  if (object.is_error) {
    *result = nullptr;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(object.value)), object.value);
    return PYGEN_ERROR;
  }
  *result = Py_NewRef(object.value);
  return PYGEN_RETURN;
}

// What others call.
PyObject* next(PyObject* self) {
  PyObject* value = nullptr;
  if (send_to(self, Py_None, &value) == PYGEN_ERROR) return nullptr;
  // A tuple would be taken for the arguments of the exception, and an exception for itself.
  PyObject* const stop = PyObject_CallOneArg(PyExc_StopIteration, value);
  Py_DECREF(value);
  if (stop != nullptr) PyErr_SetObject(PyExc_StopIteration, stop);
  Py_XDECREF(stop);
  return nullptr;
}

PyObject* send(PyObject* self, PyObject* /*value*/) {
  return next(self);
}

PyObject* throw_in(PyObject* /*self*/, PyObject* const* args, Py_ssize_t count) {
  const bool is_instance = count > 0 && PyExceptionInstance_Check(args[0]);
  if (is_instance) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(args[0])), args[0]);
  } else if (count > 0 && PyExceptionClass_Check(args[0])) {
    PyErr_SetObject(args[0], count > 1 && args[1] != Py_None ? args[1] : nullptr);
  } else {
    PyErr_SetString(PyExc_TypeError, "throw() takes an exception");
  }
  return nullptr;
}

PyObject* close(PyObject* /*self*/, PyObject* /*none*/) {
  return Py_NewRef(Py_None);
}

// `async with` of one whose value is good for `with`: an awaitable of what that begins and ends with.
PyObject* enter(PyObject* self, PyObject* /*none*/) {
  const ReadyObject& object = object_of(self);
  if (object.is_error) return Py_NewRef(self);
  return ready(PyObject_CallMethod(object.value, "__enter__", nullptr));
}

PyObject* leave(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  PyObject* const end = PyObject_GetAttrString(object_of(self).value, "__exit__");
  if (end == nullptr) return nullptr;
  PyObject* const ended = PyObject_Vectorcall(end, args, static_cast<size_t>(count), nullptr);
  Py_DECREF(end);
  return ready(ended);
}

}  // namespace

PyObject* ready(PyObject* value) {
  const bool is_error = value == nullptr;
  if (is_error) {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) return nullptr;
    PyObject* type = nullptr;
    PyObject* trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
  }
  PyObject* const made = g_type->tp_alloc(g_type, 0);
  if (made == nullptr) {
    Py_DECREF(value);
    return nullptr;
  }
  object_of(made).value = value;
  object_of(made).is_error = is_error;
  return made;
}

void add_ready(py::module_& module) {
  // A coroutine has these, so that create_task() takes it.
  static std::array<PyMethodDef, 6> methods = {{
      {"send", &send, METH_O, nullptr},
      {"throw", as_function<&throw_in>(), METH_FASTCALL, nullptr},
      {"close", &close, METH_NOARGS, nullptr},
      {"__aenter__", &enter, METH_NOARGS, nullptr},
      {"__aexit__", as_function<&leave>(), METH_FASTCALL, nullptr},
      {nullptr, nullptr, 0, nullptr},
  }};
  static std::array<PyType_Slot, 7> slots = {{
      {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc)},
      {Py_am_await, reinterpret_cast<void*>(&PyObject_SelfIter)},
      {Py_am_send, reinterpret_cast<void*>(&send_to)},
      {Py_tp_iternext, reinterpret_cast<void*>(&next)},
      {Py_tp_methods, methods.data()},
      {Py_tp_doc, const_cast<char*>("An awaitable whose outcome is there.")},
      {0, nullptr},
  }};
  static PyType_Spec spec = {.name = "refract.aio.Ready",
                             .basicsize = sizeof(ReadyObject),
                             .itemsize = 0,
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = slots.data()};
  g_type = make_type(module, spec);
}

}  // namespace refract::python::aio
