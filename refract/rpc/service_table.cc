// SPDX-License-Identifier: Apache-2.0
#include "refract/rpc/service_table.h"

#include <limits>

#include "refract/base/check.h"

namespace refract::rpc {

ServiceTable::ServiceTable(std::span<const Row> rows) {
  REFRACT_CHECK(!rows.empty() && rows.front().methods_begin == 0);
  ranges_.reserve(rows.size());
  for (const Row& row : rows) {
    for (const Range& before : ranges_) {
      REFRACT_CHECK(before.begin < row.methods_begin && before.service != row.service);
    }
    if (!ranges_.empty()) ranges_.back().last = static_cast<uint16_t>(row.methods_begin - 1);
    ranges_.push_back({row.methods_begin, std::numeric_limits<uint16_t>::max(), row.service});
  }
}

const ServiceTable::Range& ServiceTable::range_of(const IncomingCall& call) const noexcept {
  const Range* range = ranges_.data();
  while (!range->has(call)) ++range;  // The ranges have every number.
  return *range;
}

void ServiceTable::handle(std::span<const IncomingCall> calls) noexcept {
  while (!calls.empty()) {
    const Range& range = range_of(calls.front());
    size_t count = 1;
    while (count < calls.size() && range.has(calls[count])) ++count;
    range.service->handle(calls.first(count));
    calls = calls.subspan(count);
  }
}

void ServiceTable::session_opened(SessionId session) noexcept {
  for (const Range& range : ranges_) range.service->session_opened(session);
}

void ServiceTable::session_closed(SessionId session) noexcept {
  for (const Range& range : ranges_) range.service->session_closed(session);
}

}  // namespace refract::rpc
