// SPDX-License-Identifier: Apache-2.0
// Values that are copied into memory of the program's; and how many of some keys are there.
#include <algorithm>
#include <span>

#include "python/ext/kv_link.h"
#include "python/ext/requests/kv_requests_into.h"

namespace refract::python {

namespace {

// So much may be copied before a signal's handler has its turn.
constexpr uint64_t kBytesAtOnce = uint64_t{256} << 20;

}  // namespace

namespace kv {

PyObject* get_into(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    GetIntoRequest request({args, count, names});
    const SharedKv held = link_of(self, GetIntoRequest::kName);
    Report trouble{Code::kOk, "", ""};
    if (!request.is_got_at_once(held->client)) {
      trouble = waited(held.get(), request.timeout_ms, [&] {
        request.ask(held->client);
        return request.has_failed() ? held->client.trouble() : Report{Code::kOk, "", ""};
      });
    }
    return request.outcome(trouble);
  });
}

PyObject* get_many_into(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    GetManyIntoRequest request({args, count, names});
    const SharedKv held = link_of(self, GetManyIntoRequest::kName);
    const std::span<GetIntoItem> items = request.items;
    const uint64_t begun_ns = now_ns();
    for (size_t begin = 0; begin < items.size();) {
      size_t end = begin;
      for (uint64_t bytes = 0; end < items.size() && bytes < kBytesAtOnce; ++end)
        bytes += items[end].buffer.size();
      const uint64_t gone_ms = begin == 0 ? 0 : (now_ns() - begun_ns) / 1'000'000;
      const uint64_t left_ms = request.timeout_ms == kForever_ms
                                   ? kForever_ms
                                   : request.timeout_ms - std::min(request.timeout_ms, gone_ms);
      (void)waited(held.get(), left_ms, [&] {
        held->client.multi_get_into(items.subspan(begin, end - begin));
        return true;
      });
      begin = end;
      if (begin < items.size()) check_signals();
    }
    return request.outcome({Code::kOk, "", ""});
  });
}

PyObject* prefix_exists(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return asked_for<PrefixExistsRequest>(self, {args, count, names});
}

}  // namespace kv
}  // namespace refract::python
