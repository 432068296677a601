// SPDX-License-Identifier: Apache-2.0
// What people ask a table's service about itself.
#include <algorithm>

#include "refract/kv/owner/service/service.h"

namespace refract::kv {

wire::StatReply TableService::stat() const noexcept {
  const Table::Stats& table = parts_.table.stats();
  const Heap::Stats& heap = parts_.heap.stats();
  wire::StatReply reply{.uptime_ns = parts_.shard.clock().now_ns() - started_ns_,
                        .connections = sessions_.size(),
                        .entries = table.entries,
                        .expiring_entries = table.expiring_entries,
                        .expired = table.expired,
                        .buckets = table.buckets,
                        .overflow_lines = table.overflow_lines,
                        .splits = table.splits,
                        .bytes_total = heap.bytes_total,
                        .bytes_free = heap.bytes_free,
                        .bytes_live = heap.bytes_live,
                        .bytes_retired = heap.bytes_retired,
                        .buffers_live = heap.buffers_live,
                        .stamps_given = heap.stamps_given,
                        .uploads = 0,
                        .views = 0,
                        .waiting_for_memory = waiting_.size() + (beside_ == nullptr ? 0 : beside_->waiting()),
                        .ops = {},
                        .upload_bytes = upload_bytes_,
                        .view_bytes = 0,
                        .waiting_bytes = waiting_bytes_,
                        .waiting_scans = waiting_scans_,
                        .overloaded = overloaded_,
                        .repeated = repeated_,
                        .indeterminate = indeterminate_,
                        .deferred_replies = 0,
                        .closed_malformed = 0,
                        .closed_overrun = 0,
                        .refused_sessions = 0,
                        .batches = batches_,
                        .batches_refused = batches_refused_,
                        .evicted = table.evicted};
  for (const auto& [id, open] : sessions_) {
    reply.uploads += open->state.uploads();
    reply.views += open->state.views();
    reply.view_bytes += open->state.view_bytes();
  }
  std::ranges::copy(ops_, reply.ops);
  if (server_ == nullptr) return reply;
  const rpc::Server::Counts& counts = server_->counts();
  reply.deferred_replies = counts.deferred_replies;
  reply.closed_malformed = counts.closed_malformed;
  reply.closed_overrun = counts.closed_overrun;
  reply.refused_sessions = counts.refused_sessions;
  return reply;
}

}  // namespace refract::kv
