// SPDX-License-Identifier: Apache-2.0
#include "bench/load/lane_driver.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "refract/base/clock.h"

namespace refract::bench {

using runtime::Task;

namespace {

const char* name_of(Act act) noexcept {
  constexpr std::array kNames = {"get", "put", "put", "scan", "get and put of its version"};
  return kNames[static_cast<size_t>(act)];
}

}  // namespace

LaneDriver::Lane::Lane(size_t batch, const Contents& contents)
    : key_bytes(contents.key_bytes()),
      value_bytes(contents.value_bytes()),
      keys(batch * key_bytes),
      values(batch * value_bytes) {
  for (size_t i = 0; i < batch; ++i) contents.prepare_value(value(i).data());
  operations.reserve(batch);
}

LaneDriver::LaneDriver(const DriverOptions& options, const Contents& contents)
    : contents_(contents),
      batch_(options.batch),
      shard_(system_clock(), {.ops_max = std::max<size_t>(4096, 2 * options.depth),
                              .spin_ns = spin_ns_of(options.waiting, options.has_rate),
                              .yield_count = options.waiting == Waiting::kBlocking ? 0U : 2U}) {
  for (size_t i = 0; i < options.depth / options.batch; ++i) {
    lanes_.push_back(std::make_unique<Lane>(options.batch, contents));
    lanes_.back()->number = i;
  }
}

Reported<> LaneDriver::run(Workload& workload) {
  workload_ = &workload;
  trouble_ = {Code::kOk, "", ""};
  working_ = lanes_.size();
  for (const auto& lane : lanes_) shard_.spawn(work_to_end(*this, *lane));
  shard_.run_until([this] { return working_ == 0; });
  if (trouble_.code == Code::kOk) return {};
  return report(trouble_);
}

void LaneDriver::idle(uint64_t duration_ns) {
  runtime::block_on(shard_, pause(shard_, duration_ns));
}

Task<> LaneDriver::pause(runtime::Shard& shard, uint64_t duration_ns) {
  co_await shard.sleep_for(duration_ns);
}

Task<> LaneDriver::work_to_end(LaneDriver& driver, Lane& lane) {
  co_await driver.work(lane);
  --driver.working_;
}

bool LaneDriver::take_batch(Lane& lane) {
  if (trouble_.code != Code::kOk) return false;
  if (batch_ == 1) {
    lane.operations.resize(1);
    if (!workload_->next(lane.operations.front())) return false;
    if (workload_->has_rate()) lane.last = lane.operations.front();
    lane.get_count = lane.operations.front().is_get() ? 1 : 0;
    fill_in(lane, 0);
    return true;
  }
  lane.operations.clear();
  Operation operation;
  while (lane.operations.size() < batch_ && workload_->next(operation)) lane.operations.push_back(operation);
  if (lane.operations.empty()) return false;
  lane.last = lane.operations.back();
  const auto puts = std::ranges::partition(lane.operations, &Operation::is_get);
  lane.get_count = lane.operations.size() - puts.size();
  for (size_t i = 0; i < lane.operations.size(); ++i) fill_in(lane, i);
  return true;
}

void LaneDriver::fill_in(Lane& lane, size_t place) {
  const uint64_t index = lane.operations[place].index;
  contents_.write_key(index, lane.key(place).data());
  if (place >= lane.get_count) contents_.make_value(index, lane.value(place).data());
}

void LaneDriver::finish_get(const Operation& operation, Code code, std::span<std::byte> value,
                            uint64_t bytes) {
  const bool right = code != Code::kOk || is_value_of(operation.index, value, bytes);
  finish(operation, right ? code : Code::kCorrupt);
}

void LaneDriver::finish(const Operation& operation, Code code) {
  if (Workload::is_counted(code)) return workload_->finished(operation, code);
  if (trouble_.code != Code::kOk) return;
  trouble_ = {
      code, fmt::format("a {} failed: {} ({})", name_of(operation.act), info(code).sentence, text(code)), ""};
}

}  // namespace refract::bench
