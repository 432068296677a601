// SPDX-License-Identifier: Apache-2.0
// What a restart finds of sessions: docs/design/077-numbered-writes.md, section 4. At most one record of a
// shard is open, and only the word that it names can have been stored since: marks stand in front of all else
// that happens to the table.
#include <memory>
#include <utility>

#include "refract/kv/owner/numbered/session_records.h"

namespace refract::kv {

// Marking a block twice fails: so a list that is a ring is found.
bool SessionRecords::adopt_block(NumberedSession& session, Offset at, uint64_t kind) {
  if (session.blocks_.size() == kBlocksPerSession) return false;
  if (!heap_.mark_live(at, sizeof(SessionBlock))) return false;
  const auto& head = writer_.view<SessionHead>(at);
  if (head.stamp != 0 || head.kind != kind) return false;
  const uint64_t first = session.blocks_.size() * kRecordsPerBlock;
  session.blocks_.push_back(at);
  grow_index(session);
  // From behind, so that the lowest is taken first.
  for (uint64_t i = kRecordsPerBlock; i-- > 0;) {
    const auto place = static_cast<uint16_t>(first + i);
    if (!adopt_record(session, place)) return false;
  }
  return true;
}

bool SessionRecords::adopt_record(NumberedSession& session, uint16_t place) {
  const auto& record = writer_.view<SessionRecord>(at(session, place));
  const RecordName name{record.name};
  if (name.bits == 0) {
    session.free_.push_back(place);
    return true;
  }
  const RecordState state{record.state};
  if (name.number() == 0 || !state.is_sound() || look_up(session, name.number())) return false;
  note(session, name.number(), place);
  return state.is_marked() || adopt_open(session, place);
}

// The one that is open: its word is compared, so it must be one.
bool SessionRecords::adopt_open(NumberedSession& session, uint16_t place) {
  const auto& record = writer_.view<SessionRecord>(at(session, place));
  const RecordState state{record.state};
  const Offset word_at = state.word_at();
  if (state.word() == RecordState::Word::kSlot) {
    const Offset chunk{word_at.value / kChunkBytes * kChunkBytes};
    const bool is_in_line =
        heap_.is_chunk_of(chunk, ChunkKind::kBuckets) || heap_.is_chunk_of(chunk, ChunkKind::kLines);
    const bool is_slot =
        word_at.value % sizeof(Slot) == 0 && word_at.value % kLineBytes / sizeof(Slot) != kOverflowWord;
    if (!is_in_line || !is_slot) return false;
  } else if (word_at != kDecisionAt) {
    return false;
  }
  if (open_ || record.stamp == 0) return false;
  open_ = Open{
      .session = &session, .place = place, .state = state, .stamp = record.stamp, .before = record.before};
  return true;
}

bool SessionRecords::adopt_session(Offset at) {
  auto session = std::make_unique<NumberedSession>();
  if (!adopt_block(*session, at, SessionHead::kSession)) return false;
  const auto& head = writer_.view<SessionHead>(at);
  session->id_ = head.id;
  session->secret_ = head.secret;
  session->ended_ns_ = clock_.now_ns();
  if (head.id == 0 || session_of_id(head.id) != nullptr) return false;
  Offset next{head.next_block};
  for (; next; next = {writer_.view<SessionHead>(next).next_block}) {
    if (!adopt_block(*session, next, SessionHead::kFurther)) return false;
  }
  sessions_.push_back(std::move(session));
  return true;
}

Code SessionRecords::mark_live() {
  sessions_.clear();
  by_connection_.clear();
  open_.reset();
  Offset next{writer_.load(kSessionsAt)};
  for (; next; next = {writer_.view<SessionHead>(next).next_session}) {
    if (!adopt_session(next)) return Code::kCorrupt;
  }
  ended_ = sessions_.size();
  return Code::kOk;
}

// What it does is done again by the next recovery, or was done.
void SessionRecords::settle_open(uint64_t logged_stamp) {
  if (!open_) [[likely]]
    return;
  if (writer_.load(open_->state.word_at()) != open_->before) return mark_open();
  // A batch whose group is in the log has its decision by now (BatchRest).
  if (logged_stamp == open_->stamp && open_->state.word() == RecordState::Word::kSlot) return;
  give_back(*open_->session, open_->place);
  open_.reset();
}

void SessionRecords::mark_open() {
  if (!open_) [[likely]]
    return;
  mark(*open_->session, open_->place);
  open_.reset();
}

}  // namespace refract::kv
