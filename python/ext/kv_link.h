// SPDX-License-Identifier: Apache-2.0
// refract.Client as Python has it: an object of C's API around a connected Client, which the calls that are
// under way share; it ends with the last of them.
//
// Threads: the GIL is held in all of it.
#pragma once

#include <pybind11/pybind11.h>

#include <bit>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "python/ext/errors.h"
#include "python/ext/kv_arguments.h"
#include "python/ext/requests/kv_requests.h"
#include "python/ext/requests/kv_requests_many.h"
#include "python/ext/requests/kv_requests_views.h"
#include "python/ext/waiting.h"

#include "refract/client/client.h"

namespace refract::python {

struct KvLink {
  Client client;
};
using SharedKv = std::shared_ptr<KvLink>;

struct KvObject {
  PyObject_HEAD SharedKv link;  // Null: closed.
  std::string address;
};

// Raises behind close(), and inside of a handler of a signal that came while this client was waiting.
[[nodiscard]] const SharedKv& link_of(PyObject* self, const char* call);

// What a call came to, with what the client knows of a failure of the same thread.
template <typename T>
struct KvOutcome {
  Result<T> result = fail(Code::kUnavailable);
  Report trouble{Code::kOk, "", ""};
};

// `call(Client&) -> Result<T>`, without the GIL. `about`: the key, for people; none: null.
template <typename T, typename Call>
T asked(PyObject* self, const char* name, PyObject* about, uint64_t timeout_ms, Call&& call);

template <typename T, typename Call>
KvOutcome<T> asked_for_outcome(const SharedKv& held, uint64_t timeout_ms, Call&& call) {
  return waited(held.get(), timeout_ms, [&] {
    KvOutcome<T> outcome{.result = std::forward<Call>(call)(held->client)};
    if (!outcome.result) outcome.trouble = held->client.trouble();
    return outcome;
  });
}

template <typename T, typename Call>
T asked(PyObject* self, const char* name, PyObject* about, uint64_t timeout_ms, Call&& call) {
  const SharedKv held = link_of(self, name);
  KvOutcome<T> outcome = asked_for_outcome<T>(held, timeout_ms, std::forward<Call>(call));
  if (!outcome.result) raise(explain_call(name, about, outcome.result.code(), outcome.trouble));
  return std::move(*outcome.result);
}

// What a request (kv_requests.h) comes to. Raises.
template <typename Request>
PyObject* outcome_of(const SharedKv& held, Request& request) {
  const Report trouble = waited(held.get(), request.timeout_ms, [&] {
    request.ask(held->client);
    return request.has_failed() ? held->client.trouble() : Report{Code::kOk, "", ""};
  });
  return request.outcome(trouble);
}

// A whole call. What was raised is set.
template <typename Request>
PyObject* asked_for(PyObject* self, const Arguments& given) {
  return guarded([&] {
    Request request(given);
    return outcome_of(SharedKv(link_of(self, Request::kName)), request);
  });
}

// A function with keywords, as a table of methods has it.
template <auto kFunction>
[[nodiscard]] PyCFunction as_function() noexcept {
  return std::bit_cast<PyCFunction>(kFunction);
}

// Nothing: there is no such entry. Raises what else a call comes to. Where the pins of this thread are used
// up it is a copy.
[[nodiscard]] std::optional<Viewed> viewed(PyObject* self, const char* name, PyObject* key,
                                           PyObject* timeout);
// The default, or the exception that says that there is no such entry.
[[nodiscard]] PyObject* absent(const char* name, PyObject* key, PyObject* instead);

// Calls of one key; of many; the others.
namespace kv {
PyObject* get(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* get_versioned(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* put(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* erase(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* exists(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* cas(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* ttl(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* add(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
int contains(PyObject* self, PyObject* key);
PyObject* view(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* get_into(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* array(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* put_array(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* build(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* reserve(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);

PyObject* get_many(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* put_many(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* exists_many(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* get_many_into(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* prefix_exists(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* scan(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);

PyObject* transaction(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* ping(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* route(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
}  // namespace kv

// The types, and connect().
void add_kv(pybind11::module_& module);
void add_scan(pybind11::module_& module);
void add_transaction(pybind11::module_& module);
void add_building(pybind11::module_& module);
void add_reservation(pybind11::module_& module);
// A type of these slots, made by nothing but the module's functions; the other one is among its names, too.
[[nodiscard]] PyTypeObject* make_type(pybind11::module_& module, PyType_Spec& spec);
PyTypeObject* add_type(pybind11::module_& module, PyType_Spec& spec);

}  // namespace refract::python
