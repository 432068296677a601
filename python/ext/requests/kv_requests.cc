// SPDX-License-Identifier: Apache-2.0
#include "python/ext/requests/kv_requests.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "python/ext/called.h"
#include "python/ext/errors.h"

namespace refract::python {

namespace py = pybind11;
using runtime::Task;

namespace {

py::object made(PyObject* object) {
  if (object == nullptr) raise_pending();
  return py::reinterpret_steal<py::object>(object);
}

// The commonest calls name nothing.
std::array<PyObject*, 6> put_arguments(const Arguments& given) {
  if (given.names == nullptr && given.positional == 2) [[likely]]
    return {given.values[0], given.values[1]};
  return taken("put", given, std::array{"key", "value", "ttl", "if_absent", "if_version", "timeout"}, 2, 2);
}

std::array<PyObject*, 3> get_arguments(const char* call, const Arguments& given) {
  if (given.names == nullptr && (given.positional == 1 || given.positional == 2)) [[likely]]
    return {given.values[0], given.positional == 2 ? given.values[1] : nullptr};
  return taken(call, given, std::array{"key", "default", "timeout"}, 2, 1);
}

Result<int64_t> left_ns(const Got& got, const Result<Pong>& pong) {
  if (!pong) return fail(pong.error());
  // By the node's clock, which differs from this host's by what an administrator has set.
  if (got.expires_wall_ns <= pong->node_wall_ns) return fail(Code::kNotFound);
  return static_cast<int64_t>(got.expires_wall_ns - pong->node_wall_ns);
}

template <typename Request>
[[noreturn]] void raise_failure(const Request& request, const char* name, const Report& trouble) {
  raise(explain_call(name, request.key, request.result.code(), trouble));
}

template <typename Request>
PyObject* version_of(const Request& request, const Report& trouble) {
  if (request.has_failed()) raise_failure(request, Request::kName, trouble);
  return PyLong_FromUnsignedLongLong(*request.result);
}

}  // namespace

PutOptions put_options(PyObject* ttl, PyObject* if_absent, PyObject* if_version) {
  PutOptions options{.if_absent = flag_of(if_absent), .ttl_ns = ttl_ns_of(ttl)};
  if (if_version != nullptr && if_version != Py_None) {
    options.if_version = whole_number_of(if_version, "if_version", UINT64_MAX);
    if (options.if_version == 0) raise_invalid("no version is 0", "if_absent=True asks that there is none");
  }
  if (options.if_absent && options.if_version != 0) {
    raise_invalid("if_absent and if_version contradict each other");
  }
  return options;
}

Report explain_call(const char* name, PyObject* about, Code code, const Report& trouble) {
  const std::string what = name;
  if (about == nullptr) return explain(code, what, trouble, About::kKey);
  const size_t bytes = key_of(about).size();
  if (code == Code::kInvalidArgument && bytes == 0) {
    return {code, what + ": a key has 1 to 65,535 bytes, this one has none", ""};
  }
  if (code == Code::kInvalidArgument && what == "add") {
    return {code, "add to " + shown_key(about) + ": the value, or the sum, is no decimal number of 64 bits",
            "get() reads what it is"};
  }
  return explain(code, what + " of " + shown_key(about), trouble, About::kKey);
}

PyObject* new_bytes(std::span<const std::byte> bytes) {
  const auto size = static_cast<Py_ssize_t>(bytes.size());
  if (bytes.size() <= kCopiedUnderLock) {
    return made(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes.data()), size)).release().ptr();
  }
  py::object object = made(PyBytes_FromStringAndSize(nullptr, size));
  (void)without_gil([&] {
    std::memcpy(PyBytes_AS_STRING(object.ptr()), bytes.data(), bytes.size());
    return true;
  });
  return object.release().ptr();
}

PyObject* route_record(const Route& route, const std::string& text, const Report& trouble) {
  if (route.transport.empty()) {
    const Code code = trouble.code == Code::kOk ? Code::kUnavailable : trouble.code;
    raise(explain_call("route", nullptr, code, trouble));
  }
  return record("Route", route.transport, route.address, route.device, route.shards, route.direct,
                route.reason, route.server, route.server_pid, text)
      .release()
      .ptr();
}

GetRequest::GetRequest(const char* call, const Arguments& given)
    : name(call), is_versioned(std::strcmp(call, "get") != 0) {
  const auto [one, otherwise, seconds] = get_arguments(call, given);
  key = one;
  timeout = seconds;
  bytes = key_of(one);
  instead = otherwise;
  timeout_ms = timeout_ms_of(timeout);
}

Task<> GetRequest::ask(AsyncClient& client) {
  const Result<Got> got = co_await client.get(bytes, value);
  result = got;
}

PyObject* GetRequest::found(std::span<const std::byte> of, uint64_t version) const {
  PyObject* const copy = new_bytes(of);
  return is_versioned ? record("Versioned", made(copy), version).release().ptr() : copy;
}

PyObject* GetRequest::failed(Code code, const Report& trouble) const {
  if (code == Code::kNotFound && instead != nullptr) return Py_NewRef(instead);
  raise(explain_call(name, key, code, trouble));
}

PyObject* GetRequest::outcome(const Report& trouble) const {
  return result ? found(Bytes(value), result->version) : failed(result.code(), trouble);
}

ExistsRequest::ExistsRequest(const Arguments& given) {
  const auto [one, timeout] = taken("exists", given, std::array{"key", "timeout"}, 1, 1);
  key = one;
  bytes = key_of(one);
  timeout_ms = timeout_ms_of(timeout);
}

Task<> ExistsRequest::ask(AsyncClient& client) {
  result = co_await client.exists(bytes);
}

PyObject* ExistsRequest::outcome(const Report& trouble) const {
  if (has_failed() && result.code() != Code::kNotFound) raise_failure(*this, kName, trouble);
  return PyBool_FromLong(result ? 1 : 0);
}

PutRequest::PutRequest(const Arguments& given) : PutRequest(put_arguments(given)) {}

PutRequest::PutRequest(const std::array<PyObject*, 6>& given)
    : bytes(key_of(given[0])), options(put_options(given[2], given[3], given[4])), value(given[1], options) {
  key = given[0];
  timeout_ms = timeout_ms_of(given[5]);
}

Task<> PutRequest::ask(AsyncClient& client) {
  const Result<uint64_t> version = co_await client.put(bytes, value.bytes(), options);
  result = version;
}

PyObject* PutRequest::outcome(const Report& trouble) const {
  return version_of(*this, trouble);
}

EraseRequest::EraseRequest(const Arguments& given) {
  const auto [one, version, timeout] =
      taken("erase", given, std::array{"key", "if_version", "timeout"}, 1, 1);
  key = one;
  bytes = key_of(one);
  if_version = put_options(nullptr, nullptr, version).if_version;
  timeout_ms = timeout_ms_of(timeout);
}

Task<> EraseRequest::ask(AsyncClient& client) {
  result = co_await client.erase(bytes, if_version);
}

PyObject* EraseRequest::outcome(const Report& trouble) const {
  return version_of(*this, trouble);
}

void BatchRequest::take(const Result<>& done) {
  if (done) {
    result = batch.version(0);
  } else {
    result = fail(done.error());
  }
}

Task<> BatchRequest::ask(AsyncClient& client) {
  const Result<> done = co_await client.commit(batch);
  take(done);
}

CasRequest::CasRequest(const Arguments& given) {
  const auto [one, old, data, ttl, timeout] =
      taken("cas", given, std::array{"key", "old", "new", "ttl", "timeout"}, 3, 3);
  key = one;
  const Bytes bytes = key_of(one);
  const Value expected(old);
  const Value value(data);
  value_bytes = expected.bytes().size() + value.bytes().size();
  batch.if_value(bytes, expected.bytes()).put(bytes, value.bytes(), ttl_ns_of(ttl));
  timeout_ms = timeout_ms_of(timeout);
}

PyObject* CasRequest::outcome(const Report& trouble) const {
  return version_of(*this, trouble);
}

AddRequest::AddRequest(const Arguments& given) {
  const auto [one, addend, timeout] = taken("add", given, std::array{"key", "addend", "timeout"}, 2, 1);
  key = one;
  batch.add(key_of(one), addend_of(addend));
  timeout_ms = timeout_ms_of(timeout);
}

PyObject* AddRequest::outcome(const Report& trouble) const {
  if (has_failed()) raise_failure(*this, kName, trouble);
  if (*result == 0) {
    raise({Code::kIndeterminate,
           "add of " + shown_key(key) + ": it was done, but the answer with the sum was lost",
           "get() reads what there is now"});
  }
  return PyLong_FromLongLong(batch.sum(0));
}

TtlRequest::TtlRequest(const Arguments& given) {
  const auto [one, timeout] = taken("ttl", given, std::array{"key", "timeout"}, 1, 1);
  key = one;
  bytes = key_of(one);
  timeout_ms = timeout_ms_of(timeout);
}

void TtlRequest::ask(Client& client) {
  const Result<Got> got = client.exists(bytes);
  if (!got) {
    result = fail(got.error());
  } else if (got->expires_wall_ns == 0) {
    result = -1;
  } else {
    result = left_ns(*got, client.ping());
  }
}

Task<> TtlRequest::ask(AsyncClient& client) {
  const Result<Got> got = co_await client.exists(bytes);
  if (!got) {
    result = fail(got.error());
  } else if (got->expires_wall_ns == 0) {
    result = -1;
  } else {
    const Result<Pong> pong = co_await client.ping();
    result = left_ns(*got, pong);
  }
}

PyObject* TtlRequest::outcome(const Report& trouble) const {
  if (has_failed()) raise_failure(*this, kName, trouble);
  if (*result < 0) return Py_NewRef(Py_None);
  return PyFloat_FromDouble(static_cast<double>(*result) / 1e9);
}

PingRequest::PingRequest(const Arguments& given) {
  const auto [timeout] = taken("ping", given, std::array{"timeout"}, 0, 0);
  timeout_ms = timeout_ms_of(timeout);
}

Task<> PingRequest::ask(AsyncClient& client) {
  result = co_await client.ping();
}

PyObject* PingRequest::outcome(const Report& trouble) const {
  if (has_failed()) raise_failure(*this, kName, trouble);
  return record("Pong", static_cast<double>(result->round_trip_ns) / 1e9,
                static_cast<double>(result->node_wall_ns) / 1e9)
      .release()
      .ptr();
}

}  // namespace refract::python
