// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/numbered/session_records.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "refract/base/check.h"
#include "refract/runtime/fault.h"

namespace refract::kv {
namespace {

constexpr uint64_t kBlockBytes = sizeof(SessionBlock);

// Where a number is looked for first: those of one client follow each other, and spread evenly.
size_t first_in(size_t index_size, uint64_t number) noexcept {
  constexpr uint64_t kGolden = 0x9e37'79b9'7f4a'7c15;
  return number * kGolden >> (64 - std::countr_zero(index_size));
}

size_t behind(size_t i, const std::vector<uint16_t>& index) noexcept {
  return (i + 1) & (index.size() - 1);
}

}  // namespace

SessionRecords::SessionRecords(Writer& writer, Heap& heap, const Clock& clock)
    : writer_(writer), heap_(heap), clock_(clock) {}

// --- Sessions ---

Result<NumberedSession*> SessionRecords::begin(uint64_t connection, const SecretDigest& secret) {
  if (of(connection) != nullptr) return fail(Code::kInvalidArgument);
  (void)drop_ended();
  if (ended_ >= ended_max_ && ended_ > 0) return fail(Code::kOverloaded);
  // Where the node is full: without a session its client cannot erase anything.
  const std::optional<Offset> block = heap_.allocate_from_reserve(kBlockBytes);
  if (!block) return fail(Code::kNoSpace);
  auto session = std::make_unique<NumberedSession>();
  session->id_ = heap_.next_stamp();
  session->secret_ = secret;
  session->connection_ = connection;
  const SessionHead head{.stamp = 0,
                         .kind = SessionHead::kSession,
                         .next_block = 0,
                         .next_session = writer_.load(kSessionsAt),
                         .id = session->id_,
                         .secret = secret,
                         .reserved = 0};
  // A reader that was led here long ago finds out by the first word, before anything else changes.
  writer_.withdraw(*block);
  writer_.zero(*block, kBlockBytes);
  writer_.copy(*block, std::as_bytes(std::span(&head, 1)));
  REFRACT_FAULT("kv.numbered.before_session");
  writer_.publish(kSessionsAt, block->value);
  add_places(*session, *block);
  by_connection_[connection] = session.get();
  sessions_.insert(sessions_.begin(), std::move(session));
  return sessions_.front().get();
}

NumberedSession* SessionRecords::session_of_id(uint64_t id) const noexcept {
  const auto found = std::ranges::find(sessions_, id, [](const auto& session) { return session->id_; });
  return found == sessions_.end() ? nullptr : found->get();
}

Result<SessionRecords::Resumed> SessionRecords::resume(uint64_t id, const SecretDigest& secret,
                                                       uint64_t connection) {
  (void)drop_ended();
  NumberedSession* const session = session_of_id(id);
  // All of it is compared, wherever it differs.
  const bool is_its =
      session != nullptr && ((session->secret_[0] ^ secret[0]) | (session->secret_[1] ^ secret[1])) == 0;
  if (!is_its) return fail(Code::kInvalidated);
  const NumberedSession* const other = of(connection);
  if (other != nullptr && other != session) return fail(Code::kInvalidArgument);
  const uint64_t before = std::exchange(session->connection_, connection);
  if (before == connection) return Resumed{.session = session};
  if (before == 0) {
    --ended_;
  } else {
    by_connection_.erase(before);
  }
  by_connection_[connection] = session;
  return Resumed{.session = session, .connection_before = before};
}

NumberedSession* SessionRecords::of(uint64_t connection) const noexcept {
  const auto found = by_connection_.find(connection);
  return found == by_connection_.end() ? nullptr : found->second;
}

void SessionRecords::end(uint64_t connection) {
  const auto found = by_connection_.find(connection);
  if (found == by_connection_.end()) return;
  found->second->connection_ = 0;
  found->second->ended_ns_ = clock_.now_ns();
  ++ended_;
  by_connection_.erase(found);
}

// First out of the list, then its memory.
void SessionRecords::unlink(size_t which) {
  const Offset link = which == 0
                          ? kSessionsAt
                          : sessions_[which - 1]->blocks_.front().plus(offsetof(SessionHead, next_session));
  const NumberedSession& session = *sessions_[which];
  writer_.publish(link, writer_.view<SessionHead>(session.blocks_.front()).next_session);
  REFRACT_FAULT("kv.numbered.unlinked_session");
  for (const Offset block : session.blocks_) heap_.release(block, kBlockBytes);
}

size_t SessionRecords::drop_ended() {
  if (ended_ == 0) [[likely]]
    return 0;
  const uint64_t now_ns = clock_.now_ns();
  size_t dropped = 0;
  for (size_t which = sessions_.size(); which-- > 0;) {
    const NumberedSession& session = *sessions_[which];
    if (session.connection_ != 0 || now_ns - session.ended_ns_ < kKept_ns) continue;
    unlink(which);
    sessions_.erase(sessions_.begin() + static_cast<ptrdiff_t>(which));
    ++dropped;
  }
  ended_ -= dropped;
  return dropped;
}

uint64_t SessionRecords::next_drop_ns() const noexcept {
  uint64_t first_ns = kForever_ns;
  for (const auto& session : sessions_) {
    if (session->connection_ == 0) first_ns = std::min(first_ns, session->ended_ns_ + kKept_ns);
  }
  return first_ns;
}

// --- Records ---

Offset SessionRecords::at(const NumberedSession& session, uint16_t place) const noexcept {
  const Offset block = session.blocks_[place / kRecordsPerBlock];
  return block.plus(offsetof(SessionBlock, records) + place % kRecordsPerBlock * sizeof(SessionRecord));
}

uint64_t SessionRecords::number_at(const NumberedSession& session, uint16_t place) const noexcept {
  return RecordName{writer_.load(at(session, place))}.number();
}

std::optional<uint16_t> SessionRecords::look_up(const NumberedSession& session,
                                                uint64_t number) const noexcept {
  const std::vector<uint16_t>& index = session.index_;
  for (size_t i = first_in(index.size(), number);; i = behind(i, index)) {
    if (index[i] == kPlaceUnknown) return std::nullopt;
    if (number_at(session, index[i]) == number) return index[i];
  }
}

void SessionRecords::note(NumberedSession& session, uint64_t number, uint16_t place) const {
  std::vector<uint16_t>& index = session.index_;
  size_t i = first_in(index.size(), number);
  while (index[i] != kPlaceUnknown) i = behind(i, index);
  index[i] = place;
}

// Those that stand behind it because of it come forward. REQUIRES: its number is still there.
void SessionRecords::forget(NumberedSession& session, uint16_t place) const {
  std::vector<uint16_t>& index = session.index_;
  const size_t mask = index.size() - 1;
  size_t hole = first_in(index.size(), number_at(session, place));
  while (index[hole] != place) hole = behind(hole, index);
  for (size_t i = behind(hole, index); index[i] != kPlaceUnknown; i = behind(i, index)) {
    const size_t first = first_in(index.size(), number_at(session, index[i]));
    if (((i - first) & mask) < ((i - hole) & mask)) continue;
    index[hole] = index[i];
    hole = i;
  }
  index[hole] = kPlaceUnknown;
}

void SessionRecords::grow_index(NumberedSession& session) const {
  const size_t places = session.blocks_.size() * kRecordsPerBlock;
  const size_t size = std::bit_ceil(2 * places);
  if (session.index_.size() >= size) return;
  const std::vector<uint16_t> before = std::exchange(session.index_, std::vector(size, kPlaceUnknown));
  for (const uint16_t place : before) {
    if (place != kPlaceUnknown) note(session, number_at(session, place), place);
  }
}

// The lowest is taken first.
void SessionRecords::add_places(NumberedSession& session, Offset block) const {
  const uint64_t first = session.blocks_.size() * kRecordsPerBlock;
  session.blocks_.push_back(block);
  grow_index(session);
  session.free_.reserve(session.blocks_.size() * kRecordsPerBlock);
  for (uint64_t i = kRecordsPerBlock; i-- > 0;) session.free_.push_back(static_cast<uint16_t>(first + i));
}

std::optional<NumberedOutcome> SessionRecords::find(const NumberedSession& session, uint64_t number) const {
  const std::optional<uint16_t> place = look_up(session, number);
  if (!place) return std::nullopt;
  const auto& record = writer_.view<SessionRecord>(at(session, *place));
  return NumberedOutcome{.code = static_cast<Code>(RecordName{record.name}.code()),
                         .is_told_again = true,
                         .answer_bytes = RecordState{record.state}.answer_bytes(),
                         .place = *place,
                         .version = record.stamp,
                         .answer = record.answer};
}

bool SessionRecords::acknowledge(NumberedSession& session, uint64_t number, uint16_t place) {
  if (number == 0) return false;
  if (place == kPlaceUnknown) {
    const std::optional<uint16_t> found = look_up(session, number);
    if (!found) return false;
    place = *found;
  }
  if (place >= session.blocks_.size() * kRecordsPerBlock || number_at(session, place) != number) return false;
  give_back(session, place);
  return true;
}

void SessionRecords::give_back(NumberedSession& session, uint16_t place) {
  forget(session, place);
  writer_.publish(at(session, place), 0);
  session.free_.push_back(place);
}

// Behind the last one, so that places stay what they are.
bool SessionRecords::has_room(NumberedSession& session) {
  if (!session.free_.empty()) [[likely]]
    return true;
  if (session.blocks_.size() == kBlocksPerSession) return false;
  const std::optional<Offset> block = heap_.allocate(kBlockBytes);
  if (!block) return false;
  writer_.withdraw(*block);
  writer_.zero(*block, kBlockBytes);
  writer_.publish(block->plus(offsetof(SessionHead, kind)), SessionHead::kFurther);
  REFRACT_FAULT("kv.numbered.before_block");
  writer_.publish(session.blocks_.back().plus(offsetof(SessionHead, next_block)), block->value);
  add_places(session, *block);
  return true;
}

SessionRecords::Counts SessionRecords::counts() const noexcept {
  Counts counts{.sessions = sessions_.size(), .ended = ended_};
  for (const auto& session : sessions_) {
    counts.blocks += session->blocks();
    counts.records += session->records();
  }
  return counts;
}

// The number comes last: without the words that follow it would be believed with those of an earlier record.
uint16_t SessionRecords::write(NumberedSession& session, const NewRecord& record) {
  REFRACT_DCHECK(!session.free_.empty() && record.answer.size() <= sizeof(SessionRecord::answer));
  const uint16_t place = session.free_.back();
  session.free_.pop_back();
  const Offset at = this->at(session, place);
  const auto open =
      RecordState::open(record.word_at, record.word, static_cast<uint8_t>(record.answer.size()));
  SessionRecord bytes{.name = 0,
                      .state = (record.word_at ? open : open.marked()).bits,
                      .stamp = record.stamp,
                      .before = record.before,
                      .answer = {}};
  std::ranges::copy(record.answer, bytes.answer.begin());
  writer_.copy(at.plus(offsetof(SessionRecord, state)),
               std::as_bytes(std::span(&bytes, 1)).subspan(offsetof(SessionRecord, state)));
  REFRACT_FAULT("kv.numbered.before_number");
  writer_.publish(at, RecordName::of(record.number, record.code).bits);
  note(session, record.number, place);
  return place;
}

void SessionRecords::mark(const NumberedSession& session, uint16_t place) {
  const Offset state_at = at(session, place).plus(offsetof(SessionRecord, state));
  writer_.publish(state_at, RecordState{writer_.load(state_at)}.marked().bits);
}

}  // namespace refract::kv
