// SPDX-License-Identifier: Apache-2.0
// refract.Client: the type, its texts, connect(), and what is about no key. The calls are in kv_calls.cc,
// kv_many.cc and kv_transaction.cc.
#include <array>
#include <string>
#include <utility>

#include "python/ext/called.h"
#include "python/ext/kv_link.h"
#include "python/ext/requests/kv_requests.h"
#include "python/ext/requests/kv_texts.h"

namespace refract::python {

namespace py = pybind11;

namespace {

PyTypeObject* g_client_type = nullptr;

KvObject& object_of(PyObject* self) {
  return *reinterpret_cast<KvObject*>(self);
}

// What is under way continues, and the last of it ends the connections.
void end(KvObject& object) {
  SharedKv link = std::exchange(object.link, nullptr);
  if (link == nullptr) return;
  (void)without_gil([&] {
    link.reset();
    return true;
  });
}

void dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  end(object_of(self));
  object_of(self).~KvObject();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* close(PyObject* self, PyObject* /*none*/) {
  return guarded([&] {
    end(object_of(self));
    return Py_NewRef(Py_None);
  });
}

PyObject* enter(PyObject* self, PyObject* /*none*/) {
  return Py_NewRef(self);
}

PyObject* leave(PyObject* self, PyObject* const* /*args*/, Py_ssize_t /*count*/) {
  return close(self, nullptr);
}

PyObject* repr(PyObject* self) {
  const KvObject& object = object_of(self);
  const std::string at = object.address.empty() ? "the default socket" : object.address;
  return PyUnicode_FromString(
      ("<refract.Client of " + at + (object.link == nullptr ? ", closed>" : ">")).c_str());
}

PyObject* is_closed(PyObject* self, void* /*none*/) {
  return PyBool_FromLong(object_of(self).link == nullptr ? 1 : 0);
}

PyObject* address(PyObject* self, void* /*none*/) {
  return PyUnicode_FromString(object_of(self).address.c_str());
}

PyObject* connect(PyObject* /*module*/, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [place, secret_file, timeout] =
        taken("connect", {args, count, names}, std::array{"address", "secret_file", "timeout"}, 1, 0);
    std::string to = place == nullptr ? "" : text_of(place, "address");
    ClientOptions options{.may_wait_ns = &Waiting::may_wait_ns};
    if (timeout != nullptr && timeout != Py_None) options.timeout_ns = client_timeout_ns(timeout);
    if (secret_file != nullptr) options.secret_file = text_of(secret_file, "secret_file");
    Report why{Code::kOk, "", ""};
    SharedKv link = waited(nullptr, kForever_ms, [&]() -> SharedKv {
      auto client = Client::connect(to, options);
      if (client) return std::make_shared<KvLink>(KvLink{.client = std::move(*client)});
      why = client.error();
      return nullptr;
    });
    if (link == nullptr) raise(why);
    PyObject* const made = g_client_type->tp_alloc(g_client_type, 0);
    if (made == nullptr) return nullptr;
    // What it begins with is Python's.
    new (&object_of(made).link) SharedKv(std::move(link));
    new (&object_of(made).address) std::string(std::move(to));
    return made;
  });
}

constexpr int kFlags = METH_FASTCALL | METH_KEYWORDS;

std::array<PyMethodDef, 27> g_methods = {{
    {"get", as_function<&kv::get>(), kFlags, texts::kGet},
    {"get_versioned", as_function<&kv::get_versioned>(), kFlags, texts::kGetVersioned},
    {"put", as_function<&kv::put>(), kFlags, texts::kPut},
    {"erase", as_function<&kv::erase>(), kFlags, texts::kErase},
    {"exists", as_function<&kv::exists>(), kFlags, texts::kExists},
    {"cas", as_function<&kv::cas>(), kFlags, texts::kCas},
    {"ttl", as_function<&kv::ttl>(), kFlags, texts::kTtl},
    {"add", as_function<&kv::add>(), kFlags, texts::kAdd},
    {"scan", as_function<&kv::scan>(), kFlags, texts::kScan},
    {"get_many", as_function<&kv::get_many>(), kFlags, texts::kGetMany},
    {"put_many", as_function<&kv::put_many>(), kFlags, texts::kPutMany},
    {"exists_many", as_function<&kv::exists_many>(), kFlags, texts::kExistsMany},
    {"view", as_function<&kv::view>(), kFlags, texts::kView},
    {"get_into", as_function<&kv::get_into>(), kFlags, texts::kGetInto},
    {"get_many_into", as_function<&kv::get_many_into>(), kFlags, texts::kGetManyInto},
    {"array", as_function<&kv::array>(), kFlags, texts::kArray},
    {"put_array", as_function<&kv::put_array>(), kFlags, texts::kPutArray},
    {"build", as_function<&kv::build>(), kFlags, texts::kBuild},
    {"reserve", as_function<&kv::reserve>(), kFlags, texts::kReserve},
    {"prefix_exists", as_function<&kv::prefix_exists>(), kFlags, texts::kPrefixExists},
    {"transaction", as_function<&kv::transaction>(), kFlags, texts::kTransaction},
    {"ping", as_function<&kv::ping>(), kFlags, texts::kPing},
    {"route", as_function<&kv::route>(), kFlags, texts::kRoute},
    {"close", &close, METH_NOARGS,
     "close($self)\n--\n\n"
     "Ends the connections. A call that another thread is in ends as usual. Also: `with connect() as c: "
     "...`."},
    {"__enter__", &enter, METH_NOARGS, nullptr},
    {"__exit__", as_function<&leave>(), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
}};

std::array<PyGetSetDef, 3> g_properties = {{
    {"is_closed", &is_closed, nullptr, "Whether close() was called.", nullptr},
    {"address", &address, nullptr, "As connect() was given it.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
}};

constexpr const char* kClientText =
    "The keys and values of a node. connect() makes one.\n\n"
    "Keys are str (as UTF-8) or bytes, 1 to 65,535 of them; `key in client` looks for one. Values are "
    "bytes,\n"
    "up to 512 MiB. All times are\n"
    "seconds; `timeout` of a call is shorter than that of connect(), which is 5 seconds and bounds every "
    "call.\n"
    "Errors are subclasses of refract.Error: besides those that a call names DeadlineExceeded, Unavailable,\n"
    "Overloaded, InvalidArgument. None of them is repeated silently where it may have been done already.\n\n"
    "Any thread may call, and each has a connection of its own. Ctrl-C ends a call of the main thread at "
    "once.\n"
    "After a fork the child's handle raises Forked: connect() again.";

std::array<PyMethodDef, 2> g_functions = {{
    {"connect", as_function<&connect>(), kFlags,
     "connect($module, address='', *, secret_file='', timeout=5.0)\n--\n\n"
     "Connects to a node, and returns a Client of its keys.\n\n"
     "address: the path of a node's socket; 'refract://host:port'; empty: this user's default socket.\n"
     "secret_file: what a node on another host asks for; empty: what $REFRACT_SECRET_FILE names.\n"
     "timeout: how many seconds one call may take; of a long value or many keys, each message of it.\n"
     "Raises Unavailable, InvalidArgument, AccessDenied."},
    {nullptr, nullptr, 0, nullptr},
}};

}  // namespace

const SharedKv& link_of(PyObject* self, const char* call) {
  if (Waiting::is_any()) [[unlikely]]
    Waiting::refuse_in_handler(object_of(self).link.get(), call);
  const SharedKv& link = object_of(self).link;
  if (link == nullptr) [[unlikely]]
    raise_invalid(std::string(call) + ": this client was closed", "connect() again");
  return link;
}

PyTypeObject* make_type(py::module_& module, PyType_Spec& spec) {
  PyObject* const type = PyType_FromModuleAndSpec(module.ptr(), &spec, nullptr);
  if (type == nullptr) raise_pending();
  // Its reference is for what C++ makes of it, and lasts.
  return reinterpret_cast<PyTypeObject*>(type);
}

PyTypeObject* add_type(py::module_& module, PyType_Spec& spec) {
  PyTypeObject* const type = make_type(module, spec);
  if (PyModule_AddType(module.ptr(), type) != 0) raise_pending();
  return type;
}

namespace kv {

PyObject* route(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto [timeout] = taken("route", {args, count, names}, std::array{"timeout"}, 0, 0);
    const SharedKv held = link_of(self, "route");
    // What it says of the parent's connections is true in a child, too, and of no use.
    if (held->client.exists_at_once("route").code() == Code::kForked) {
      raise(explain_call("route", nullptr, Code::kForked, {Code::kOk, "", ""}));
    }
    std::string text;
    const Route is = waited(held.get(), timeout_ms_of(timeout), [&] {
      Route found = held->client.route();
      if (!found.transport.empty()) text = held->client.why();
      return found;
    });
    const Report trouble = is.transport.empty() ? held->client.trouble() : Report{Code::kOk, "", ""};
    return route_record(is, text, trouble);
  });
}

}  // namespace kv

void add_kv(py::module_& module) {
  static std::array<PyType_Slot, 7> slots = {{
      {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc)},
      {Py_tp_repr, reinterpret_cast<void*>(&repr)},
      {Py_tp_methods, g_methods.data()},
      {Py_tp_getset, g_properties.data()},
      {Py_sq_contains, reinterpret_cast<void*>(&kv::contains)},
      {Py_tp_doc, const_cast<char*>(kClientText)},
      {0, nullptr},
  }};
  static PyType_Spec spec = {.name = "refract._refract.Client",
                             .basicsize = sizeof(KvObject),
                             .itemsize = 0,
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = slots.data()};
  g_client_type = add_type(module, spec);
  add_transaction(module);
  add_building(module);
  add_scan(module);
  if (PyModule_AddFunctions(module.ptr(), g_functions.data()) != 0) raise_pending();
}

}  // namespace refract::python
