// SPDX-License-Identifier: Apache-2.0
// Calls of one key.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "python/ext/called.h"
#include "python/ext/kv_link.h"

namespace refract::python {

namespace py = pybind11;

namespace {

using Names1 = std::array<const char*, 2>;

// From here on several threads copy one value (ClientOptions::copy_threads).
constexpr uint64_t kCopiedByTeam = 4 * 1024 * 1024;

py::object made(PyObject* object) {
  if (object == nullptr) raise_pending();
  return py::reinterpret_steal<py::object>(object);
}

// The value that the view has, or, where another came meanwhile, that.
PyObject* bytes_of_view(const SharedKv& held, Bytes key, const Viewed& view) {
  const auto bytes = view.bytes();
  if (bytes.size() < kCopiedByTeam || view.is_copy()) return new_bytes(bytes);
  py::object object = made(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes.size())));
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

// The first change's outcome of a batch.
Result<uint64_t> committed(Client& client, Batch& batch) {
  const Result<> done = client.commit(batch);
  if (!done) return fail(done.error());
  return batch.version(0);
}

bool is_there(PyObject* self, const char* name, PyObject* key, PyObject* timeout) {
  const SharedKv& link = link_of(self, name);
  const Bytes bytes = key_of(key);
  Result<Got> got = link->client.exists_at_once(bytes);
  Report trouble{Code::kOk, "", ""};
  if (!got && !is_settled(got.code())) {
    const SharedKv held = link;
    KvOutcome<Got> outcome = asked_for_outcome<Got>(held, timeout_ms_of(timeout),
                                                    [&](Client& client) { return client.exists(bytes); });
    got = outcome.result;
    trouble = std::move(outcome.trouble);
  }
  if (!got && got.code() != Code::kNotFound) raise(explain_call(name, key, got.code(), trouble));
  return got.has_value();
}

}  // namespace

bool is_settled(Code code) noexcept {
  return code != Code::kInvalidated && code != Code::kCorrupt && code != Code::kOverloaded;
}

PyObject* absent(const char* name, PyObject* key, PyObject* instead) {
  if (instead == nullptr) raise(explain_call(name, key, Code::kNotFound, {Code::kOk, "", ""}));
  return Py_NewRef(instead);
}

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

namespace kv {

PyObject* get(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    std::array<PyObject*, 3> given{};
    if (names == nullptr && (count == 1 || count == 2)) [[likely]] {
      std::copy_n(args, count, given.begin());
    } else {
      given = taken("get", {args, count, names}, std::array{"key", "default", "timeout"}, 2, 1);
    }
    const auto [key, instead, timeout] = given;
    const std::optional<Viewed> view = viewed(self, "get", key, timeout);
    if (!view) return absent("get", key, instead);
    if (view->bytes().size() < kCopiedByTeam) return new_bytes(view->bytes());
    return bytes_of_view(SharedKv(link_of(self, "get")), key_of(key), *view);
  });
}

PyObject* get_versioned(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [key, instead, timeout] =
        taken("get_versioned", {args, count, names}, std::array{"key", "default", "timeout"}, 2, 1);
    const std::optional<Viewed> view = viewed(self, "get_versioned", key, timeout);
    if (!view) return absent("get_versioned", key, instead);
    return record("Versioned", made(new_bytes(view->bytes())), view->version()).release().ptr();
  });
}

PyObject* exists(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [key, timeout] = taken("exists", {args, count, names}, std::array{"key", "timeout"}, 1, 1);
    return PyBool_FromLong(is_there(self, "exists", key, timeout) ? 1 : 0);
  });
}

int contains(PyObject* self, PyObject* key) {
  int is = -1;
  const PyObject* const none = guarded([&]() -> PyObject* {
    is = is_there(self, "in", key, nullptr) ? 1 : 0;
    return nullptr;
  });
  (void)none;
  return is;
}

PyObject* put(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    std::array<PyObject*, 6> given{};
    if (names == nullptr && count == 2) [[likely]] {
      std::copy_n(args, count, given.begin());
    } else {
      given = taken("put", {args, count, names},
                    std::array{"key", "value", "ttl", "if_absent", "if_version", "timeout"}, 2, 2);
    }
    const auto [key, data, ttl, if_absent, if_version, timeout] = given;
    const Bytes bytes = key_of(key);
    PutOptions options = put_options(ttl, if_absent, if_version);
    const BuiltValue value(data, options);
    return PyLong_FromUnsignedLongLong(
        asked<uint64_t>(self, "put", key, timeout_ms_of(timeout),
                        [&](Client& client) { return client.put(bytes, value.bytes(), options); }));
  });
}

PyObject* erase(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [key, if_version, timeout] =
        taken("erase", {args, count, names}, std::array{"key", "if_version", "timeout"}, 1, 1);
    const Bytes bytes = key_of(key);
    const uint64_t version = put_options(nullptr, nullptr, if_version).if_version;
    return PyLong_FromUnsignedLongLong(
        asked<uint64_t>(self, "erase", key, timeout_ms_of(timeout),
                        [&](Client& client) { return client.erase(bytes, version); }));
  });
}

PyObject* cas(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [key, old, data, ttl, timeout] =
        taken("cas", {args, count, names}, std::array{"key", "old", "new", "ttl", "timeout"}, 3, 3);
    const Bytes bytes = key_of(key);
    const Value expected(old);
    const Value value(data);
    Batch batch;
    batch.if_value(bytes, expected.bytes()).put(bytes, value.bytes(), ttl_ns_of(ttl));
    return PyLong_FromUnsignedLongLong(asked<uint64_t>(
        self, "cas", key, timeout_ms_of(timeout), [&](Client& client) { return committed(client, batch); }));
  });
}

PyObject* add(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [key, addend, timeout] =
        taken("add", {args, count, names}, std::array{"key", "addend", "timeout"}, 2, 1);
    const Bytes bytes = key_of(key);
    Batch batch;
    batch.add(bytes, addend_of(addend));
    const auto version = asked<uint64_t>(self, "add", key, timeout_ms_of(timeout),
                                         [&](Client& client) { return committed(client, batch); });
    if (version == 0) {
      raise({Code::kIndeterminate,
             "add of " + shown_key(key) + ": it was done, but the answer with the sum was lost",
             "get() reads what there is now"});
    }
    return PyLong_FromLongLong(batch.sum(0));
  });
}

PyObject* ttl(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [key, timeout] = taken("ttl", {args, count, names}, std::array{"key", "timeout"}, 1, 1);
    const Bytes bytes = key_of(key);
    // By the node's clock, which differs from this host's by what an administrator has set.
    const auto left_ns =
        asked<int64_t>(self, "ttl", key, timeout_ms_of(timeout), [&](Client& client) -> Result<int64_t> {
          const Result<Got> got = client.exists(bytes);
          if (!got) return fail(got.error());
          if (got->expires_wall_ns == 0) return -1;
          const Result<Pong> pong = client.ping();
          if (!pong) return fail(pong.error());
          if (got->expires_wall_ns <= pong->node_wall_ns) return fail(Code::kNotFound);
          return static_cast<int64_t>(got->expires_wall_ns - pong->node_wall_ns);
        });
    if (left_ns < 0) return Py_NewRef(Py_None);
    return PyFloat_FromDouble(static_cast<double>(left_ns) / 1e9);
  });
}

}  // namespace kv
}  // namespace refract::python
