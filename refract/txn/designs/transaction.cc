// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "refract/txn/designs/design.h"

namespace refract::txn::designs {

using runtime::Task;

Task<Result<>> Transaction::read(std::span<const Bytes> keys, uint64_t deadline_ns) {
  for (const Bytes key : keys) {
    if (key.empty()) co_return fail(Code::kInvalidArgument);
    if (find(key) != nullptr) continue;
    if (accesses_.size() == kKeysMax) co_return fail(Code::kTooLarge);
    auto access = std::make_unique<Access>();
    access->key.assign(key.begin(), key.end());
    access->server = server_of(key, servers());
    accesses_.push_back(std::move(access));
  }
  const Result<> fetched = co_await fetch(deadline_ns);
  co_return fetched;
}

Result<> Transaction::write(Bytes key, Bytes value) {
  if (value.size() > value_bytes_max()) return fail(Code::kTooLarge);
  const auto found = std::ranges::find_if(
      accesses_, [&](const auto& access) { return std::ranges::equal(access->key, key); });
  if (found == accesses_.end() || !(*found)->is_read) return fail(Code::kInvalidArgument);
  (*found)->is_written = true;
  (*found)->value.assign(value.begin(), value.end());
  return {};
}

const Access* Transaction::find(Bytes key) const noexcept {
  const auto found = std::ranges::find_if(
      accesses_, [&](const auto& access) { return std::ranges::equal(access->key, key); });
  return found == accesses_.end() ? nullptr : found->get();
}

}  // namespace refract::txn::designs
