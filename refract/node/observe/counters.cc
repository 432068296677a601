// SPDX-License-Identifier: Apache-2.0
// What a node counts by name, each with a sentence.
#include <array>

#include "refract/node/observe/metrics.h"

namespace refract::observe {
namespace {

using enum Kind;
using enum Unit;

constexpr auto kCounters = std::to_array<Metric>({
    {"rpc.calls", kTotal, kNone, "Calls that came."},
    {"rpc.replies", kTotal, kNone, "Answers given."},
    {"rpc.deferred_replies", kTotal, kNone, "Answers that found the channel full."},
    {"rpc.dropped_replies", kTotal, kNone, "Answers whose session had ended."},
    {"rpc.closed_malformed", kTotal, kNone, "Sessions closed for a bad header or length."},
    {"rpc.closed_overrun", kTotal, kNone, "Sessions closed for more calls without an answer than allowed."},
    {"rpc.refused_sessions", kTotal, kNone, "Sessions beyond the limit."},
    {"shm.opened", kTotal, kNone, "Connections of this host opened."},
    {"shm.closed", kTotal, kNone, "Likewise closed."},
    {"shm.bad_frame", kTotal, kNone, "Closed for a header outside limits or kinds."},
    {"shm.access_denied", kTotal, kNone, "One-sided requests refused."},
    {"shm.doorbells_rung", kTotal, kNone, "Wake-ups sent to clients."},
    {"shm.doorbells_heard", kTotal, kNone, "Wake-ups by clients."},
    {"tcp.opened", kTotal, kNone, "TCP connections opened."},
    {"tcp.closed", kTotal, kNone, "Likewise closed."},
    {"tcp.lost", kTotal, kNone, "Of those closed: ended without a goodbye."},
    {"tcp.bad_frame", kTotal, kNone, "Closed for a header outside limits or kinds."},
    {"tcp.access_denied", kTotal, kNone, "One-sided requests refused; the connection stays."},
    {"tcp.sends", kTotal, kNone, "System calls that send."},
    {"tcp.receives", kTotal, kNone, "System calls that brought something."},
    {"tcp.bytes_sent", kTotal, kBytes, "Through sockets."},
    {"tcp.bytes_received", kTotal, kBytes, "Likewise."},
    {"verbs.opened", kTotal, kNone, "RDMA connections opened."},
    {"verbs.closed", kTotal, kNone, "Likewise closed."},
    {"verbs.doorbells", kTotal, kNone, "Calls that hand work to a device."},
    {"verbs.work_requests", kTotal, kNone, "Requests handed to devices."},
    {"verbs.receives", kTotal, kNone, "Messages received."},
    {"verbs.registrations", kTotal, kNone, "Calls of ibv_reg_mr for regions."},
    {"verbs.remote_access_errors", kTotal, kNone, "The device refused a key that was revoked meanwhile."},
    {"verbs.retries_exceeded", kTotal, kNone, "The path or the peer is gone."},
    {"verbs.other_errors", kTotal, kNone, "Failed requests of other kinds."},
    {"verbs.overrun_peers", kTotal, kNone, "Connections cut: the peer sent more than its credits."},
    {"verbs.malformed", kTotal, kNone, "Connections cut: what the peer sent makes no sense."},
    {"verbs.device_events", kTotal, kNone, "Asynchronous events of ports, queues and devices."},
    {"verbs.greetings_lost", kTotal, kNone,
     "Introductions that ended without a message through the queue pairs."},
    {"verbs.unknown_tokens", kTotal, kNone, "Refused: came by librdmacm without an introduction."},
    {"pulls.values", kTotal, kNone, "Values read whole from their clients' memory."},
    {"pulls.bytes", kTotal, kBytes, "Theirs."},
    {"pulls.failed", kTotal, kNone, "Values that did not come whole."},
    {"pulls.reads", kTotal, kNone, "READs for them."},
    {"chains.executed", kTotal, kNone, "Chains executed."},
    {"chains.malformed", kTotal, kNone, "Chains refused as malformed."},
    {"chains.operations", kTotal, kNone, "Operations executed."},
    {"chains.failed_operations", kTotal, kNone,
     "Among them failed; a comparison that does not hold is none."},
    {"chains.failed_comparisons", kTotal, kNone, "Comparisons that did not hold."},
    {"chains.bytes_in", kTotal, kBytes, "Of chains."},
    {"chains.bytes_out", kTotal, kBytes, "Of their replies."},
    {"chains.deferred", kTotal, kNone, "Chains that had to wait for a later turn."},
    {"chains.overloaded", kTotal, kNone, "Chains refused with overloaded."},
    {"chains.timed", kTotal, kNone, "Chains of the batches that are timed, one batch in 32."},
    {"chains.timed_ns", kTotal, kNanoseconds, "The time of those."},
    {"chains.installed", kTotal, kNone, "Values replaced by chains."},
    {"chains.refused", kTotal, kNone, "Stores of chains that the guard refused."},
    {"transactions.conflicts", kTotal, kNone,
     "Parts or decisions that were refused because of another transaction."},
    {"transactions.decided", kTotal, kNone,
     "Transactions over several shards of which this one was the home."},
    {"transactions.orphaned", kTotal, kNone, "Parts whose session closed before they were settled."},
    {"transactions.overdue", kTotal, kNone, "Parts that were settled because their client did not."},
    {"transactions.parts", kNow, kNone, "Parts that hold keys."},
    {"transactions.prepared", kTotal, kNone, "Parts of transactions over several shards."},
    {"transactions.refused", kTotal, kNone, "Parts or decisions that were refused for a condition."},
    {"transactions.waited", kTotal, kNone,
     "Parts or decisions that waited for keys of a younger transaction."},
    {"eviction.entries", kTotal, kNone, "Entries taken away to make room."},
    {"eviction.bytes", kTotal, kBytes, "Theirs."},
    {"eviction.samples", kTotal, kNone, "Uses that readers wrote down."},
    {"eviction.windows", kTotal, kNone, "Runs of chunks that were emptied."},
    {"eviction.spared", kTotal, kNone, "Entries that stayed because a reader held them."},
    {"log.state", kLargest, kNone, "0 running, 1 stalled, 2 failed."},
    {"log.appended", kNow, kNone, "The position where the last change ends."},
    {"log.synced", kNow, kNone, "The position up to which the disk has everything."},
    {"log.records", kTotal, kNone, "Changes written into segments."},
    {"log.bytes", kTotal, kBytes, "Likewise."},
    {"log.writes", kTotal, kNone, "Calls of the disk."},
    {"log.syncs", kTotal, kNone, "Calls of fdatasync."},
    {"log.sync_p99_ns", kLargest, kNanoseconds, "99 of 100 syncs were not longer."},
    {"log.disk_bytes", kNow, kBytes, "What the log's files take."},
    {"log.held_answers", kNow, kNone, "Answers to writes that the log has not confirmed."},
    {"log.waiting_writes", kNow, kNone, "Writes that wait for room in the log."},
    {"log.held_back_bytes", kNow, kBytes, "Replaced buffers that the log has still to read."},
    {"log.indeterminate", kTotal, kNone,
     "Answers indeterminate, because the log failed before it confirmed."},
    {"log.read_only", kTotal, kNone, "Writes refused, because the log cannot be written."},
    {"snapshot.written", kTotal, kNone, "Snapshots written."},
    {"snapshot.failed", kTotal, kNone, "Snapshots that failed."},
    {"snapshot.last_entries", kNow, kNone, "Entries of the last."},
    {"snapshot.last_bytes", kNow, kBytes, "Its bytes."},
    {"snapshot.last_took_ns", kLargest, kNanoseconds, "How long it took."},
});

}  // namespace

std::span<const Metric> counters() noexcept {
  return kCounters;
}

}  // namespace refract::observe
