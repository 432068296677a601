// SPDX-License-Identifier: Apache-2.0
#include "python/ext/requests/kv_requests_arrays.h"

#include <cstring>
#include <span>
#include <utility>

#include "python/ext/errors.h"

namespace refract::python {

using runtime::Task;

namespace {

// Less than this is joined with its header here: a message has both.
constexpr uint64_t kJoinedBytesMax = 16 * 1024;

// From here on the owner takes an array from a reservation: one message, and two copies that each run alone.
// In pieces both ends take turns by the message, which others on the CPUs make slow. What is longer than this
// finds no memory that was kept.
constexpr uint64_t kBuiltBytesMin = uint64_t{256} << 10;
constexpr uint64_t kBuiltBytesMax = uint64_t{32} << 20;

std::array<PyObject*, 6> array_arguments(const Arguments& given) {
  return taken("put_array", given, std::array{"key", "array", "ttl", "if_absent", "if_version", "timeout"}, 2,
               2);
}

}  // namespace

PutArrayRequest::PutArrayRequest(const Arguments& given) : PutArrayRequest(array_arguments(given)) {}

PutArrayRequest::PutArrayRequest(const std::array<PyObject*, 6>& given)
    : bytes_(key_of(given[0])), options_(put_options(given[2], given[3], given[4])), source_(given[1]) {
  key = given[0];
  timeout_ms = timeout_ms_of(given[5]);
}

template <typename AnyClient>
void PutArrayRequest::prepare(AnyClient& client) {
  const std::string& header = source_.header();
  const std::span<const std::byte> items = source_.items();
  if (value_bytes() <= kJoinedBytesMax) {
    joined_.append(header).append(Bytes(items).text());
    value_ = joined_;
    return;
  }
  const bool is_long_enough = value_bytes() >= kBuiltBytesMin && value_bytes() <= kBuiltBytesMax;
  // Over a network it would be a copy more.
  if (is_long_enough && is_settled(client.exists_at_once(bytes_).code())) {
    Result<refract::Reservation> made = client.reserve(value_bytes());
    if (made) {
      std::memcpy(made->bytes().data(), header.data(), header.size());
      std::memcpy(made->bytes().data() + header.size(), items.data(), items.size());
      in_.emplace(std::move(*made));
      options_.built_in = &*in_;
      value_ = Bytes(in_->bytes());
      return;
    }
  }
  options_.front = header;
  value_ = Bytes(items);
}

void PutArrayRequest::ask(Client& client) {
  prepare(client);
  result = client.put(bytes_, value_, options_);
}

Task<> PutArrayRequest::ask(AsyncClient& client) {
  prepare(client);
  const Result<uint64_t> version = co_await client.put(bytes_, value_, options_);
  result = version;
}

PyObject* PutArrayRequest::outcome(const Report& trouble) const {
  if (has_failed()) raise(explain_call(kName, key, result.code(), trouble));
  return PyLong_FromUnsignedLongLong(*result);
}

PutBuiltRequest::PutBuiltRequest(const std::shared_ptr<Built>& built, SharedReservation memory)
    : built_(built), memory_(std::move(memory)), bytes_(key_of(built->key)) {
  key = built->key.ptr();
  timeout_ms = built->timeout_ms;
}

Task<> PutBuiltRequest::ask(AsyncClient& client) {
  const Result<uint64_t> version = co_await client.put(bytes_, *memory_, built_->options);
  result = version;
}

PyObject* PutBuiltRequest::outcome(const Report& trouble) const {
  if (has_failed()) raise(explain_call("build", key, result.code(), trouble));
  built_->version = *result;
  return Py_NewRef(Py_False);
}

}  // namespace refract::python
