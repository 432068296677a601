// SPDX-License-Identifier: Apache-2.0
// transaction(body) in an event loop. The coroutine of C++ waits in its body while refract.aio runs that of
// Python, in the task that called: so cancelling, context and tracebacks are those of any `await body(t)`.
#include <array>
#include <coroutine>
#include <memory>
#include <string>
#include <utility>

#include "python/ext/aio/client.h"
#include "python/ext/aio/operation.h"
#include "python/ext/aio/ready.h"
#include "python/ext/errors.h"
#include "python/ext/kv_link.h"
#include "python/ext/requests/kv_requests.h"
#include "python/ext/requests/kv_requests_inside.h"
#include "python/ext/requests/kv_texts.h"

namespace refract::python::aio {

namespace py = pybind11;
using runtime::Task;

namespace {

// What a body is given. It leads nowhere once the body has returned.
struct TransactionObject {
  PyObject_HEAD PyObject* turns;
  uint64_t number;       // Of the operation to which it belongs.
  AsyncTransaction* at;  // Null: the body has returned.
};

// What refract.aio has of a transaction.
struct RunObject {
  PyObject_HEAD PyObject* turns;
  uint64_t number;
};

PyTypeObject* g_transaction_type = nullptr;
PyTypeObject* g_run_type = nullptr;

TransactionObject& transaction_object(PyObject* self) {
  return *reinterpret_cast<TransactionObject*>(self);
}
RunObject& run_object(PyObject* self) {
  return *reinterpret_cast<RunObject*>(self);
}

}  // namespace

class TransactionOperation final : public Operation {
 public:
  TransactionOperation(Turns& turns, TransactionOptions options, bool reads_only)
      : turns_(turns), options_(options), reads_only_(reads_only) {}
  TransactionOperation(const TransactionOperation&) = delete;
  TransactionOperation& operator=(const TransactionOperation&) = delete;
  ~TransactionOperation() override { end_body(); }

  [[nodiscard]] Task<> run() override {
    const AsyncClient::Body body = [this](AsyncTransaction& at) { return wait_for_body(at); };
    if (reads_only_) {
      result_ = co_await turns_.client().read_only(body, options_);
    } else {
      result_ = co_await turns_.client().transaction(body, options_);
    }
  }
  // None: it has ended as the body did.
  [[nodiscard]] PyObject* outcome(const Report& trouble) override {
    const Code code = result_.code();
    const bool is_the_bodys = code == body_code_ && (code == Code::kCancelled || code == Code::kConflict);
    if (code == Code::kOk || is_the_bodys) return Py_NewRef(Py_None);
    raise(explain_call("transaction", nullptr, code, trouble));
  }
  [[nodiscard]] Code give_up() noexcept override {
    end_body();
    return Code::kIndeterminate;
  }
  // The body is to be run again.
  void tell() override {
    if (const py::object call = std::exchange(call_, {}); call) {
      Turns::resolve(call, [&] { return new_body(); });
    }
  }

  [[nodiscard]] bool wants_body() const noexcept { return at_ != nullptr && given_ == nullptr; }
  // What the body gets. Raises.
  [[nodiscard]] PyObject* new_body() {
    PyObject* const made = g_transaction_type->tp_alloc(g_transaction_type, 0);
    if (made == nullptr) raise_pending();
    transaction_object(made).turns = Py_NewRef(turns_.self());
    transaction_object(made).number = number_;
    transaction_object(made).at = at_;
    given_ = Py_NewRef(made);
    return made;
  }
  void end_body() noexcept {
    if (given_ == nullptr) return;
    transaction_object(given_).at = nullptr;
    Py_CLEAR(given_);
  }
  void go_on(Code code) {
    body_code_ = code;
    at_ = nullptr;
    std::exchange(waiter_, nullptr).resume();
  }
  [[nodiscard]] bool is_in_body() const noexcept { return at_ != nullptr; }
  // Its outcome, if it has one, the next body, or a future of either.
  [[nodiscard]] PyObject* next() {
    if (task_.done()) return ready_of([&] { return turns_.settle(number_); });
    if (wants_body()) return ready(new_body());
    return turns_.wait_for(*this);
  }

 private:
  struct BodyEnd {
    TransactionOperation& operation;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) const noexcept { operation.waiter_ = waiter; }
    void await_resume() const noexcept {}
  };

  [[nodiscard]] Task<Result<>> wait_for_body(AsyncTransaction& at) {
    at_ = &at;
    turns_.note(number_);
    co_await BodyEnd{*this};
    if (body_code_ != Code::kOk) co_return fail(body_code_);
    co_return Result<>();
  }

  Turns& turns_;
  TransactionOptions options_;
  bool reads_only_;
  AsyncTransaction* at_ = nullptr;  // Null: it does not wait for its body.
  std::coroutine_handle<> waiter_;
  PyObject* given_ = nullptr;  // A TransactionObject, which it holds.
  Code body_code_ = Code::kOk;
  Result<> result_ = fail(Code::kUnavailable);
};

namespace {

Turns& turns_of_transaction(PyObject* self, const char* call) {
  Turns& turns = Turns::of(transaction_object(self).turns);
  turns.require_here(call);
  if (transaction_object(self).at == nullptr) {
    raise_invalid(std::string(call) + " of a transaction whose body has returned",
                  "what belongs to it is called in its body");
  }
  return turns;
}

template <typename Request>
PyObject* asked_inside(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    Turns& turns = turns_of_transaction(self, Request::kName);
    const TransactionObject& object = transaction_object(self);
    return turns.begin(
        std::make_unique<Asking<Request, AsyncTransaction>>(*object.at, Arguments{args, count, names}),
        object.number);
  });
}

// These raise at once, also where they are not awaited.
template <void (*kWork)(AsyncTransaction&, const Arguments&)>
PyObject* noted_inside(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    (void)turns_of_transaction(self, "a call");
    kWork(*transaction_object(self).at, {args, count, names});
    return ready(Py_NewRef(Py_None));
  });
}

template <typename Object>
void dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<Object*>(self)->turns);
  type->tp_free(self);
  Py_DECREF(type);
}

// Null: it was dropped, or its client closed.
TransactionOperation* operation_of(PyObject* self) {
  const RunObject& run = run_object(self);
  return static_cast<TransactionOperation*>(Turns::of(run.turns).find(run.number));
}

TransactionOperation& needed_operation(PyObject* self) {
  Turns::of(run_object(self).turns).require_here("transaction");
  TransactionOperation* const operation = operation_of(self);
  if (operation == nullptr) {
    raise(
        {Code::kCancelled, "transaction: the client was closed while its body ran; nothing was changed", ""});
  }
  return *operation;
}

// The first body.
PyObject* run_begin(PyObject* self, PyObject* /*none*/) {
  return guarded([&] { return needed_operation(self).next(); });
}

// The body has returned (None), or raised this: an awaitable of the Transaction with which it is to run
// again, or of None.
PyObject* run_ended(PyObject* self, PyObject* raised) {
  return guarded([&] {
    Turns& turns = Turns::of(run_object(self).turns);
    TransactionOperation& operation = needed_operation(self);
    if (!operation.is_in_body()) raise_invalid("transaction: no body runs");
    Code code = Code::kOk;
    if (raised != Py_None) code = is_of(raised, Code::kConflict) ? Code::kConflict : Code::kCancelled;
    operation.end_body();
    turns.drop_inside(run_object(self).number);
    turns.resume(operation, [&] { operation.go_on(code); });
    return operation.next();
  });
}

PyObject* run_drop(PyObject* self, PyObject* /*none*/) {
  return guarded([&] {
    if (TransactionOperation* const operation = operation_of(self)) operation->end_body();
    (void)Turns::of(run_object(self).turns).drop(run_object(self).number);
    return Py_NewRef(Py_None);
  });
}

void add_run(py::module_& module) {
  static std::array<PyMethodDef, 4> methods = {{
      {"begin", &run_begin, METH_NOARGS, nullptr},
      {"ended", &run_ended, METH_O, nullptr},
      {"drop", &run_drop, METH_NOARGS, nullptr},
      {nullptr, nullptr, 0, nullptr},
  }};
  static std::array<PyType_Slot, 4> slots = {{
      {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc<RunObject>)},
      {Py_tp_methods, methods.data()},
      {Py_tp_doc, const_cast<char*>("A transaction whose body Python runs.")},
      {0, nullptr},
  }};
  static PyType_Spec spec = {.name = "refract.aio.Run",
                             .basicsize = sizeof(RunObject),
                             .itemsize = 0,
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = slots.data()};
  g_run_type = make_type(module, spec);
}

}  // namespace

PyObject* begin_transaction(PyObject* /*module*/, PyObject* const* args, Py_ssize_t count,
                            PyObject* /*names*/) {
  return guarded([&]() -> PyObject* {
    if (count != 3 || !is_client(args[0])) raise_type("begin_transaction() takes a client and two arguments");
    Turns& turns = turns_of(args[0], "transaction");
    const TransactionOptions options = inside::transaction_options(args[1]);
    const py::object run = py::reinterpret_steal<py::object>(g_run_type->tp_alloc(g_run_type, 0));
    if (!run) raise_pending();
    run_object(run.ptr()).turns = Py_NewRef(turns.self());
    run_object(run.ptr()).number =
        turns.start(std::make_unique<TransactionOperation>(turns, options, flag_of(args[2])));
    return py::object(run).release().ptr();
  });
}

void add_transaction(py::module_& module) {
  constexpr int kFlags = METH_FASTCALL | METH_KEYWORDS;
  static std::array<PyMethodDef, 8> methods = {{
      {"get", as_function<&asked_inside<inside::GetRequest>>(), kFlags, texts::kInsideGet},
      {"get_many", as_function<&asked_inside<inside::GetManyRequest>>(), kFlags, texts::kInsideGetMany},
      {"exists", as_function<&asked_inside<inside::ExistsRequest>>(), kFlags, texts::kInsideExists},
      {"put", as_function<&noted_inside<&inside::put<AsyncTransaction>>>(), kFlags, texts::kInsidePut},
      {"erase", as_function<&noted_inside<&inside::erase<AsyncTransaction>>>(), kFlags, texts::kInsideErase},
      {"add", as_function<&noted_inside<&inside::add<AsyncTransaction>>>(), kFlags, texts::kInsideAdd},
      {"validate", as_function<&asked_inside<inside::ValidateRequest>>(), kFlags, texts::kInsideValidate},
      {nullptr, nullptr, 0, nullptr},
  }};
  static std::array<PyType_Slot, 4> slots = {{
      {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc<TransactionObject>)},
      {Py_tp_methods, methods.data()},
      {Py_tp_doc, const_cast<char*>(
                      "What the body of Client.transaction() reads and writes by. It is good inside of the "
                      "body. Reads are\n"
                      "awaited; writes are kept here until the body has returned, raise at once, and may "
                      "be awaited.\n"
                      "Together they are at most 4,096 keys and 16 MiB (TooLarge). Let Conflict pass: "
                      "the body then runs again.")},
      {0, nullptr},
  }};
  static PyType_Spec spec = {.name = "refract.aio.Transaction",
                             .basicsize = sizeof(TransactionObject),
                             .itemsize = 0,
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = slots.data()};
  g_transaction_type = make_type(module, spec);
  module.add_object("AioTransaction", py::handle(reinterpret_cast<PyObject*>(g_transaction_type)));
  add_run(module);
}

}  // namespace refract::python::aio
