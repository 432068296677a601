// SPDX-License-Identifier: Apache-2.0
// Calls of one key.
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "python/ext/kv_link.h"
#include "python/ext/requests/kv_requests.h"

namespace refract::python {

namespace py = pybind11;

namespace {

// From here on several threads copy one value (ClientOptions::copy_threads).
constexpr uint64_t kCopiedByTeam = 4 * 1024 * 1024;

// The value that the view has, or, where another came meanwhile, that.
PyObject* copied_by_team(const SharedKv& held, Bytes key, const Viewed& view) {
  const auto bytes = view.bytes();
  py::object object = py::reinterpret_steal<py::object>(
      PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes.size())));
  if (!object) raise_pending();
  const std::span<std::byte> room{reinterpret_cast<std::byte*>(PyBytes_AS_STRING(object.ptr())),
                                  bytes.size()};
  (void)without_gil([&] {
    const auto got = held->client.get_into(key, room);
    if (!got || got->value_bytes != room.size() || got->version != view.version()) {
      std::memcpy(room.data(), bytes.data(), room.size());
    }
    return true;
  });
  return object.release().ptr();
}

PyObject* got(PyObject* self, const GetRequest& request) {
  const std::optional<Viewed> view = viewed(self, request.name, request.key, request.timeout);
  if (!view) return absent(request.name, request.key, request.instead);
  const bool is_for_team = view->bytes().size() >= kCopiedByTeam && !view->is_copy();
  if (!is_for_team || request.is_versioned) [[likely]]
    return request.found(view->bytes(), view->version());
  return copied_by_team(SharedKv(link_of(self, request.name)), request.bytes, *view);
}

PyObject* is_there(PyObject* self, ExistsRequest& request) {
  const SharedKv& link = link_of(self, ExistsRequest::kName);
  KvOutcome<Got> outcome{.result = link->client.exists_at_once(request.bytes)};
  if (!outcome.result && !is_settled(outcome.result.code())) {
    const SharedKv held = link;
    outcome = asked_for_outcome<Got>(held, request.timeout_ms,
                                     [&](Client& client) { return client.exists(request.bytes); });
  }
  request.result = outcome.result;
  return request.outcome(outcome.trouble);
}

}  // namespace

PyObject* absent(const char* name, PyObject* key, PyObject* instead) {
  if (instead == nullptr) raise(explain_call(name, key, Code::kNotFound, {Code::kOk, "", ""}));
  return Py_NewRef(instead);
}

namespace kv {

PyObject* get(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] { return got(self, GetRequest({args, count, names})); });
}

PyObject* get_versioned(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] { return got(self, GetRequest("get_versioned", {args, count, names})); });
}

PyObject* exists(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    ExistsRequest request({args, count, names});
    return is_there(self, request);
  });
}

int contains(PyObject* self, PyObject* key) {
  PyObject* const there = guarded([&] {
    ExistsRequest request({&key, 1, nullptr});
    return is_there(self, request);
  });
  if (there == nullptr) return -1;
  Py_DECREF(there);  // One of the two that never go.
  return there == Py_True ? 1 : 0;
}

PyObject* put(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return asked_for<PutRequest>(self, {args, count, names});
}

PyObject* erase(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return asked_for<EraseRequest>(self, {args, count, names});
}

PyObject* cas(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return asked_for<CasRequest>(self, {args, count, names});
}

PyObject* add(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return asked_for<AddRequest>(self, {args, count, names});
}

PyObject* ttl(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return asked_for<TtlRequest>(self, {args, count, names});
}

PyObject* ping(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return asked_for<PingRequest>(self, {args, count, names});
}

}  // namespace kv
}  // namespace refract::python
