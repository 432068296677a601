// SPDX-License-Identifier: Apache-2.0
// PRISM-KV's region: slots that lead to items, probed one behind the other
// (refract/kv/designs/prism/layout.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>

#include "apps/inspect/decoder.h"
#include "apps/inspect/region_bytes.h"
#include "apps/records/shown_text.h"

#include "refract/kv/designs/prism/layout.h"

namespace refract::inspect {
namespace {

using kv::prism_kv::ItemHeader;
using kv::prism_kv::kListsMax;
using kv::prism_kv::kProbesMax;
using kv::prism_kv::Root;
using Slot = kv::prism_kv::Slot;

constexpr uint64_t kValueBytesShown = 1024;

class PrismKvLook {
 public:
  explicit PrismKvLook(const Region& region) : bytes_(region.bytes), root_(bytes_.copy<Root>(0)) {}

  // Empty: the root can be followed.
  [[nodiscard]] std::string fault_of_root() const {
    if (root_.magic != Root::kMagic) return "the magic is another";
    if (!std::has_single_bit(root_.slot_count) || root_.slots % 8 != 0 ||
        root_.slot_count > bytes_.size() / sizeof(Slot) ||
        !bytes_.has(root_.slots, root_.slot_count * sizeof(Slot))) {
      return "the slots do not lie in the region";
    }
    if (root_.list_count == 0 || root_.list_count > kListsMax) return "there cannot be so many free lists";
    return {};
  }

  Part summary() const {
    Part part{.kind = "prism-kv", .heading = "a store of PRISM-KV"};
    uint64_t used = 0;
    uint64_t tombstones = 0;
    for (uint64_t index = 0; index < root_.slot_count; ++index) {
      const Slot slot = slot_of(index);
      if (slot.pointer == 0) continue;
      ++used;
      const std::string fault = fault_of(slot);
      if (!fault.empty()) {
        part.damage(kv::prism_kv::slot_at(root_, index), fmt::format("slot {}: {}", index, fault));
        if (part.damages.size() == kDamagesMax) break;
      } else if (item_of(slot).value_bytes == ItemHeader::kTombstone) {
        ++tombstones;
      }
    }
    part.offset("slots_at", root_.slots).number("slots", root_.slot_count).number("slots_used", used);
    part.number("tombstones", tombstones);
    part.number("key_bytes_max", root_.key_bytes_max).number("value_bytes_max", root_.value_bytes_max);
    const auto lists = std::span(root_.buffer_bytes).first(root_.list_count);
    part.fields.push_back({"buffers_of_lists", fmt::format("{} B", fmt::join(lists, ", ")), lists});
    part.picture =
        occupancy_rows(root_.slot_count, [this](uint64_t index) { return slot_of(index).pointer != 0; });
    return part;
  }

  Part slot_part(uint64_t index, bool with_item) const {
    Part part{.kind = "slot"};
    const uint64_t at = kv::prism_kv::slot_at(root_, index);
    const Slot slot = slot_of(index);
    part.heading = fmt::format("slot {} at {:#x}", index & (root_.slot_count - 1), at);
    part.hidden("offset", at);
    if (slot.pointer == 0) {
      part.heading += ": never used";
      return part;
    }
    const uint64_t item_at = RemotePointer{slot.pointer}.offset();
    part.heading += fmt::format("  -> {:#x}, bound {}, generation {}", item_at, slot.bound, slot.generation);
    part.hidden("item_at", item_at).hidden("bound", slot.bound);
    part.hidden("generation", slot.generation);
    if (const std::string fault = fault_of(slot); !fault.empty()) return part.damage(at, fault);
    const ItemHeader item = item_of(slot);
    const bool is_tombstone = item.value_bytes == ItemHeader::kTombstone;
    const std::vector<std::byte> key = bytes_.copy(item_at + sizeof(ItemHeader), item.key_bytes);
    part.bytes("key", key).flag("erased", is_tombstone);
    if (is_tombstone) return part;
    part.number("value_bytes", item.value_bytes);
    if (!with_item) return part;
    part.bytes(item.value_bytes > kValueBytesShown ? "value_start" : "value",
               bytes_.copy(item_at + sizeof(ItemHeader) + item.key_bytes,
                           std::min<uint64_t>(item.value_bytes, kValueBytesShown)));
    part.picture =
        records::hex_lines(bytes_.copy(item_at, std::min<uint64_t>(item.item_bytes(), 128)), item_at);
    return part;
  }

  Part key(const std::string& key, bool& found) const {
    Part part{.kind = "key", .heading = fmt::format("key {}", records::in_quotes(key))};
    const uint64_t home = kv::prism_kv::home_of(std::as_bytes(std::span(key)), root_);
    part.number("home", home);
    found = false;
    for (uint64_t probe = 0; probe < std::min(kProbesMax, root_.slot_count) && !found; ++probe) {
      const Slot slot = slot_of(home + probe);
      part.parts.push_back(slot_part(home + probe, false));
      if (slot.pointer == 0) break;
      if (!fault_of(slot).empty() || !has_key(slot, key)) continue;
      found = item_of(slot).value_bytes != ItemHeader::kTombstone;
      part.number("probes", probe + 1);
      part.parts.back() = slot_part(home + probe, true);
      break;
    }
    if (!found) part.heading += ": not found";
    return part;
  }

  Part place(const Region& region, uint64_t at) const {
    if (at >= root_.slots && at < root_.slots + root_.slot_count * sizeof(Slot)) {
      return slot_part((at - root_.slots) / sizeof(Slot), true);
    }
    for (uint64_t index = 0; index < root_.slot_count; ++index) {
      const Slot slot = slot_of(index);
      const uint64_t item_at = RemotePointer{slot.pointer}.offset();
      if (slot.pointer != 0 && fault_of(slot).empty() && at >= item_at && at - item_at < slot.bound) {
        return slot_part(index, true);
      }
    }
    Part part = raw_bytes(region.bytes, at);
    part.heading = at < sizeof(Root) ? "the root; " + part.heading : "no slot leads here; " + part.heading;
    return part;
  }

  [[nodiscard]] uint64_t slots() const noexcept { return root_.slot_count; }

 private:
  static constexpr size_t kDamagesMax = 100;

  [[nodiscard]] Slot slot_of(uint64_t index) const noexcept {
    return bytes_.copy<Slot>(kv::prism_kv::slot_at(root_, index));
  }
  [[nodiscard]] ItemHeader item_of(const Slot& slot) const noexcept {
    return bytes_.copy<ItemHeader>(RemotePointer{slot.pointer}.offset());
  }
  [[nodiscard]] std::string fault_of(const Slot& slot) const {
    const uint64_t at = RemotePointer{slot.pointer}.offset();
    if (slot.bound < sizeof(ItemHeader) || !bytes_.has(at, slot.bound)) return "it leads outside the region";
    const ItemHeader item = item_of(slot);
    if (item.key_bytes == 0 || item.item_bytes() > slot.bound) return "the item's lengths are not its slot's";
    return {};
  }
  [[nodiscard]] bool has_key(const Slot& slot, const std::string& key) const {
    const ItemHeader item = item_of(slot);
    if (item.key_bytes != key.size()) return false;
    const auto bytes = bytes_.copy(RemotePointer{slot.pointer}.offset() + sizeof(ItemHeader), item.key_bytes);
    return std::ranges::equal(bytes, std::as_bytes(std::span(key)));
  }

  RegionBytes bytes_;
  Root root_;
};

}  // namespace

bool is_prism_kv(std::span<const std::byte> region) {
  return region.size() >= sizeof(Root) && RegionBytes(region).copy<uint64_t>(0) == Root::kMagic;
}

Part decode_prism_kv(const Region& region, const Question& question, bool& found) {
  found = true;
  const PrismKvLook look(region);
  if (const std::string fault = look.fault_of_root(); !fault.empty()) {
    Part part = raw_bytes(region.bytes, question.at.value_or(0));
    part.heading = "a store of PRISM-KV whose root is damaged; " + part.heading;
    return part.damage(0, fault);
  }
  if (question.key) return look.key(*question.key, found);
  if (question.at) return look.place(region, *question.at);
  if (!question.bucket) return look.summary();
  if (*question.bucket < look.slots()) return look.slot_part(*question.bucket, true);
  Part part{.kind = "slot", .heading = fmt::format("there is no slot {}", *question.bucket)};
  return part.damage(0, fmt::format("the store has {} slots", look.slots()));
}

}  // namespace refract::inspect
