// SPDX-License-Identifier: Apache-2.0
#include "bench/load/refract_driver.h"

#include <fmt/core.h>

#include <utility>

namespace refract::bench {

using runtime::Task;

namespace {

constexpr size_t kKeysPerWalk = 1'000;

}  // namespace

RefractDriver::RefractDriver(const DriverOptions& options, const Contents& contents)
    : LaneDriver(options, contents), items_(batch() > 1 ? lane_count() : 0) {
  for (Items& items : items_) {
    items.gets.resize(batch());
    items.puts.resize(batch());
    // Their memory is used again, so no measured get has to take any.
    for (GetItem& get : items.gets) get.value.reserve(contents.value_bytes());
  }
  if (!options.has_scans) return;
  scans_.resize(lane_count());
  for (Scan& scan : scans_) {
    scan.keys.resize(kScanEntriesMax);
    scan.items.resize(kScanEntriesMax);
  }
}

Reported<std::unique_ptr<RefractDriver>> RefractDriver::connect(const Target& target,
                                                                const DriverOptions& options,
                                                                const Contents& contents) {
  std::unique_ptr<RefractDriver> driver(new RefractDriver(options, contents));
  auto client = runtime::block_on(driver->shard(),
                                  AsyncClient::connect(driver->shard(), target.address, target.client));
  if (!client) return report(client.error());
  driver->client_ = std::move(*client);
  if (!options.has_scans) return driver;
  Code code = Code::kOk;
  runtime::block_on(driver->shard(), collect_cursors(*driver, code));
  if (code != Code::kOk) return report(code, fmt::format("a scan failed: {}", info(code).sentence));
  return driver;
}

RefractDriver::~RefractDriver() {
  // A client must not go in the turn in which its last operation ended.
  idle(0);
}

Task<> RefractDriver::work(Lane& lane) {
  while (take_batch(lane)) {
    const uint64_t early_ns = ns_until_due(lane);
    if (early_ns > 0) co_await shard().sleep_for(early_ns);
    const Operation& operation = lane.operations.front();
    const Bytes key{lane.keys};
    if (!items_.empty()) {
      co_await execute_batch(lane);
    } else if (operation.act == Act::kGet) {
      const Result<Got> got = co_await client_->get_into(key, lane.values);
      finish_get(operation, got.code(), lane.values, got ? got->value_bytes : 0);
    } else if (operation.is_put()) {
      const Result<uint64_t> put = co_await client_->put(key, Bytes(lane.values));
      finish(operation, put.code());
    } else if (operation.act == Act::kReplace) {
      co_await execute_replace(lane);
    } else {
      co_await execute_scan(lane);
    }
  }
}

Task<> RefractDriver::execute_replace(Lane& lane) {
  Operation& operation = lane.operations.front();
  const Bytes key{lane.keys};
  Code code = Code::kVersionMismatch;
  while (code == Code::kVersionMismatch) {
    const Result<Got> got = co_await client_->get_into(key, lane.values);
    code = got.code();
    if (!got) break;
    if (!is_value_of(operation.index, lane.values, got->value_bytes)) {
      code = Code::kCorrupt;
      break;
    }
    make_value(operation.index, lane.values);
    const Result<uint64_t> put = co_await client_->put(key, Bytes(lane.values), {.if_version = got->version});
    code = put.code();
    if (code == Code::kVersionMismatch && ++operation.retries > kRetriesMax) code = Code::kOverloaded;
  }
  finish(operation, code);
}

// As many keys as are wanted from some page on, and then their values.
Task<> RefractDriver::execute_scan(Lane& lane) {
  Operation& operation = lane.operations.front();
  Scan& scan = scans_[lane.number];
  uint64_t cursor = cursors_[operation.index % cursors_.size()];
  size_t found = 0;
  // A scan that reaches the end starts again at the beginning, but once: a table may hold fewer than are
  // wanted.
  for (int ends = 0; found < operation.number && ends < 2; ends += cursor == 0 ? 1 : 0) {
    Result<ScanPage> page = co_await client_->scan(cursor, operation.number - found);
    if (!page) {
      finish(operation, page.code());
      co_return;
    }
    for (ScanEntry& entry : page->entries) {
      if (found < operation.number) scan.keys[found++] = std::move(entry.key);
    }
    cursor = page->next;
  }
  operation.entries = static_cast<uint32_t>(found);
  const std::span<GetItem> items = std::span(scan.items).first(found);
  for (size_t i = 0; i < found; ++i) items[i].key = scan.keys[i];
  if (!items.empty()) co_await client_->multi_get(items);
  Code code = found == 0 ? Code::kNotFound : Code::kOk;
  for (GetItem& item : items) {
    if (!item.result) {
      code = item.result.code();
    } else if (!is_value_of(index_of(item.key), std::as_writable_bytes(std::span(item.value)),
                            item.value.size())) {
      code = Code::kCorrupt;
    }
  }
  finish(operation, code);
}

Task<> RefractDriver::collect_cursors(RefractDriver& driver, Code& code) {
  uint64_t cursor = 0;
  do {
    driver.cursors_.push_back(cursor);
    Result<ScanPage> page = co_await driver.client_->scan(cursor, kKeysPerWalk);
    code = page.code();
    cursor = page ? page->next : 0;
  } while (cursor != 0);
}

Task<> RefractDriver::execute_batch(Lane& lane) {
  Items& items = items_[lane.number];
  const std::span<GetItem> gets = std::span(items.gets).first(lane.get_count);
  const std::span<PutItem> puts = std::span(items.puts).first(lane.operations.size() - lane.get_count);
  for (size_t i = 0; i < gets.size(); ++i) gets[i].key = Bytes(lane.key(i));
  for (size_t i = 0; i < puts.size(); ++i) {
    puts[i].key = Bytes(lane.key(lane.get_count + i));
    puts[i].value = Bytes(lane.value(lane.get_count + i));
  }
  if (!gets.empty()) co_await client_->multi_get(gets);
  for (size_t i = 0; i < gets.size(); ++i) {
    const std::span<std::byte> value = std::as_writable_bytes(std::span(gets[i].value));
    finish_get(lane.operations[i], gets[i].result.code(), value, value.size());
  }
  if (!puts.empty()) co_await client_->multi_put(puts);
  for (size_t i = 0; i < puts.size(); ++i) {
    finish(lane.operations[lane.get_count + i], puts[i].result.code());
  }
}

}  // namespace refract::bench
