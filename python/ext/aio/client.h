// SPDX-License-Identifier: Apache-2.0
// refract.aio.Client, and what belongs to it.
//
// Threads: the GIL is held in all of it.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "python/ext/aio/turns.h"

namespace refract::python::aio {

// The types, and the functions that refract.aio calls.
void add_aio(pybind11::module_& module);
void add_transaction(pybind11::module_& module);
void add_build(pybind11::module_& module);

// A new Client of these turns. Raises.
[[nodiscard]] PyObject* make_client(Turns& turns, const std::string& address);
// Of a Client. Raises behind close(), and elsewhere than in its loop.
[[nodiscard]] Turns& turns_of(PyObject* client, const char* call);
[[nodiscard]] bool is_client(PyObject* object);

// Calls of a Client: an awaitable of a Reservation, and an aio.Build.
[[nodiscard]] PyObject* reserve(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
[[nodiscard]] PyObject* build(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);

// transaction(body), as asyncio has it: refract.aio runs the body.
[[nodiscard]] PyObject* begin_transaction(PyObject* module, PyObject* const* args, Py_ssize_t count,
                                          PyObject* names);

}  // namespace refract::python::aio
