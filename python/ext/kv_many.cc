// SPDX-License-Identifier: Apache-2.0
// Calls of many keys, each with its own outcome; and scans.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "python/ext/kv_link.h"

namespace refract::python {

namespace py = pybind11;

namespace {

// Of one page, or about as many.
constexpr size_t kScannedKeys = 512;

// What is put, and where: pairs of a dict, or of anything that gives pairs.
struct Pairs {
  py::object all;  // Holds them.
  std::vector<PyObject*> keys;
  std::vector<Value> values;
};

Pairs pairs_of(PyObject* items) {
  Pairs pairs;
  if (PyDict_Check(items) != 0) {
    pairs.all = py::reinterpret_steal<py::object>(PyDict_Items(items));
  } else {
    pairs.all = py::reinterpret_steal<py::object>(PySequence_List(items));
  }
  if (!pairs.all) raise_pending();
  for (const py::handle item : py::reinterpret_borrow<py::list>(pairs.all)) {
    // A list could be changed meanwhile.
    if (PyTuple_Check(item.ptr()) == 0 || PyTuple_GET_SIZE(item.ptr()) != 2) {
      raise_type("items are a dict, or tuples: (key, value)");
    }
    pairs.keys.push_back(PyTuple_GET_ITEM(item.ptr(), 0));
    pairs.values.emplace_back(PyTuple_GET_ITEM(item.ptr(), 1));
  }
  return pairs;
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

namespace kv {

PyObject* get_many(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [keys, timeout] = taken("get_many", {args, count, names}, std::array{"keys", "timeout"}, 1, 1);
    const SharedKv held = link_of(self, "get_many");
    const py::tuple all = keys_of(keys);
    std::vector<GetItem> items(all.size());
    for (size_t i = 0; i < items.size(); ++i) {
      items[i].key = key_of(PyTuple_GET_ITEM(all.ptr(), static_cast<Py_ssize_t>(i)));
    }
    (void)waited(held.get(), timeout_ms_of(timeout), [&] {
      held->client.multi_get(items);
      return true;
    });
    py::list outcomes = list_of(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      const GetItem& item = items[i];
      if (item.result) {
        set_item(outcomes, i, new_bytes(Bytes(item.value)));
      } else if (item.result.code() == Code::kNotFound) {
        set_item(outcomes, i, Py_NewRef(Py_None));
      } else {
        PyObject* const key = PyTuple_GET_ITEM(all.ptr(), static_cast<Py_ssize_t>(i));
        set_item(outcomes, i, failed_one("get", key, item.result.code()).release().ptr());
      }
    }
    return outcomes.release().ptr();
  });
}

PyObject* put_many(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [items, ttl, if_absent, timeout] =
        taken("put_many", {args, count, names}, std::array{"items", "ttl", "if_absent", "timeout"}, 1, 1);
    const SharedKv held = link_of(self, "put_many");
    const Pairs pairs = pairs_of(items);
    const PutOptions options{.if_absent = flag_of(if_absent), .ttl_ns = ttl_ns_of(ttl)};
    std::vector<PutItem> puts;
    puts.reserve(pairs.keys.size());
    for (size_t i = 0; i < pairs.keys.size(); ++i) {
      puts.push_back({.key = key_of(pairs.keys[i]), .value = pairs.values[i].bytes(), .options = options});
    }
    (void)waited(held.get(), timeout_ms_of(timeout), [&] {
      held->client.multi_put(puts);
      return true;
    });
    py::list outcomes = list_of(puts.size());
    for (size_t i = 0; i < puts.size(); ++i) {
      const auto& result = puts[i].result;
      set_item(outcomes, i,
               result ? PyLong_FromUnsignedLongLong(*result)
                      : failed_one("put", pairs.keys[i], result.code()).release().ptr());
    }
    return outcomes.release().ptr();
  });
}

PyObject* exists_many(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [keys, timeout] =
        taken("exists_many", {args, count, names}, std::array{"keys", "timeout"}, 1, 1);
    const SharedKv held = link_of(self, "exists_many");
    const py::tuple all = keys_of(keys);
    std::vector<ExistsItem> items(all.size());
    for (size_t i = 0; i < items.size(); ++i) {
      items[i].key = key_of(PyTuple_GET_ITEM(all.ptr(), static_cast<Py_ssize_t>(i)));
    }
    (void)waited(held.get(), timeout_ms_of(timeout), [&] {
      held->client.multi_exists(items);
      return true;
    });
    py::list outcomes = list_of(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      const Code code = items[i].result.code();
      PyObject* const key = PyTuple_GET_ITEM(all.ptr(), static_cast<Py_ssize_t>(i));
      const bool is_told = code == Code::kOk || code == Code::kNotFound;
      set_item(outcomes, i,
               is_told ? PyBool_FromLong(code == Code::kOk ? 1 : 0)
                       : failed_one("exists", key, code).release().ptr());
    }
    return outcomes.release().ptr();
  });
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
    const auto [prefix, timeout] = taken("scan", {args, count, names}, std::array{"prefix", "timeout"}, 1, 0);
    const SharedKv held = link_of(self, "scan");
    std::string begins(prefix == nullptr ? "" : key_of(prefix).text());
    const uint64_t timeout_ms = timeout_ms_of(timeout);
    PyObject* const made = g_scan_type->tp_alloc(g_scan_type, 0);
    if (made == nullptr) return nullptr;
    // What it begins with is Python's.
    ScanObject& scan = scan_of(made);
    new (&scan.link) SharedKv(held);
    new (&scan.prefix) std::string(std::move(begins));
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
