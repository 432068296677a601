// SPDX-License-Identifier: Apache-2.0
// Values that are looked at where they lie.
#include <utility>

#include "python/ext/kv_link.h"
#include "python/ext/requests/kv_requests_views.h"

namespace refract::python {

namespace py = pybind11;

namespace {

PyObject* looked_at(PyObject* self, const char* name, const Arguments& given) {
  const ViewRequest request(name, given);
  std::optional<Viewed> seen = viewed(self, name, request.key, request.timeout);
  return seen ? request.found(std::move(*seen)) : absent(name, request.key, request.instead);
}

}  // namespace

std::optional<Viewed> viewed(PyObject* self, const char* name, PyObject* key, PyObject* timeout) {
  const SharedKv& link = link_of(self, name);
  Look look{.key = key_of(key)};
  Result<View> view = link->client.view_at_once(look.key);
  if (view) [[likely]]
    return Viewed(std::move(*view));
  Report trouble{Code::kOk, "", ""};
  Code code = view.code();
  if (!is_settled(code)) {
    const SharedKv held = link;
    trouble = waited(held.get(), timeout_ms_of(timeout), [&] {
      look.ask(held->client);
      return look.result ? Report{Code::kOk, "", ""} : held->client.trouble();
    });
    if (look.has_no_memory) {
      PyErr_NoMemory();
      raise_pending();
    }
    if (look.result) return std::move(*look.result);
    code = look.result.code();
  }
  if (code != Code::kNotFound) raise(explain_call(name, key, code, trouble));
  return std::nullopt;
}

namespace kv {

PyObject* view(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] { return looked_at(self, "view", {args, count, names}); });
}

PyObject* array(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] { return looked_at(self, "array", {args, count, names}); });
}

}  // namespace kv
}  // namespace refract::python
