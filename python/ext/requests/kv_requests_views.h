// SPDX-License-Identifier: Apache-2.0
// As kv_requests.h, of values that are looked at where they lie: view() and array().
//
// Threads: the GIL is held in all of it but in ask(), which touches nothing of Python.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "python/ext/kv_arguments.h"
#include "python/ext/requests/kv_requests.h"

#include "refract/base/report.h"
#include "refract/base/result.h"
#include "refract/client/async_client.h"
#include "refract/client/client.h"
#include "refract/runtime/task.h"

namespace refract::python {

// A value as it was at one moment: held in the node's memory, or a copy.
class Viewed {
 public:
  explicit Viewed(View&& view) noexcept : view_(std::move(view)) {}
  Viewed(std::shared_ptr<const std::byte> copy, const Got& got) noexcept
      : copy_(std::move(copy)), got_(got) {}

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return copy_ == nullptr ? view_.bytes() : std::span{copy_.get(), got_.value_bytes};
  }
  [[nodiscard]] uint64_t version() const noexcept {
    return copy_ == nullptr ? view_.version() : got_.version;
  }
  [[nodiscard]] bool is_copy() const noexcept { return copy_ != nullptr || view_.is_copy(); }
  // What keeps the bytes, which may lie elsewhere then.
  struct Kept {
    std::shared_ptr<const void> keep;
    std::span<const std::byte> bytes;
  };
  [[nodiscard]] Kept keep() &&;

 private:
  View view_;
  std::shared_ptr<const std::byte> copy_;
  Got got_;
};

// What loads do not settle: a view or, where the pins are used up, a copy.
struct Look {
  Bytes key;
  Result<Viewed> result = fail(Code::kUnavailable);
  bool has_no_memory = false;  // For the copy, though there is a value.

  void ask(Client& client);
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client);
};

struct ViewRequest {
  static constexpr Code kGivenUp = Code::kDeadlineExceeded;
  // `call`: view or array.
  ViewRequest(const char* call, const Arguments& given);

  // Mostly.
  [[nodiscard]] static bool is_long() noexcept { return true; }
  [[nodiscard]] static bool ends_by_itself() noexcept { return true; }
  void give_up() noexcept { look.result = fail(kGivenUp); }
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client) { return look.ask(client); }
  [[nodiscard]] PyObject* outcome(const Report& trouble);
  // Where it was found elsewhere; and what is said of a failure, or the default.
  [[nodiscard]] PyObject* found(Viewed&& seen) const;
  [[nodiscard]] PyObject* failed(Code code, const Report& trouble) const;

  const char* name;
  PyObject* key = nullptr;
  PyObject* instead = nullptr;
  PyObject* timeout = nullptr;
  uint64_t timeout_ms = kForever_ms;
  Look look;
};

// The array that the value says it is: arrays/kv_arrays.cc. Raises Malformed.
[[nodiscard]] pybind11::object array_of(PyObject* key, Viewed&& seen);

}  // namespace refract::python
