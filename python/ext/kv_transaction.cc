// SPDX-License-Identifier: Apache-2.0
// transaction(body): the body is Python's, run by Client::transaction() as often as it must, with the GIL.
#include <pthread.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "python/ext/kv_link.h"

namespace refract::python {

namespace py = pybind11;

namespace {

// What the body is given. It leads nowhere once the body has returned.
struct TransactionObject {
  PyObject_HEAD Transaction* at;
  const KvLink* link;
  pthread_t thread;
};

PyTypeObject* g_transaction_type = nullptr;

TransactionObject& object_of(PyObject* self) {
  return *reinterpret_cast<TransactionObject*>(self);
}

Transaction& transaction_of(PyObject* self, const char* call) {
  const TransactionObject& object = object_of(self);
  if (object.at == nullptr) {
    raise_invalid(std::string(call) + " of a transaction whose body has returned",
                  "what belongs to it is called in its body");
  }
  if (pthread_equal(object.thread, pthread_self()) == 0) {
    raise_invalid(std::string(call) + " of a transaction by another thread than that of its body");
  }
  return *object.at;
}

// `call(Transaction&) -> Result<T>`, without the GIL.
template <typename T, typename Call>
Result<T> asked_in(PyObject* self, const char* name, Call&& call) {
  Transaction& transaction = transaction_of(self, name);
  Waiting::refuse_in_handler(object_of(self).link, name);
  return waited(object_of(self).link, kForever_ms, [&] { return std::forward<Call>(call)(transaction); });
}

void require(const Result<>& done, const char* name, PyObject* key) {
  if (!done) raise(explain_call(name, key, done.code(), {Code::kOk, "", ""}));
}

PyObject* get(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [key, instead] = taken("get", {args, count, names}, std::array{"key", "default"}, 2, 1);
    const Bytes bytes = key_of(key);
    const auto value =
        asked_in<std::string>(self, "get", [&](Transaction& transaction) { return transaction.get(bytes); });
    if (value) return new_bytes(Bytes(*value));
    if (value.code() == Code::kNotFound && instead != nullptr) return Py_NewRef(instead);
    raise(explain_call("get", key, value.code(), {Code::kOk, "", ""}));
  });
}

PyObject* get_many(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [keys] = taken("get_many", {args, count, names}, std::array{"keys"}, 1, 1);
    const py::tuple all = keys_of(keys);
    std::vector<GetItem> items(all.size());
    for (size_t i = 0; i < items.size(); ++i) {
      items[i].key = key_of(PyTuple_GET_ITEM(all.ptr(), static_cast<Py_ssize_t>(i)));
    }
    (void)asked_in<bool>(self, "get_many", [&](Transaction& transaction) -> Result<bool> {
      transaction.multi_get(items);
      return true;
    });
    py::list values;
    for (size_t i = 0; i < items.size(); ++i) {
      const Code code = items[i].result.code();
      // One that failed fails them all: a body must not continue on half a picture.
      if (code != Code::kOk && code != Code::kNotFound) {
        PyObject* const key = PyTuple_GET_ITEM(all.ptr(), static_cast<Py_ssize_t>(i));
        raise(explain_call("get", key, code, {Code::kOk, "", ""}));
      }
      if (code == Code::kOk) {
        values.append(py::reinterpret_steal<py::object>(new_bytes(Bytes(items[i].value))));
      } else {
        values.append(py::none());
      }
    }
    return values.release().ptr();
  });
}

PyObject* exists(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [key] = taken("exists", {args, count, names}, std::array{"key"}, 1, 1);
    const Bytes bytes = key_of(key);
    const auto is_there =
        asked_in<bool>(self, "exists", [&](Transaction& transaction) { return transaction.exists(bytes); });
    if (!is_there) raise(explain_call("exists", key, is_there.code(), {Code::kOk, "", ""}));
    return PyBool_FromLong(*is_there ? 1 : 0);
  });
}

PyObject* put(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [key, data, ttl] = taken("put", {args, count, names}, std::array{"key", "value", "ttl"}, 2, 2);
    const Value value(data);
    require(transaction_of(self, "put").put(key_of(key), value.bytes(), ttl_ns_of(ttl)), "put", key);
    return Py_NewRef(Py_None);
  });
}

PyObject* erase(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [key] = taken("erase", {args, count, names}, std::array{"key"}, 1, 1);
    require(transaction_of(self, "erase").erase(key_of(key)), "erase", key);
    return Py_NewRef(Py_None);
  });
}

PyObject* add(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [key, addend] = taken("add", {args, count, names}, std::array{"key", "addend"}, 2, 1);
    require(transaction_of(self, "add").add(key_of(key), addend_of(addend)), "add", key);
    return Py_NewRef(Py_None);
  });
}

PyObject* validate(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    take_arguments("validate", {args, count, names}, {}, 0, 0, {});
    const auto is_valid = asked_in<bool>(self, "validate", [&](Transaction& transaction) -> Result<bool> {
      const Result<> valid = transaction.validate();
      if (!valid) return fail(valid.error());
      return true;
    });
    if (!is_valid) raise(explain_call("validate", nullptr, is_valid.code(), {Code::kOk, "", ""}));
    return Py_NewRef(Py_None);
  });
}

// One run of transaction(): its body, and what the body came to last. The GIL is held in all of it.
class Run {
 public:
  Run(PyObject* body, const KvLink& link) : body_(body), link_(link) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() = default;

  [[nodiscard]] Result<> run(Transaction& transaction) {
    // A handler of a signal may have raised, too.
    if (is_ended_ || PyErr_Occurred() != nullptr) return fail(Code::kCancelled);
    result_ = py::object();
    error_ = Raised();
    is_conflict_ = false;
    PyObject* const given = g_transaction_type->tp_alloc(g_transaction_type, 0);
    if (given == nullptr) return raised();
    object_of(given).at = &transaction;
    object_of(given).link = &link_;
    object_of(given).thread = pthread_self();
    result_ = py::reinterpret_steal<py::object>(PyObject_CallOneArg(body_, given));
    object_of(given).at = nullptr;
    Py_DECREF(given);
    return result_ ? Result<>() : raised();
  }

  [[nodiscard]] PyObject* result() { return result_.release().ptr(); }
  // Where the transaction ended with `code` for what the body raised, that is set.
  [[nodiscard]] bool set_error(Code code) {
    const bool is_its = code == Code::kCancelled || (code == Code::kConflict && is_conflict_);
    if (!is_its || !error_.type) return false;
    PyErr_Restore(error_.type.release().ptr(), error_.value.release().ptr(), error_.trace.release().ptr());
    return true;
  }

 private:
  struct Raised {
    py::object type;
    py::object value;
    py::object trace;
  };

  // kConflict has the body run again. An exception counts where what the body has read stood together.
  [[nodiscard]] Result<> raised() {
    is_conflict_ = is_set(Code::kConflict);
    // Ctrl-C and the end of the interpreter are no matter of what was read.
    is_ended_ = PyErr_ExceptionMatches(PyExc_Exception) == 0;
    PyObject* type = nullptr;
    PyObject* value = nullptr;
    PyObject* trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    error_ = {py::reinterpret_steal<py::object>(type), py::reinterpret_steal<py::object>(value),
              py::reinterpret_steal<py::object>(trace)};
    return fail(is_conflict_ ? Code::kConflict : Code::kCancelled);
  }

  PyObject* body_;
  const KvLink& link_;
  py::object result_;
  Raised error_;
  bool is_conflict_ = false;
  bool is_ended_ = false;
};

// None or nothing: as TransactionOptions has it.
TransactionOptions options_of(PyObject* timeout) {
  TransactionOptions options;
  if (timeout == nullptr || timeout == Py_None) return options;
  const uint64_t ms = ms_of(timeout, "timeout");
  options.timeout_ns = std::min<uint64_t>(ms, 86'400'000) * 1'000'000;
  return options;
}

}  // namespace

namespace kv {

PyObject* transaction(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [body, timeout, read_only] =
        taken("transaction", {args, count, names}, std::array{"body", "timeout", "read_only"}, 1, 1);
    if (PyCallable_Check(body) == 0) raise_type("transaction() takes a function of a transaction");
    const SharedKv held = link_of(self, "transaction");
    const TransactionOptions options = options_of(timeout);
    const bool reads = flag_of(read_only);
    Run run(body, *held);
    const auto outcome = [&] {
      Waiting waiting(held.get(), kForever_ms);
      const std::function<Result<>(Transaction&)> calls = [&](Transaction& transaction) {
        return waiting.with_gil([&] { return run.run(transaction); });
      };
      const Result<> done =
          reads ? held->client.read_only(calls, options) : held->client.transaction(calls, options);
      return std::pair(done.code(), done ? Report{Code::kOk, "", ""} : held->client.trouble());
    }();
    if (PyErr_Occurred() != nullptr) raise_pending();
    const auto& [code, trouble] = outcome;
    if (code == Code::kOk) return run.result();
    if (run.set_error(code)) return nullptr;
    raise(explain_call("transaction", nullptr, code, trouble));
  });
}

}  // namespace kv

void add_transaction(py::module_& module) {
  constexpr int kFlags = METH_FASTCALL | METH_KEYWORDS;
  static std::array<PyMethodDef, 8> methods = {{
      {"get", as_function<&get>(), kFlags,
       "get($self, key, default=...)\n--\n\n"
       "The value, as bytes: what this transaction has put, else what is there. Without a default: raises\n"
       "NotFound where there is none."},
      {"get_many", as_function<&get_many>(), kFlags,
       "get_many($self, keys)\n--\n\nThe values, in the order of the keys; None where there is none."},
      {"exists", as_function<&exists>(), kFlags, "exists($self, key)\n--\n\nWhether the key is there."},
      {"put", as_function<&put>(), kFlags,
       "put($self, key, value, *, ttl=None)\n--\n\nPuts it when the transaction is committed."},
      {"erase", as_function<&erase>(), kFlags,
       "erase($self, key)\n--\n\nErases it when the transaction is committed; nothing where it is absent."},
      {"add", as_function<&add>(), kFlags,
       "add($self, key, addend=1)\n--\n\n"
       "Adds to the decimal number that the value is, when the transaction is committed; an absent one is "
       "0.\n"
       "Nothing is read, so that many may add to one key at once."},
      {"validate", as_function<&validate>(), kFlags,
       "validate($self)\n--\n\n"
       "Raises Conflict unless all that was read stood together at one moment. Before that moment what was\n"
       "read from several keys may not fit together."},
      {nullptr, nullptr, 0, nullptr},
  }};
  static std::array<PyType_Slot, 3> slots = {{
      {Py_tp_methods, methods.data()},
      {Py_tp_doc, const_cast<char*>("What the body of Client.transaction() reads and writes by. It is good "
                                    "inside of the body, for the\n"
                                    "thread of the body. Writes are kept here until the body has returned; "
                                    "together with what is read\n"
                                    "they are at most 4,096 keys and 16 MiB (TooLarge). Let Conflict pass: "
                                    "the body then runs again.")},
      {0, nullptr},
  }};
  static PyType_Spec spec = {.name = "refract._refract.Transaction",
                             .basicsize = sizeof(TransactionObject),
                             .itemsize = 0,
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = slots.data()};
  g_transaction_type = add_type(module, spec);
}

}  // namespace refract::python
