// SPDX-License-Identifier: Apache-2.0
#include "refract/node/observe/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace refract::observe {
namespace {

using enum Kind;
using enum Unit;

std::string_view text_of(Kind kind) {
  switch (kind) {
    case Kind::kTotal:
      return "total";
    case Kind::kNow:
      return "now";
    case Kind::kLargest:
      return "now, the largest";
    case Kind::kFact:
      return "fact";
  }
  return "";
}

std::string_view text_of(Unit unit) {
  return unit == kBytes ? "bytes" : unit == kNanoseconds ? "ns" : "";
}

std::string line_of(const Metric& metric) {
  return fmt::format("| {} | {} | {} | {} |\n", metric.name, text_of(metric.kind), text_of(metric.unit),
                     metric.sentence);
}

using Shard = ShardState;
constexpr auto kShardRows = std::to_array<Row<Shard>>({
    {{"incarnation", kFact, kNone, "How many servers the keeper has forked."}, &Shard::incarnation},
    {{"shard", kFact, kNone, "Which shard this is, from 0 on."}, &Shard::shard_index},
    {{"shards", kFact, kNone, "How many shards the node has."}, &Shard::shard_count},
    {{"process", kFact, kNone, "The server's process id."}, &Shard::process},
    {{"now_ns", kFact, kNanoseconds, "The shard's clock at the moment of the telling."}, &Shard::now_ns},
    {{"uptime_ns", kFact, kNanoseconds, "Since the server's start."}, &Shard::uptime_ns},
    {{"cpu_ns", kTotal, kNanoseconds, "Processor time of the shard's thread."}, &Shard::cpu_ns},
    {{"sleeps", kTotal, kNone, "How often the shard's thread has slept."}, &Shard::sleeps},
    {{"operations", kNow, kNone, "The shard's own operations in flight."}, &Shard::operations},
    {{"connections", kNow, kNone, "Clients that are connected."}, &Shard::connections},
    {{"uploads", kNow, kNone, "Values on their way in pieces."}, &Shard::uploads},
    {{"views", kNow, kNone, "Values that the server reads out in pieces."}, &Shard::views},
    {{"waiting_for_memory", kNow, kNone, "Puts that wait until memory is free."}, &Shard::waiting_for_memory},
    {{"batches", kTotal, kNone, "Batches of calls."}, &Shard::batches},
});

using Memory = MemoryState;
constexpr auto kMemoryRows = std::to_array<Row<Memory>>({
    {{"total", kNow, kBytes, "Memory of the shard's regions."}, &Memory::total},
    {{"free", kNow, kBytes, "In no chunk that is in use."}, &Memory::free},
    {{"live", kNow, kBytes, "Entries, and uploads on their way to be some."}, &Memory::live},
    {{"retired", kNow, kBytes, "Replaced or erased; reused as soon as no reader holds them."},
     &Memory::retired},
    {{"table", kNow, kBytes, "Buckets, lines and the table's directory."}, &Memory::table},
    {{"largest_free_run", kLargest, kBytes, "The longest piece that is free."}, &Memory::largest_free_run},
    {{"pins", kNow, kNone, "Buffers that readers hold."}, &Memory::pins},
});

using Entries = EntriesState;
constexpr auto kEntriesRows = std::to_array<Row<Entries>>({
    {{"count", kNow, kNone, "Entries in the table."}, &Entries::count},
    {{"expiring", kNow, kNone, "Entries with a time to live."}, &Entries::expiring},
    {{"expired", kTotal, kNone, "Entries that left because their time had come."}, &Entries::expired},
    {{"buckets", kNow, kNone, "Buckets of the table."}, &Entries::buckets},
    {{"overflow_lines", kNow, kNone, "Lines behind full buckets."}, &Entries::overflow_lines},
    {{"splits", kTotal, kNone, "Buckets that were split as the table grew."}, &Entries::splits},
});

using Data = DataState;
constexpr auto kDataRows = std::to_array<Row<Data>>({
    {{"durability", kFact, kNone, "none, everysec or always; empty: the node's version does not say."},
     &Data::durability},
    {{"backing", kFact, kNone, "What the memory lies in: memfd:, file:/srv/refract."}, &Data::backing},
    {{"folder", kFact, kNone, "The data folder; empty: nothing is kept on disk."}, &Data::folder},
    {{"ring", kFact, kNone, "folder, or memory: then everysec promises less; empty: the node does not say."},
     &Data::ring},
});

using Log = LogStatus;
constexpr auto kLogRows = std::to_array<Row<Log>>({
    {{"state", kFact, kNone, "running; stalled: the disk has no room; failed: a write or a sync did."},
     &Log::state},
    {{"trouble", kFact, kNone, "Why the log is not running."}, &Log::trouble},
    {{"unsynced_bytes", kNow, kBytes, "Appended, and not yet confirmed by fdatasync."}, &Log::unsynced_bytes},
    {{"syncs", kTotal, kNone, "Calls of fdatasync."}, &Log::syncs},
    {{"last_sync_age_ns", kNow, kNanoseconds, "Since the last sync; means nothing where there was none."},
     &Log::last_sync_age_ns},
    {{"disk_bytes", kNow, kBytes, "What the log's files take."}, &Log::disk_bytes},
    {{"since_snapshot_bytes", kNow, kBytes, "What a start reads behind the snapshot."},
     &Log::since_snapshot_bytes},
    {{"refused_writes", kTotal, kNone, "Writes refused with read_only."}, &Log::refused_writes},
});

using Snapshot = SnapshotStatus;
constexpr auto kSnapshotRows = std::to_array<Row<Snapshot>>({
    {{"begun", kTotal, kNone, "Attempts begun, from 1 on; one runs at a time."}, &Snapshot::begun},
    {{"ended", kTotal, kNone, "Attempts ended."}, &Snapshot::ended},
    {{"entries_now", kNow, kNone, "Of the one that is being written, where begun is above ended: entries."},
     &Snapshot::entries_now},
    {{"entries_max", kNow, kNone, "Likewise: how many it may have, about."}, &Snapshot::entries_max},
    {{"bytes_now", kNow, kBytes, "Likewise: bytes written."}, &Snapshot::bytes_now},
    {{"file", kFact, kNone, "The youngest on the disk; empty: there is none."}, &Snapshot::file},
    {{"written_attempt", kFact, kNone, "Its attempt; 0: an earlier server's."}, &Snapshot::written_attempt},
    {{"entries", kNow, kNone, "Its entries."}, &Snapshot::entries},
    {{"bytes", kNow, kBytes, "Its bytes."}, &Snapshot::bytes},
    {{"took_ns", kFact, kNanoseconds, "How long it took."}, &Snapshot::took_ns},
    {{"age_ns", kFact, kNanoseconds, "Since it was complete."}, &Snapshot::age_ns},
    {{"failed_attempt", kFact, kNone, "The last attempt that failed; 0: none did."},
     &Snapshot::failed_attempt},
    {{"failed_age_ns", kFact, kNanoseconds, "Since that."}, &Snapshot::failed_age_ns},
    {{"failed_why", kFact, kNone, "Why it failed."}, &Snapshot::failed_why},
    {{"failed_next", kFact, kNone, "What to do."}, &Snapshot::failed_next},
});

using Recovery = RecoveryStatus;
constexpr auto kRecoveryRows = std::to_array<Row<Recovery>>({
    {{"source", kFact, kNone, "nothing: the store is new; memory; disk: snapshot and log."},
     &Recovery::source},
    {{"entries", kFact, kNone, "Entries after the start."}, &Recovery::entries},
    {{"records", kFact, kNone, "Changes of the log that were applied."}, &Recovery::records},
    {{"torn_position", kFact, kNone, "Where the log's torn end was cut; 0: nowhere."},
     &Recovery::torn_position},
    {{"took_ns", kFact, kNanoseconds, "How long the start took."}, &Recovery::took_ns},
});

using Connection = ConnectionState;
constexpr auto kConnectionRows = std::to_array<Row<Connection>>({
    {{"place", kFact, kNone, "A number, used again when the connection has ended."}, &Connection::place},
    {{"transport", kFact, kNone, "shm, tcp or rdma."}, &Connection::transport},
    {{"peer", kFact, kNone, "process 1234, user 1000; 10.0.0.7:40122."}, &Connection::peer},
    {{"reason", kFact, kNone, "Why this transport, as far as the node can tell."}, &Connection::reason},
    {{"age_ns", kFact, kNanoseconds, "Since it was opened."}, &Connection::age_ns},
    {{"idle_ns", kNow, kNanoseconds, "Since its last call."}, &Connection::idle_ns},
    {{"calls", kTotal, kNone, "Calls that came."}, &Connection::calls},
    {{"received_bytes", kTotal, kBytes, "In whole messages."}, &Connection::received_bytes},
    {{"sent_bytes", kTotal, kBytes, "Likewise."}, &Connection::sent_bytes},
    {{"in_flight", kNow, kNone, "Calls without an answer yet."}, &Connection::in_flight},
    {{"waiting_replies", kNow, kNone, "Answers that found the channel full."}, &Connection::waiting_replies},
});

template <typename State>
std::string table_of(std::string_view title) {
  std::string out =
      fmt::format("\n**{}**\n\n| name | kind | unit | what |\n| --- | --- | --- | --- |\n", title);
  for (const Row<State>& row : rows<State>()) out += line_of(row.metric);
  return out;
}

template <typename State>
void add_rows(State& sum, const State& one) {
  for (const Row<State>& row : rows<State>()) {
    const auto* const member = std::get_if<uint64_t State::*>(&row.member);
    if (member == nullptr || row.metric.kind == kFact) continue;
    uint64_t& total = sum.**member;
    const uint64_t more = one.**member;
    total = row.metric.kind == kLargest ? std::max(total, more) : total + more;
  }
}

}  // namespace

template <>
std::span<const Row<Shard>> rows() noexcept {
  return kShardRows;
}
template <>
std::span<const Row<Memory>> rows() noexcept {
  return kMemoryRows;
}
template <>
std::span<const Row<Entries>> rows() noexcept {
  return kEntriesRows;
}
template <>
std::span<const Row<Data>> rows() noexcept {
  return kDataRows;
}
template <>
std::span<const Row<Log>> rows() noexcept {
  return kLogRows;
}
template <>
std::span<const Row<Snapshot>> rows() noexcept {
  return kSnapshotRows;
}
template <>
std::span<const Row<Recovery>> rows() noexcept {
  return kRecoveryRows;
}
template <>
std::span<const Row<Connection>> rows() noexcept {
  return kConnectionRows;
}

void add(MemoryState& sum, const MemoryState& one) {
  add_rows(sum, one);
}

void add(EntriesState& sum, const EntriesState& one) {
  add_rows(sum, one);
}

std::string metrics_page() {
  std::string out = table_of<Shard>("shard");
  out += table_of<Memory>("memory");
  out += table_of<Entries>("entries");
  out += table_of<Data>("data");
  out += table_of<Log>("data.log");
  out += table_of<Snapshot>("data.snapshots");
  out += table_of<Recovery>("data.recovery");
  out += table_of<Connection>("connections, each");
  out += "\n**counters**\n\n| name | kind | unit | what |\n| --- | --- | --- | --- |\n";
  for (const Metric& metric : counters()) out += line_of(metric);
  return out + "\n";
}

}  // namespace refract::observe
