// SPDX-License-Identifier: Apache-2.0
// The exceptions of the module: a class for each code of the project, in errors.def.
//
// Threads: the GIL is held in all of it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

#include "refract/base/report.h"
#include "refract/base/result.h"

namespace refract::python {

// Makes refract.Error and its subclasses, and puts them into the module.
void add_errors(pybind11::module_& module);

// What a call was about: errors.def has sentences for each.
enum class About : uint8_t { kObject, kKey };

// What a call that failed says: "get of b'weights': there is no such object", and what to do. `trouble` is
// what the client knows beside the code; of another code it is about another call, and left out.
[[nodiscard]] Report explain(Code code, const std::string& what, const Report& trouble = {Code::kOk, "", ""},
                             About about = About::kObject);
// Whether Python has set an exception of this code's class; whether this one is of it.
[[nodiscard]] bool is_set(Code code) noexcept;
[[nodiscard]] bool is_of(PyObject* error, Code code) noexcept;

// The exception as an object, for outcomes of batches.
[[nodiscard]] pybind11::object error_of(const Report& report);

// pybind11 has Python's exceptions as C++ ones: these are the only calls here that throw.
[[noreturn]] void raise(const Report& report);
[[noreturn]] void raise_invalid(const std::string& what, const std::string& next = {});
[[noreturn]] void raise_type(const std::string& what);
// What Python has set already.
[[noreturn]] void raise_pending();

}  // namespace refract::python
