// SPDX-License-Identifier: Apache-2.0
// Values that are built where the node reads them (docs/design/036): Reservation, some bytes, and what Build
// has, of the client that blocks and of that of asyncio: an array that is put at the end of its block.
//
// The memory of a reservation serves the next one. A program may keep an array over it longer than the
// reservation lives, so that it goes back with the last view of it (hold.h), and what such a view writes
// later is in no other value.
//
// Threads: the GIL is held in all of it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "python/ext/arrays/numpy.h"
#include "python/ext/gil.h"
#include "python/ext/kv_arguments.h"

#include "refract/base/result.h"
#include "refract/client/reservation.h"
#include "refract/client/types.h"

namespace refract::python {

using SharedReservation = std::shared_ptr<refract::Reservation>;

// What reserve() is given: how many bytes.
[[nodiscard]] uint64_t reserved_bytes_of(const Arguments& given);
// Raises what it failed with. `call`: reserve or build.
[[nodiscard]] SharedReservation shared(Result<refract::Reservation>&& made, const char* call);
// A Reservation of Python.
[[nodiscard]] PyObject* new_reservation(SharedReservation memory);

// What build() is given.
struct BuildArguments {
  explicit BuildArguments(const Arguments& given);

  PyObject* key;
  PutOptions options;
  uint64_t timeout_ms;
  pybind11::object type;
  ArrayShape shape;
  std::string header;
  uint64_t bytes;  // Of header and items.
};

struct Built {
  // REQUIRES: `memory` has the bytes that it wants.
  Built(const BuildArguments& given, const SharedReservation& memory);

  // The array, for one block. Raises.
  [[nodiscard]] PyObject* begin();
  // It has ended: what is to be put. Null: nothing, since it raised, or has ended before.
  [[nodiscard]] SharedReservation end(bool is_well);
  // Of the put; None: there was none, or it is not over.
  [[nodiscard]] PyObject* version_or_none() const;

  pybind11::object key;
  PutOptions options;
  uint64_t timeout_ms;
  uint64_t version = 0;

 private:
  pybind11::object array_;    // Null: it has ended.
  SharedReservation memory_;  // Likewise.
  uint32_t forks_;
  bool is_begun_ = false;
};

}  // namespace refract::python
