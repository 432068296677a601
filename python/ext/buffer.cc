// SPDX-License-Identifier: Apache-2.0
#include "python/ext/buffer.h"

#include <array>
#include <utility>

#include "python/ext/arguments.h"
#include "python/ext/errors.h"
#include "python/ext/gil.h"
#include "python/ext/pickled.h"

namespace refract::python {

namespace py = pybind11;

namespace {

py::bytes digest_of(const ObjectBuffer& self) {
  // Another thread may release `self` meanwhile.
  const auto object = self.shared_object();
  const ObjectDigest digest = object->body().size() > kCopiedUnderLock
                                  ? without_gil([&] { return object->digest(); })
                                  : object->digest();
  std::array<std::byte, 16> bytes{};
  for (size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>(digest.high >> (56 - 8 * i));
    bytes[8 + i] = static_cast<std::byte>(digest.low >> (56 - 8 * i));
  }
  return python_bytes(bytes);
}

[[noreturn]] void refuse_dlpack() {
  PyErr_SetString(
      PyExc_BufferError,
      "these bytes are read-only, which DLPack cannot say\n"
      "  torch.from_numpy(numpy.frombuffer(buffer, dtype).copy()) has a copy that may be changed");
  raise_pending();
}

std::string text_of_buffer(const Buffer& self) {
  return "<refract.Buffer of " + std::to_string(self.size()) + " bytes>";
}

}  // namespace

Buffer::Buffer(std::shared_ptr<const void> keep, std::span<const std::byte> bytes, bool is_copy)
    : hold_(make_hold(std::move(keep), bytes, is_copy)),
      data_(bytes.data()),
      size_(bytes.size()),
      is_copy_(is_copy) {}

std::span<const std::byte> Buffer::bytes() const {
  if (is_released_) raise_invalid("this buffer was released", "get it again");
  refuse_in_child(forks_, "a buffer");
  return {data_, size_};
}

void Buffer::release() noexcept {
  is_released_ = true;
  if (!is_a_base_) hold_ = py::object();
}

int Buffer::export_to(PyObject* self, Py_buffer* view, int flags) noexcept {
  // The slot of C: what is raised is set, and told by its result.
  try {
    auto& buffer = py::cast<Buffer&>(py::handle(self));
    const auto bytes = buffer.bytes();
    const int result = fill_view(view, buffer.hold_, bytes, flags);
    if (result == 0 && is_for_ndarray(flags)) buffer.is_a_base_ = true;
    return result;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::cast_error&) {
    PyErr_SetString(PyExc_BufferError, "this buffer was not made by refract");
  }
  view->obj = nullptr;
  return -1;
}

// Views refer to the hold; but numpy looks whether this is here (hold.cc).
void Buffer::end_export(PyObject* /*self*/, Py_buffer* /*view*/) noexcept {}

ObjectBuffer::ObjectBuffer(const std::shared_ptr<const Object>& object)
    : Buffer(object, object->body(), object->is_copy()), id_(object->id()), birth_(object->birth()) {}

std::shared_ptr<const Object> ObjectBuffer::shared_object() const {
  (void)bytes();
  return std::static_pointer_cast<const Object>(keep());
}

py::object python_object(Object&& object) {
  auto held = std::make_shared<const Object>(std::move(object));
  return py::cast(std::make_unique<ObjectBuffer>(held));
}

void add_buffers(py::module_& module) {
  const py::custom_type_setup slots([](PyHeapTypeObject* type) {
    type->as_buffer.bf_getbuffer = &Buffer::export_to;
    type->as_buffer.bf_releasebuffer = &Buffer::end_export;
    type->ht_type.tp_as_buffer = &type->as_buffer;
  });
  py::class_<Buffer>(
      module, "Buffer", slots,
      "Read-only bytes in the store's memory, or in this process's (is_copy).\n\n"
      "memoryview(buffer) and numpy.frombuffer(buffer, dtype) look at them without a copy.\n"
      "They stay as they are until the buffer and all that looks at it are gone, whatever\n"
      "becomes of the object or the value, its client and the server. None of it can be written.")
      .def("__len__", &Buffer::size)
      .def_property_readonly("size", &Buffer::size, "How many bytes.")
      .def_property_readonly("nbytes", &Buffer::size, "How many bytes.")
      .def_property_readonly("is_copy", &Buffer::is_copy,
                             "Whether the bytes are in this process's own memory: since the node is reached "
                             "over a network, they\n"
                             "are few, or a value's pins are used up.")
      .def_property_readonly(
          "is_mutable", [](const Buffer&) { return false; }, "False.")
      .def(
          "to_pybytes", [](const Buffer& self) { return python_bytes(self.bytes()); },
          "to_pybytes($self)\n--\n\nA copy, as bytes; the same as bytes(buffer).")
      .def("release", &Buffer::release,
           "release($self)\n--\n\nLets go of the bytes now, or with the last view of them.\n"
           "Without it they go with the buffer. Also: `with buffer: ...`.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](Buffer& self, const py::args&) { self.release(); })
      .def("__dlpack__", [](const Buffer&, const py::args&, const py::kwargs&) { refuse_dlpack(); })
      // Of the CPU. Asked before the other, which then says what is wrong.
      .def("__dlpack_device__", [](const Buffer&) { return py::make_tuple(1, 0); })
      .def("__repr__", &text_of_buffer);
  py::class_<ViewBuffer, Buffer>(
      module, "View", slots,
      "A value of a key as it was when view() returned: a Buffer of its bytes. Later writes do not touch it.")
      .def_property_readonly("version", &ViewBuffer::version, "What if_version takes.")
      .def("__repr__", [](const ViewBuffer& self) {
        return "<refract.View of " + std::to_string(self.size()) + " bytes>";
      });
  py::class_<ObjectBuffer, Buffer>(module, "Object", slots, "A sealed object, held: a Buffer of its bytes.")
      .def_property_readonly("id", &ObjectBuffer::id, "Its id, as bytes.")
      .def_property_readonly("birth", &ObjectBuffer::birth, "Tells it from other objects of the same id.")
      .def_property_readonly(
          "metadata", [](const ObjectBuffer& self) { return python_bytes(self.object().metadata()); },
          "What was put beside the bytes, as bytes: a copy.")
      .def(
          "metadata_buffer",
          [](const ObjectBuffer& self) {
            const auto metadata = self.object().metadata();
            return std::make_unique<Buffer>(self.keep(), metadata, self.is_copy());
          },
          "metadata_buffer($self)\n--\n\nThe metadata as a Buffer, without a copy.")
      .def("digest", &digest_of,
           "digest($self)\n--\n\n16 bytes: XXH3, 128 bits, of bytes and metadata; reads them all.\n"
           "Without metadata it is what `xxhsum -H2` prints.")
      .def("value", &value_of,
           "value($self)\n--\n\nThe Python object that put_value() made this of. Its arrays lie in the "
           "store's "
           "memory,\nread-only. Raises Malformed where it was made otherwise.\n\n"
           "This is pickle: what is read can have any code run. Read values of programs that you trust.")
      .def("__repr__", [](const ObjectBuffer& self) {
        return "<refract.Object " + std::string(py::repr(self.id())) + " of " + std::to_string(self.size()) +
               " bytes>";
      });
}

}  // namespace refract::python
