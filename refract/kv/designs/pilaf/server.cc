// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/designs/pilaf/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/units.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv::pilaf {

namespace {

using Bytes = std::span<const std::byte>;

// The paper's: beyond it a larger table is made. At 75 % a look-up reads 1.6 entries on average.
[[nodiscard]] constexpr uint64_t entries_for(uint64_t keys) noexcept {
  return std::max<uint64_t>(16, (keys * 4 + 2) / 3);
}
[[nodiscard]] constexpr bool is_full(uint64_t keys, uint64_t entries) noexcept {
  return keys * 4 > entries * 3;
}

[[nodiscard]] constexpr uint64_t table_bytes(uint64_t entries) noexcept {
  return round_up(sizeof(Root) + entries * sizeof(Entry), kBlobGranuleBytes);
}

[[nodiscard]] uint64_t first_entries(const designs::Capacity& capacity) noexcept {
  return entries_for(capacity.keys_at_start == 0 ? capacity.keys_max
                                                 : std::min(capacity.keys_at_start, capacity.keys_max));
}

// Where the last table ends when each is twice as large as the one before it.
[[nodiscard]] uint64_t end_of_tables(const designs::Capacity& capacity) noexcept {
  uint64_t entries = first_entries(capacity);
  uint64_t end = kRootAt + table_bytes(entries);
  while (entries < entries_for(capacity.keys_max)) {
    entries *= 2;
    end += table_bytes(entries);
  }
  return end;
}

[[nodiscard]] uint64_t blob_bytes_max(const designs::Capacity& capacity) noexcept {
  return sizeof(BlobHeader) + capacity.key_bytes_max + capacity.value_bytes_max;
}

}  // namespace

uint64_t memory_bytes(const designs::Capacity& capacity) {
  const uint64_t blob = round_up(blob_bytes_max(capacity), kBlobGranuleBytes);
  // An eighth for what best fit leaves unused.
  return end_of_tables(capacity) + (capacity.keys_max + capacity.keys_max / 8 + capacity.spare_values) * blob;
}

Table::Table(std::span<std::byte> memory, const designs::Capacity& capacity, uint64_t hash_seed,
             StoreLog* log)
    : writer_(memory.data(), log),
      capacity_(capacity),
      memory_bytes_(memory.size()),
      tables_end_(end_of_tables(capacity)) {
  REFRACT_CHECK(memory.size() >= memory_bytes(capacity));
  root_.hash_seed = hash_seed;
  use_table(next_table_at_, first_entries(capacity));
  blobs_.release({.start = {tables_end_}, .bytes = blob_area_bytes()});
}

// An empty table, with which root_ continues. Its entries are complete before its root is.
void Table::use_table(uint64_t at, uint64_t entry_count) {
  next_table_at_ = at + table_bytes(entry_count);
  root_at_ = at;
  root_.state = Root::kMagic;
  root_.entries = at + sizeof(Root);
  root_.entry_count = entry_count;
  root_.moves = 0;
  root_.blob_bytes_max = blob_bytes_max(capacity_);
  for (uint64_t index = 0; index < entry_count; ++index) store_entry(entry_at(index), {});
  store_root({at}, root_);
}

void Table::store_root(Offset at, Root& root) {
  root.crc = crc_of(root);
  uint64_t words[sizeof(Root) / 8];
  std::memcpy(words, &root, sizeof(root));
  for (size_t i = 0; i < std::size(words); ++i) {
    if (writer_.load(at.plus(8 * i)) != words[i]) writer_.publish(at.plus(8 * i), words[i]);
  }
}

// In any order: until the last word is there the CRC is wrong, but for one chance in 2^64.
void Table::store_entry(Offset at, Entry entry) {
  entry.sequence = ++sequence_;
  entry.crc = crc_of(entry);
  uint64_t words[sizeof(Entry) / 8];
  std::memcpy(words, &entry, sizeof(entry));
  for (size_t i = 0; i < std::size(words); ++i) writer_.publish(at.plus(8 * i), words[i]);
}

Entry Table::entry(uint64_t index) const noexcept {
  return writer_.view<Entry>(entry_at(index));
}

Bytes Table::key_in(const Entry& entry) const noexcept {
  const auto& header = writer_.view<BlobHeader>({entry.blob});
  return {writer_.at({entry.blob + sizeof(BlobHeader)}), header.key_bytes};
}

std::optional<uint64_t> Table::find(Bytes key) const noexcept {
  for (const uint64_t index : places_of(key, root_).index) {
    const Entry there = entry(index);
    if (there.state == Entry::kUsed && std::ranges::equal(key_in(there), key)) return index;
  }
  return std::nullopt;
}

std::optional<Offset> Table::store_blob(Bytes key, Bytes value) {
  const BlobHeader header{.key_bytes = static_cast<uint32_t>(key.size()),
                          .value_bytes = static_cast<uint32_t>(value.size())};
  const uint64_t bytes = sizeof(header) + key.size() + value.size();
  const uint64_t granules_bytes = round_up(bytes, kBlobGranuleBytes);
  const std::optional<Offset> at = blobs_.take(granules_bytes);
  if (!at) return at;
  blob_bytes_used_ += granules_bytes;
  scratch_.resize(bytes);
  std::memcpy(scratch_.data(), &header, sizeof(header));
  std::ranges::copy(key, scratch_.begin() + sizeof(header));
  std::ranges::copy(value, scratch_.begin() + static_cast<ptrdiff_t>(sizeof(header) + key.size()));
  writer_.copy(*at, scratch_);
  return at;
}

void Table::free_blob(const Entry& entry) {
  const uint64_t bytes = round_up(entry.blob_bytes, kBlobGranuleBytes);
  blob_bytes_used_ -= bytes;
  blobs_.release({.start = {entry.blob}, .bytes = bytes});
}

Result<> Table::put(Bytes key, Bytes value) {
  if (key.empty()) return fail(Code::kInvalidArgument);
  if (key.size() > capacity_.key_bytes_max || value.size() > capacity_.value_bytes_max) {
    return fail(Code::kTooLarge);
  }
  const std::optional<uint64_t> present = find(key);
  const std::optional<Offset> blob = store_blob(key, value);
  if (!blob) return fail(Code::kNoSpace);
  const Entry fresh{.blob = blob->value,
                    .blob_bytes = static_cast<uint32_t>(scratch_.size()),
                    .state = Entry::kUsed,
                    .blob_crc = crc64(scratch_)};
  if (present) {
    const Entry old = entry(*present);
    store_entry(entry_at(*present), fresh);
    free_blob(old);
    return {};
  }
  if (is_full(keys_ + 1, root_.entry_count)) (void)grow();
  std::optional<uint64_t> place = make_room(key);
  if (!place && grow()) place = make_room(key);
  if (!place) {
    free_blob(fresh);
    return fail(Code::kNoSpace);
  }
  store_entry(entry_at(*place), fresh);
  ++keys_;
  return {};
}

Result<> Table::erase(Bytes key) {
  const std::optional<uint64_t> present = find(key);
  if (!present) return fail(Code::kNotFound);
  const Entry old = entry(*present);
  store_entry(entry_at(*present), {});
  free_blob(old);
  --keys_;
  return {};
}

// A place of the key's own that is free, perhaps after others have moved: the shortest way there, found
// breadth first.
std::optional<uint64_t> Table::make_room(Bytes key) {
  std::vector<Hop> hops;
  for (const uint64_t index : places_of(key, root_).index) {
    if (entry(index).state == Entry::kFree) return index;
    hops.push_back({.index = index, .from = kNoHop});
  }
  for (size_t next = 0; next < hops.size() && hops.size() < kHopsMax; ++next) {
    const Bytes standing = key_in(entry(hops[next].index));
    for (const uint64_t index : places_of(standing, root_).index) {
      if (std::ranges::find(hops, index, &Hop::index) != hops.end()) continue;
      hops.push_back({.index = index, .from = next});
      if (entry(index).state == Entry::kFree) return move_along(hops, hops.size() - 1);
    }
  }
  return std::nullopt;
}

// Every entry on the way moves one place on, the last one first, so that each stands in two places before it
// leaves one. A reader that missed it in both learns from the root that something moved.
uint64_t Table::move_along(const std::vector<Hop>& hops, size_t last) {
  size_t to = last;
  while (hops[to].from != kNoHop) {
    const size_t from = hops[to].from;
    store_entry(entry_at(hops[to].index), entry(hops[from].index));
    ++root_.moves;
    ++moved_;
    store_root({root_at_}, root_);
    to = from;
  }
  return hops[to].index;
}

// Everything moves into a table of twice the size. Nothing else is changed before each old entry says that it
// counts no longer: until then what it says is true.
bool Table::grow() {
  const uint64_t old_at = root_at_;
  Root old = root_;
  if (!may_grow_ || next_table_at_ + table_bytes(2 * old.entry_count) > tables_end_) return false;
  const uint64_t old_moves = moved_;
  use_table(next_table_at_, 2 * old.entry_count);
  for (uint64_t index = 0; index < old.entry_count; ++index) {
    const auto moving = writer_.view<Entry>({old.entries + index * sizeof(Entry)});
    if (moving.state != Entry::kUsed) continue;
    const std::optional<uint64_t> place = make_room(key_in(moving));
    if (!place) {
      // Keys that were chosen to collide. No client knows of the new table, so the old one stays in use.
      may_grow_ = false;
      root_at_ = old_at;
      root_ = old;
      return false;
    }
    store_entry(entry_at(*place), moving);
  }
  moved_ = old_moves;
  old.state = Root::kMovedMagic;
  store_root({old_at}, old);
  for (uint64_t index = 0; index < old.entry_count; ++index) {
    store_entry({old.entries + index * sizeof(Entry)}, {.state = Entry::kMoved});
  }
  return true;
}

std::optional<std::string> Table::contradiction() const {
  const auto& root = writer_.view<Root>({root_at_});
  if (!verifies(root) || std::memcmp(&root, &root_, sizeof(root)) != 0) return "the root is another";
  uint64_t keys = 0;
  uint64_t used = 0;
  for (uint64_t index = 0; index < root_.entry_count; ++index) {
    const Entry there = entry(index);
    if (!verifies(there)) return fmt::format("entry {} does not verify", index);
    if (there.state == Entry::kFree) continue;
    if (there.state != Entry::kUsed) return fmt::format("entry {} has moved", index);
    if (there.blob < tables_end_ || there.blob + there.blob_bytes > memory_bytes_) {
      return fmt::format("entry {} names a blob outside", index);
    }
    if (crc64({writer_.at({there.blob}), there.blob_bytes}) != there.blob_crc) {
      return fmt::format("the blob of entry {} does not verify", index);
    }
    if (find(key_in(there)) != index) return fmt::format("the key of entry {} is not found there", index);
    ++keys;
    used += round_up(there.blob_bytes, kBlobGranuleBytes);
  }
  if (keys != keys_) return fmt::format("{} keys are there, not {}", keys, keys_);
  if (used != blob_bytes_used_ || used + blobs_.free_bytes() != blob_area_bytes()) {
    return fmt::format("{} bytes of blobs are used and {} free", used, blobs_.free_bytes());
  }
  return std::nullopt;
}

PilafServer::PilafServer(const designs::ServerParts& parts, RemoteKey key)
    : table_(parts.memory, parts.capacity, parts.hash_seed, parts.log),
      key_(key),
      region_(parts.region),
      memory_bytes_(parts.memory.size()) {}

void PilafServer::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  for (const rpc::IncomingCall& call : calls) {
    switch (call.header.method) {
      case kMethodAttach:
        attach(call.from);
        break;
      case kMethodPut:
      case kMethodErase:
        server_->reply(call.from, change(call));
        break;
      default:
        server_->reply(call.from, Code::kUnsupported);
    }
  }
}

void PilafServer::attach(const rpc::Responder& to) noexcept {
  const AttachReply reply{
      .key = key_.bits, .root = table_.root_at(), .bytes = memory_bytes_, .region = region_, .reserved = {}};
  server_->reply(to, Code::kOk, std::as_bytes(std::span(&reply, 1)));
}

Code PilafServer::change(const rpc::IncomingCall& call) {
  BlobHeader header{};
  if (call.payload.size() < sizeof(header)) return Code::kMalformed;
  body_.resize(call.payload.size());
  copy_possibly_torn(body_.data(), call.payload.data(), body_.size());
  std::memcpy(&header, body_.data(), sizeof(header));
  const bool is_put = call.header.method == kMethodPut;
  if (uint64_t{header.key_bytes} + header.value_bytes != body_.size() - sizeof(header) ||
      (!is_put && header.value_bytes != 0)) {
    return Code::kMalformed;
  }
  const Bytes key = Bytes(body_).subspan(sizeof(header), header.key_bytes);
  if (!is_put) return table_.erase(key).code();
  return table_.put(key, Bytes(body_).subspan(sizeof(header) + header.key_bytes)).code();
}

Reported<std::unique_ptr<designs::Server>> make_server(const designs::ServerParts& parts) {
  const Reported<RemoteKey> key = parts.domain.register_region({.region = parts.region,
                                                                .base = parts.memory.data(),
                                                                .bytes = parts.memory.size(),
                                                                .rights = {.read = true}});
  if (!key) return report(key.error());
  return std::make_unique<PilafServer>(parts, *key);
}

}  // namespace refract::kv::pilaf
