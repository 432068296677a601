// SPDX-License-Identifier: Apache-2.0
#include "refract/txn/changes.h"

#include <utility>

#include "refract/kv/functions/functions.h"

namespace refract::txn {

using kv::ConditionKind;
using kv::WriteKind;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text));
}

// As the node adds; nothing: the key is absent. kInvalidArgument: the value, or the sum, is no number.
Result<std::string> sum_of(std::optional<std::string_view> value, int64_t addend) {
  kv::functions::Before before;
  if (value) before = {.is_there = true, .value = bytes_of(*value)};
  const auto added =
      kv::functions::plan(kv::functions::Function::kAdd, std::as_bytes(std::span(&addend, 1)), before, 0);
  if (added.code != Code::kOk) return fail(added.code);
  return std::string(reinterpret_cast<const char*>(added.made.data()), added.value_bytes);
}

}  // namespace

const Changes::Item* Changes::find(std::string_view key) const {
  const auto found = items_.find(key);
  return found == items_.end() ? nullptr : &found->second;
}

// Null: there would be too much.
Changes::Item* Changes::item_for(std::string_view key, size_t more_bytes) {
  const auto found = items_.find(key);
  const bool is_new = found == items_.end();
  const uint64_t more = more_bytes + (is_new ? key.size() : 0);
  if (more > kv::kBatchBytesMax - bytes_) return nullptr;
  // A key that is read and written stands in the batch twice.
  if (items_.size() + reads_ >= kv::kBatchKeysMax) return nullptr;
  bytes_ += more;
  if (!is_new) return &found->second;
  return &items_.emplace(key, Item{.read = {}, .write = {}, .value = std::pmr::string(&arena_)})
              .first->second;
}

bool Changes::note_read(std::string_view key, uint64_t version) {
  Item* const item = item_for(key, 0);
  if (item == nullptr) return false;
  if (item->read) {
    is_doomed_ = is_doomed_ || *item->read != version;
    return *item->read == version;
  }
  item->read = version;
  ++reads_;
  return true;
}

std::optional<Result<std::string>> Changes::own_value(std::string_view key) const {
  const Item* const item = find(key);
  if (item == nullptr || !item->write || *item->write == WriteKind::kAdd) return std::nullopt;
  if (*item->write == WriteKind::kErase) return Result<std::string>(fail(Code::kNotFound));
  return Result<std::string>(std::string(item->value));
}

void Changes::know(Known known) {
  known_ = std::move(known);
  is_known_new_ = true;
}

const Changes::Found* Changes::known(std::string_view key) const {
  const auto found = known_.find(key);
  return found == known_.end() ? nullptr : &found->second;
}

// What is read by another way before or behind it counts as read by that one.
std::optional<Result<std::string>> Changes::at_once(std::string_view key) {
  if (auto own = own_value(key)) return own;
  const Found* const found = known(key);
  if (found == nullptr) return std::nullopt;
  const size_t before = reads_;
  auto value =
      take_read(key, found->version != 0 ? Code::kOk : Code::kNotFound, found->version, found->value);
  known_reads_ += reads_ - before;
  return value;
}

std::optional<Result<bool>> Changes::presence_at_once(std::string_view key) {
  const Item* const item = find(key);
  if (item != nullptr && item->write) return Result<bool>(*item->write != WriteKind::kErase);
  const Found* const found = known(key);
  if (found == nullptr) return std::nullopt;
  const size_t before = reads_;
  auto is_there = take_look(key, found->version != 0 ? Code::kOk : Code::kNotFound, found->version);
  known_reads_ += reads_ - before;
  return is_there;
}

Result<bool> Changes::take_look(std::string_view key, Code code, uint64_t version) {
  if (code != Code::kOk && code != Code::kNotFound) return fail(code);
  if (!note_read(key, code == Code::kOk ? version : 0)) {
    return fail(is_doomed_ ? Code::kConflict : Code::kTooLarge);
  }
  return code == Code::kOk;
}

Result<std::string> Changes::take_read(std::string_view key, Code code, uint64_t version, std::string value) {
  const Result<bool> is_there = take_look(key, code, version);
  if (!is_there) return fail(is_there.error());
  const Item* const item = find(key);
  if (item->write) {
    return sum_of(*is_there ? std::optional<std::string_view>(value) : std::nullopt, item->addend);
  }
  return *is_there ? Result<std::string>(std::move(value)) : fail(Code::kNotFound);
}

Code Changes::put(std::string_view key, std::string_view value, uint64_t ttl_ns) {
  Item* const item = item_for(key, value.size());
  if (item == nullptr) return Code::kTooLarge;
  item->write = WriteKind::kPut;
  item->value.assign(value);
  item->ttl_ns = ttl_ns;
  has_writes_ = true;
  return Code::kOk;
}

Code Changes::erase(std::string_view key) {
  Item* const item = item_for(key, 0);
  if (item == nullptr) return Code::kTooLarge;
  item->write = WriteKind::kErase;
  item->value.clear();
  has_writes_ = true;
  return Code::kOk;
}

Code Changes::add(std::string_view key, int64_t addend) {
  Item* const item = item_for(key, 0);
  if (item == nullptr) return Code::kTooLarge;
  has_writes_ = true;
  if (!item->write) {
    item->write = WriteKind::kAdd;
    item->addend = addend;
    return Code::kOk;
  }
  if (*item->write == WriteKind::kAdd) {
    return __builtin_add_overflow(item->addend, addend, &item->addend) ? Code::kInvalidArgument : Code::kOk;
  }
  const bool was_erased = *item->write == WriteKind::kErase;
  const Result<std::string> sum =
      sum_of(was_erased ? std::nullopt : std::optional<std::string_view>(item->value), addend);
  if (!sum) return sum.error().code;
  if (was_erased) item->ttl_ns = 0;
  item->write = WriteKind::kPut;
  item->value.assign(*sum);
  return Code::kOk;
}

void Changes::each_read(const std::function<void(std::string_view key, uint64_t version)>& visit) const {
  for (const auto& [key, item] : items_) {
    if (item.read) visit(key, *item.read);
  }
}

std::optional<Changes::OnlyPut> Changes::only_put() const noexcept {
  if (items_.size() != 1) return std::nullopt;
  const auto& [key, item] = *items_.begin();
  if (item.write != WriteKind::kPut) return std::nullopt;
  return OnlyPut{.key = key,
                 .value = item.value,
                 .ttl_ns = item.ttl_ns,
                 .if_absent = item.read == 0U,
                 .if_version = item.read.value_or(0)};
}

Changes::Request Changes::request() const {
  Request request;
  for (const auto& [key, item] : items_) {
    if (item.read) {
      request.conditions.push_back(
          {.key = bytes_of(key),
           .kind = *item.read == 0 ? ConditionKind::kAbsent : ConditionKind::kVersion,
           .version = *item.read});
    }
    if (!item.write) continue;
    request.writes.push_back({.key = bytes_of(key),
                              .kind = *item.write,
                              .value = bytes_of(item.value),
                              .ttl_ns = item.ttl_ns,
                              .addend = item.addend});
    if (*item.write != WriteKind::kPut) request.writes.back().value = {};
  }
  return request;
}

void Changes::clear() {
  if (!std::exchange(is_known_new_, false)) known_.clear();
  items_.clear();
  arena_.release();
  reads_ = 0;
  known_reads_ = 0;
  bytes_ = 0;
  has_writes_ = false;
  is_doomed_ = false;
}

}  // namespace refract::txn
