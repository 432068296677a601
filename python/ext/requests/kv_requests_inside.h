// SPDX-License-Identifier: Apache-2.0
// As kv_requests.h, of what a body of a transaction calls: of a Transaction and of an AsyncTransaction. They
// have no timeout of their own.
//
// Threads: the GIL is held in all of it but in ask(), which touches nothing of Python.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <string>
#include <vector>

#include "python/ext/kv_arguments.h"

#include "refract/client/async_client.h"
#include "refract/client/client.h"
#include "refract/runtime/task.h"

namespace refract::python::inside {

struct GetRequest {
  static constexpr const char* kName = "get";
  static constexpr Code kGivenUp = Code::kDeadlineExceeded;
  explicit GetRequest(const Arguments& given);

  void ask(Transaction& transaction) { result = transaction.get(bytes); }
  [[nodiscard]] runtime::Task<> ask(AsyncTransaction& transaction);
  [[nodiscard]] PyObject* outcome() const;

  PyObject* key;
  PyObject* instead;
  Bytes bytes;
  Result<std::string> result = fail(Code::kUnavailable);
};

struct GetManyRequest {
  static constexpr const char* kName = "get_many";
  static constexpr Code kGivenUp = Code::kDeadlineExceeded;
  explicit GetManyRequest(const Arguments& given);

  void ask(Transaction& transaction) { transaction.multi_get(items); }
  [[nodiscard]] runtime::Task<> ask(AsyncTransaction& transaction) { return transaction.multi_get(items); }
  [[nodiscard]] PyObject* outcome() const;

  pybind11::object all;
  std::vector<GetItem> items;
};

struct ExistsRequest {
  static constexpr const char* kName = "exists";
  static constexpr Code kGivenUp = Code::kDeadlineExceeded;
  explicit ExistsRequest(const Arguments& given);

  void ask(Transaction& transaction) { result = transaction.exists(bytes); }
  [[nodiscard]] runtime::Task<> ask(AsyncTransaction& transaction);
  [[nodiscard]] PyObject* outcome() const;

  PyObject* key;
  Bytes bytes;
  Result<bool> result = fail(Code::kUnavailable);
};

struct ValidateRequest {
  static constexpr const char* kName = "validate";
  static constexpr Code kGivenUp = Code::kDeadlineExceeded;
  explicit ValidateRequest(const Arguments& given);

  void ask(Transaction& transaction) { result = transaction.validate(); }
  [[nodiscard]] runtime::Task<> ask(AsyncTransaction& transaction);
  [[nodiscard]] PyObject* outcome() const;

  Result<> result = fail(Code::kUnavailable);
};

// None or nothing: as TransactionOptions has it.
[[nodiscard]] TransactionOptions transaction_options(PyObject* timeout);
// What transaction() is given.
struct BodyArguments {
  explicit BodyArguments(const Arguments& given);

  PyObject* body;
  TransactionOptions options;
  bool reads_only;
};

// Those that ask nothing. Raises what `done` says.
void require(const Result<>& done, const char* name, PyObject* key);

template <typename AnyTransaction>
void put(AnyTransaction& transaction, const Arguments& given) {
  const auto [key, data, ttl] = taken("put", given, std::array{"key", "value", "ttl"}, 2, 2);
  const Value value(data);
  require(transaction.put(key_of(key), value.bytes(), ttl_ns_of(ttl)), "put", key);
}

template <typename AnyTransaction>
void erase(AnyTransaction& transaction, const Arguments& given) {
  const auto [key] = taken("erase", given, std::array{"key"}, 1, 1);
  require(transaction.erase(key_of(key)), "erase", key);
}

template <typename AnyTransaction>
void add(AnyTransaction& transaction, const Arguments& given) {
  const auto [key, addend] = taken("add", given, std::array{"key", "addend"}, 2, 1);
  require(transaction.add(key_of(key), addend_of(addend)), "add", key);
}

}  // namespace refract::python::inside
