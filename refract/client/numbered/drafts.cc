// SPDX-License-Identifier: Apache-2.0
#include "refract/client/numbered/drafts.h"

#include <algorithm>
#include <utility>

#include "refract/base/units.h"

namespace refract::client {

using runtime::Task;

namespace {

constexpr uint64_t kDraftPause_ns = kMillisecond_ns;

// Nothing has happened, and the next try may do.
constexpr bool is_for_now(Code code) noexcept {
  return code == Code::kOverloaded || code == Code::kInvalidated || code == Code::kUnavailable ||
         code == Code::kDeadlineExceeded;
}

// A draft has room for an expiry, or has none; which one is said when it is committed.
uint64_t ttl_of(const NumberedOperation& operation) noexcept {
  const bool is_for_so_long = (operation.flags & kv::wire::Operation::kForSoLong) != 0;
  if (is_for_so_long || operation.argument == 0) return operation.argument;
  return kSecond_ns;
}

}  // namespace

void Drafts::begin(Connection& connection, NumberedWrite& write, uint64_t deadline_ns) {
  Draft& draft = *drafts_.emplace_back(std::make_unique<Draft>(connection, write));
  bytes_ += write.operation.value.size();
  draft.task = bring(draft, deadline_ns);
  draft.task.start();
}

Task<> Drafts::bring(Draft& draft, uint64_t deadline_ns) {
  const NumberedOperation& operation = draft.write.operation;
  draft.handle = co_await draft.connection.rpc().draft(
      operation.key, operation.value, {.ttl_ns = ttl_of(operation), .shared = operation.shared}, deadline_ns);
  if (is_for_now(draft.handle.code())) co_await shard_.sleep_for(kDraftPause_ns);
  draft.is_over = true;
  listener_.draft_is_over();
}

bool Drafts::has_to_tell() const noexcept {
  return std::ranges::any_of(drafts_, [](const Owned& one) { return one->is_over && !one->is_told; });
}

void Drafts::tell(NumberedWrites& writes) {
  const auto is_due = [](const Owned& one) { return one->is_over && !one->is_told; };
  for (auto due = std::ranges::find_if(drafts_, is_due); due != drafts_.end();
       due = std::ranges::find_if(drafts_, is_due)) {
    Draft& draft = **due;
    NumberedWrite& write = draft.write;
    draft.is_told = true;
    if (draft.handle) {
      writes.drafted(write, *draft.handle);
      continue;
    }
    const Code code = draft.handle.code();
    (void)take(write);
    is_for_now(code) ? writes.not_drafted_now(write) : writes.not_drafted(write, code);
  }
}

Drafts::Owned Drafts::take(const NumberedWrite& write) noexcept {
  const auto found = std::ranges::find_if(drafts_, [&](const Owned& one) { return &one->write == &write; });
  if (found == drafts_.end()) return nullptr;
  Owned draft = std::move(*found);
  drafts_.erase(found);
  bytes_ -= write.operation.value.size();
  return draft;
}

void Drafts::end(NumberedWrite& write) noexcept {
  const Owned draft = take(write);
  if (draft == nullptr || !draft->handle) return;
  // One that was told is the owner's matter from its commit on.
  const bool is_open = !draft->is_told || write.draft() == *draft->handle;
  if (is_open) draft->connection.rpc().abandon(*draft->handle);
}

void Drafts::end_all() noexcept {
  drafts_.clear();
  bytes_ = 0;
}

}  // namespace refract::client
