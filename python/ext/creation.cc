// SPDX-License-Identifier: Apache-2.0
#include "python/ext/creation.h"

#include <cstring>
#include <memory>
#include <utility>

#include "python/ext/arguments.h"
#include "python/ext/buffer.h"
#include "python/ext/errors.h"
#include "python/ext/gil.h"
#include "python/ext/hold.h"

namespace refract::python {

namespace py = pybind11;

namespace {

// Of nothing the address may be null, which numpy does not take.
std::byte g_nothing{};

}  // namespace

Creation::Creation(const SharedLink& link, NewObject made, std::string metadata)
    : link_(link),
      memory_(std::make_shared<Memory>(std::move(made), nullptr)),
      id_(memory_->made.id()),
      birth_(memory_->made.birth()),
      body_(memory_->made.body()) {
  if (!metadata.empty()) std::memcpy(memory_->made.metadata().data(), metadata.data(), metadata.size());
  if (body_.empty()) body_ = {&g_nothing, 0};
  hold_ = make_writable_hold(memory_, body_);
  link->creations.push_back(this);
}

Creation::~Creation() {
  // Held to the end of this, if it is there.
  SharedLink link = link_.lock();
  if (link != nullptr) std::erase(link->creations, this);
  if (memory_ == nullptr) return;
  // Nothing refers to this any more, but views may to the hold.
  is_a_base_ = false;
  const bool stays = is_seen();
  hold_ = py::object();
  // Says so to the node, which may take a moment.
  (void)without_gil([&] {
    if (stays && state_ == State::kOpen && process_ == ::getpid()) {
      memory_->made.keep_memory();
      (void)memory_->made.abandon();
    }
    memory_.reset();
    link.reset();
    return true;
  });
}

bool Creation::is_seen() const noexcept {
  return is_a_base_ || (hold_ && Py_REFCNT(hold_.ptr()) > 1);
}

std::span<std::byte> Creation::body() const {
  const char* why = nullptr;
  if (state_ == State::kSealed) why = "it was sealed, and get() has its bytes";
  if (state_ == State::kAborted) why = "it was aborted";
  if (state_ == State::kClosed) why = "its client was closed, and that was the end of it";
  if (state_ == State::kBusy) why = "it is being sealed or aborted";
  if (why != nullptr) raise_invalid("the new object " + shown(id_) + " cannot be written: " + why);
  if (process_ != ::getpid()) raise(explain(Code::kForked, "the new object " + shown(id_)));
  return body_;
}

SharedLink Creation::begin(const char* call) {
  const std::string what = std::string(call) + " of " + shown(id_);
  if (state_ == State::kBusy) raise_invalid(what + ": another thread is in a call of this new object");
  if (state_ == State::kSealed) raise_invalid(what + ": it was sealed before");
  if (state_ == State::kAborted) raise_invalid(what + ": it was aborted before");
  if (process_ != ::getpid()) raise(explain(Code::kForked, what));
  SharedLink link = link_.lock();
  if (link == nullptr || state_ == State::kClosed) {
    raise_invalid(what + ": its client was closed, and that was the end of it", "make it again");
  }
  state_ = State::kBusy;
  return link;
}

void Creation::filled(uint64_t bytes) {
  const SharedLink link = begin("filled()");
  Report trouble{Code::kOk, "", ""};
  const Code code = without_gil([&] {
    const Code told = memory_->made.filled(bytes);
    if (told != Code::kOk) trouble = link->objects.trouble();
    return told;
  });
  state_ = State::kOpen;
  if (code != Code::kOk)
    raise(explain(code, "filled(" + std::to_string(bytes) + ") of " + shown(id_), trouble));
}

py::object Creation::seal() {
  const SharedLink link = begin("seal()");
  if (is_seen()) memory_->made.keep_memory();
  Report trouble{Code::kOk, "", ""};
  Result<Object> object = without_gil([&] {
    auto sealed = memory_->made.seal();
    if (!sealed) trouble = link->objects.trouble();
    return sealed;
  });
  const Code code = object.code();
  const bool may_go_again = code == Code::kOverloaded || code == Code::kUnavailable ||
                            code == Code::kDeadlineExceeded || code == Code::kNoSpace;
  state_ = may_go_again ? State::kOpen : State::kSealed;
  if (code != Code::kOk) {
    if (!may_go_again) let_go();
    raise(explain(code, "seal of " + shown(id_), trouble));
  }
  auto held = std::make_shared<const Object>(std::move(*object));
  if (held->is_copy() && is_seen()) memory_->sealed = held;
  let_go();
  return py::cast(std::make_unique<ObjectBuffer>(held));
}

void Creation::abandon() {
  const SharedLink link = begin("abort()");
  if (is_seen()) memory_->made.keep_memory();
  (void)without_gil([&] { return memory_->made.abandon(); });
  state_ = State::kAborted;
  let_go();
}

bool Creation::end_with_client() noexcept {
  if (state_ != State::kOpen || process_ != ::getpid()) return true;
  state_ = State::kBusy;
  if (is_seen()) memory_->made.keep_memory();
  // Over a network the node would wait some seconds for a creator that has gone.
  const Code code = without_gil([&] { return memory_->made.abandon(); });
  state_ = State::kClosed;
  let_go();
  return code != Code::kUnavailable && code != Code::kDeadlineExceeded;
}

void Creation::let_go() noexcept {
  if (is_a_base_) return;
  hold_ = py::object();
  memory_.reset();  // It has ended, so that this waits for nothing.
}

int Creation::export_to(PyObject* self, Py_buffer* view, int flags) noexcept {
  // The slot of C: what is raised is set, and told by its result.
  try {
    auto& creation = py::cast<Creation&>(py::handle(self));
    const auto body = creation.body();
    const int result = fill_view(view, creation.hold_, body, flags);
    if (result == 0 && is_for_ndarray(flags)) creation.is_a_base_ = true;
    return result;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::cast_error&) {
    PyErr_SetString(PyExc_BufferError, "this new object was not made by refract");
  }
  view->obj = nullptr;
  return -1;
}

// Views refer to the hold; but numpy looks whether this is here (hold.cc).
void Creation::end_export(PyObject* /*self*/, Py_buffer* /*view*/) noexcept {}

void add_creation(py::module_& module) {
  const py::custom_type_setup slots([](PyHeapTypeObject* type) {
    type->as_buffer.bf_getbuffer = &Creation::export_to;
    type->as_buffer.bf_releasebuffer = &Creation::end_export;
    type->ht_type.tp_as_buffer = &type->as_buffer;
  });
  py::class_<Creation>(
      module, "NewObject", slots,
      "An object that is being made: a writable buffer, which no reader finds yet.\n\n"
      "memoryview(new) and numpy.frombuffer(new, dtype) write to it, until seal() or abort().\n"
      "What views of it write after that changes nothing. Aborted where it goes without a seal.\n"
      "As a context manager it is sealed at the end, and aborted by an exception.")
      .def("__len__", &Creation::size)
      .def_property_readonly("size", &Creation::size, "How many bytes.")
      .def_property_readonly("nbytes", &Creation::size, "How many bytes.")
      .def_property_readonly("is_mutable", &Creation::is_open, "Whether it can be written still.")
      .def_property_readonly("id", &Creation::id, "Its id, as bytes.")
      .def_property_readonly("birth", &Creation::birth, "Tells it from other objects of the same id.")
      .def(
          "to_pybytes", [](const Creation& self) { return python_bytes(self.body()); },
          "to_pybytes($self)\n--\n\nA copy of what was written, as bytes.")
      .def(
          "filled", [](Creation& self, py::handle bytes) { self.filled(bytes_of(bytes, "bytes")); },
          "filled($self, bytes)\n--\n\nThe first `bytes` bytes do not change any more: the node copies them "
          "while "
          "the others are\nmade. Worth it from some MiB at a time; need not be called.")
      .def("seal", &Creation::seal,
           "seal($self)\n--\n\nAll is there: from now on every program finds it. Returns it, as an Object.\n"
           "After Overloaded, Unavailable, DeadlineExceeded and NoSpace it may be called again. "
           "Indeterminate: it\n"
           "was sealed, or was not. Exists: another one of this id was sealed, since this creation was lost.")
      .def("abort", &Creation::abandon, "abort($self)\n--\n\nGives its room back.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__",
           [](Creation& self, py::handle type, const py::args&) {
             if (!self.is_open()) return;
             if (type.is_none()) {
               (void)self.seal();
             } else {
               self.abandon();
             }
           })
      .def("__repr__", [](const Creation& self) {
        return "<refract.NewObject " + std::string(py::repr(self.id())) + " of " +
               std::to_string(self.size()) + " bytes>";
      });
}

}  // namespace refract::python
