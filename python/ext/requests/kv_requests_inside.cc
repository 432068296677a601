// SPDX-License-Identifier: Apache-2.0
#include "python/ext/requests/kv_requests_inside.h"

#include <algorithm>
#include <array>
#include <utility>

#include "python/ext/errors.h"
#include "python/ext/requests/kv_requests.h"
#include "python/ext/requests/kv_requests_many.h"

namespace refract::python::inside {

namespace py = pybind11;
using runtime::Task;

namespace {

[[noreturn]] void raise_failure(const char* name, PyObject* key, Code code) {
  raise(explain_call(name, key, code, {Code::kOk, "", ""}));
}

}  // namespace

TransactionOptions transaction_options(PyObject* timeout) {
  TransactionOptions options;
  if (timeout != nullptr && timeout != Py_None) {
    options.timeout_ns = std::min<uint64_t>(ms_of(timeout, "timeout"), 86'400'000) * 1'000'000;
  }
  return options;
}

BodyArguments::BodyArguments(const Arguments& given) {
  const auto [function, timeout, read_only] =
      taken("transaction", given, std::array{"body", "timeout", "read_only"}, 1, 1);
  if (PyCallable_Check(function) == 0) raise_type("transaction() takes a function of a transaction");
  body = function;
  options = transaction_options(timeout);
  reads_only = flag_of(read_only);
}

void require(const Result<>& done, const char* name, PyObject* key) {
  if (!done) raise_failure(name, key, done.code());
}

GetRequest::GetRequest(const Arguments& given) {
  const auto [one, otherwise] = taken(kName, given, std::array{"key", "default"}, 2, 1);
  key = one;
  instead = otherwise;
  bytes = key_of(one);
}

Task<> GetRequest::ask(AsyncTransaction& transaction) {
  result = co_await transaction.get(bytes);
}

PyObject* GetRequest::outcome() const {
  if (result) return new_bytes(Bytes(*result));
  if (result.code() == Code::kNotFound && instead != nullptr) return Py_NewRef(instead);
  raise_failure(kName, key, result.code());
}

GetManyRequest::GetManyRequest(const Arguments& given) {
  const auto [keys] = taken(kName, given, std::array{"keys"}, 1, 1);
  all = keys_of(keys);
  items.resize(static_cast<size_t>(PyTuple_GET_SIZE(all.ptr())));
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].key = key_of(PyTuple_GET_ITEM(all.ptr(), static_cast<Py_ssize_t>(i)));
  }
}

PyObject* GetManyRequest::outcome() const {
  py::list values = list_of(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const Code code = items[i].result.code();
    // One that failed fails them all: a body must not continue on half a picture.
    if (code != Code::kOk && code != Code::kNotFound) {
      raise_failure("get", PyTuple_GET_ITEM(all.ptr(), static_cast<Py_ssize_t>(i)), code);
    }
    set_item(values, i, code == Code::kOk ? new_bytes(Bytes(items[i].value)) : Py_NewRef(Py_None));
  }
  return values.release().ptr();
}

ExistsRequest::ExistsRequest(const Arguments& given) {
  const auto [one] = taken(kName, given, std::array{"key"}, 1, 1);
  key = one;
  bytes = key_of(one);
}

Task<> ExistsRequest::ask(AsyncTransaction& transaction) {
  result = co_await transaction.exists(bytes);
}

PyObject* ExistsRequest::outcome() const {
  if (!result) raise_failure(kName, key, result.code());
  return PyBool_FromLong(*result ? 1 : 0);
}

ValidateRequest::ValidateRequest(const Arguments& given) {
  take_arguments(kName, given, {}, 0, 0, {});
}

Task<> ValidateRequest::ask(AsyncTransaction& transaction) {
  result = co_await transaction.validate();
}

PyObject* ValidateRequest::outcome() const {
  if (!result) raise_failure(kName, nullptr, result.code());
  return Py_NewRef(Py_None);
}

}  // namespace refract::python::inside
