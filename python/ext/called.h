// SPDX-License-Identifier: Apache-2.0
// What the calls of refract.objects have in common: the C++ call without the GIL, and what it came to.
//
// Threads: any; the GIL is held at the beginning and the end of each.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <utility>
#include <vector>

#include "python/ext/errors.h"
#include "python/ext/gil.h"
#include "python/ext/objects_link.h"

namespace refract::python {

// A named tuple of refract.records.
template <typename... Values>
pybind11::object record(const char* name, Values&&... values) {
  return pybind11::module_::import("refract.records").attr(name)(std::forward<Values>(values)...);
}

[[nodiscard]] inline pybind11::bytes id_bytes(const std::string& id) {
  return {id};
}

// What a call without the GIL came to, with what the client knows of a failure of the same thread.
template <typename T>
struct Outcome {
  Result<T> result = fail(Code::kUnavailable);
  Report trouble{Code::kOk, "", ""};
};

template <typename T, typename Call>
Outcome<T> called(const SharedLink& link, Call&& call) {
  return without_gil([&] {
    Outcome<T> outcome{.result = std::forward<Call>(call)()};
    if (!outcome.result) outcome.trouble = link->objects.trouble();
    return outcome;
  });
}

template <typename T>
T value_or_raise(Outcome<T>&& outcome, const std::string& what) {
  if (!outcome.result) raise(explain(outcome.result.code(), what, outcome.trouble));
  return std::move(*outcome.result);
}

// A number of copies: 0 to Objects::kCopiesMax.
[[nodiscard]] uint32_t copies_of(pybind11::handle copies);
[[nodiscard]] std::vector<std::string> ids_of(pybind11::handle ids);
// Those of the ids whose numbers are wanted.
[[nodiscard]] std::vector<Bytes> lent(const std::vector<std::string>& ids, const std::vector<size_t>& wanted);
// 0, 1 and so on.
[[nodiscard]] std::vector<size_t> counted(size_t count);

}  // namespace refract::python
