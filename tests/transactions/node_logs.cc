// SPDX-License-Identifier: Apache-2.0
#include "tests/transactions/node_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "refract/base/check.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/table/replay.h"
#include "refract/memory/space.h"
#include "refract/memory/writer.h"

namespace refract::campaign {
namespace {

constexpr size_t kTellingBytes = 64;

constexpr uint64_t kSlower = 20;

uint64_t pace_of(Durability durability) noexcept {
  return durability == Durability::kAlways ? 15'000 : 60'000;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

NodeLogs::Name name_of(const storage::Record& record) {
  return {record.client, record.sequence};
}

kv::ChangeLog::Change change_of(const storage::Record& record) noexcept {
  using kv::ChangeLog;
  return {.kind = record.kind == storage::RecordKind::kPut ? ChangeLog::Kind::kPut : ChangeLog::Kind::kErase,
          .stamp = record.stamp,
          .expires_wall_ns = record.expires_wall_ns,
          .request = {.client = record.client, .sequence = record.sequence},
          .key = record.key,
          .value = record.value};
}

class NoPins final : public PinSource {
 public:
  void collect(PinSet&) noexcept override {}
};

}  // namespace

NodeLogs::NodeLogs(sim::World& world, std::span<sim::Host* const> hosts, const Options& options)
    : world_(world), options_(options), prng_(world.prng().next()), floors_(hosts.size()) {
  for (sim::Host* const host : hosts) {
    const auto shard = static_cast<uint32_t>(logs_.size());
    const bool is_always = options.durability == Durability::kAlways;
    logs_.emplace_back(world, *host,
                       MemoryLog::Options{.shards = static_cast<uint32_t>(hosts.size()),
                                          .durability = options.durability,
                                          .mutation = options.mutation,
                                          .pace_ns = pace_of(options.durability) *
                                                     (shard == options.slow_disk ? kSlower : 1),
                                          .sync_chance = is_always ? 0.6 : 0.1,
                                          .stands = [this, shard] { return stands_for(shard); }});
  }
}

std::vector<storage::LogStand> NodeLogs::stands_for(uint32_t shard) const {
  std::vector<storage::LogStand> stands;
  for (const MemoryLog& log : logs_) {
    stands.push_back(log.stand());
    if (&log == &logs_[shard]) stands.back().position = log.appended();
  }
  return stands;
}

void NodeLogs::process_died() {
  for (MemoryLog& log : logs_) log.process_died();
}

MemoryLog::Counts NodeLogs::counts() const noexcept {
  MemoryLog::Counts all;
  for (const MemoryLog& log : logs_) {
    all.records += log.counts().records;
    all.taken_back += log.counts().taken_back;
    all.lost += log.counts().lost;
    all.cut += log.counts().cut;
    all.refused += log.counts().refused;
  }
  return all;
}

NodeLogs::Names NodeLogs::decided() const {
  Names names;
  for (const MemoryLog& log : logs_) {
    for (const MemoryLog::Kept& kept : log.records()) {
      const storage::Record record = MemoryLog::read(kept);
      if (record.kind == storage::RecordKind::kDecided) names.insert(name_of(record));
    }
  }
  return names;
}

// In their order.
std::vector<NodeLogs::Change> NodeLogs::changes_of(uint32_t shard, const Names& decided) const {
  const std::deque<MemoryLog::Kept>& records = logs_[shard].records();
  std::map<Name, bool> settled;
  for (const MemoryLog::Kept& kept : records) {
    const storage::Record record = MemoryLog::read(kept);
    if (record.kind == storage::RecordKind::kSettled) settled[name_of(record)] = record.has_happened;
  }
  std::vector<Change> changes;
  std::map<std::string, uint64_t> there;
  const auto make = [&](const storage::Record& one, uint64_t moment_ns, const Name& name) {
    Change change{.shard = shard,
                  .key = text_of(one.key),
                  .stamp = one.stamp,
                  .is_erasure = one.kind == storage::RecordKind::kErase,
                  .value = text_of(one.value.first(std::min(one.value.size(), kTellingBytes))),
                  .moment_ns = moment_ns,
                  .name = name};
    uint64_t& version = there[change.key];
    change.replaced = version;
    version = change.is_erasure ? 0 : change.stamp;
    changes.push_back(std::move(change));
  };
  for (const MemoryLog::Kept& kept : records) {
    const storage::Record record = MemoryLog::read(kept);
    if (record.kind == storage::RecordKind::kSettled) continue;
    if (!storage::is_group(record.kind)) {
      make(record, kept.moment_ns, {});
      continue;
    }
    const Name name = record.kind == storage::RecordKind::kGroup ? Name() : name_of(record);
    if (record.kind == storage::RecordKind::kPrepared) {
      const auto told = settled.find(name);
      if (!(told != settled.end() ? told->second : decided.contains(name))) continue;
    }
    storage::GroupReader group(record);
    while (const auto one = group.next()) make(*one, kept.moment_ns, name);
  }
  return changes;
}

std::vector<NodeLogs::Change> NodeLogs::all_changes() const {
  const Names names = decided();
  std::vector<Change> all;
  for (uint32_t shard = 0; shard < logs_.size(); ++shard) {
    std::vector<Change> its = changes_of(shard, names);
    std::ranges::move(its, std::back_inserter(all));
  }
  return all;
}

std::string NodeLogs::compare(uint32_t shard, kv::Table& table) const {
  std::map<std::string, uint64_t> versions;
  for (const Change& change : changes_of(shard, decided())) {
    versions[change.key] = change.is_erasure ? 0 : change.stamp;
  }
  uint64_t entries = 0;
  for (const auto& [key, version] : versions) {
    const auto entry = table.find(std::as_bytes(std::span(key)));
    entries += version != 0 ? 1 : 0;
    const uint64_t found = entry ? entry->version : 0;
    if (found == version) continue;
    return fmt::format("{} has version {} in the table and {} in the log", key, found, version);
  }
  // What is pending and new is not counted.
  if (table.parts()->count() != 0 || table.stats().entries == entries) return "";
  return fmt::format("{} entries are in the table and {} in the log", table.stats().entries, entries);
}

// The ends are looked for again where a start was killed before all had their new segments.
void NodeLogs::end_together() {
  std::vector<bool> has_begun(logs_.size());
  std::optional<std::vector<uint64_t>> known;
  for (bool is_killed = true; is_killed;) {
    is_killed = prng_.chance(0.3);
    std::vector<storage::LogNeeds> needs(logs_.size());
    std::vector<uint64_t> whole;
    for (size_t shard = 0; shard < logs_.size(); ++shard) {
      const MemoryLog& log = logs_[shard];
      for (const MemoryLog::Kept& kept : log.records()) needs[shard].take(MemoryLog::read(kept));
      needs[shard].end_with(log.reading(), /*has_ring=*/false, 0);
      whole.push_back(needs[shard].end());
    }
    storage::CommonEnds common = storage::common_ends(needs);
    if (common.shard_with_loss) {
      options_.complain(fmt::format("a start misses files of shard {}", *common.shard_with_loss));
    }
    if (options_.mutation == Mutation::kCutAlone) common.ends = whole;
    std::vector<uint64_t> left;
    for (size_t shard = 0; shard < logs_.size(); ++shard) {
      const bool is_cut = common.ends[shard] < whole[shard];
      if (has_begun[shard] && is_cut) options_.complain("a start that was killed finds another end");
      left.push_back(is_cut ? common.ends[shard] : logs_[shard].reading().end.position);
      if (has_begun[shard] || (is_killed && prng_.chance(0.5))) continue;
      has_begun[shard] = true;
      if (is_cut) logs_[shard].cut_at(common.ends[shard]);
      logs_[shard].begin_again(is_cut);
    }
  }
}

void NodeLogs::complain_of_halves(const std::vector<Change>& before, const Names& decided_before,
                                  const std::set<std::pair<uint32_t, uint64_t>>& there) {
  const Names now = decided();
  std::map<Name, std::pair<size_t, size_t>> counts;  // Of changes: all, and those that are there.
  for (const Change& change : before) {
    if (change.name == Name()) continue;
    auto& [all, left] = counts[change.name];
    ++all;
    left += there.contains({change.shard, change.stamp}) ? 1 : 0;
  }
  for (const auto& [name, count] : counts) {
    const size_t wanted = now.contains(name) ? count.first : 0;
    if (!decided_before.contains(name) || count.second == wanted) continue;
    options_.complain(
        fmt::format("of transaction {:x} number {:x}, which is {}decided, {} changes of {} are left",
                    name.first, name.second, now.contains(name) ? "" : "not ", count.second, count.first));
    return;
  }
}

void NodeLogs::note_loss(const std::vector<Change>& before, const Names& decided_before, bool host_died) {
  std::set<std::pair<uint32_t, uint64_t>> there;
  for (const Change& change : all_changes()) there.emplace(change.shard, change.stamp);
  complain_of_halves(before, decided_before, there);
  Loss& loss = losses_.emplace_back(Loss{.crashed_ns = world_.now_ns(), .changes = {}});
  for (const Change& change : before) {
    if (!there.contains({change.shard, change.stamp})) loss.changes.push_back(change);
  }
  if (!host_died && !loss.changes.empty()) {
    options_.complain(fmt::format("the rings were there, and version {} of {} is lost",
                                  loss.changes.front().stamp, loss.changes.front().key));
  }
  for (const MemoryLog& log : logs_) {
    for (const MemoryLog::Kept& kept : log.records()) {
      if (MemoryLog::read(kept).kind != storage::RecordKind::kDecided) continue;
      loss.decided_ns = std::max(loss.decided_ns, kept.moment_ns);
    }
  }
}

void NodeLogs::fill(std::span<Keeper* const> keepers, bool host_died, const Clock& clock) {
  const std::vector<Change> before = all_changes();
  const Names decided_before = decided();
  if (host_died) {
    for (MemoryLog& log : logs_) log.lose_tail();
    end_together();
  }
  fill_all(keepers, clock);
  note_loss(before, decided_before, host_died);
}

// A start that is killed has told some logs how some of their transactions ended.
void NodeLogs::fill_all(std::span<Keeper* const> keepers, const Clock& clock) {
  for (MemoryLog& log : logs_) log.sync_all();
  for (bool is_killed = true; is_killed;) {
    is_killed = prng_.chance(0.2);
    std::deque<storage::LogParts> parts;
    storage::DecidedNumbers found;
    for (MemoryLog& log : logs_) {
      storage::LogParts& one = parts.emplace_back([](const storage::Record&) {});
      for (const MemoryLog::Kept& kept : log.records()) {
        const storage::Record record = MemoryLog::read(kept);
        if (storage::LogParts::concerns(record)) one.take(record);
      }
      found.add(one.decided());
    }
    if (options_.mutation == Mutation::kFillAlone) found = {};
    if (!is_killed) {
      for (uint32_t shard = 0; shard < logs_.size(); ++shard) {
        fill_shard(shard, *keepers[shard], clock, parts[shard], found);
      }
      return;
    }
    for (uint32_t shard = 0; shard < logs_.size(); ++shard) {
      for (const storage::LogParts::Settled& one : parts[shard].settle(found)) {
        if (prng_.chance(0.5)) break;
        logs_[shard].tell_settled(one.name, ++floors_[shard], one.has_happened);
      }
    }
  }
}

void NodeLogs::fill_shard(uint32_t shard, Keeper& keeper, const Clock& clock, storage::LogParts& parts,
                          const storage::DecidedNumbers& found) {
  sim::VisibleMemory& memory = keeper.memory();
  Writer writer(memory.owner(), &memory);
  NoPins pins;
  Heap heap(writer, pins);
  heap.add({0}, memory.bytes());
  kv::Table table(writer, heap, clock);
  REFRACT_CHECK(table.recover().has_value());
  kv::Replay replay(table, heap);
  const auto make = [&](const storage::Record& record) {
    const kv::ChangeLog::Change change = change_of(record);
    if (replay.apply({&change, 1}) == 1) return;
    heap.reclaim();
    if (replay.apply({&change, 1}) == 0) options_.complain("what was in the log does not fit the memory");
  };
  storage::LogParts again(make);
  for (const MemoryLog::Kept& kept : logs_[shard].records()) {
    const storage::Record record = MemoryLog::read(kept);
    if (storage::LogParts::concerns(record)) {
      again.take(record);
    } else if (record.kind == storage::RecordKind::kGroup) {
      storage::GroupReader group(record);
      while (const auto one = group.next()) make(*one);
    } else {
      make(record);
    }
  }
  (void)again.settle(found);
  replay.know_stamp(floors_[shard]);
  floors_[shard] = replay.finish() - 1;
  for (const storage::LogParts::Settled& one : parts.settle(found)) {
    ++settled_in_fills_;
    logs_[shard].tell_settled(one.name, heap.next_stamp(), one.has_happened);
  }
  logs_[shard].sync_all();
  writer.publish(Offset{offsetof(SpaceHeader, floor_stamp)}, floors_[shard]);
  writer.publish(Offset{offsetof(SpaceHeader, fill_state)}, kFillComplete);
  memory.make_visible(memory.position());
}

}  // namespace refract::campaign
