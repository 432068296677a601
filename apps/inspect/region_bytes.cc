// SPDX-License-Identifier: Apache-2.0
#include "apps/inspect/region_bytes.h"

#include <fmt/format.h>

namespace refract::inspect {

std::vector<std::string> occupancy_rows(uint64_t places, const std::function<bool(uint64_t)>& is_used) {
  constexpr uint64_t kCells = 64;
  constexpr uint64_t kRowsMax = 32;
  const uint64_t per_cell = std::max<uint64_t>(1, (places + kCells * kRowsMax - 1) / (kCells * kRowsMax));
  std::vector<std::string> rows;
  for (uint64_t first = 0; first < places; first += kCells * per_cell) {
    std::string row;
    for (uint64_t cell = first; cell < std::min(places, first + kCells * per_cell); cell += per_cell) {
      const uint64_t end = std::min(places, cell + per_cell);
      uint64_t used = 0;
      for (uint64_t place = cell; place < end; ++place) used += is_used(place) ? 1 : 0;
      row.push_back(used == 0 ? '.'
                              : static_cast<char>('0' + std::min<uint64_t>(9, used * 10 / (end - cell))));
    }
    rows.push_back(fmt::format("{:>8}  {}", first, row));
  }
  rows.push_back(fmt::format("{} to a cell; how full in tenths, . none", per_cell));
  return rows;
}

}  // namespace refract::inspect
