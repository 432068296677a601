// SPDX-License-Identifier: Apache-2.0
#include "bench/refract_driver.h"

#include <utility>

namespace refract::bench {

using runtime::Task;

RefractDriver::RefractDriver(const DriverOptions& options, const Contents& contents)
    : LaneDriver(options, contents), items_(batch() > 1 ? lane_count() : 0) {
  for (Items& items : items_) {
    items.gets.resize(batch());
    items.puts.resize(batch());
    // Their memory is used again, so no measured get has to take any.
    for (GetItem& get : items.gets) get.value.reserve(contents.value_bytes());
  }
}

Reported<std::unique_ptr<RefractDriver>> RefractDriver::connect(const Target& target,
                                                                const DriverOptions& options,
                                                                const Contents& contents) {
  std::unique_ptr<RefractDriver> driver(new RefractDriver(options, contents));
  auto client = runtime::block_on(
      driver->shard(), client::AsyncClient::connect(driver->shard(), target.address, target.client));
  if (!client) return report(client.error());
  driver->client_ = std::move(*client);
  return driver;
}

RefractDriver::~RefractDriver() {
  // A client must not go in the turn in which its last operation ended.
  idle(0);
}

Task<> RefractDriver::execute(Lane& lane) {
  if (!items_.empty()) {
    co_await execute_batch(lane);
    co_return;
  }
  const Operation& operation = lane.operations.front();
  const Bytes key{lane.keys};
  if (operation.is_get) {
    const Result<Got> got = co_await client_->get_into(key, lane.values);
    finish_get(operation, got.code(), lane.values, got ? got->value_bytes : 0);
  } else {
    const Result<uint64_t> put = co_await client_->put(key, Bytes(lane.values));
    finish(operation, put.code());
  }
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
