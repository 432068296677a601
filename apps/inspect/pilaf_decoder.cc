// SPDX-License-Identifier: Apache-2.0
// Pilaf's region: roots, entries and blobs that verify themselves (refract/kv/designs/pilaf/layout.h).
#include <fmt/format.h>

#include "apps/inspect/decoder.h"
#include "apps/inspect/region_bytes.h"
#include "apps/records/shown_text.h"

#include "refract/base/units.h"
#include "refract/kv/designs/pilaf/layout.h"

namespace refract::inspect {
namespace {

using kv::pilaf::BlobHeader;
using kv::pilaf::Entry;
using kv::pilaf::Root;

constexpr uint64_t kValueBytesShown = 1024;
constexpr int kTablesMax = 64;  // Each is twice as large as the one before it.

class PilafLook {
 public:
  explicit PilafLook(const Region& region) : bytes_(region.bytes) {}

  // Goes from table to table, as they have moved, to the one that counts. Empty: it was found.
  [[nodiscard]] std::string follow_roots() {
    for (int tables = 0; tables < kTablesMax; ++tables) {
      root_ = bytes_.copy<Root>(root_at_);
      if (!bytes_.has(root_at_, sizeof(Root)) || !kv::pilaf::verifies(root_))
        return "the root does not verify";
      const uint64_t room = bytes_.size() / sizeof(Entry);
      if (root_.entry_count == 0 || root_.entry_count > room ||
          !bytes_.has(root_.entries, root_.entry_count * sizeof(Entry))) {
        return "the entries do not lie in the region";
      }
      if (root_.state == Root::kMagic) return {};
      if (root_.state != Root::kMovedMagic) return "the root's state is none";
      ++moved_tables_;
      root_at_ =
          round_up(root_at_ + sizeof(Root) + root_.entry_count * sizeof(Entry), kv::pilaf::kBlobGranuleBytes);
    }
    return "the tables do not end";
  }

  Part summary() const {
    Part part{.kind = "pilaf", .heading = "a store of Pilaf"};
    uint64_t used = 0;
    uint64_t blob_bytes = 0;
    for (uint64_t index = 0; index < root_.entry_count; ++index) {
      const Entry entry = entry_of(index);
      if (const std::string fault = fault_of(entry); !fault.empty()) {
        part.damage(entry_at(index), fmt::format("entry {}: {}", index, fault));
        if (part.damages.size() == kDamagesMax) break;
        continue;
      }
      if (entry.state != Entry::kUsed) continue;
      ++used;
      blob_bytes += entry.blob_bytes;
    }
    part.offset("root_at", root_at_).number("tables_before", moved_tables_);
    part.offset("entries_at", root_.entries).number("entries", root_.entry_count);
    part.number("entries_used", used).number("blob_bytes", blob_bytes).number("moves", root_.moves);
    part.picture = occupancy_rows(root_.entry_count,
                                  [this](uint64_t index) { return entry_of(index).state == Entry::kUsed; });
    return part;
  }

  Part entry_part(uint64_t index, bool with_blob) const {
    const Entry entry = entry_of(index);
    Part part{.kind = "entry", .heading = fmt::format("entry {} at {:#x}", index, entry_at(index))};
    part.hidden("offset", entry_at(index));
    if (const std::string fault = fault_of(entry); !fault.empty()) return part.damage(entry_at(index), fault);
    if (entry.state != Entry::kUsed) {
      part.heading += entry.state == Entry::kFree ? ": free" : ": moved";
      return part;
    }
    part.heading += fmt::format("  -> blob at {:#x}, {} bytes, sequence {}, both CRCs hold", entry.blob,
                                entry.blob_bytes, entry.sequence);
    part.hidden("blob_at", entry.blob).hidden("blob_bytes", entry.blob_bytes);
    const auto header = bytes_.copy<BlobHeader>(entry.blob);
    part.bytes("key", bytes_.copy(entry.blob + sizeof(BlobHeader), header.key_bytes));
    part.number("value_bytes", header.value_bytes);
    if (!with_blob) return part;
    part.bytes(header.value_bytes > kValueBytesShown ? "value_start" : "value",
               bytes_.copy(entry.blob + sizeof(BlobHeader) + header.key_bytes,
                           std::min<uint64_t>(header.value_bytes, kValueBytesShown)));
    part.picture =
        records::hex_lines(bytes_.copy(entry.blob, std::min<uint64_t>(entry.blob_bytes, 128)), entry.blob);
    return part;
  }

  Part key(const std::string& key, bool& found) const {
    Part part{.kind = "key", .heading = fmt::format("key {}", records::in_quotes(key))};
    found = false;
    for (const uint64_t index : kv::pilaf::places_of(std::as_bytes(std::span(key)), root_).index) {
      const bool is_it = has_key(entry_of(index), key);
      part.parts.push_back(entry_part(index, is_it && !found));
      found = found || is_it;
    }
    if (!found) part.heading += ": not found";
    return part;
  }

  Part place(const Region& region, uint64_t at) const {
    if (at >= root_.entries && at - root_.entries < root_.entry_count * sizeof(Entry)) {
      return entry_part((at - root_.entries) / sizeof(Entry), true);
    }
    for (uint64_t index = 0; index < root_.entry_count; ++index) {
      const Entry entry = entry_of(index);
      if (entry.state == Entry::kUsed && fault_of(entry).empty() && at >= entry.blob &&
          at - entry.blob < entry.blob_bytes) {
        return entry_part(index, true);
      }
    }
    Part part = raw_bytes(region.bytes, at);
    const bool is_root = at >= root_at_ && at < root_at_ + sizeof(Root);
    part.heading = (is_root ? "the root; " : "no entry leads here; ") + part.heading;
    return part;
  }

  [[nodiscard]] uint64_t entries() const noexcept { return root_.entry_count; }
  [[nodiscard]] uint64_t root_at() const noexcept { return root_at_; }

 private:
  static constexpr size_t kDamagesMax = 100;

  // REQUIRES: index < entry_count.
  [[nodiscard]] uint64_t entry_at(uint64_t index) const noexcept {
    return root_.entries + index * sizeof(Entry);
  }
  [[nodiscard]] Entry entry_of(uint64_t index) const noexcept { return bytes_.copy<Entry>(entry_at(index)); }

  [[nodiscard]] std::string fault_of(const Entry& entry) const {
    if (!kv::pilaf::verifies(entry)) return "the entry does not verify";
    if (entry.state != Entry::kUsed) return {};
    if (entry.blob_bytes < sizeof(BlobHeader) || !bytes_.has(entry.blob, entry.blob_bytes)) {
      return "the blob lies outside the region";
    }
    const std::vector<std::byte> blob = bytes_.copy(entry.blob, entry.blob_bytes);
    if (crc64(blob) != entry.blob_crc) return "the blob does not verify";
    const auto header = bytes_.copy<BlobHeader>(entry.blob);
    if (sizeof(BlobHeader) + uint64_t{header.key_bytes} + header.value_bytes > entry.blob_bytes) {
      return "the blob's lengths are not its entry's";
    }
    return {};
  }
  [[nodiscard]] bool has_key(const Entry& entry, const std::string& key) const {
    if (entry.state != Entry::kUsed || !fault_of(entry).empty()) return false;
    const auto header = bytes_.copy<BlobHeader>(entry.blob);
    return std::ranges::equal(bytes_.copy(entry.blob + sizeof(BlobHeader), header.key_bytes),
                              std::as_bytes(std::span(key)));
  }

  RegionBytes bytes_;
  Root root_{};
  uint64_t root_at_ = kv::pilaf::kRootAt;
  uint64_t moved_tables_ = 0;
};

}  // namespace

bool is_pilaf(std::span<const std::byte> region) {
  if (region.size() < kv::pilaf::kRootAt + sizeof(Root)) return false;
  const auto state = RegionBytes(region).copy<uint64_t>(kv::pilaf::kRootAt);
  return state == Root::kMagic || state == Root::kMovedMagic;
}

Part decode_pilaf(const Region& region, const Question& question, bool& found) {
  found = true;
  PilafLook look(region);
  if (const std::string fault = look.follow_roots(); !fault.empty()) {
    Part part = raw_bytes(region.bytes, question.at.value_or(look.root_at()));
    part.heading = "a store of Pilaf whose root is damaged; " + part.heading;
    return part.damage(look.root_at(), fault);
  }
  if (question.key) return look.key(*question.key, found);
  if (question.at) return look.place(region, *question.at);
  if (!question.bucket) return look.summary();
  if (*question.bucket < look.entries()) return look.entry_part(*question.bucket, true);
  Part part{.kind = "entry", .heading = fmt::format("there is no entry {}", *question.bucket)};
  return part.damage(look.root_at(), fmt::format("the store has {} entries", look.entries()));
}

}  // namespace refract::inspect
