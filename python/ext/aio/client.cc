// SPDX-License-Identifier: Apache-2.0
// refract.aio.Client: the type, connect(), and its calls, each of which gives an awaitable.
#include "python/ext/aio/client.h"

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "python/ext/aio/operation.h"
#include "python/ext/aio/ready.h"
#include "python/ext/errors.h"
#include "python/ext/kv_link.h"
#include "python/ext/requests/kv_requests.h"
#include "python/ext/requests/kv_requests_arrays.h"
#include "python/ext/requests/kv_requests_into.h"
#include "python/ext/requests/kv_requests_many.h"
#include "python/ext/requests/kv_requests_views.h"
#include "python/ext/requests/kv_texts.h"

namespace refract::python::aio {

namespace py = pybind11;
using runtime::Task;

namespace {

struct ClientObject {
  PyObject_HEAD PyObject* turns;  // Null: closed.
  std::string address;
};

PyTypeObject* g_client_type = nullptr;

ClientObject& object_of(PyObject* self) {
  return *reinterpret_cast<ClientObject*>(self);
}

// It ends with what is under way, if that is not awaited by anything that has the client.
void dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  if (PyObject* const turns = std::exchange(object_of(self).turns, nullptr)) {
    Turns::of(turns).let_go();
    Py_DECREF(turns);
  }
  object_of(self).~ClientObject();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* repr(PyObject* self) {
  const ClientObject& object = object_of(self);
  const std::string at = object.address.empty() ? "the default socket" : object.address;
  return PyUnicode_FromString(
      ("<refract.aio.Client of " + at + (object.turns == nullptr ? ", closed>" : ">")).c_str());
}

PyObject* is_closed(PyObject* self, void* /*none*/) {
  return PyBool_FromLong(object_of(self).turns == nullptr ? 1 : 0);
}

PyObject* address(PyObject* self, void* /*none*/) {
  return PyUnicode_FromString(object_of(self).address.c_str());
}

PyObject* close(PyObject* self, PyObject* /*none*/) {
  return guarded([&] {
    ClientObject& object = object_of(self);
    if (object.turns != nullptr) {
      Turns& turns = Turns::of(object.turns);
      if (turns.is_used()) turns.require_here("close");
      PyObject* const held = std::exchange(object.turns, nullptr);
      turns.close();
      turns.let_go();
      Py_DECREF(held);
    }
    return ready(Py_NewRef(Py_None));
  });
}

PyObject* enter(PyObject* self, PyObject* /*none*/) {
  return ready(Py_NewRef(self));
}

PyObject* leave(PyObject* self, PyObject* const* /*args*/, Py_ssize_t /*count*/) {
  return close(self, nullptr);
}

// A call that gives an awaitable. What was raised is set.
template <typename Request>
PyObject* asked(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    Turns& turns = turns_of(self, Request::kName);
    // What is given may run Python's code, and that close the client.
    const py::object held = py::reinterpret_borrow<py::object>(turns.self());
    return turns.begin(
        std::make_unique<Asking<Request, AsyncClient>>(turns.client(), Arguments{args, count, names}));
  });
}

PyObject* got(PyObject* self, const char* name, const Arguments& given) {
  return guarded([&]() -> PyObject* {
    Turns& turns = turns_of(self, name);
    const GetRequest request(name, given);
    turns.count_read();
    const Result<View> view = turns.client().view_at_once(request.bytes);
    if (view) return ready(request.found(view->bytes(), view->version()));
    if (is_settled(view.code())) {
      return ready_of([&] { return request.failed(view.code(), {Code::kOk, "", ""}); });
    }
    return turns.begin(std::make_unique<Asking<GetRequest, AsyncClient>>(turns.client(), given, name));
  });
}

PyObject* get(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return got(self, "get", {args, count, names});
}

PyObject* get_versioned(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return got(self, "get_versioned", {args, count, names});
}

PyObject* exists(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    Turns& turns = turns_of(self, "exists");
    ExistsRequest request({args, count, names});
    turns.count_read();
    request.result = turns.client().exists_at_once(request.bytes);
    if (request.result || is_settled(request.result.code())) {
      return ready_of([&] { return request.outcome({Code::kOk, "", ""}); });
    }
    return turns.begin(
        std::make_unique<Asking<ExistsRequest, AsyncClient>>(turns.client(), Arguments{args, count, names}));
  });
}

PyObject* looked_at(PyObject* self, const char* name, const Arguments& given) {
  return guarded([&]() -> PyObject* {
    Turns& turns = turns_of(self, name);
    auto operation = std::make_unique<Asking<ViewRequest, AsyncClient>>(turns.client(), given, name);
    const ViewRequest& request = operation->request();
    turns.count_read();
    Result<View> view = turns.client().view_at_once(request.look.key);
    if (view) return ready_of([&] { return request.found(Viewed(std::move(*view))); });
    if (is_settled(view.code())) {
      return ready_of([&] { return request.failed(view.code(), {Code::kOk, "", ""}); });
    }
    return turns.begin(std::move(operation));
  });
}

PyObject* view(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return looked_at(self, "view", {args, count, names});
}

PyObject* array(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return looked_at(self, "array", {args, count, names});
}

PyObject* get_into(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    Turns& turns = turns_of(self, GetIntoRequest::kName);
    const py::object held = py::reinterpret_borrow<py::object>(turns.self());
    auto operation =
        std::make_unique<Asking<GetIntoRequest, AsyncClient>>(turns.client(), Arguments{args, count, names});
    turns.require_open(GetIntoRequest::kName);
    turns.count_read();
    if (operation->request().is_got_at_once(turns.client())) {
      return ready_of([&] { return operation->outcome({Code::kOk, "", ""}); });
    }
    return turns.begin(std::move(operation));
  });
}

PyObject* route(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    (void)taken("route", {args, count, names}, std::array{"timeout"}, 0, 0);
    const AsyncClient& client = turns_of(self, "route").client();
    return ready_of([&] { return route_record(client.route(), client.why(), client.trouble()); });
  });
}

// A function of refract.aio.
py::object of_module(const char* name) {
  return py::module_::import("refract.aio").attr(name);
}

PyObject* scan(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    (void)turns_of(self, "scan");
    const ScanArguments given({args, count, names});
    (void)timeout_ms_of(given.timeout);
    return of_module("Scan")(py::handle(self), py::bytes(given.prefix),
                             given.timeout == nullptr ? py::handle(Py_None) : py::handle(given.timeout))
        .release()
        .ptr();
  });
}

// A page of it: (keys, next cursor).
class ScanPageOperation final : public Operation {
 public:
  ScanPageOperation(AsyncClient& client, const Arguments& given) : client_(client) {
    const auto [cursor, prefix, timeout] =
        taken("scan", given, std::array{"cursor", "prefix", "timeout"}, 3, 3);
    cursor_ = whole_number_of(cursor, "cursor", UINT64_MAX);
    prefix_ = key_of(prefix).text();
    if (timeout != Py_None) timeout_ms_ = timeout_ms_of(timeout);
  }

  [[nodiscard]] Task<> run() override { page_ = co_await client_.scan(cursor_, kScannedKeys); }
  [[nodiscard]] PyObject* outcome(const Report& trouble) override {
    if (!page_) raise(explain_call("scan", nullptr, page_.code(), trouble));
    py::list keys;
    for (const ScanEntry& entry : page_->entries) {
      if (entry.key.starts_with(prefix_)) keys.append(py::bytes(entry.key));
    }
    return py::make_tuple(keys, page_->next).release().ptr();
  }
  [[nodiscard]] Code give_up() noexcept override {
    page_ = fail(Code::kDeadlineExceeded);
    return Code::kDeadlineExceeded;
  }
  [[nodiscard]] Rest abandon() noexcept override { return Rest::kEndsByItself; }
  [[nodiscard]] uint64_t timeout_ms() const noexcept override { return timeout_ms_; }

 private:
  AsyncClient& client_;
  uint64_t cursor_ = 0;
  std::string prefix_;
  uint64_t timeout_ms_ = kForever_ms;
  Result<ScanPage> page_ = fail(Code::kUnavailable);
};

PyObject* scan_page(PyObject* /*module*/, PyObject* const* args, Py_ssize_t count, PyObject* /*names*/) {
  return guarded([&]() -> PyObject* {
    if (count != 4 || !is_client(args[0])) raise_type("scan_page() takes a client and three arguments");
    Turns& turns = turns_of(args[0], "scan");
    return turns.begin(std::make_unique<ScanPageOperation>(turns.client(), Arguments{args + 1, 3, nullptr}));
  });
}

PyObject* transaction(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    (void)turns_of(self, "transaction");
    std::vector<PyObject*> all{self};
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    all.insert(all.end(), args, args + count + named);
    const py::object run = of_module("run_transaction");
    return PyObject_Vectorcall(run.ptr(), all.data(), static_cast<size_t>(count + 1), names);
  });
}

// Connects, and has the client then.
class ConnectOperation final : public Operation {
 public:
  ConnectOperation(Turns& turns, std::string address, ClientOptions options)
      : turns_(turns), address_(std::move(address)), options_(std::move(options)) {}

  [[nodiscard]] Task<> run() override {
    auto reached = co_await AsyncClient::connect(turns_.shard(), address_, options_);
    if (reached) {
      client_ = std::move(*reached);
    } else {
      why_ = reached.error();
    }
  }
  [[nodiscard]] PyObject* outcome(const Report& /*trouble*/) override {
    if (client_ == nullptr) raise(why_);
    turns_.take_client(std::move(client_));
    return make_client(turns_, address_);
  }
  [[nodiscard]] Code give_up() noexcept override { return Code::kUnavailable; }

 private:
  Turns& turns_;
  std::string address_;
  ClientOptions options_;
  std::unique_ptr<AsyncClient> client_;
  Report why_{Code::kUnavailable, "", ""};
};

PyObject* connect(PyObject* /*module*/, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [loop, make_call, place, secret_file, timeout] =
        taken("connect", {args, count, names},
              std::array{"loop", "make_call", "address", "secret_file", "timeout"}, 5, 2);
    std::string to = place == nullptr ? "" : text_of(place, "address");
    ClientOptions options{.copy_threads = 1};
    if (timeout != nullptr && timeout != Py_None) options.timeout_ns = client_timeout_ns(timeout);
    if (secret_file != nullptr) options.secret_file = text_of(secret_file, "secret_file");
    const py::object turns = Turns::make(loop, make_call);
    return Turns::of(turns.ptr())
        .begin(std::make_unique<ConnectOperation>(Turns::of(turns.ptr()), std::move(to), std::move(options)));
  });
}

constexpr int kFlags = METH_FASTCALL | METH_KEYWORDS;

std::array<PyMethodDef, 28> g_methods = {{
    {"get", as_function<&get>(), kFlags, texts::kGet},
    {"get_versioned", as_function<&get_versioned>(), kFlags, texts::kGetVersioned},
    {"put", as_function<&asked<PutRequest>>(), kFlags, texts::kPut},
    {"erase", as_function<&asked<EraseRequest>>(), kFlags, texts::kErase},
    {"exists", as_function<&exists>(), kFlags, texts::kExists},
    {"cas", as_function<&asked<CasRequest>>(), kFlags, texts::kCas},
    {"ttl", as_function<&asked<TtlRequest>>(), kFlags, texts::kTtl},
    {"add", as_function<&asked<AddRequest>>(), kFlags, texts::kAdd},
    {"scan", as_function<&scan>(), kFlags, texts::kScan},
    {"get_many", as_function<&asked<GetManyRequest>>(), kFlags, texts::kGetMany},
    {"put_many", as_function<&asked<PutManyRequest>>(), kFlags, texts::kPutMany},
    {"exists_many", as_function<&asked<ExistsManyRequest>>(), kFlags, texts::kExistsMany},
    {"view", as_function<&view>(), kFlags, texts::kView},
    {"get_into", as_function<&get_into>(), kFlags, texts::kGetInto},
    {"get_many_into", as_function<&asked<GetManyIntoRequest>>(), kFlags, texts::kGetManyInto},
    {"array", as_function<&array>(), kFlags, texts::kArray},
    {"put_array", as_function<&asked<PutArrayRequest>>(), kFlags, texts::kPutArray},
    {"build", as_function<&build>(), kFlags, texts::kBuild},
    {"reserve", as_function<&reserve>(), kFlags, texts::kReserve},
    {"prefix_exists", as_function<&asked<PrefixExistsRequest>>(), kFlags, texts::kPrefixExists},
    {"transaction", as_function<&transaction>(), kFlags, texts::kTransaction},
    {"ping", as_function<&asked<PingRequest>>(), kFlags, texts::kPing},
    {"route", as_function<&route>(), kFlags, texts::kRoute},
    {"close", &close, METH_NOARGS,
     "close($self)\n--\n\n"
     "Ends the connection. What is under way fails: await it before. Also: `async with await connect() as "
     "c: ...`.\n"
     "It is done when this returns, and may be awaited."},
    {"__aenter__", &enter, METH_NOARGS, nullptr},
    {"__aexit__", as_function<&leave>(), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
}};

std::array<PyGetSetDef, 3> g_properties = {{
    {"is_closed", &is_closed, nullptr, "Whether close() was called.", nullptr},
    {"address", &address, nullptr, "As connect() was given it.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
}};

constexpr const char* kClientText =
    "The keys and values of a node, for one event loop of asyncio. `await connect()` makes one.\n\n"
    "The calls are those of refract.Client, with the same arguments, outcomes and errors; each gives an\n"
    "awaitable. It begins when it is called, not when it is awaited. What is read from the node's memory is\n"
    "there at once, and its `await` does not leave the coroutine: a loop of many such gets gives others no\n"
    "turn, unless it awaits asyncio.sleep(0) now and then.\n\n"
    "A task that is cancelled, also by asyncio.timeout() or wait_for(), ends its call at once. A write that "
    "was\n"
    "under way may be done or not, which nothing tells then: look before you repeat it. The same holds "
    "where\n"
    "`timeout` of a call is over; then Indeterminate says so. A buffer that is put is held until its call "
    "has\n"
    "ended, also where nothing awaits it any more: a long one is put to its end, or to the client's "
    "timeout. One\n"
    "that get_into() or get_many_into() fills is not written any more when the caller is told, for which it "
    "may\n"
    "wait a twentieth of a second while a long value is just coming.\n\n"
    "It is good in the loop that connected it, and for the thread of that; elsewhere a call raises\n"
    "InvalidArgument, and Forked in a child of the process.";

std::array<PyMethodDef, 4> g_functions = {{
    {"aio_connect", as_function<&connect>(), kFlags,
     "aio_connect($module, loop, make_call, address='', secret_file='', timeout=5.0)\n--\n\n"
     "For refract.aio: an awaitable of a Client."},
    {"aio_scan_page", as_function<&scan_page>(), kFlags,
     "aio_scan_page($module, client, cursor, prefix, timeout, /)\n--\n\n"
     "For refract.aio: an awaitable of the keys of a page, and the cursor of the next; 0: there is none."},
    {"aio_begin_transaction", as_function<&begin_transaction>(), kFlags,
     "aio_begin_transaction($module, client, timeout, read_only, /)\n--\n\n"
     "For refract.aio: a transaction whose body is to be run."},
    {nullptr, nullptr, 0, nullptr},
}};

}  // namespace

bool is_client(PyObject* object) {
  return Py_IS_TYPE(object, g_client_type) != 0;
}

Turns& turns_of(PyObject* client, const char* call) {
  PyObject* const turns = object_of(client).turns;
  if (turns == nullptr) [[unlikely]]
    raise_invalid(std::string(call) + ": this client was closed", "connect() again");
  Turns::of(turns).require_here(call);
  return Turns::of(turns);
}

PyObject* make_client(Turns& turns, const std::string& address) {
  PyObject* const made = g_client_type->tp_alloc(g_client_type, 0);
  if (made == nullptr) raise_pending();
  // What it begins with is Python's.
  new (&object_of(made).address) std::string(address);
  object_of(made).turns = Py_NewRef(turns.self());
  turns.hold();
  return made;
}

void add_aio(py::module_& module) {
  add_ready(module);
  add_turns(module);
  add_transaction(module);
  add_build(module);
  static std::array<PyType_Slot, 6> slots = {{
      {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc)},
      {Py_tp_repr, reinterpret_cast<void*>(&repr)},
      {Py_tp_methods, g_methods.data()},
      {Py_tp_getset, g_properties.data()},
      {Py_tp_doc, const_cast<char*>(kClientText)},
      {0, nullptr},
  }};
  static PyType_Spec spec = {.name = "refract.aio.Client",
                             .basicsize = sizeof(ClientObject),
                             .itemsize = 0,
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = slots.data()};
  g_client_type = make_type(module, spec);
  module.add_object("AioClient", py::handle(reinterpret_cast<PyObject*>(g_client_type)));
  if (PyModule_AddFunctions(module.ptr(), g_functions.data()) != 0) raise_pending();
}

}  // namespace refract::python::aio
