// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/remote_regions.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace refract::fabric::verbs {

const RemoteRegions::Row* RemoteRegions::find(uint16_t region, RemoteKey key) const noexcept {
  if (region >= row_of_.size() || row_of_[region] == 0) return nullptr;
  const Row& row = rows_[row_of_[region] - 1];
  return row.what.key == key ? &row : nullptr;
}

void RemoteRegions::learn(const DecodedAnswer& answer) {
  forget(answer.region);
  Row row{.region = answer.region, .what = answer.what, .device_keys = {}};
  row.device_keys.resize(answer.what.chunk_count);
  std::memcpy(row.device_keys.data(), answer.device_keys.data(), answer.device_keys.size());
  rows_.push_back(std::move(row));
  row_of_.resize(std::max(row_of_.size(), size_t{answer.region} + 1));
  row_of_[answer.region] = static_cast<uint32_t>(rows_.size());
}

void RemoteRegions::forget(uint16_t region) noexcept {
  if (region >= row_of_.size() || row_of_[region] == 0) return;
  const uint32_t row = std::exchange(row_of_[region], 0U);
  if (row < rows_.size()) {
    rows_[row - 1] = std::move(rows_.back());
    row_of_[rows_[row - 1].region] = row;
  }
  rows_.pop_back();
}

void RemoteRegions::clear() noexcept {
  rows_.clear();
  row_of_.clear();
}

}  // namespace refract::fabric::verbs
