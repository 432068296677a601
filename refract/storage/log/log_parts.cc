// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/log/log_parts.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace refract::storage {

namespace {

using Pair = std::array<uint64_t, 2>;  // Place, number.

}  // namespace

void DecidedNumbers::add(uint64_t place, uint64_t number) {
  if (is_over_nodes(place)) {
    afar_.insert({place, number});
    return;
  }
  uint64_t& known = numbers_[place];
  known = std::max(known, number);
}

void DecidedNumbers::each(const std::function<void(uint64_t place, uint64_t number)>& visit) const {
  for (const auto& [place, number] : numbers_) visit(place, number);
  for (const auto& [place, number] : afar_) visit(place, number);
}

void DecidedNumbers::add(const DecidedNumbers& others) {
  others.each([this](uint64_t place, uint64_t number) { add(place, number); });
}

bool DecidedNumbers::has(uint64_t place, uint64_t number) const noexcept {
  const auto found = numbers_.find(place);
  return found != numbers_.end() && found->second == number;
}

std::vector<std::vector<std::byte>> DecidedNumbers::to_blocks(size_t bytes_max) const {
  std::vector<std::vector<std::byte>> blocks;
  each([&](uint64_t place, uint64_t number) {
    if (blocks.empty() || blocks.back().size() + sizeof(Pair) > bytes_max) blocks.emplace_back();
    const Pair pair = {place, number};
    std::ranges::copy(std::as_bytes(std::span(pair)), std::back_inserter(blocks.back()));
  });
  return blocks;
}

bool DecidedNumbers::add_block(std::span<const std::byte> payload) {
  if (payload.empty() || payload.size() % sizeof(Pair) != 0) return false;
  for (; !payload.empty(); payload = payload.subspan(sizeof(Pair))) {
    Pair pair;
    std::memcpy(&pair, payload.data(), sizeof(pair));
    if (pair[0] == 0) return false;
    add(pair[0], pair[1]);
  }
  return true;
}

namespace {

std::vector<std::vector<std::byte>> cut(std::span<const std::byte> bytes, size_t bytes_max) {
  std::vector<std::vector<std::byte>> pieces;
  for (; !bytes.empty(); bytes = bytes.subspan(pieces.back().size())) {
    const std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), bytes_max));
    pieces.emplace_back(piece.begin(), piece.end());
  }
  return pieces;
}

}  // namespace

void PreparedStream::add(uint64_t place, uint64_t number, std::span<const Record> changes) {
  const size_t begin = bytes_.size();
  bytes_.resize(begin + group_bytes(changes));
  const GroupPlace group{.position = begin,
                         .number = changes.front().stamp - 1,
                         .role = {.kind = RecordKind::kPrepared, .place = place, .number = number}};
  encode_group(group, changes, 0, bytes_.data() + begin);
}

std::vector<std::vector<std::byte>> PreparedStream::to_blocks(size_t bytes_max) const {
  return cut(bytes_, bytes_max);
}

bool PreparedStream::add_block(std::span<const std::byte> payload,
                               const std::function<void(const Record& group)>& take) {
  bytes_.insert(bytes_.end(), payload.begin(), payload.end());
  size_t taken = 0;
  RecordFault fault = RecordFault::kNone;
  while (fault == RecordFault::kNone && taken < bytes_.size()) {
    Record record;
    fault = decode_record(std::span(bytes_).subspan(taken), position_ + taken, 0, record);
    if (fault != RecordFault::kNone) break;
    if (record.kind != RecordKind::kPrepared) return false;
    take(record);
    taken += stored_bytes(record.form, 0, record.value_bytes);
  }
  position_ += taken;
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(taken));
  return fault == RecordFault::kNone || fault == RecordFault::kEnd;
}

bool LogParts::load(uint64_t block_kind, std::span<const std::byte> payload) {
  if (block_kind == kSnapshotDecided) {
    DecidedNumbers numbers;
    if (!numbers.add_block(payload)) return false;
    numbers.each([this](uint64_t place, uint64_t number) { note_decided({place, number}); });
    return true;
  }
  return prepared_.add_block(payload, [this](const Record& group) { take(group); });
}

void LogParts::make_all(const Record& group) const {
  GroupReader changes(group);
  while (const auto change = changes.next()) {
    if (change->kind != RecordKind::kMark) make_(*change);
  }
}

// The home's own shards know it by another place than those of other nodes.
void LogParts::note_decided(const Name& name) {
  decided_.add(place_at_home(name.first), name.second);
  if (is_over_nodes(name.first)) decided_afar_.insert(name);
}

void LogParts::take(const Record& record) {
  const std::pair name(record.client, record.sequence);
  if (record.kind == RecordKind::kDecided) {
    note_decided(name);
    make_all(record);
  } else if (record.kind == RecordKind::kPrepared) {
    Open& open = open_[name];
    open.changes.assign(record.value.begin(), record.value.end());
    open.group = record;
    open.group.value = open.changes;
  } else if (const auto found = open_.find(name); found != open_.end()) {
    if (record.has_happened) make_all(found->second.group);
    open_.erase(found);
  } else {
    decided_afar_.erase(name);
  }
}

bool LogParts::has_open() const noexcept {
  return std::ranges::any_of(open_, [](const auto& one) { return !is_over_nodes(one.first.first); });
}

std::vector<LogParts::Settled> LogParts::settle(const DecidedNumbers& of_all_shards) {
  std::vector<Settled> settled;
  for (const auto& [name, open] : open_) {
    if (is_over_nodes(name.first)) continue;
    const bool has_happened = of_all_shards.has(name.first, name.second);
    if (has_happened) make_all(open.group);
    settled.push_back({.name = {.kind = RecordKind::kSettled, .place = name.first, .number = name.second},
                       .has_happened = has_happened});
  }
  std::erase_if(open_, [](const auto& one) { return !is_over_nodes(one.first.first); });
  return settled;
}

}  // namespace refract::storage
