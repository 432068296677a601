// SPDX-License-Identifier: Apache-2.0
#include "python/ext/aio/turns.h"

#include <array>
#include <string>
#include <utility>

#include "python/ext/aio/ready.h"
#include "python/ext/errors.h"
#include "python/ext/kv_link.h"
#include "python/ext/requests/kv_requests.h"

#include "refract/base/clock.h"

namespace refract::python::aio {

namespace py = pybind11;
using runtime::Task;

namespace {

// Direct reads between two turns that none else asks for. Each costs a microsecond.
constexpr uint64_t kReadsPerTurn = 256;
// What an operation that is alone is waited for on the node's host, before there is a future for it: the
// answer of a server that does not sleep takes a microsecond or two, a turn of asyncio's loop some twenty.
constexpr uint64_t kAwaited_ns = 5'000;
// How long a call that is ended before may write its caller's memory still. Values come in less than that,
// unless the network is slow; dropped in the middle they cost the connection.
constexpr double kMoment_s = 0.05;

PyTypeObject* g_type = nullptr;
PyObject* g_running_loop = nullptr;  // asyncio's function, which returns None where none runs.

PyObject* running_loop() {
  if (g_running_loop == nullptr) {
    py::object function = py::module_::import("asyncio").attr("_get_running_loop");
    g_running_loop = function.release().ptr();
  }
  PyObject* const loop = PyObject_CallNoArgs(g_running_loop);
  if (loop == nullptr) raise_pending();
  Py_DECREF(loop);  // The thread that runs it holds it.
  return loop;
}

// What is set already stays set.
class KeptError {
 public:
  KeptError() { PyErr_Fetch(&type_, &value_, &trace_); }
  KeptError(const KeptError&) = delete;
  KeptError& operator=(const KeptError&) = delete;
  ~KeptError() { PyErr_Restore(type_, value_, trace_); }

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* trace_ = nullptr;
};

// A loop that has closed, or an interpreter that ends, refuses.
template <typename Call>
void try_to(Call&& call) noexcept {
  try {
    std::forward<Call>(call)();
  } catch (py::error_already_set&) {
    PyErr_Clear();
  }
}

}  // namespace

void Operation::hold(const Arguments& given) {
  const Py_ssize_t named = given.names == nullptr ? 0 : PyTuple_GET_SIZE(given.names);
  held_.reserve(static_cast<size_t>(given.positional + named));
  for (Py_ssize_t i = 0; i < given.positional + named; ++i) {
    held_.push_back(py::reinterpret_borrow<py::object>(given.values[i]));
  }
}

Turns::Turns(PyObject* self, PyObject* loop, PyObject* make_call)
    : self_(self),
      loop_(py::reinterpret_borrow<py::object>(loop)),
      make_call_(py::reinterpret_borrow<py::object>(make_call)),
      shard_(std::make_unique<runtime::Shard>(system_clock())) {}

Turns::~Turns() {
  close();
}

void Turns::require_here(const char* call) const {
  PyObject* const loop = running_loop();
  if (loop == loop_.ptr()) [[likely]]
    return;
  if (is_child()) raise(explain_call(call, nullptr, Code::kForked, {Code::kOk, "", ""}));
  raise_invalid(std::string(call) + ": this client was connected in another event loop" +
                    (loop == Py_None ? ", and none runs in this thread" : " than the one that runs here"),
                "connect() in each loop; a client is good in that one, as long as it runs");
}

void Turns::require_open(const char* call) const {
  if (shard_ == nullptr) raise_invalid(std::string(call) + ": this client was closed", "connect() again");
}

bool Turns::is_used() const {
  return !is_child() && loop_.attr("is_running")().cast<bool>();
}

void Turns::take_client(std::unique_ptr<AsyncClient> client) noexcept {
  client_ = std::move(client);
  is_near_ = shard_->spins() && client_->route().transport == "shm";
}

Task<> Turns::drive(Operation& operation) {
  co_await operation.run();
  note(operation.number_);
}

uint64_t Turns::start(std::unique_ptr<Operation> operation, uint64_t inside) {
  require_open("a call");
  if (is_running_) raise_invalid("another thread is in this client", "connect() in each loop");
  Operation& begun = *operation;
  const uint64_t number = begun.number_ = ++last_number_;
  begun.inside_ = inside;
  under_way_.emplace(number, std::move(operation));
  begun.is_long_ = begun.is_long();
  if (begun.is_long_) ++long_;
  (void)run_shard(begun.is_long_, [&] {
    shard_->refresh_now();
    begun.task_ = drive(begun);
    begun.task_.start();
    if (is_near_ && !begun.task_.done() && under_way_.size() == 1) {
      (void)shard_->run_until([&] { return begun.task_.done(); }, shard_->refresh_now() + kAwaited_ns);
    }
    return true;
  });
  std::erase(noted_, number);
  schedule();
  return number;
}

PyObject* Turns::begin(std::unique_ptr<Operation> operation, uint64_t inside) {
  Operation& begun = *operation;
  const uint64_t number = start(std::move(operation), inside);
  if (begun.task_.done()) return ready_of([&] { return settle(number); });
  return wait_for(begun);
}

PyObject* Turns::wait_for(Operation& operation) {
  const uint64_t number = operation.number_;
  try {
    py::object call = make_call_(py::arg("loop") = loop_);
    call.attr("_turns") = py::handle(self_);
    call.attr("_number") = number;
    if (operation.timeout_ms() != kForever_ms && !operation.timer_) {
      operation.timer_ = loop_.attr("call_later")(static_cast<double>(operation.timeout_ms()) / 1e3,
                                                  py::handle(self_).attr("expire"), number);
    }
    operation.call_ = call;
    return call.release().ptr();
  } catch (py::error_already_set&) {
    end(take(number));
    throw;
  }
}

Operation* Turns::find(uint64_t number) noexcept {
  const auto found = under_way_.find(number);
  return found == under_way_.end() ? nullptr : found->second.get();
}

std::unique_ptr<Operation> Turns::take(uint64_t number) noexcept {
  const auto node = under_way_.extract(number);
  if (node.empty()) return nullptr;
  if (node.mapped()->is_long_) --long_;
  return std::move(node.mapped());
}

// (I3)
void Turns::end(std::unique_ptr<Operation> operation) noexcept {
  if (operation == nullptr) return;
  operation->task_ = {};
  forget(*operation);
}

// Nothing waits for it any more.
void Turns::forget(Operation& operation) noexcept {
  if (const py::object timer = std::exchange(operation.timer_, {})) try_to([&] { timer.attr("cancel")(); });
  operation.call_ = {};
}

PyObject* Turns::settle(uint64_t number) {
  std::unique_ptr<Operation> operation = take(number);
  try {
    PyObject* const outcome = operation->outcome(trouble());
    end(std::move(operation));
    return outcome;
  } catch (py::error_already_set&) {
    end(std::move(operation));
    throw;
  }
}

Report Turns::trouble() const {
  return client_ == nullptr ? Report{Code::kOk, "", ""} : client_->trouble();
}

void Turns::count_read() {
  if (++reads_ % kReadsPerTurn == 0) [[unlikely]]
    turn();
}

void Turns::schedule() {
  if (is_scheduled_ || shard_ == nullptr) return;
  is_scheduled_ = true;
  loop_.attr("call_soon")(py::handle(self_));
}

void Turns::turn() {
  if (shard_ == nullptr || is_child()) return;  // (I4)
  if (is_running_) return;                      // Of another thread, which is at it.
  const bool is_more = run_shard(long_ > 0, [&] { return shard_->run_ready(); });
  for (const uint64_t number : std::exchange(dropped_, {})) (void)drop(number);
  tell();
  if (std::exchange(is_close_wanted_, false)) close();
  close_if_unused();
  if (is_more) schedule();
}

void Turns::tell() {
  // Python's code adds to them, and takes away from what is under way.
  while (!noted_.empty()) {
    for (const uint64_t number : std::exchange(noted_, {})) {
      Operation* const operation = find(number);
      if (operation == nullptr) continue;
      if (!operation->task_.done()) {
        operation->tell();
      } else if (operation->is_cancelled_ || operation->is_expired_) {
        (void)finish(number);
      } else if (const py::object call = std::exchange(operation->call_, {}); call) {
        resolve(call, [&] { return settle(number); });
      } else {
        end(take(number));
      }
    }
  }
}

bool Turns::drop(uint64_t number) {
  if (is_child()) return true;
  if (is_running_) {
    dropped_.push_back(number);
    return true;
  }
  Operation* const left = find(number);
  if (left == nullptr) return true;
  if (left->is_cancelled_ || left->is_expired_) {
    left->is_cancelled_ = true;
    return false;
  }
  const Rest rest = left->abandon();
  if (rest == Rest::kEndsByItself) {
    forget(*left);
    return true;
  }
  if (rest == Rest::kAwaited) {
    left->is_cancelled_ = true;
    wait_a_moment(*left);
    return false;
  }
  std::unique_ptr<Operation> operation = take(number);
  drop_inside(number);
  end(std::move(operation));
  // In a loop that has closed there is no other turn.
  try_to([&] { schedule(); });
  close_if_unused();
  return true;
}

// Its timer, if it had one, is over or of no use any more.
void Turns::wait_a_moment(Operation& operation) {
  if (const py::object timer = std::exchange(operation.timer_, {})) try_to([&] { timer.attr("cancel")(); });
  try_to([&] {
    operation.timer_ =
        loop_.attr("call_later")(kMoment_s, py::handle(self_).attr("finish"), operation.number_);
  });
}

bool Turns::finish(uint64_t number) {
  if (is_child() || is_running_) return false;
  Operation* const operation = find(number);
  if (operation == nullptr || !(operation->is_cancelled_ || operation->is_expired_)) return false;
  const py::object call = operation->call_;
  const bool is_cancelled = operation->is_cancelled_;
  forget(*operation);
  if (!operation->task_.done()) {
    operation->task_ = {};
    (void)operation->give_up();
  }
  std::unique_ptr<Operation> ended = take(number);
  if (call && !is_cancelled) resolve(call, [&] { return ended->outcome({Code::kOk, "", ""}); });
  end(std::move(ended));
  // Behind it: nothing holds what its caller gave.
  if (call && is_cancelled) try_to([&] { call.attr("_cancel_now")(); });
  try_to([&] { schedule(); });
  close_if_unused();
  return true;
}

void Turns::drop_inside(uint64_t transaction) {
  std::vector<uint64_t> inner;
  for (const auto& [number, operation] : under_way_) {
    if (operation->inside_ == transaction) inner.push_back(number);
  }
  for (const uint64_t number : inner) {
    std::unique_ptr<Operation> operation = take(number);
    if (operation == nullptr) continue;
    operation->task_ = {};
    const py::object call = operation->call_;
    end(std::move(operation));
    if (!call) continue;
    resolve(call, []() -> PyObject* {
      raise_invalid("a read of a transaction whose body has returned meanwhile", "await it in the body");
    });
  }
}

bool Turns::expire(uint64_t number) {
  if (is_child()) return false;
  Operation* const operation = find(number);
  if (operation == nullptr) return false;
  if (is_running_) return false;  // Only another thread's call: the loop's own thread is here.
  const Rest rest = operation->abandon();
  if (rest == Rest::kAwaited) {
    operation->is_expired_ = true;
    wait_a_moment(*operation);
    return false;
  }
  const py::object call = operation->call_;
  forget(*operation);
  const bool ends_by_itself = rest == Rest::kEndsByItself;
  if (!ends_by_itself) operation->task_ = {};
  if (call) {
    resolve(call, [&] {
      (void)operation->give_up();
      return operation->outcome({Code::kOk, "", ""});
    });
  }
  if (!ends_by_itself) end(take(number));
  try_to([&] { schedule(); });
  close_if_unused();
  return true;
}

void Turns::let_go() {
  --holders_;
  if (holders_ > 0 || !under_way_.empty()) return;
  const KeptError kept;
  // Garbage is collected in any thread, and uvloop's loops are for one.
  bool is_elsewhere = false;
  try_to([&] { is_elsewhere = shard_ != nullptr && is_used() && running_loop() != loop_.ptr(); });
  if (!is_elsewhere) {
    close();
    return;
  }
  try_to([&] { loop_.attr("call_soon_threadsafe")(py::handle(self_)); });
}

void Turns::close_if_unused() {
  if (holders_ == 0 && under_way_.empty()) close();
}

// What a child of the process has of its parent's.
struct Turns::Inherited {
  std::map<uint64_t, std::unique_ptr<Operation>> operations;
  std::unique_ptr<AsyncClient> client;
  std::unique_ptr<runtime::Shard> shard;
};

void Turns::close() {
  if (shard_ == nullptr) return;
  if (is_running_) {
    is_close_wanted_ = true;
    return;
  }
  const KeptError kept;
  if (is_child()) {
    // (I4) It stays as it was, for good.
    static auto* const inherited = new std::vector<Inherited>();
    inherited->push_back({std::exchange(under_way_, {}), std::move(client_), std::move(shard_)});
    return;
  }
  try_to([&] {
    if (!loop_.attr("is_closed")().cast<bool>()) loop_.attr("remove_reader")(shard_->descriptor());
  });
  auto operations = std::exchange(under_way_, {});
  long_ = 0;
  // (I3)
  for (auto row = operations.rbegin(); row != operations.rend(); ++row) row->second->task_ = {};
  client_.reset();
  shard_.reset();
  fail_all(operations);
}

void Turns::fail_all(std::map<uint64_t, std::unique_ptr<Operation>>& operations) noexcept {
  for (auto& [number, operation] : operations) {
    const Code code = operation->give_up();
    const py::object call = operation->call_;
    const bool is_cancelled = operation->is_cancelled_;
    end(std::move(operation));
    if (!call) continue;
    if (is_cancelled) {
      try_to([&] { call.attr("_cancel_now")(); });
      continue;
    }
    resolve(call, [&]() -> PyObject* {
      raise({code,
             code == Code::kIndeterminate
                 ? "the client was closed while this was under way: it may be done or not"
                 : "the client was closed while this was under way",
             "await what is under way before close()"});
    });
  }
}

struct TurnsType {
  PyObject_HEAD Turns* turns;

  static TurnsType& of(PyObject* self) { return *reinterpret_cast<TurnsType*>(self); }

  static PyObject* make(PyObject* loop, PyObject* make_call) {
    PyObject* const self = g_type->tp_alloc(g_type, 0);
    if (self != nullptr) of(self).turns = new Turns(self, loop, make_call);
    return self;
  }

  static void dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    PyTypeObject* const type = Py_TYPE(self);
    delete std::exchange(of(self).turns, nullptr);
    type->tp_free(self);
    Py_DECREF(type);
  }

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    const Turns* const turns = of(self).turns;
    if (turns == nullptr) return 0;
    Py_VISIT(turns->loop_.ptr());
    Py_VISIT(turns->make_call_.ptr());
    for (const auto& [number, operation] : turns->under_way_) {
      for (PyObject* const one : operation->visited()) Py_VISIT(one);
    }
    return 0;
  }

  static int clear(PyObject* self) {
    if (of(self).turns != nullptr) of(self).turns->close();
    return 0;
  }

  static PyObject* call(PyObject* self, PyObject* /*args*/, PyObject* /*names*/) {
    return guarded([&] {
      of(self).turns->is_scheduled_ = false;
      of(self).turns->turn();
      return Py_NewRef(Py_None);
    });
  }

  template <bool (Turns::*kWork)(uint64_t)>
  static PyObject* with_number(PyObject* self, PyObject* number) {
    return guarded([&] {
      const uint64_t value = PyLong_AsUnsignedLongLong(number);
      if (PyErr_Occurred() != nullptr) raise_pending();
      return PyBool_FromLong((of(self).turns->*kWork)(value) ? 1 : 0);
    });
  }
};

Turns& Turns::of(PyObject* self) {
  return *TurnsType::of(self).turns;
}

py::object Turns::make(PyObject* loop, PyObject* make_call) {
  py::object self = py::reinterpret_steal<py::object>(TurnsType::make(loop, make_call));
  if (!self) raise_pending();
  const int descriptor = of(self.ptr()).shard().descriptor();
  if (descriptor < 0) {
    raise({Code::kSystem, "connect: the process has no descriptor left", "raise the limit: ulimit -n"});
  }
  py::handle(loop).attr("add_reader")(descriptor, self);
  return self;
}

void add_turns(py::module_& module) {
  static std::array<PyMethodDef, 4> methods = {{
      {"drop", &TurnsType::with_number<&Turns::drop>, METH_O, nullptr},
      {"expire", &TurnsType::with_number<&Turns::expire>, METH_O, nullptr},
      {"finish", &TurnsType::with_number<&Turns::finish>, METH_O, nullptr},
      {nullptr, nullptr, 0, nullptr},
  }};
  static std::array<PyType_Slot, 7> slots = {{
      {Py_tp_dealloc, reinterpret_cast<void*>(&TurnsType::dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(&TurnsType::traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(&TurnsType::clear)},
      {Py_tp_call, reinterpret_cast<void*>(&TurnsType::call)},
      {Py_tp_methods, methods.data()},
      {Py_tp_doc, const_cast<char*>("A client's turns in an event loop.")},
      {0, nullptr},
  }};
  static PyType_Spec spec = {
      .name = "refract.aio.Turns",
      .basicsize = sizeof(TurnsType),
      .itemsize = 0,
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
      .slots = slots.data()};
  g_type = make_type(module, spec);
}

}  // namespace refract::python::aio
