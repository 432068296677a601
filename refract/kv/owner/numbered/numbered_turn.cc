// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/numbered/numbered_turn.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>

#include "refract/kv/functions/functions.h"
#include "refract/kv/owner/table/table_store.h"
#include "refract/runtime/fault.h"

namespace refract::kv {

using functions::Effect;

static_assert(functions::kAnswerBytesMax == sizeof(SessionRecord::answer));

namespace {

// Making room for the new value may take away the old one, whose plan has another length; then all is tried
// again.
constexpr int kTriesForRoom = 4;

NumberedOutcome refused(Code code, uint64_t wanted_bytes = 0) noexcept {
  return {.code = code, .wanted_bytes = wanted_bytes};
}

}  // namespace

// What is there, and what the operation makes of it.
struct Table::NumberedTurn::Look {
  TablePlace place;
  functions::Before before;
  uint64_t now_wall_ns = 0;  // 0: it does not matter.
  functions::Plan plan;
};

// One operation, behind what is refused at once.
class Table::NumberedTurn::Change {
 public:
  Change(NumberedTurn& turn, NumberedSession* session, const NumberedOperation& operation,
         const TableKey& key)
      : turn_(turn), table_(turn.table_), session_(session), operation_(operation), key_(key) {}

  [[nodiscard]] NumberedOutcome run() {
    look_ = turn_.look(operation_, key_);
    for (int attempt = 0; attempt < kTriesForRoom; ++attempt) {
      if (look_.plan.effect == Effect::kNone) return conclude();
      if (const Code code = room_in_log(); code != Code::kOk) return refused(code);
      if (look_.plan.effect == Effect::kErase) return erase();
      if (is_commit()) return store(operation_.draft);
      const uint64_t removed_before = table_.stats_.removed();
      const Result<Draft> made = take_buffer();
      if (!made) return refused(made.error().code, lengths().total_bytes());
      if (table_.stats_.removed() == removed_before) [[likely]]
        return store(*made);
      // What is there may be another, and so the value, its length, and the log's room.
      look_ = turn_.look(operation_, key_);
      if (is_fit(*made)) return store({.buffer = made->buffer, .lengths = lengths(), .hash = key_.hash});
      table_.abandon(*made);
    }
    return refused(Code::kOverloaded);
  }

 private:
  [[nodiscard]] bool is_commit() const noexcept {
    return operation_.kind == NumberedOperation::Kind::kCommit;
  }
  [[nodiscard]] Lengths lengths() const noexcept { return turn_.lengths_for(key_, look_.plan); }
  [[nodiscard]] Code room_in_log() const noexcept {
    const bool is_erasure = look_.plan.effect == Effect::kErase;
    return table_.room_in_log(key_.bytes.size(), is_erasure ? 0 : look_.plan.value_bytes);
  }
  // Given back one day by the length of what is in it, so that it has to be of that class.
  [[nodiscard]] bool is_fit(const Draft& made) const noexcept {
    return look_.plan.effect == Effect::kValue && room_in_log() == Code::kOk &&
           Heap::footprint(lengths().total_bytes()) == Heap::footprint(made.lengths.total_bytes());
  }

  // Nothing is written there before it is known that it fits.
  [[nodiscard]] Result<Draft> take_buffer() {
    Draft made{.buffer = {}, .lengths = lengths(), .hash = key_.hash};
    const uint64_t bytes = made.lengths.total_bytes();
    if (const auto buffer = table_.heap_.allocate(bytes)) [[likely]] {
      made.buffer = *buffer;
      return made;
    }
    const Result<Offset> buffer = table_.make_room(bytes, key_, {});
    if (!buffer) return fail(buffer.error());
    made.buffer = *buffer;
    return made;
  }

  // --- What changes nothing ---

  // Repeated behind a younger write it might succeed: so it has a record, too.
  [[nodiscard]] NumberedOutcome conclude() {
    const bool makes_no_sense = look_.plan.code == Code::kInvalidArgument && look_.plan.answer_bytes == 0;
    const uint16_t place = makes_no_sense ? kPlaceUnknown : write_record({}, 0);
    if (is_commit()) table_.abandon(operation_.draft);
    return outcome(place, 0);
  }

  // --- What changes something: from here on nothing fails but the line ---

  [[nodiscard]] NumberedOutcome store(const Draft& draft) {
    if (!look_.place.slot_at && !table_.link_line(look_.place, key_.hash)) {
      if (!is_commit()) table_.abandon(draft);
      return refused(Code::kNoSpace);
    }
    fill(draft);
    const uint64_t stamp = table_.heap_.next_stamp();
    table_.writer_.publish(draft.buffer, stamp);
    const uint16_t place = write_record(look_.place.slot_at, stamp);
    REFRACT_FAULT("kv.numbered.before_log");
    if (table_.log_ != nullptr) [[unlikely]]
      table_.tell_log(draft.buffer, stamp);
    table_.store(draft, look_.place, stamp, [&] { mark(place); });
    return outcome(place, stamp);
  }

  [[nodiscard]] NumberedOutcome erase() {
    const TablePlace& at = look_.place;
    const uint64_t stamp = table_.heap_.next_stamp();
    const uint16_t place = write_record(at.slot_at, stamp);
    REFRACT_FAULT("kv.numbered.before_log");
    if (table_.log_ != nullptr) [[unlikely]] {
      table_.logged_stamp_ = stamp;
      table_.log_->append({.kind = ChangeLog::Kind::kErase, .stamp = stamp, .key = key_.bytes});
    }
    table_.remove(at.slot_at, at.slot, [&] { mark(place); });
    table_.trim(bucket_index(key_.hash, table_.count_));
    return outcome(place, stamp);
  }

  void fill(const Draft& draft) {
    Writer& writer = table_.writer_;
    const Offset expiry_at = draft.buffer.plus(kExpiryAt);
    const bool expires = (draft.lengths.flags & Lengths::kExpires) != 0;
    if (is_commit()) {
      if (expires && operation_.expires_wall_ns != 0) writer.publish(expiry_at, operation_.expires_wall_ns);
      return;
    }
    // (I2): no stamp while the bytes change.
    writer.withdraw(draft.buffer);
    writer.publish(draft.buffer.plus(offsetof(BufferHeader, lengths)), draft.lengths.word());
    if (expires) writer.publish(expiry_at, look_.plan.expires_wall_ns);
    writer.copy(draft.buffer.plus(draft.lengths.key_at()), key_.bytes);
    if (operation_.kind == NumberedOperation::Kind::kPut) return table_.fill(draft, 0, operation_.value);
    turn_.made_.resize(look_.plan.value_bytes);
    functions::fill(operation_.function, look_.plan, operation_.value, look_.before, turn_.made_);
    table_.fill(draft, 0, turn_.made_);
  }

  // --- Its record ---

  [[nodiscard]] std::span<const std::byte> answer() const noexcept {
    return std::span(look_.plan.answer).first(look_.plan.answer_bytes);
  }
  [[nodiscard]] uint16_t write_record(Offset word_at, uint64_t stamp) {
    if (operation_.number == 0) return kPlaceUnknown;
    return table_.sessions_->write(*session_, {.number = operation_.number,
                                               .code = look_.plan.code,
                                               .answer = answer(),
                                               .stamp = stamp,
                                               .word_at = word_at,
                                               .before = word_at ? look_.place.slot.bits : 0});
  }
  // In front of all else that happens to the table: another change, or a split, could bring the old word
  // back.
  void mark(uint16_t place) {
    if (place != kPlaceUnknown) table_.sessions_->mark(*session_, place);
  }
  [[nodiscard]] NumberedOutcome outcome(uint16_t place, uint64_t stamp) const noexcept {
    return {.code = look_.plan.code,
            .answer_bytes = look_.plan.answer_bytes,
            .place = place,
            .version = stamp,
            .answer = look_.plan.answer};
  }

  NumberedTurn& turn_;
  Table& table_;
  NumberedSession* const session_;
  const NumberedOperation& operation_;
  const TableKey key_;
  Look look_;
};

TableKey Table::NumberedTurn::key_of(const NumberedOperation& operation) const noexcept {
  if (operation.kind != NumberedOperation::Kind::kCommit) return operation.key;
  const Draft& draft = operation.draft;
  return {.bytes = {table_.writer_.at(draft.buffer.plus(draft.lengths.key_at())), draft.lengths.key_bytes},
          .hash = draft.hash};
}

Table::NumberedTurn::Look Table::NumberedTurn::look(const NumberedOperation& operation,
                                                    const TableKey& key) const {
  Look look{.place = table_.locate(key), .before = {}, .now_wall_ns = 0, .plan = {}};
  const Slot slot = look.place.slot;
  const bool is_function = operation.kind == NumberedOperation::Kind::kFunction;
  if (is_function || slot.expires()) look.now_wall_ns = table_.clock_.wall_ns();
  const uint64_t expires_wall_ns = table_.expiry_of(slot);
  const bool is_over = expires_wall_ns != 0 && look.now_wall_ns >= expires_wall_ns;
  if (slot && !is_over) {
    const Lengths lengths = table_.lengths_of(slot);
    look.before = {.is_there = true,
                   .value = {table_.writer_.at(slot.buffer().plus(lengths.value_at())), lengths.value_bytes},
                   .expires_wall_ns = expires_wall_ns};
  }
  plan(operation, look);
  return look;
}

Code Table::NumberedTurn::condition(const NumberedOperation& operation, const Look& look) const noexcept {
  const bool is_there = look.before.is_there;
  if (operation.if_absent && is_there) return Code::kExists;
  if ((operation.if_present || operation.if_version != 0) && !is_there) return Code::kNotFound;
  if (operation.if_version == 0) return Code::kOk;
  const uint64_t version = table_.writer_.load(look.place.slot.buffer());
  return version == operation.if_version ? Code::kOk : Code::kVersionMismatch;
}

void Table::NumberedTurn::plan(const NumberedOperation& operation, Look& look) const {
  using Kind = NumberedOperation::Kind;
  functions::Plan& plan = look.plan;
  switch (operation.kind) {
    case Kind::kFunction:
      plan = functions::plan(operation.function, operation.value, look.before, look.now_wall_ns);
      if (plan.effect == Effect::kValue && plan.value_bytes > kCopiedBytesMax)
        plan = {.code = Code::kTooLarge};
      break;
    case Kind::kErase: {
      plan.code = look.before.is_there ? condition(operation, look) : Code::kNotFound;
      if (plan.code != Code::kOk) break;
      const uint64_t version = table_.writer_.load(look.place.slot.buffer());
      std::memcpy(plan.answer.data(), &version, sizeof(version));
      plan.answer_bytes = sizeof(version);
      plan.effect = Effect::kErase;
      break;
    }
    case Kind::kPut:
    case Kind::kCommit:
    case Kind::kCondition:
      plan.code = condition(operation, look);
      if (plan.code != Code::kOk || operation.kind == Kind::kCondition) break;
      plan.effect = Effect::kValue;
      plan.value_bytes =
          operation.kind == Kind::kPut ? operation.value.size() : operation.draft.lengths.value_bytes;
      plan.expires_wall_ns = operation.keeps_expiry ? look.before.expires_wall_ns : operation.expires_wall_ns;
      break;
  }
}

Lengths Table::NumberedTurn::lengths_for(const TableKey& key, const functions::Plan& plan) const noexcept {
  return {.value_bytes = static_cast<uint32_t>(plan.value_bytes),
          .key_bytes = static_cast<uint16_t>(key.bytes.size()),
          .flags = plan.expires_wall_ns != 0 ? Lengths::kExpires : uint16_t{0}};
}

NumberedOutcome Table::NumberedTurn::execute(NumberedSession* session, const NumberedOperation& operation) {
  if (operation.number != 0) {
    if (const auto told = table_.sessions_->find(*session, operation.number)) return *told;
  }
  const TableKey key = key_of(operation);
  // First: what is settled for it takes room in the log.
  if (table_.is_held(key.hash)) return refused(Code::kOverloaded);
  if (operation.number != 0 && !table_.sessions_->has_room(*session)) return refused(Code::kOverloaded);
  return Change(*this, session, operation, key).run();
}

NumberedOutcome Table::NumberedTurn::refuse(NumberedSession& session, uint64_t number, Code code) {
  SessionRecords& sessions = *table_.sessions_;
  if (const auto told = sessions.find(session, number)) return *told;
  if (!sessions.has_room(session)) return refused(Code::kOverloaded);
  const uint16_t place =
      sessions.write(session, {.number = number, .code = code, .answer = {}, .word_at = {}});
  return {.code = code, .place = place};
}

}  // namespace refract::kv
