// SPDX-License-Identifier: Apache-2.0
// Calls of one key: what each was given, what it asks of a client, and what Python gets for it. The client
// that blocks has a request on its stack, that of asyncio as long as the call is under way (aio/operation.h).
//
// A request lends the bytes of its arguments, which must be held as long.
//
// Threads: the GIL is held in all of it but in ask(), which touches nothing of Python.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "python/ext/gil.h"
#include "python/ext/kv_arguments.h"

#include "refract/base/report.h"
#include "refract/base/result.h"
#include "refract/client/async_client.h"
#include "refract/client/client.h"
#include "refract/runtime/task.h"

namespace refract::python {

// Of a call that failed. `about`: the key that it was given; null: none.
[[nodiscard]] Report explain_call(const char* name, PyObject* about, Code code, const Report& trouble);

// What all requests have: ask() of both clients, outcome() once it was asked, give_up() where it was ended
// before, and has_failed(), for which a client may know more.
//
// is_long(): it copies so much that the GIL is let go of meanwhile. ends_by_itself(): aio/operation.h.

// What surely goes in one message.
inline constexpr uint64_t kOfOneMessage = 16 * 1024;

// Of one key, whose outcome is T.
template <typename T>
struct KeyRequest {
  PyObject* key = nullptr;  // Null: it is about none.
  uint64_t timeout_ms = kForever_ms;
  Result<T> result = fail(Code::kUnavailable);

  [[nodiscard]] bool has_failed() const noexcept { return !result.has_value(); }
  [[nodiscard]] static bool is_long() noexcept { return false; }
};

struct GetRequest : KeyRequest<Got> {
  // `call`: get or get_versioned.
  GetRequest(const char* call, const Arguments& given);
  explicit GetRequest(const Arguments& given) : GetRequest("get", given) {}

  [[nodiscard]] static bool ends_by_itself() noexcept { return true; }
  static constexpr Code kGivenUp = Code::kDeadlineExceeded;
  void give_up() noexcept { result = fail(kGivenUp); }
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client);
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;
  // Where it was found elsewhere; and what is said of a failure, or the default.
  [[nodiscard]] PyObject* found(std::span<const std::byte> bytes, uint64_t version) const;
  [[nodiscard]] PyObject* failed(Code code, const Report& trouble) const;

  const char* name;
  bool is_versioned;
  PyObject* timeout = nullptr;
  PyObject* instead = nullptr;
  Bytes bytes;
  std::string value;
};

struct ExistsRequest : KeyRequest<Got> {
  static constexpr const char* kName = "exists";
  explicit ExistsRequest(const Arguments& given);

  static constexpr Code kGivenUp = Code::kDeadlineExceeded;
  void give_up() noexcept { result = fail(kGivenUp); }
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client);
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;

  Bytes bytes;
};

// What is put, as long as this lives: any value, of which a Reservation is named in the options.
class BuiltValue {
 public:
  BuiltValue(PyObject* from, PutOptions& options);

  [[nodiscard]] Bytes bytes() const noexcept { return value_ ? value_->bytes() : Bytes(built_->bytes()); }

 private:
  std::optional<Value> value_;
  std::shared_ptr<const Reservation> built_;  // Null: it is the other.
};

struct PutRequest : KeyRequest<uint64_t> {
  static constexpr const char* kName = "put";
  explicit PutRequest(const Arguments& given);

  [[nodiscard]] bool is_long() const noexcept { return value.bytes().size() > kCopiedUnderLock; }
  [[nodiscard]] bool ends_by_itself() const noexcept { return value.bytes().size() > kOfOneMessage; }
  static constexpr Code kGivenUp = Code::kIndeterminate;
  void give_up() noexcept { result = fail(kGivenUp); }
  void ask(Client& client) { result = client.put(bytes, value.bytes(), options); }
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client);
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;

  Bytes bytes;
  PutOptions options;
  BuiltValue value;

 private:
  explicit PutRequest(const std::array<PyObject*, 6>& given);
};

struct EraseRequest : KeyRequest<uint64_t> {
  static constexpr const char* kName = "erase";
  explicit EraseRequest(const Arguments& given);

  static constexpr Code kGivenUp = Code::kIndeterminate;
  void give_up() noexcept { result = fail(kGivenUp); }
  void ask(Client& client) { result = client.erase(bytes, if_version); }
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client);
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;

  Bytes bytes;
  uint64_t if_version = 0;
};

// One change of a batch; its outcome is the version that it made.
struct BatchRequest : KeyRequest<uint64_t> {
  [[nodiscard]] bool is_long() const noexcept { return value_bytes > kCopiedUnderLock; }
  [[nodiscard]] bool ends_by_itself() const noexcept { return value_bytes > kOfOneMessage; }
  static constexpr Code kGivenUp = Code::kIndeterminate;
  void give_up() noexcept { result = fail(kGivenUp); }
  void ask(Client& client) { take(client.commit(batch)); }
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client);

  // It has copies.
  Batch batch;
  uint64_t value_bytes = 0;

 private:
  void take(const Result<>& done);
};

struct CasRequest : BatchRequest {
  static constexpr const char* kName = "cas";
  explicit CasRequest(const Arguments& given);
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;
};

struct AddRequest : BatchRequest {
  static constexpr const char* kName = "add";
  explicit AddRequest(const Arguments& given);
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;
};

// How many nanoseconds are left; -1: it stays.
struct TtlRequest : KeyRequest<int64_t> {
  static constexpr const char* kName = "ttl";
  explicit TtlRequest(const Arguments& given);

  static constexpr Code kGivenUp = Code::kDeadlineExceeded;
  void give_up() noexcept { result = fail(kGivenUp); }
  void ask(Client& client);
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client);
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;

  Bytes bytes;
};

struct PingRequest : KeyRequest<Pong> {
  static constexpr const char* kName = "ping";
  explicit PingRequest(const Arguments& given);

  static constexpr Code kGivenUp = Code::kDeadlineExceeded;
  void give_up() noexcept { result = fail(kGivenUp); }
  void ask(Client& client) { result = client.ping(); }
  [[nodiscard]] runtime::Task<> ask(AsyncClient& client);
  [[nodiscard]] PyObject* outcome(const Report& trouble) const;
};

// False: loads do not settle it.
[[nodiscard]] inline bool is_settled(Code code) noexcept {
  return code != Code::kInvalidated && code != Code::kCorrupt && code != Code::kOverloaded;
}
// A new bytes object; what is long is copied without the GIL. Raises where there is no memory.
[[nodiscard]] PyObject* new_bytes(std::span<const std::byte> bytes);
[[nodiscard]] PutOptions put_options(PyObject* ttl, PyObject* if_absent, PyObject* if_version);
// What route() returns. Raises where nothing was reached.
[[nodiscard]] PyObject* route_record(const Route& route, const std::string& text, const Report& trouble);

}  // namespace refract::python
