// SPDX-License-Identifier: Apache-2.0
// Values that are looked at where they lie.
#include <array>
#include <memory>
#include <utility>

#include "python/ext/buffer.h"
#include "python/ext/hold.h"
#include "python/ext/kv_link.h"

namespace refract::python {

namespace py = pybind11;

namespace {

// The value that is copied may have become another, and longer, since its length was asked for.
constexpr int kAttempts = 16;

struct Copied {
  std::shared_ptr<const std::byte> memory;  // Null: there is none of that length.
  Got got;
};

Result<Copied> copied(Client& client, Bytes key) {
  Result<Got> got = client.exists(key);
  for (int attempt = 0; got && attempt < kAttempts; ++attempt) {
    const uint64_t bytes = got->value_bytes;
    const std::shared_ptr<std::byte> memory = fresh_memory(bytes);
    if (memory == nullptr) return Copied{};
    got = client.get_into(key, {memory.get(), bytes});
    if (got) return Copied{.memory = memory, .got = *got};
    if (got.code() == Code::kTooLarge) got = client.exists(key);
  }
  return fail(got ? Code::kOverloaded : got.code());
}

}  // namespace

Viewed::Kept Viewed::keep() && {
  if (copy_ != nullptr) return {.keep = copy_, .bytes = bytes()};
  const auto view = std::make_shared<const View>(std::move(view_));
  return {.keep = view, .bytes = view->bytes()};
}

std::optional<Viewed> viewed(PyObject* self, const char* name, PyObject* key, PyObject* timeout) {
  const SharedKv& link = link_of(self, name);
  const Bytes bytes = key_of(key);
  Result<View> view = link->client.view_at_once(bytes);
  Report trouble{Code::kOk, "", ""};
  if (!view && !is_settled(view.code())) {
    const SharedKv held = link;
    const uint64_t timeout_ms = timeout_ms_of(timeout);
    KvOutcome<View> outcome =
        asked_for_outcome<View>(held, timeout_ms, [&](Client& client) { return client.view(bytes); });
    if (outcome.result.code() == Code::kOverloaded) {
      auto copy =
          asked_for_outcome<Copied>(held, timeout_ms, [&](Client& client) { return copied(client, bytes); });
      if (copy.result && copy.result->memory == nullptr) {
        PyErr_NoMemory();
        raise_pending();
      }
      if (copy.result) return Viewed(std::move(copy.result->memory), copy.result->got);
      outcome = {.result = fail(copy.result.code()), .trouble = std::move(copy.trouble)};
    }
    view = std::move(outcome.result);
    trouble = std::move(outcome.trouble);
  }
  if (view) return Viewed(std::move(*view));
  if (view.code() != Code::kNotFound) raise(explain_call(name, key, view.code(), trouble));
  return std::nullopt;
}

namespace kv {

PyObject* view(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [key, instead, timeout] =
        taken("view", {args, count, names}, std::array{"key", "default", "timeout"}, 2, 1);
    std::optional<Viewed> seen = viewed(self, "view", key, timeout);
    if (!seen) return absent("view", key, instead);
    const uint64_t version = seen->version();
    const bool is_copy = seen->is_copy();
    Viewed::Kept kept = std::move(*seen).keep();
    return py::cast(std::make_unique<ViewBuffer>(std::move(kept.keep), kept.bytes, is_copy, version))
        .release()
        .ptr();
  });
}

}  // namespace kv
}  // namespace refract::python
