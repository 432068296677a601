// SPDX-License-Identifier: Apache-2.0
// Values that are copied into memory of the program's; and how many of some keys are there.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "python/ext/kv_link.h"
#include "python/ext/targets.h"

namespace refract::python {

namespace py = pybind11;

namespace {

// So much may be copied before a signal's handler has its turn.
constexpr uint64_t kBytesAtOnce = uint64_t{256} << 20;

// Of a target that is shorter than the value, whose length the exception has, too.
py::object too_short(const char* name, PyObject* key, uint64_t value_bytes, uint64_t target_bytes) {
  py::object error =
      error_of({Code::kTooLarge,
                std::string(name) + " of " + shown_key(key) + ": the value has " +
                    std::to_string(value_bytes) + " bytes, its target " + std::to_string(target_bytes),
                "pass a longer one: value_bytes of this exception says how long"});
  error.attr("value_bytes") = value_bytes;
  return error;
}

[[noreturn]] void raise_object(const py::object& error) {
  PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
  raise_pending();
}

PyObject* number(uint64_t value) {
  return PyLong_FromUnsignedLongLong(value);
}

// By loads, with the lock. False: that does not settle it, or copies too much.
bool is_got_at_once(const SharedKv& link, PyObject* key, std::span<std::byte> target, Result<Got>& got) {
  const Result<View> view = link->client.view_at_once(key_of(key));
  if (!view) {
    got = fail(view.code());
    return is_settled(view.code());
  }
  const auto bytes = view->bytes();
  if (bytes.size() > kCopiedUnderLock && bytes.size() <= target.size()) return false;
  got = Got{.version = view->version(), .value_bytes = bytes.size()};
  if (bytes.size() > target.size()) {
    raise_object(too_short("get_into", key, bytes.size(), target.size()));
  }
  std::memcpy(target.data(), bytes.data(), bytes.size());
  return true;
}

PyObject* outcome_of(const GetIntoItem& item, PyObject* key) {
  if (item.result) return number(item.result->value_bytes);
  const Code code = item.result.code();
  if (code == Code::kNotFound) return Py_NewRef(Py_None);
  const bool is_short = code == Code::kTooLarge && item.value_bytes > item.buffer.size();
  const py::object error = is_short ? too_short("get_into", key, item.value_bytes, item.buffer.size())
                                    : failed_one("get_into", key, code);
  return Py_NewRef(error.ptr());
}

}  // namespace

namespace kv {

PyObject* get_into(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [key, to, timeout] =
        taken("get_into", {args, count, names}, std::array{"key", "buffer", "timeout"}, 2, 2);
    const SharedKv held = link_of(self, "get_into");
    const Bytes bytes = key_of(key);
    const Target target(to);
    Result<Got> got = fail(Code::kUnavailable);
    if (is_got_at_once(held, key, target.bytes(), got) && got) return number(got->value_bytes);
    Report trouble{Code::kOk, "", ""};
    if (got.code() != Code::kNotFound) {
      std::array<GetIntoItem, 1> items = {GetIntoItem{.key = bytes, .buffer = target.bytes()}};
      auto outcome = asked_for_outcome<Got>(held, timeout_ms_of(timeout), [&](Client& client) {
        Result<Got> read = client.get_into(bytes, target.bytes());
        if (read.code() != Code::kTooLarge) return read;
        // How long it is.
        client.multi_get_into(items);
        return items[0].result;
      });
      if (outcome.result.code() == Code::kTooLarge && items[0].value_bytes > target.bytes().size()) {
        raise_object(too_short("get_into", key, items[0].value_bytes, target.bytes().size()));
      }
      got = outcome.result;
      trouble = std::move(outcome.trouble);
    }
    if (!got) raise(explain_call("get_into", key, got.code(), trouble));
    return number(got->value_bytes);
  });
}

PyObject* get_many_into(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [keys, buffers, timeout] =
        taken("get_many_into", {args, count, names}, std::array{"keys", "buffers", "timeout"}, 2, 2);
    const SharedKv held = link_of(self, "get_many_into");
    const py::tuple all = keys_of(keys);
    const py::object places = py::reinterpret_steal<py::object>(PySequence_Tuple(buffers));
    if (!places) raise_pending();
    const auto number_of = static_cast<size_t>(PyTuple_GET_SIZE(places.ptr()));
    if (number_of != all.size()) {
      raise_invalid("get_many_into has " + std::to_string(all.size()) + " keys and " +
                    std::to_string(number_of) + " buffers");
    }
    std::vector<Target> targets;
    targets.reserve(number_of);
    std::vector<GetIntoItem> items(number_of);
    for (size_t i = 0; i < number_of; ++i) {
      const auto at = static_cast<Py_ssize_t>(i);
      items[i].key = key_of(PyTuple_GET_ITEM(all.ptr(), at));
      items[i].buffer = targets.emplace_back(PyTuple_GET_ITEM(places.ptr(), at)).bytes();
    }
    const uint64_t timeout_ms = timeout_ms_of(timeout);
    const uint64_t begun_ns = now_ns();
    for (size_t begin = 0; begin < number_of;) {
      size_t end = begin;
      for (uint64_t bytes = 0; end < number_of && bytes < kBytesAtOnce; ++end)
        bytes += items[end].buffer.size();
      const uint64_t gone_ms = begin == 0 ? 0 : (now_ns() - begun_ns) / 1'000'000;
      const uint64_t left_ms =
          timeout_ms == kForever_ms ? kForever_ms : timeout_ms - std::min(timeout_ms, gone_ms);
      (void)waited(held.get(), left_ms, [&] {
        held->client.multi_get_into(std::span(items).subspan(begin, end - begin));
        return true;
      });
      begin = end;
      if (begin < number_of) check_signals();
    }
    py::list outcomes = list_of(number_of);
    for (size_t i = 0; i < number_of; ++i) {
      set_item(outcomes, i, outcome_of(items[i], PyTuple_GET_ITEM(all.ptr(), static_cast<Py_ssize_t>(i))));
    }
    return outcomes.release().ptr();
  });
}

PyObject* prefix_exists(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [keys, timeout] =
        taken("prefix_exists", {args, count, names}, std::array{"keys", "timeout"}, 1, 1);
    const py::tuple all = keys_of(keys);
    std::vector<Bytes> each;
    each.reserve(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      each.push_back(key_of(PyTuple_GET_ITEM(all.ptr(), static_cast<Py_ssize_t>(i))));
    }
    return number(asked<size_t>(self, "prefix_exists", nullptr, timeout_ms_of(timeout),
                                [&](Client& client) { return client.prefix_exists(each); }));
  });
}

}  // namespace kv
}  // namespace refract::python
