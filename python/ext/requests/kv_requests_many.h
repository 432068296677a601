// SPDX-License-Identifier: Apache-2.0
// As kv_requests.h, of calls of many keys, each with its own outcome; and a page of a scan.
//
// Threads: the GIL is held in all of it but in ask(), which touches nothing of Python.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

#include "python/ext/gil.h"
#include "python/ext/kv_arguments.h"

#include "refract/base/report.h"
#include "refract/client/async_client.h"
#include "refract/client/client.h"
#include "refract/runtime/task.h"

namespace refract::python {

// A tuple, so that nothing changes it meanwhile.
[[nodiscard]] pybind11::tuple keys_of(PyObject* keys);
// An outcome of many: the exception as an object.
[[nodiscard]] pybind11::object failed_one(const char* name, PyObject* key, Code code);

// A list to be filled, and what takes the place of the next row. Raises where that is null.
[[nodiscard]] pybind11::list list_of(size_t count);
void set_item(const pybind11::list& list, size_t at, PyObject* item);

// Of each key an Item.
template <typename Item>
struct ManyRequest {
  pybind11::object all;  // Holds the keys, and what is put.
  std::vector<PyObject*> keys;
  std::vector<Item> items;
  uint64_t timeout_ms = kForever_ms;

  [[nodiscard]] static bool has_failed() noexcept { return false; }  // Each for itself.
  [[nodiscard]] static bool is_long() noexcept { return true; }
  [[nodiscard]] static bool ends_by_itself() noexcept { return true; }
  // Of those that have no outcome.
  void give_up(Code code) noexcept {
    for (Item& item : items) {
      if (item.result.code() == Code::kUnavailable) item.result = fail(code);
    }
  }
};

struct GetManyRequest : ManyRequest<GetItem> {
  static constexpr const char* kName = "get_many";
  explicit GetManyRequest(const Arguments& given);

  static constexpr Code kGivenUp = Code::kDeadlineExceeded;
  void give_up() noexcept { ManyRequest::give_up(kGivenUp); }
  void ask(Client& client) { client.multi_get(items); }
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client) { return client.multi_get(items); }
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;
};

struct PutManyRequest : ManyRequest<PutItem> {
  static constexpr const char* kName = "put_many";
  explicit PutManyRequest(const Arguments& given);

  static constexpr Code kGivenUp = Code::kIndeterminate;
  void give_up() noexcept { ManyRequest::give_up(kGivenUp); }
  void ask(Client& client) { client.multi_put(items); }
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client) { return client.multi_put(items); }
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;

  std::vector<Value> values;
};

struct ExistsManyRequest : ManyRequest<ExistsItem> {
  static constexpr const char* kName = "exists_many";
  explicit ExistsManyRequest(const Arguments& given);

  static constexpr Code kGivenUp = Code::kDeadlineExceeded;
  void give_up() noexcept { ManyRequest::give_up(kGivenUp); }
  void ask(Client& client) { client.multi_exists(items); }
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client) { return client.multi_exists(items); }
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;
};

// The keys of a page, or about as many.
inline constexpr size_t kScannedKeys = 512;
// What scan() is given.
struct ScanArguments {
  explicit ScanArguments(const Arguments& given);

  std::string prefix;
  PyObject* timeout = nullptr;
};

}  // namespace refract::python
