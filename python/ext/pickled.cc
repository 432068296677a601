// SPDX-License-Identifier: Apache-2.0
#include "python/ext/pickled.h"

#include <memory>
#include <utility>

#include "python/ext/errors.h"

namespace refract::python {

namespace py = pybind11;

Pickled::Pickled(py::handle value) {
  const py::list buffers;
  const py::object stream = py::module_::import("pickle").attr("dumps")(
      value, py::arg("protocol") = 5, py::arg("buffer_callback") = buffers.attr("append"));
  sources_.reserve(1 + buffers.size());
  sources_.emplace_back(stream, "pickle's stream");
  std::vector<uint64_t> lengths;
  for (const py::handle buffer : buffers) {
    // Of one dimension, whatever the order of the array was.
    sources_.emplace_back(buffer.attr("raw")(), "a buffer of the value");
    lengths.push_back(sources_.back().bytes().size());
  }
  auto plan = plan_pickled(sources_.front().bytes().size(), lengths);
  if (!plan) raise_invalid("the value has more buffers than an object can have, or longer ones");
  plan_ = std::move(*plan);
}

std::vector<Pickled::Part> Pickled::parts() const {
  std::vector<Part> parts;
  parts.push_back({0, std::as_bytes(std::span(&plan_.header, 1))});
  parts.push_back({sizeof(plan_.header), std::as_bytes(std::span(plan_.pieces))});
  parts.push_back({plan_.stream_at, sources_.front().bytes()});
  for (size_t i = 0; i < plan_.pieces.size(); ++i) {
    parts.push_back({plan_.pieces[i].at, sources_[1 + i].bytes()});
  }
  return parts;
}

py::object value_of(const ObjectBuffer& object) {
  const auto parts = read_pickled(object.bytes());
  if (!parts) {
    raise({Code::kMalformed,
           "the object " + std::string(py::repr(object.id())) + " is no value of put_value()",
           "get() has its bytes"});
  }
  const auto slice = [&](std::span<const std::byte> bytes) {
    return py::cast(std::make_unique<Buffer>(object.keep(), bytes, object.is_copy()));
  };
  py::list buffers;
  for (const auto& bytes : parts->buffers) buffers.append(slice(bytes));
  return py::module_::import("pickle").attr("loads")(slice(parts->stream), py::arg("buffers") = buffers);
}

}  // namespace refract::python
