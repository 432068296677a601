// SPDX-License-Identifier: Apache-2.0
// transaction(body): the body is Python's, run by Client::transaction() as often as it must, with the GIL.
#include <pthread.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "python/ext/kv_link.h"
#include "python/ext/requests/kv_requests.h"
#include "python/ext/requests/kv_requests_inside.h"
#include "python/ext/requests/kv_texts.h"

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

// A whole call that reads: kv_requests_inside.h. What was raised is set.
template <typename Request>
PyObject* asked_inside(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    Request request(Arguments{args, count, names});
    Transaction& transaction = transaction_of(self, Request::kName);
    Waiting::refuse_in_handler(object_of(self).link, Request::kName);
    (void)waited(object_of(self).link, kForever_ms, [&] {
      request.ask(transaction);
      return true;
    });
    return request.outcome();
  });
}

PyObject* put(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    inside::put(transaction_of(self, "put"), {args, count, names});
    return Py_NewRef(Py_None);
  });
}

PyObject* erase(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    inside::erase(transaction_of(self, "erase"), {args, count, names});
    return Py_NewRef(Py_None);
  });
}

PyObject* add(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    inside::add(transaction_of(self, "add"), {args, count, names});
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

}  // namespace

namespace kv {

PyObject* transaction(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const inside::BodyArguments given({args, count, names});
    const SharedKv held = link_of(self, "transaction");
    Run run(given.body, *held);
    const auto outcome = [&] {
      Waiting waiting(held.get(), kForever_ms);
      const std::function<Result<>(Transaction&)> calls = [&](Transaction& transaction) {
        return waiting.with_gil([&] { return run.run(transaction); });
      };
      const Result<> done = given.reads_only ? held->client.read_only(calls, given.options)
                                             : held->client.transaction(calls, given.options);
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
      {"get", as_function<&asked_inside<inside::GetRequest>>(), kFlags, texts::kInsideGet},
      {"get_many", as_function<&asked_inside<inside::GetManyRequest>>(), kFlags, texts::kInsideGetMany},
      {"exists", as_function<&asked_inside<inside::ExistsRequest>>(), kFlags, texts::kInsideExists},
      {"put", as_function<&put>(), kFlags, texts::kInsidePut},
      {"erase", as_function<&erase>(), kFlags, texts::kInsideErase},
      {"add", as_function<&add>(), kFlags, texts::kInsideAdd},
      {"validate", as_function<&asked_inside<inside::ValidateRequest>>(), kFlags, texts::kInsideValidate},
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
