// SPDX-License-Identifier: Apache-2.0
// What a client of a campaign of transactions does with one key.
#include <algorithm>
#include <utility>

#include "tests/transactions/transactor.h"

namespace refract::campaign {

using runtime::Task;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

Task<Transactor::Seen> Transactor::read(std::string key, Way way) {
  if (way == Way::kDirect || way == Way::kView) {
    if (const std::optional<Seen> seen = look(key, way)) co_return *seen;
    way = Way::kCall;
  }
  const Seen seen = co_await ask(key, way);
  co_return seen;
}

// Nothing: what the reader cannot tell, the owner can.
std::optional<Transactor::Seen> Transactor::look(const std::string& key, Way way) {
  Reach& reach = reach_of(key);
  std::string value;
  const kv::Found found =
      way == Way::kView ? reach.view(bytes_of(key), value) : reach.read_directly(bytes_of(key), value);
  if (found.code == Code::kInvalidated || found.code == Code::kOverloaded) return std::nullopt;
  Seen seen{.code = found.code, .version = found.version, .value = {}};
  if (found.code == Code::kOk) seen.value = number_in(key, value);
  if (!seen.is_answer()) {
    stage_.complain("a direct get gave '" + std::string(info(found.code).text) + "'");
  }
  return seen;
}

Task<Transactor::Seen> Transactor::ask(std::string key, Way way) {
  Reach& reach = reach_of(key);
  std::string value;
  kv::StringSink sink(value);
  Result<kv::Got> got = fail(Code::kUnavailable);
  if (way == Way::kExists) {
    got = co_await reach.client().exists(bytes_of(key));
  } else if (way == Way::kChain) {
    got = co_await reach.chains().get(bytes_of(key), sink);
  } else if (way == Way::kRemote) {
    ++stage_.outcome.remote;
    got = co_await reach.remote().get(bytes_of(key), sink);
  } else if (way == Way::kMany) {
    kv::RpcClient::GetItem item;
    item.key = bytes_of(key);
    item.sink = &sink;
    co_await reach.client().multi_get({&item, 1});
    got = item.result;
  } else {
    got = co_await reach.client().get(bytes_of(key), sink);
  }
  Seen seen;
  seen.code = got.code();
  seen.version = got ? got->version : 0;
  if (got && way != Way::kExists) seen.value = number_in(key, value);
  co_return seen;
}

// By memory, or by calls. What a call lists is then looked at: it is not there before it is listed, and gone
// afterwards.
Task<> Transactor::scan() {
  Reach& reach = reaches_[prng_.below(reaches_.size())];
  const uint64_t began_ns = stage_.now_ns();
  if (prng_.chance(0.3)) {
    Reach::Listed listed;
    (void)reach.scan_directly(listed);
    for (const auto& [key, version] : listed) list(key, version, began_ns);
    co_return;
  }
  uint64_t cursor = 0;
  do {
    const uint64_t page_began_ns = stage_.now_ns();
    const Result<kv::RpcClient::Page> page = co_await reach.client().scan(cursor, 1 + prng_.below(6));
    if (!page) break;
    for (const auto& one : page->keys) list(one.key, one.version, page_began_ns);
    for (const auto& one : page->keys) {
      if (!one.key.starts_with(TransactionStage::kFill)) co_await get(one.key, Way::kDirect);
    }
    cursor = page->next;
  } while (cursor != 0 && !stage_.is_over());
}

void Transactor::list(const std::string& key, uint64_t version, uint64_t began_ns) {
  if (key.starts_with(TransactionStage::kFill)) return;
  ++stage_.outcome.listed;
  const size_t record = stage_.recorder.begin(client_number_, began_ns);
  note(record, key, {.code = Code::kOk, .version = version, .value = {}});
  end(record, Outcome::kCommitted);
}

Task<> Transactor::get(std::string key, Way way) {
  const size_t record = begin();
  const Seen seen = co_await read(key, way);
  note(record, key, seen);
  end(record, seen.is_answer() ? Outcome::kCommitted : Outcome::kRefused);
  if (way != Way::kDirect) ++stage_.outcome.plain;
}

Task<> Transactor::put() {
  const std::string key = any_key();
  const size_t record = begin();
  int64_t number = 0;
  const std::string value = new_value(key, number);
  kv::RpcPutOptions options;
  const uint64_t draw = prng_.below(10);
  options.if_absent = draw == 0;
  if ((draw == 1 || draw == 2) && !stage_.expires()) options.if_version = versions_[key];
  Operation put{.kind = Kind::kPut, .key = stage_.recorder.key(key)};
  put.value = number;
  if (options.if_absent) put.want = serialisability::Want::kAbsent;
  if (options.if_version != 0) {
    put.want = serialisability::Want::kVersion;
    put.want_version = options.if_version;
  }
  stage_.recorder.add(record, put);
  options.ttl_ns = draw_ttl_ns(key);
  if (options.ttl_ns != 0) note_lease(record, 0, options.ttl_ns);
  Result<uint64_t> version = fail(Code::kUnavailable);
  if (options.ttl_ns != 0 || prng_.chance(0.5)) {
    version = co_await reach_of(key).client().put(bytes_of(key), bytes_of(value), options);
  } else {
    version = co_await reach_of(key).chains().put(bytes_of(key), bytes_of(value), options);
  }
  ++stage_.outcome.plain;
  Operation& told = stage_.recorder.transaction(record).operations.front();
  const Code code = version.code();
  const bool is_unmet = code == Code::kExists || code == Code::kVersionMismatch || code == Code::kNotFound;
  if (is_unmet) {
    told.condition = serialisability::Condition::kUnmet;
    told.found = code == Code::kNotFound ? Found::kAbsent : Found::kPresent;
    end(record, Outcome::kCommitted);
    co_return;
  }
  if (version) {
    told.version = *version;
    versions_[key] = *version;
  }
  end(record, outcome_of(code));
}

// Each a transaction of its own, by as few calls as that takes.
Task<> Transactor::put_many() {
  const Reach& reach = reach_of(any_key());
  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::vector<size_t> records;
  for (int i = 0; i < 5; ++i) {
    const std::string key = any_key();
    if (&reach_of(key) != &reach || std::ranges::find(keys, key) != keys.end()) continue;
    int64_t number = 0;
    values.push_back(new_value(key, number));
    keys.push_back(key);
    records.push_back(begin());
    Operation put{.kind = Kind::kPut, .key = stage_.recorder.key(key)};
    put.value = number;
    stage_.recorder.add(records.back(), put);
  }
  if (keys.empty()) co_return;
  std::vector<kv::RpcClient::PutItem> items(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    items[i].key = bytes_of(keys[i]);
    items[i].value = bytes_of(values[i]);
  }
  co_await reach_of(keys.front()).client().multi_put(items);
  for (size_t i = 0; i < keys.size(); ++i) {
    const Result<uint64_t>& version = items[i].result;
    stage_.recorder.transaction(records[i]).operations.front().version = version ? *version : 0;
    if (version) versions_[keys[i]] = *version;
    end(records[i], outcome_of(version.code()));
    ++stage_.outcome.plain;
  }
}

Task<> Transactor::erase() {
  const std::string key = any_key();
  const size_t record = begin();
  const Operation erase{.kind = Kind::kErase, .key = stage_.recorder.key(key)};
  stage_.recorder.add(record, erase);
  const Result<uint64_t> version = co_await reach_of(key).client().erase(bytes_of(key));
  ++stage_.outcome.plain;
  Operation& told = stage_.recorder.transaction(record).operations.front();
  if (version) {
    told.found = Found::kPresent;
    told.found_version = *version;
  }
  if (version.code() == Code::kNotFound) told.found = Found::kAbsent;
  end(record, version.code() == Code::kNotFound ? Outcome::kCommitted : outcome_of(version.code()));
}

}  // namespace refract::campaign
