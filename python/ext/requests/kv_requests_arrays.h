// SPDX-License-Identifier: Apache-2.0
// As kv_requests.h, of arrays that are put: from where they lie, or from where they were built.
//
// Threads: the GIL is held in all of it but in ask(), which touches nothing of Python.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "python/ext/arrays/building.h"
#include "python/ext/arrays/numpy.h"
#include "python/ext/gil.h"
#include "python/ext/kv_arguments.h"
#include "python/ext/requests/kv_requests.h"

#include "refract/base/report.h"
#include "refract/client/async_client.h"
#include "refract/client/client.h"
#include "refract/runtime/task.h"

namespace refract::python {

struct PutArrayRequest : KeyRequest<uint64_t> {
  static constexpr const char* kName = "put_array";
  explicit PutArrayRequest(const Arguments& given);

  [[nodiscard]] bool is_long() const noexcept { return value_bytes() > kCopiedUnderLock; }
  [[nodiscard]] bool ends_by_itself() const noexcept { return value_bytes() > kOfOneMessage; }
  static constexpr Code kGivenUp = Code::kIndeterminate;
  void give_up() noexcept { result = fail(kGivenUp); }
  void ask(Client& client);
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client);
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;

 private:
  explicit PutArrayRequest(const std::array<PyObject*, 6>& given);
  [[nodiscard]] uint64_t value_bytes() const noexcept {
    return source_.header().size() + source_.items().size();
  }
  // Chooses where it is put from, and copies it there.
  template <typename AnyClient>
  void prepare(AnyClient& client);

  Bytes bytes_;
  PutOptions options_;
  ArraySource source_;
  std::string joined_;                      // Empty: it is too long for that.
  std::optional<refract::Reservation> in_;  // Nothing: header and items go as they lie.
  Bytes value_;                             // Of joined_, in_ or source_.
};

// What was built, at the end of its block.
struct PutBuiltRequest : KeyRequest<uint64_t> {
  PutBuiltRequest(const std::shared_ptr<Built>& built, SharedReservation memory);

  [[nodiscard]] bool is_long() const noexcept { return memory_->bytes().size() > kCopiedUnderLock; }
  [[nodiscard]] bool ends_by_itself() const noexcept { return memory_->bytes().size() > kOfOneMessage; }
  static constexpr Code kGivenUp = Code::kIndeterminate;
  void give_up() noexcept { result = fail(kGivenUp); }
  void ask(Client& client) { result = client.put(bytes_, *memory_, built_->options); }
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client);
  // What __exit__ returns.
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;

 private:
  std::shared_ptr<Built> built_;
  SharedReservation memory_;
  Bytes bytes_;
};

}  // namespace refract::python
