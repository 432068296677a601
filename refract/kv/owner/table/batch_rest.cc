// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/table/batch_rest.h"

#include <algorithm>

#include "refract/kv/owner/parts/parts.h"
#include "refract/runtime/fault.h"

namespace refract::kv {

Trailer Table::BatchRest::trailer_of(Slot slot) const noexcept {
  const Writer& writer = table_.writer_;
  const Offset at = slot.buffer().plus(table_.lengths_of(slot).trailer_at());
  return {.number = writer.load(at.plus(offsetof(Trailer, number))),
          .generation = writer.load(at.plus(offsetof(Trailer, generation))),
          .decision_at = writer.load(at.plus(offsetof(Trailer, decision_at))),
          .replaced = writer.load(at.plus(offsetof(Trailer, replaced)))};
}

bool Table::BatchRest::is_of_its_word(const Trailer& trailer, uint64_t stamp) const noexcept {
  const DecisionPlace place{trailer.decision_at};
  if ((trailer.generation != 0) != place.is_far()) return false;
  if (place.is_far()) return table_.parts_ != nullptr;
  if (place.is_word()) return table_.parts_ != nullptr && table_.parts_->decisions_.is_sound(place);
  const Decision decided{table_.writer_.load(kDecisionAt)};
  const bool is_of_last = decided.commits(trailer.number) || decided.number() < trailer.number;
  return place.bits == kDecisionAt.value && is_of_last && trailer.number < stamp;
}

bool Table::BatchRest::is_sound(Slot slot) const noexcept {
  const Writer& writer = table_.writer_;
  const Trailer trailer = trailer_of(slot);
  if (!is_of_its_word(trailer, writer.load(slot.buffer()))) return false;
  const std::span<const std::byte> key = table_.key_of(slot);
  if (table_.locate(table_.hashed(key)).slot.bits != slot.bits) return false;
  const Slot old{trailer.replaced};
  if (!old) return true;
  if (!table_.heap_.is_inside(old.buffer(), sizeof(BufferHeader))) return false;
  const Lengths lengths = table_.lengths_of(old);
  if (!old.names(writer.load(old.buffer())) || !lengths.is_sound() || lengths.is_pending()) return false;
  if (!table_.heap_.is_inside(old.buffer(), lengths.total_bytes())) return false;
  const bool has_expiry = (lengths.flags & Lengths::kExpires) != 0;
  return has_expiry == old.expires() && std::ranges::equal(table_.key_of(old), key);
}

Slot Table::BatchRest::outcome(Slot slot) const noexcept {
  if (!own_has_happened_) return {trailer_of(slot).replaced};
  return (table_.lengths_of(slot).flags & Lengths::kTombstone) != 0 ? Slot{} : slot;
}

std::optional<bool> Table::BatchRest::is_logged(const std::vector<Slot>& pending) const {
  if (last_ == nullptr || last_->kind != ChangeLog::Kind::kGroup) return false;
  const auto is_in_group = [this](Slot slot) {
    return std::ranges::binary_search(last_->group, table_.writer_.load(slot.buffer()));
  };
  const auto count = static_cast<size_t>(std::ranges::count_if(pending, is_in_group));
  if (count == 0) return false;
  // Undecided, so that none of them is applied.
  const bool is_all = count == pending.size() && count == last_->group.size();
  return is_all ? std::optional(true) : std::nullopt;
}

std::optional<bool> Table::BatchRest::own_outcome(const std::vector<Slot>& own) const {
  if (own.empty()) return false;
  const uint64_t number = trailer_of(own.front()).number;
  for (const Slot slot : own) {
    if (trailer_of(slot).number != number) return std::nullopt;
  }
  if (Decision{table_.writer_.load(kDecisionAt)}.commits(number)) return true;
  return is_logged(own);
}

// Of a transaction over several shards: undecided or not, both of its buffers stay for now.
bool Table::BatchRest::keep(Slot slot) {
  const Slot replaced{trailer_of(slot).replaced};
  if (replaced && !table_.count_live(replaced)) return false;
  return table_.heap_.mark_live(slot.buffer(), table_.lengths_of(slot).total_bytes());
}

Code Table::BatchRest::settle() {
  std::vector<Slot>& pending = table_.pending_;
  if (pending.empty()) [[likely]]
    return Code::kOk;
  if (!std::ranges::all_of(pending, [this](Slot slot) { return is_sound(slot); })) return Code::kCorrupt;
  const auto is_of_part = [this](Slot slot) { return DecisionPlace{trailer_of(slot).decision_at}.is_word(); };
  const auto parts = std::ranges::partition(pending, is_of_part);
  const std::vector<Slot> own(parts.begin(), parts.end());
  const std::optional<bool> own_outcome = this->own_outcome(own);
  if (!own_outcome) return Code::kCorrupt;
  own_has_happened_ = *own_outcome;
  pending.erase(parts.begin(), parts.end());
  if (!std::ranges::all_of(pending, [this](Slot slot) { return keep(slot); })) return Code::kCorrupt;
  for (const Slot slot : own) {
    const Slot stays = outcome(slot);
    if (stays && !table_.count_live(stays)) return Code::kCorrupt;
  }
  settle_own(own);
  return Code::kOk;
}

void Table::BatchRest::settle_own(const std::vector<Slot>& own) {
  Writer& writer = table_.writer_;
  if (own_has_happened_) {
    const uint64_t decided = Decision::committed(trailer_of(own.front()).number).bits;
    if (writer.load(kDecisionAt) != decided) writer.publish(kDecisionAt, decided);
  }
  for (const Slot slot : own) {
    const Slot stays = outcome(slot);
    const Offset at = table_.locate(table_.hashed(table_.key_of(slot))).slot_at;
    REFRACT_FAULT("kv.batch.before_settled");
    if (stays.bits == slot.bits) {
      writer.publish(slot.buffer().plus(offsetof(BufferHeader, lengths)),
                     table_.lengths_of(slot).applied().word());
    } else {
      writer.publish(at, stays.bits);
    }
  }
}

}  // namespace refract::kv
