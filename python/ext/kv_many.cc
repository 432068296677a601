// SPDX-License-Identifier: Apache-2.0
// Calls of many keys, each with its own outcome; and scans.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "python/ext/kv_link.h"
#include "python/ext/requests/kv_requests.h"
#include "python/ext/requests/kv_requests_many.h"

namespace refract::python {

namespace py = pybind11;

namespace kv {

PyObject* get_many(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return asked_for<GetManyRequest>(self, {args, count, names});
}

PyObject* put_many(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return asked_for<PutManyRequest>(self, {args, count, names});
}

PyObject* exists_many(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return asked_for<ExistsManyRequest>(self, {args, count, names});
}

}  // namespace kv

namespace {

struct ScanObject {
  PyObject_HEAD SharedKv link;  // Null: at its end.
  std::string prefix;
  uint64_t timeout_ms;
  std::vector<ScanEntry> page;
  size_t next;
  uint64_t cursor;
  bool is_last;
  bool is_reading;
};

ScanObject& scan_of(PyObject* self) {
  return *reinterpret_cast<ScanObject*>(self);
}

// False: there is none.
bool read_page(ScanObject& scan) {
  if (scan.is_last) return false;
  if (scan.is_reading) raise_invalid("another thread is in this scan");
  const SharedKv held = scan.link;
  Waiting::refuse_in_handler(held.get(), "scan");
  scan.is_reading = true;
  KvOutcome<ScanPage> outcome;
  try {
    outcome = asked_for_outcome<ScanPage>(
        held, scan.timeout_ms, [&](Client& client) { return client.scan(scan.cursor, kScannedKeys); });
  } catch (...) {
    scan.is_reading = false;
    throw;
  }
  scan.is_reading = false;
  if (!outcome.result) raise(explain_call("scan", nullptr, outcome.result.code(), outcome.trouble));
  scan.page = std::move(outcome.result->entries);
  scan.next = 0;
  scan.cursor = outcome.result->next;
  scan.is_last = scan.cursor == 0;
  return true;
}

PyObject* scan_next(PyObject* self) {
  return guarded([&]() -> PyObject* {
    ScanObject& scan = scan_of(self);
    for (;;) {
      while (scan.next < scan.page.size()) {
        const std::string& key = scan.page[scan.next++].key;
        if (key.starts_with(scan.prefix)) {
          return PyBytes_FromStringAndSize(key.data(), static_cast<Py_ssize_t>(key.size()));
        }
      }
      if (!read_page(scan)) return nullptr;
    }
  });
}

void scan_dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  scan_of(self).~ScanObject();
  type->tp_free(self);
  Py_DECREF(type);
}

PyTypeObject* g_scan_type = nullptr;

}  // namespace

namespace kv {

PyObject* scan(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    ScanArguments given({args, count, names});
    const uint64_t timeout_ms = timeout_ms_of(given.timeout);
    const SharedKv held = link_of(self, "scan");
    PyObject* const made = g_scan_type->tp_alloc(g_scan_type, 0);
    if (made == nullptr) return nullptr;
    // What it begins with is Python's.
    ScanObject& scan = scan_of(made);
    new (&scan.link) SharedKv(held);
    new (&scan.prefix) std::string(std::move(given.prefix));
    new (&scan.page) std::vector<ScanEntry>();
    scan.timeout_ms = timeout_ms;
    return made;
  });
}

}  // namespace kv

void add_scan(py::module_& module) {
  static std::array<PyType_Slot, 5> slots = {{
      {Py_tp_dealloc, reinterpret_cast<void*>(&scan_dealloc)},
      {Py_tp_iter, reinterpret_cast<void*>(&PyObject_SelfIter)},
      {Py_tp_iternext, reinterpret_cast<void*>(&scan_next)},
      {Py_tp_doc, const_cast<char*>("The keys of a scan, as bytes, one after the other.")},
      {0, nullptr},
  }};
  static PyType_Spec spec = {.name = "refract._refract.Scan",
                             .basicsize = sizeof(ScanObject),
                             .itemsize = 0,
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = slots.data()};
  g_scan_type = add_type(module, spec);
}

}  // namespace refract::python
