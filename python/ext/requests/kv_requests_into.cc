// SPDX-License-Identifier: Apache-2.0
#include "python/ext/requests/kv_requests_into.h"

#include <algorithm>
#include <array>
#include <string>

#include "python/ext/errors.h"
#include "python/ext/hold.h"

namespace refract::python {

namespace py = pybind11;
using runtime::Task;

namespace {

// Of a target that is shorter than the value, whose length the exception has, too.
py::object too_short(PyObject* key, const GetIntoItem& item, uint64_t target_bytes) {
  py::object error =
      error_of({Code::kTooLarge,
                "get_into of " + shown_key(key) + ": the value has " + std::to_string(item.value_bytes) +
                    " bytes, its target " + std::to_string(target_bytes),
                "pass a longer one: value_bytes of this exception says how long"});
  error.attr("value_bytes") = item.value_bytes;
  return error;
}

bool is_too_short(const GetIntoItem& item, uint64_t target_bytes) {
  return item.result.code() == Code::kTooLarge && item.value_bytes > target_bytes;
}

PyObject* number(uint64_t value) {
  return PyLong_FromUnsignedLongLong(value);
}

PyObject* outcome_of(const GetIntoItem& item, PyObject* key, uint64_t target_bytes) {
  if (item.result) return number(item.result->value_bytes);
  const Code code = item.result.code();
  if (code == Code::kNotFound) return Py_NewRef(Py_None);
  py::object error = is_too_short(item, target_bytes) ? too_short(key, item, target_bytes)
                                                      : failed_one("get_into", key, code);
  return error.release().ptr();
}

// Memory that is written only where values come all the same.
bool is_taken_back(std::span<GetIntoItem> items, uint64_t longest, std::shared_ptr<std::byte>& instead) {
  instead = fresh_memory(longest);
  return AsyncClient::take_buffers_back(items, {instead.get(), instead == nullptr ? 0 : longest});
}

}  // namespace

GetIntoRequest::GetIntoRequest(const Arguments& given) {
  const auto [one, to, timeout] = taken(kName, given, std::array{"key", "buffer", "timeout"}, 2, 2);
  key = one;
  items[0].key = key_of(one);
  timeout_ms = timeout_ms_of(timeout);
  target.emplace(to);
  items[0].buffer = target->bytes();
  target_bytes = items[0].buffer.size();
}

void GetIntoRequest::ask(Client& client) {
  GetIntoItem& into = items[0];
  // By several threads, where it is long.
  into.result = client.get_into(into.key, into.buffer);
  // How long it is.
  if (into.result.code() == Code::kTooLarge) client.multi_get_into(items);
}

bool GetIntoRequest::abandon() noexcept {
  const bool ends_by_itself = is_taken_back(items, target_bytes, instead);
  if (ends_by_itself) target.reset();
  return ends_by_itself;
}

PyObject* GetIntoRequest::outcome(const Report& trouble) const {
  if (item().result) return number(item().result->value_bytes);
  if (is_too_short(item(), target_bytes)) {
    const py::object error = too_short(key, item(), target_bytes);
    PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
    raise_pending();
  }
  raise(explain_call(kName, key, item().result.code(), trouble));
}

GetManyIntoRequest::GetManyIntoRequest(const Arguments& given) {
  const auto [list, buffers, timeout] = taken(kName, given, std::array{"keys", "buffers", "timeout"}, 2, 2);
  all = keys_of(list);
  places = py::reinterpret_steal<py::object>(PySequence_Tuple(buffers));
  if (!places) raise_pending();
  timeout_ms = timeout_ms_of(timeout);
  const Py_ssize_t count = PyTuple_GET_SIZE(all.ptr());
  if (PyTuple_GET_SIZE(places.ptr()) != count) {
    raise_invalid("get_many_into has " + std::to_string(count) + " keys and " +
                  std::to_string(PyTuple_GET_SIZE(places.ptr())) + " buffers");
  }
  targets.reserve(static_cast<size_t>(count));
  items.resize(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    GetIntoItem& item = items[static_cast<size_t>(i)];
    keys.push_back(PyTuple_GET_ITEM(all.ptr(), i));
    item.key = key_of(keys.back());
    item.buffer = targets.emplace_back(PyTuple_GET_ITEM(places.ptr(), i)).bytes();
    target_bytes.push_back(item.buffer.size());
  }
}

bool GetManyIntoRequest::abandon() noexcept {
  const uint64_t longest = target_bytes.empty() ? 0 : *std::ranges::max_element(target_bytes);
  const bool ends_by_itself = is_taken_back(items, longest, instead);
  if (ends_by_itself) targets.clear();
  return ends_by_itself;
}

PyObject* GetManyIntoRequest::outcome(const Report& /*trouble*/) const {
  py::list outcomes = list_of(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    set_item(outcomes, i, outcome_of(items[i], keys[i], target_bytes[i]));
  }
  return outcomes.release().ptr();
}

PrefixExistsRequest::PrefixExistsRequest(const Arguments& given) {
  const auto [list, timeout] = taken(kName, given, std::array{"keys", "timeout"}, 1, 1);
  all = keys_of(list);
  timeout_ms = timeout_ms_of(timeout);
  const Py_ssize_t count = PyTuple_GET_SIZE(all.ptr());
  keys.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) keys.push_back(key_of(PyTuple_GET_ITEM(all.ptr(), i)));
}

Task<> PrefixExistsRequest::ask(AsyncClient& client) {
  result = co_await client.prefix_exists(keys);
}

PyObject* PrefixExistsRequest::outcome(const Report& trouble) const {
  if (has_failed()) raise(explain_call(kName, nullptr, result.code(), trouble));
  return number(*result);
}

}  // namespace refract::python
