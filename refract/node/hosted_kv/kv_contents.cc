// SPDX-License-Identifier: Apache-2.0
#include "refract/node/hosted_kv/kv_contents.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "refract/base/units.h"
#include "refract/kv/layout/layout.h"
#include "refract/memory/space.h"

namespace refract::node {
namespace {

constexpr size_t kChangesMax = 512;
constexpr size_t kBytesMax = 4 * kMiB;

}  // namespace

KvFilling::KvFilling(kv::Table& table, Heap& heap, const Grow& grow, kv::Table::Parts* parts)
    : table_(table),
      heap_(heap),
      grow_(grow),
      transaction_parts_(parts),
      replay_(table, heap),
      loader_(std::make_unique<kv::SnapshotLoader>(replay_)),
      parts_([this](const storage::Record& change) { replay_change(change); }) {
  changes_.reserve(kChangesMax);
  bytes_.reserve(kBytesMax);
}

// Where the heap has no room for the buckets now, the table grows with the entries, which takes longer.
void KvFilling::expect(uint64_t entries) {
  const uint64_t bytes = kv::Table::bucket_bytes_for(entries);
  if (heap_.stats().bytes_free < bytes) (void)grow_(bytes);
  replay_.expect(entries);
}

Code KvFilling::load(const storage::SnapshotReader::Block& block) {
  if (storage::LogParts::concerns(block.kind)) {
    return parts_.load(block.kind, block.payload) ? Code::kOk : Code::kMalformed;
  }
  Result<> loaded = loader_->load({.kind = static_cast<kv::SnapshotBlockKind>(block.kind),
                                   .entries = block.entries,
                                   .bytes = block.payload});
  while (loaded.code() == Code::kNoSpace && more_memory()) loaded = loader_->resume();
  return loaded.code();
}

// What does not fit is not known: more each time, while nothing else has gone in meanwhile.
bool KvFilling::more_memory() {
  const uint64_t changes = replay_.stats().changes;
  wanted_ = changes == changes_before_ ? std::min(4 * wanted_, kv::kValueBytesMax) : kMiB;
  changes_before_ = changes;
  return grow_(wanted_);
}

void KvFilling::replay(const storage::Record& record) {
  if (storage::LogParts::concerns(record)) return parts_.take(record);
  replay_change(record);
}

std::vector<storage::LogParts::Settled> KvFilling::settle(const storage::DecidedNumbers& of_all_shards) {
  is_settled_ = true;
  return parts_.settle(of_all_shards);
}

// What other nodes decide is held again, and what they may ask for is known again.
Code KvFilling::restore_open() {
  if (transaction_parts_ == nullptr) return Code::kOk;
  for (const auto& [name, open] : parts_.open_afar()) {
    if (const Code code = restore_part(name, open); code != Code::kOk) return code;
  }
  for (const auto& [place, number] : parts_.decided_afar()) {
    const kv::TransactionName name{.place = {place}, .number = number};
    Code code = transaction_parts_->restore_decision(name);
    if (code == Code::kNoSpace && grow_(kMiB)) code = transaction_parts_->restore_decision(name);
    if (code != Code::kOk) return code;
  }
  return Code::kOk;
}

Code KvFilling::restore_part(const storage::LogParts::Name& name, const storage::LogParts::Open& open) {
  kv::Table::Parts::Restored part{.name = {.place = {name.first}, .number = name.second}, .changes = {}};
  storage::GroupReader changes(open.group);
  uint64_t bytes = 0;
  while (const auto change = changes.next()) {
    part.changes.push_back(change_of(*change));
    bytes += change->key.size() + change->value.size() + kChunkBytes;
  }
  Code code = transaction_parts_->restore(part);
  while (code == Code::kNoSpace && grow_(bytes)) code = transaction_parts_->restore(part);
  return code;
}

void KvFilling::replay_change(const storage::Record& record) {
  if (full_) return;
  kv::ChangeLog::Change change = change_of(record);
  const uint64_t bytes = change.key.size() + change.value.size();
  if (changes_.size() == kChangesMax || bytes > kBytesMax - bytes_.size()) (void)flush();
  if (bytes > kBytesMax) {
    apply({&change, 1});
    return;
  }
  change.key = keep(change.key);
  change.value = keep(change.value);
  changes_.push_back(change);
}

Code KvFilling::flush() {
  apply(changes_);
  changes_.clear();
  bytes_.clear();
  if (full_) return Code::kNoSpace;
  return std::exchange(is_settled_, false) ? restore_open() : Code::kOk;
}

// Within the capacity, so that no span moves.
std::span<const std::byte> KvFilling::keep(std::span<const std::byte> bytes) {
  const size_t at = bytes_.size();
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return std::span(bytes_).subspan(at);
}

void KvFilling::apply(std::span<const kv::ChangeLog::Change> changes) {
  while (!changes.empty() && !full_) {
    changes = changes.subspan(replay_.apply(changes));
    if (!changes.empty()) full_ = !grow_(changes.front().key.size() + changes.front().value.size());
  }
}

uint64_t KvFilling::finish(uint64_t known_stamp) {
  replay_.know_stamp(known_stamp);
  return replay_.finish();
}

KvSnapshot::KvSnapshot(const Parts& parts, Options options)
    : options_(std::move(options)),
      of_parts_(blocks_of(parts)),
      feed_(parts.table, parts.heap, parts.writer, parts.clock, feed_options(parts)),
      // The space may grow meanwhile, and never beyond this.
      memory_(parts.writer.base(), parts.writer.view<SpaceHeader>({0}).chunks_max * kChunkBytes, nullptr),
      run_(memory_, feed_, *this, options_.clock,
           {.bytes_per_second = options_.bytes_per_second, .wait = options_.wait}) {}

std::optional<Code> KvSnapshot::run(const std::atomic<bool>* is_relieved) {
  for (; !of_parts_.empty(); of_parts_.pop_front()) {
    const PartsBlock& block = of_parts_.front();
    const Code code = options_.write({.kind = block.kind, .payload = block.payload});
    if (code != Code::kOk) {
      feed_.give_up(code);
      return code;
    }
  }
  return run_.run(is_relieved);
}

std::deque<KvSnapshot::PartsBlock> KvSnapshot::blocks_of(const Parts& parts) {
  std::deque<PartsBlock> blocks;
  for (std::vector<std::byte>& payload : parts.decided.to_blocks(storage::kSnapshotPayloadMax)) {
    blocks.push_back({.kind = storage::kSnapshotDecided, .payload = std::move(payload)});
  }
  if (parts.prepared == nullptr) return blocks;
  storage::PreparedStream stream;
  for (const kv::Table::Parts::Prepared& one : parts.prepared->prepared()) {
    std::vector<storage::Record> changes;
    changes.reserve(one.changes.size());
    std::ranges::transform(one.changes, std::back_inserter(changes), record_of);
    stream.add(one.name.place.bits, one.name.number, changes);
  }
  for (std::vector<std::byte>& payload : stream.to_blocks(storage::kSnapshotPayloadMax)) {
    blocks.push_back({.kind = storage::kSnapshotPrepared, .payload = std::move(payload)});
  }
  return blocks;
}

kv::SnapshotFeed::Options KvSnapshot::feed_options(const Parts& parts) {
  kv::SnapshotFeed::Options options{.has_parts = parts.prepared != nullptr};
  if (parts.prepared == nullptr) return options;
  for (const kv::Table::Parts::Prepared& one : parts.prepared->prepared()) {
    for (const kv::ChangeLog::Change& change : one.changes) options.pending.push_back(change.stamp);
  }
  std::ranges::sort(options.pending);
  return options;
}

storage::SnapshotFacts KvSnapshot::facts() const noexcept {
  const kv::SnapshotFeed::Moment& moment = feed_.moment();
  return {.shard_index = moment.shard_index,
          .shard_count = moment.shard_count,
          .copies = moment.copies,
          .placement = moment.placement,
          .hash_seed = moment.hash_seed,
          .stamp = moment.stamp,
          .wall_ns = moment.wall_ns,
          .entries_max = moment.entries};
}

StoreSnapshot::Progress KvSnapshot::progress() const noexcept {
  const kv::SnapshotRun::Progress now = run_.progress();
  return {.entries = now.entries, .bytes = now.bytes};
}

Code KvSnapshot::write(const kv::SnapshotBlock& block) {
  return options_.write(
      {.kind = static_cast<uint64_t>(block.kind), .entries = block.entries, .payload = block.bytes});
}

std::optional<std::span<const std::byte>> value_in_table(const Writer& writer,
                                                         const storage::Record& record) noexcept {
  const Offset buffer{record.reference};
  const uint64_t space_end = writer.view<SpaceHeader>({0}).chunks_max * kChunkBytes;
  if (buffer.value == 0 || buffer.value % sizeof(uint64_t) != 0 || buffer.value >= space_end) return {};
  if (writer.load(buffer) != record.stamp) return {};
  const kv::Lengths lengths =
      kv::Lengths::from_word(writer.load(buffer.plus(offsetof(kv::BufferHeader, lengths))));
  if (!lengths.is_sound() || lengths.value_bytes != record.value_bytes) return {};
  return std::span(writer.at(buffer.plus(lengths.value_at())), lengths.value_bytes);
}

}  // namespace refract::node
