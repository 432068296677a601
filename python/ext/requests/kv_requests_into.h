// SPDX-License-Identifier: Apache-2.0
// As kv_requests.h, of values that are copied into memory of the program's, which is held as long; and of how
// many keys are there.
//
// An asynchronous call that is ended before, by its caller or its timeout, has let go of the program's memory
// when the caller is told: nothing of it is written later. abandon() does it, and says whether the rest of
// the call ends by itself; else it is dropped (docs/design/074, decision 5).
//
// Threads: the GIL is held in all of it but in ask(), which touches nothing of Python.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "python/ext/gil.h"
#include "python/ext/kv_arguments.h"
#include "python/ext/requests/kv_requests.h"
#include "python/ext/requests/kv_requests_many.h"
#include "python/ext/targets.h"

#include "refract/base/report.h"
#include "refract/client/async_client.h"
#include "refract/client/client.h"
#include "refract/runtime/task.h"

namespace refract::python {

struct GetIntoRequest {
  static constexpr const char* kName = "get_into";
  static constexpr Code kGivenUp = Code::kDeadlineExceeded;
  explicit GetIntoRequest(const Arguments& given);

  [[nodiscard]] bool has_failed() const noexcept { return !item().result.has_value(); }
  [[nodiscard]] bool is_long() const noexcept { return target_bytes > kCopiedUnderLock; }
  [[nodiscard]] bool abandon() noexcept;
  void give_up() noexcept { items[0].result = fail(kGivenUp); }
  void ask(Client& client);
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client) { return client.multi_get_into(items); }
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;
  // By loads, with the GIL. False: that does not settle it, or copies too much.
  template <typename AnyClient>
  [[nodiscard]] bool is_got_at_once(AnyClient& client);

  PyObject* key = nullptr;
  uint64_t timeout_ms = kForever_ms;
  std::optional<Target> target;
  uint64_t target_bytes = 0;
  std::array<GetIntoItem, 1> items;
  std::shared_ptr<std::byte> instead;  // Of an abandoned one: where the value goes.

 private:
  [[nodiscard]] const GetIntoItem& item() const noexcept { return items[0]; }
};

template <typename AnyClient>
bool GetIntoRequest::is_got_at_once(AnyClient& client) {
  GetIntoItem& item = items[0];
  const Result<View> view = client.view_at_once(item.key);
  if (!view) {
    item.result = fail(view.code());
    const bool is_all = is_settled(view.code());
    if (!is_all) item.result = fail(Code::kUnavailable);
    return is_all;
  }
  const std::span<const std::byte> bytes = view->bytes();
  if (bytes.size() > item.buffer.size()) {
    item.value_bytes = bytes.size();
    item.result = fail(Code::kTooLarge);
    return true;
  }
  if (bytes.size() > kCopiedUnderLock) return false;
  if (!bytes.empty()) std::memcpy(item.buffer.data(), bytes.data(), bytes.size());
  item.value_bytes = bytes.size();
  item.result = Got{.version = view->version(), .value_bytes = bytes.size()};
  return true;
}

struct GetManyIntoRequest : ManyRequest<GetIntoItem> {
  static constexpr const char* kName = "get_many_into";
  static constexpr Code kGivenUp = Code::kDeadlineExceeded;
  explicit GetManyIntoRequest(const Arguments& given);

  [[nodiscard]] bool abandon() noexcept;
  void give_up() noexcept { ManyRequest::give_up(kGivenUp); }
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client) { return client.multi_get_into(items); }
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;

  pybind11::object places;  // Holds the buffers' objects.
  std::vector<Target> targets;
  std::vector<uint64_t> target_bytes;
  std::shared_ptr<std::byte> instead;  // Of an abandoned one: where the values go.
};

struct PrefixExistsRequest : KeyRequest<size_t> {
  static constexpr const char* kName = "prefix_exists";
  static constexpr Code kGivenUp = Code::kDeadlineExceeded;
  explicit PrefixExistsRequest(const Arguments& given);

  [[nodiscard]] static bool is_long() noexcept { return true; }
  void give_up() noexcept { result = fail(kGivenUp); }
  void ask(Client& client) { result = client.prefix_exists(keys); }
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client);
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;

  pybind11::object all;  // Holds the keys.
  std::vector<Bytes> keys;
};

}  // namespace refract::python
