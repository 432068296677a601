// SPDX-License-Identifier: Apache-2.0
#include "python/ext/requests/kv_requests_many.h"

#include <array>
#include <utility>

#include "python/ext/errors.h"
#include "python/ext/requests/kv_requests.h"

namespace refract::python {

namespace py = pybind11;

namespace {

// Their keys, each of which is a row.
template <typename Request>
void take_keys(Request& request, const Arguments& given) {
  const auto [keys, timeout] = taken(Request::kName, given, std::array{"keys", "timeout"}, 1, 1);
  request.all = keys_of(keys);
  request.timeout_ms = timeout_ms_of(timeout);
  const Py_ssize_t count = PyTuple_GET_SIZE(request.all.ptr());
  request.items.resize(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    request.keys.push_back(PyTuple_GET_ITEM(request.all.ptr(), i));
    request.items[static_cast<size_t>(i)].key = key_of(request.keys.back());
  }
}

}  // namespace

py::list list_of(size_t count) {
  py::object list = py::reinterpret_steal<py::object>(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!list) raise_pending();
  return list;
}

void set_item(const py::list& list, size_t at, PyObject* item) {
  if (item == nullptr) raise_pending();
  PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(at), item);
}

py::tuple keys_of(PyObject* keys) {
  if (PyUnicode_Check(keys) != 0 || PyBytes_Check(keys) != 0)
    raise_type("keys are a list of keys, not one key");
  py::object all = py::reinterpret_steal<py::object>(PySequence_Tuple(keys));
  if (!all) raise_pending();
  return all;
}

py::object failed_one(const char* name, PyObject* key, Code code) {
  return error_of(explain_call(name, key, code, {Code::kOk, "", ""}));
}

GetManyRequest::GetManyRequest(const Arguments& given) {
  take_keys(*this, given);
}

PyObject* GetManyRequest::outcome(const Report& /*trouble*/) const {
  py::list outcomes = list_of(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const GetItem& item = items[i];
    if (item.result) {
      set_item(outcomes, i, new_bytes(Bytes(item.value)));
    } else if (item.result.code() == Code::kNotFound) {
      set_item(outcomes, i, Py_NewRef(Py_None));
    } else {
      set_item(outcomes, i, failed_one("get", keys[i], item.result.code()).release().ptr());
    }
  }
  return outcomes.release().ptr();
}

// Pairs of a dict, or of anything that gives pairs.
PutManyRequest::PutManyRequest(const Arguments& given) {
  const auto [pairs, ttl, if_absent, timeout] =
      taken(kName, given, std::array{"items", "ttl", "if_absent", "timeout"}, 1, 1);
  all = py::reinterpret_steal<py::object>(PyDict_Check(pairs) != 0 ? PyDict_Items(pairs)
                                                                   : PySequence_List(pairs));
  if (!all) raise_pending();
  for (const py::handle pair : py::reinterpret_borrow<py::list>(all)) {
    // A list could be changed meanwhile.
    if (PyTuple_Check(pair.ptr()) == 0 || PyTuple_GET_SIZE(pair.ptr()) != 2) {
      raise_type("items are a dict, or tuples: (key, value)");
    }
    keys.push_back(PyTuple_GET_ITEM(pair.ptr(), 0));
    values.emplace_back(PyTuple_GET_ITEM(pair.ptr(), 1));
  }
  const PutOptions options{.if_absent = flag_of(if_absent), .ttl_ns = ttl_ns_of(ttl)};
  items.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    items.push_back({.key = key_of(keys[i]), .value = values[i].bytes(), .options = options});
  }
  timeout_ms = timeout_ms_of(timeout);
}

PyObject* PutManyRequest::outcome(const Report& /*trouble*/) const {
  py::list outcomes = list_of(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const auto& result = items[i].result;
    set_item(outcomes, i,
             result ? PyLong_FromUnsignedLongLong(*result)
                    : failed_one("put", keys[i], result.code()).release().ptr());
  }
  return outcomes.release().ptr();
}

ExistsManyRequest::ExistsManyRequest(const Arguments& given) {
  take_keys(*this, given);
}

PyObject* ExistsManyRequest::outcome(const Report& /*trouble*/) const {
  py::list outcomes = list_of(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const Code code = items[i].result.code();
    const bool is_told = code == Code::kOk || code == Code::kNotFound;
    set_item(outcomes, i,
             is_told ? PyBool_FromLong(code == Code::kOk ? 1 : 0)
                     : failed_one("exists", keys[i], code).release().ptr());
  }
  return outcomes.release().ptr();
}

ScanArguments::ScanArguments(const Arguments& given) {
  const auto [begin, seconds] = taken("scan", given, std::array{"prefix", "timeout"}, 1, 0);
  if (begin != nullptr) prefix = key_of(begin).text();
  timeout = seconds;
}

}  // namespace refract::python
