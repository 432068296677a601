// SPDX-License-Identifier: Apache-2.0
// Python objects as bodies of objects, by pickle protocol 5 with its buffers out of band.
//
// Threads: the GIL is held; it is let go of for what copies much.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <span>
#include <vector>

#include "python/ext/arguments.h"
#include "python/ext/buffer.h"
#include "python/ext/pickled_layout.h"

namespace refract::python {

// What pickle made of a value, held until it has been copied.
class Pickled {
 public:
  explicit Pickled(pybind11::handle value);

  [[nodiscard]] uint64_t body_bytes() const noexcept { return plan_.body_bytes; }
  // All parts in their order, with where they go. Between them are zeros.
  struct Part {
    uint64_t at;
    std::span<const std::byte> bytes;
  };
  [[nodiscard]] std::vector<Part> parts() const;

 private:
  std::vector<Source> sources_;  // The stream, then the buffers.
  PickledPlan plan_;
};

// The value that an object has. Its buffers are slices of the object's.
[[nodiscard]] pybind11::object value_of(const ObjectBuffer& object);

}  // namespace refract::python
