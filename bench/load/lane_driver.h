// SPDX-License-Identifier: Apache-2.0
// What all clients of a Refract node share here: a shard of their own, on which as many coroutines as there
// are batches in flight take a batch each, execute it, and go on. Derived classes are these coroutines: one
// of their own for each operation would cost as much as what is measured.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bench/load/store_driver.h"

#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::bench {

class LaneDriver : public StoreDriver {
 public:
  LaneDriver(const LaneDriver&) = delete;
  LaneDriver& operator=(const LaneDriver&) = delete;
  ~LaneDriver() override = default;

  [[nodiscard]] Reported<> run(Workload& workload) override;
  // Lets the client's loop run, with nothing to ask for.
  void idle(uint64_t duration_ns);

 protected:
  // One batch, and the memory of its keys and values.
  struct Lane {
    Lane(size_t batch, const Contents& contents);
    [[nodiscard]] std::span<std::byte> key(size_t i) noexcept {
      return std::span(keys).subspan(i * key_bytes, key_bytes);
    }
    [[nodiscard]] std::span<std::byte> value(size_t i) noexcept {
      return std::span(values).subspan(i * value_bytes, value_bytes);
    }

    size_t number = 0;
    size_t key_bytes;
    size_t value_bytes;
    std::vector<std::byte> keys;        // Filled for all operations.
    std::vector<std::byte> values;      // Filled for puts; where gets go.
    std::vector<Operation> operations;  // Gets first.
    size_t get_count = 0;
    Operation last;  // All of a batch go together, so the one due last decides when.
  };

  LaneDriver(const DriverOptions& options, const Contents& contents);

  // While take_batch: waits until they are due, asks for all operations of the lane, and calls finish_get or
  // finish for each.
  [[nodiscard]] virtual runtime::Task<> work(Lane& lane) = 0;
  // False: there is nothing more to do.
  [[nodiscard]] bool take_batch(Lane& lane);
  // 0: they are due.
  [[nodiscard]] uint64_t ns_until_due(const Lane& lane) const noexcept {
    return workload_->has_rate() ? workload_->ns_until(lane.last) : 0;
  }
  void finish_get(const Operation& operation, Code code, std::span<std::byte> value, uint64_t bytes);
  void finish(const Operation& operation, Code code);
  // Whether that is the value of that entry, which is checked once.
  [[nodiscard]] bool is_value_of(uint64_t index, std::span<std::byte> value, uint64_t bytes) const {
    return bytes == contents_.value_bytes() && contents_.take_value(index, value.data());
  }
  void make_value(uint64_t index, std::span<std::byte> value) const {
    contents_.make_value(index, value.data());
  }
  [[nodiscard]] uint64_t index_of(std::span<const std::byte> key) const {
    return contents_.index_of(key.data());
  }

  [[nodiscard]] runtime::Shard& shard() noexcept { return shard_; }
  [[nodiscard]] size_t lane_count() const noexcept { return lanes_.size(); }
  [[nodiscard]] size_t batch() const noexcept { return batch_; }

 private:
  [[nodiscard]] static runtime::Task<> pause(runtime::Shard& shard, uint64_t duration_ns);
  [[nodiscard]] static runtime::Task<> work_to_end(LaneDriver& driver, Lane& lane);
  void fill_in(Lane& lane, size_t place);

  Contents contents_;
  size_t batch_;
  runtime::Shard shard_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Workload* workload_ = nullptr;  // While it runs.
  size_t working_ = 0;            // Lanes.
  Report trouble_{Code::kOk, "", ""};
};

}  // namespace refract::bench
