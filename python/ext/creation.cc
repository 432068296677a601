// SPDX-License-Identifier: Apache-2.0
#include "python/ext/creation.h"

#include <cstring>
#include <utility>

#include "python/ext/arguments.h"
#include "python/ext/buffer.h"
#include "python/ext/errors.h"
#include "python/ext/gil.h"

namespace refract::python {

namespace py = pybind11;

namespace {

// Of nothing the address may be null, which numpy does not take.
std::byte g_nothing{};

}  // namespace

Creation::Creation(const SharedLink& link, NewObject made, std::string metadata)
    : link_(link), made_(std::move(made)), id_(made_->id()), birth_(made_->birth()), body_(made_->body()) {
  if (!metadata.empty()) std::memcpy(made_->metadata().data(), metadata.data(), metadata.size());
  if (body_.empty()) body_ = {&g_nothing, 0};
  link->creations.push_back(this);
}

Creation::~Creation() {
  // Held to the end of this, if it is there.
  SharedLink link = link_.lock();
  if (link != nullptr) std::erase(link->creations, this);
  if (!made_) return;
  // Says so to the node, which may take a moment.
  (void)without_gil([&] {
    made_.reset();
    link.reset();
    return true;
  });
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
    const Code told = made_->filled(bytes);
    if (told != Code::kOk) trouble = link->objects.trouble();
    return told;
  });
  state_ = State::kOpen;
  if (code != Code::kOk)
    raise(explain(code, "filled(" + std::to_string(bytes) + ") of " + shown(id_), trouble));
}

py::object Creation::seal() {
  const SharedLink link = begin("seal()");
  if (exports_ > 0) made_->keep_memory();
  Report trouble{Code::kOk, "", ""};
  Result<Object> object = without_gil([&] {
    auto sealed = made_->seal();
    if (!sealed) trouble = link->objects.trouble();
    return sealed;
  });
  const Code code = object.code();
  const bool may_go_again = code == Code::kOverloaded || code == Code::kUnavailable ||
                            code == Code::kDeadlineExceeded || code == Code::kNoSpace;
  state_ = may_go_again ? State::kOpen : State::kSealed;
  if (code != Code::kOk) {
    if (!may_go_again) drop_when_unseen();
    raise(explain(code, "seal of " + shown(id_), trouble));
  }
  auto held = std::make_shared<const Object>(std::move(*object));
  if (held->is_copy() && exports_ > 0) sealed_ = held;
  drop_when_unseen();
  return py::cast(std::make_unique<ObjectBuffer>(held));
}

void Creation::abandon() {
  const SharedLink link = begin("abort()");
  if (exports_ > 0) made_->keep_memory();
  (void)without_gil([&] { return made_->abandon(); });
  state_ = State::kAborted;
  drop_when_unseen();
}

bool Creation::end_with_client() noexcept {
  if (state_ != State::kOpen || process_ != ::getpid()) return true;
  state_ = State::kBusy;
  if (exports_ > 0) made_->keep_memory();
  // Over a network the node would wait some seconds for a creator that has gone.
  const Code code = without_gil([&] { return made_->abandon(); });
  state_ = State::kClosed;
  drop_when_unseen();
  return code != Code::kUnavailable && code != Code::kDeadlineExceeded;
}

void Creation::drop_when_unseen() noexcept {
  if (exports_ > 0 || state_ == State::kOpen || state_ == State::kBusy) return;
  made_.reset();  // It has ended, so that this waits for nothing.
  sealed_.reset();
}

int Creation::export_to(PyObject* self, Py_buffer* view, int flags) noexcept {
  // The slot of C: what is raised is set, and told by its result.
  try {
    auto& creation = py::cast<Creation&>(py::handle(self));
    const auto body = creation.body();
    const int result = PyBuffer_FillInfo(view, self, body.data(), static_cast<Py_ssize_t>(body.size()),
                                         /*readonly=*/0, flags);
    if (result == 0) ++creation.exports_;
    return result;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::cast_error&) {
    PyErr_SetString(PyExc_BufferError, "this new object was not made by refract");
  }
  view->obj = nullptr;
  return -1;
}

void Creation::end_export(PyObject* self, Py_buffer* /*view*/) noexcept {
  auto& creation = py::cast<Creation&>(py::handle(self));
  --creation.exports_;
  creation.drop_when_unseen();
}

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
