// SPDX-License-Identifier: Apache-2.0
#include "bench/load/table_driver.h"

#include <x86intrin.h>

namespace refract::bench {

TableDriver::TableDriver(ByteTable& table, const Contents& contents)
    : table_(table),
      contents_(contents),
      key_(contents.key_bytes()),
      target_(contents.value_bytes()),
      value_(contents.value_bytes()) {
  contents_.prepare_value(target_.data());
  contents_.prepare_value(value_.data());
}

Reported<> TableDriver::run(Workload& workload) {
  Operation operation;
  while (workload.next(operation)) {
    while (workload.has_rate() && workload.ns_until(operation) > 0) _mm_pause();
    workload.finished(operation, execute(operation));
  }
  return {};
}

Code TableDriver::execute(const Operation& operation) {
  contents_.write_key(operation.index, key_.data());
  if (operation.is_put()) {
    contents_.make_value(operation.index, value_.data());
    table_.put(key_, value_);
    return Code::kOk;
  }
  if (operation.is_get()) {
    if (!table_.get(key_, target_)) return Code::kNotFound;
  } else {
    contents_.make_value(operation.index, value_.data());
    if (!table_.replace(key_, target_, value_)) return Code::kNotFound;
  }
  return contents_.take_value(operation.index, target_.data()) ? Code::kOk : Code::kCorrupt;
}

void fill_table(ByteTable& table, const Contents& contents, uint64_t keys) {
  std::vector<std::byte> key(contents.key_bytes());
  std::vector<std::byte> value(contents.value_bytes());
  contents.prepare_value(value.data());
  for (uint64_t index = 0; index < keys; ++index) {
    contents.write_key(index, key.data());
    contents.make_value(index, value.data());
    table.put(key, value);
  }
}

}  // namespace refract::bench
