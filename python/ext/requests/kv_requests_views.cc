// SPDX-License-Identifier: Apache-2.0
#include "python/ext/requests/kv_requests_views.h"

#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "python/ext/buffer.h"
#include "python/ext/errors.h"
#include "python/ext/hold.h"

namespace refract::python {

namespace py = pybind11;
using runtime::Task;

namespace {

// The value that is copied may have become another, and longer, since its length was asked for.
constexpr int kAttempts = 16;

// A value of which the length is known, on its way into memory of ours.
struct Copying {
  std::shared_ptr<std::byte> memory;
  uint64_t bytes;

  explicit Copying(uint64_t length) noexcept : memory(fresh_memory(length)), bytes(length) {}
  [[nodiscard]] std::span<std::byte> room() const noexcept { return {memory.get(), bytes}; }
};

// The end of an attempt. False: it is to be asked again how long the value is.
bool take_copy(Look& look, const Copying& copying, const Result<Got>& got) {
  if (got) {
    look.result.emplace(copying.memory, *got);
  } else {
    look.result = fail(got.code());
  }
  return got || got.code() != Code::kTooLarge;
}

void copy(Look& look, Client& client) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Result<Got> there = client.exists(look.key);
    if (!there) {
      look.result = fail(there.code());
      return;
    }
    const Copying copying(there->value_bytes);
    look.has_no_memory = copying.memory == nullptr;
    if (look.has_no_memory || take_copy(look, copying, client.get_into(look.key, copying.room()))) return;
  }
  look.result = fail(Code::kOverloaded);
}

Task<> copy(Look& look, AsyncClient& client) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Result<Got> there = co_await client.exists(look.key);
    if (!there) {
      look.result = fail(there.code());
      co_return;
    }
    const Copying copying(there->value_bytes);
    look.has_no_memory = copying.memory == nullptr;
    if (look.has_no_memory) co_return;
    const Result<Got> got = co_await client.get_into(look.key, copying.room());
    if (take_copy(look, copying, got)) co_return;
  }
  look.result = fail(Code::kOverloaded);
}

void take_view(Look& look, Result<View>&& view) {
  if (view) {
    look.result.emplace(std::move(*view));
  } else {
    look.result = fail(view.code());
  }
}

py::object view_of(Viewed&& seen) {
  const uint64_t version = seen.version();
  const bool is_copy = seen.is_copy();
  Viewed::Kept kept = std::move(seen).keep();
  return py::cast(std::make_unique<ViewBuffer>(std::move(kept.keep), kept.bytes, is_copy, version));
}

}  // namespace

Viewed::Kept Viewed::keep() && {
  if (copy_ != nullptr) return {.keep = copy_, .bytes = bytes()};
  const auto view = std::make_shared<const View>(std::move(view_));
  return {.keep = view, .bytes = view->bytes()};
}

void Look::ask(Client& client) {
  take_view(*this, client.view(key));
  if (result.code() == Code::kOverloaded) copy(*this, client);
}

Task<> Look::ask(AsyncClient& client) {
  Result<View> view = co_await client.view(key);
  take_view(*this, std::move(view));
  if (result.code() == Code::kOverloaded) co_await copy(*this, client);
}

ViewRequest::ViewRequest(const char* call, const Arguments& given) : name(call) {
  const auto [one, otherwise, seconds] = taken(call, given, std::array{"key", "default", "timeout"}, 2, 1);
  key = one;
  instead = otherwise;
  timeout = seconds;
  timeout_ms = timeout_ms_of(seconds);
  look.key = key_of(one);
}

PyObject* ViewRequest::outcome(const Report& trouble) {
  if (look.has_no_memory) {
    PyErr_NoMemory();
    raise_pending();
  }
  return look.result ? found(std::move(*look.result)) : failed(look.result.code(), trouble);
}

PyObject* ViewRequest::found(Viewed&& seen) const {
  const bool is_view = std::strcmp(name, "view") == 0;
  return (is_view ? view_of(std::move(seen)) : array_of(key, std::move(seen))).release().ptr();
}

PyObject* ViewRequest::failed(Code code, const Report& trouble) const {
  if (code == Code::kNotFound && instead != nullptr) return Py_NewRef(instead);
  raise(explain_call(name, key, code, trouble));
}

}  // namespace refract::python
