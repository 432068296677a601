// SPDX-License-Identifier: Apache-2.0
// The sessions of clients that number their writes, with a record for each write that is not acknowledged:
// docs/design/077-numbered-writes.md, section 4. They lie in the space, so that a restart knows what became
// of each number. Table has them (Table::sessions()); Table::NumberedTurn writes the records.
//
// A session is used by one connection of the server, or it has ended: then it stays for kKept_ns of this
// process's clock, for it must be able to say what has not been executed.
//
// Threads: used only by the shard that owns the space.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/kv/layout/session_records.h"
#include "refract/memory/heap.h"

namespace refract::kv {

// What became of a numbered write, as its client is told; without a number, of any operation.
struct NumberedOutcome {
  // kOverloaded: refused for now, nothing has happened. kNoSpace and kReadOnly without a place: likewise, but
  // whether that is the last word is the caller's to say (Table::NumberedTurn::refuse).
  Code code = Code::kOk;
  bool is_told_again = false;      // A record said so.
  uint8_t answer_bytes = 0;        // Of a function its answer, of an erasure the version erased (8 bytes),
  uint16_t place = kPlaceUnknown;  // of the record; unknown: there is none.
  uint64_t version = 0;            // The change's stamp; 0: nothing has changed.
  uint64_t wanted_bytes = 0;       // Of kNoSpace: for a buffer of so many.
  std::array<std::byte, 32> answer = {};
};

// One of them. It stays where it is until it is dropped.
class NumberedSession {
 public:
  [[nodiscard]] uint64_t id() const noexcept { return id_; }
  // 0: it has ended.
  [[nodiscard]] uint64_t connection() const noexcept { return connection_; }
  [[nodiscard]] size_t records() const noexcept { return blocks_.size() * kRecordsPerBlock - free_.size(); }
  [[nodiscard]] size_t blocks() const noexcept { return blocks_.size(); }

 private:
  friend class SessionRecords;
  uint64_t id_ = 0;
  SecretDigest secret_{};
  uint64_t connection_ = 0;
  uint64_t ended_ns_ = 0;
  std::vector<Offset> blocks_;   // In their order in the space.
  std::vector<uint16_t> free_;   // Places: the last is taken first.
  std::vector<uint16_t> index_;  // By the number's hash, then further on: places; kPlaceUnknown: none.
};

class SessionRecords {
 public:
  static constexpr uint64_t kKept_ns = 60 * kSecond_ns;

  // All outlive this.
  SessionRecords(Writer& writer, Heap& heap, const Clock& clock);

  // So many sessions whose connection has ended may be there before none begins: clients.max.
  void set_ended_max(size_t ended_max) noexcept { ended_max_ = ended_max; }

  // --- Sessions. A connection is any number of the caller's that is not 0. ---

  // A new session with room for 63 records, of this connection. kOverloaded: too many have ended and are
  // still kept. kNoSpace. kInvalidArgument: the connection has one.
  [[nodiscard]] Result<NumberedSession*> begin(uint64_t connection, const SecretDigest& secret);
  // The session with this id is the connection's now; whatever connection had it has none. kInvalidated: it
  // is not known, or has another secret. kInvalidArgument: the connection has another one.
  struct Resumed {
    NumberedSession* session = nullptr;
    uint64_t connection_before = 0;  // To be closed; 0: it had ended, or it is the same.
  };
  [[nodiscard]] Result<Resumed> resume(uint64_t id, const SecretDigest& secret, uint64_t connection);
  // Whose the connection is. Null: it has none, or not any more. To be asked where an operation takes effect.
  [[nodiscard]] NumberedSession* of(uint64_t connection) const noexcept;
  // The connection has ended, and so has its session, if it has one.
  void end(uint64_t connection);
  // Gives back those that ended kKept_ns ago, with their records. Returns how many.
  size_t drop_ended();
  // When the next one may be dropped, by the clock's now_ns(); kForever_ns: none has ended.
  [[nodiscard]] uint64_t next_drop_ns() const noexcept;

  // --- Records ---

  // What became of this number. Nothing: it has not been executed.
  [[nodiscard]] std::optional<NumberedOutcome> find(const NumberedSession& session, uint64_t number) const;
  // The client has been told: its place is free. Does nothing where the place has no such number; without a
  // place the number is looked for. Returns whether there was one.
  bool acknowledge(NumberedSession& session, uint64_t number, uint16_t place = kPlaceUnknown);
  // Whether another record can be written: where all places are taken, a further block is taken if the heap
  // has one at once. False: not now.
  [[nodiscard]] bool has_room(NumberedSession& session);

  struct Counts {
    size_t sessions = 0;  // Ended ones, too.
    size_t ended = 0;
    size_t blocks = 0;
    size_t records = 0;
  };
  [[nodiscard]] Counts counts() const noexcept;

  // --- For a turn: has_room() comes first, and nothing in between. ---

  struct NewRecord {
    uint64_t number = 0;
    Code code = Code::kOk;
    std::span<const std::byte> answer = {};
    uint64_t stamp = 0;
    // Which word changes, and what it is before that. Nowhere: none does, and the record is marked at once.
    Offset word_at{};
    uint64_t before = 0;
    RecordState::Word word = RecordState::Word::kSlot;
  };
  uint16_t write(NumberedSession& session, const NewRecord& record);
  // REQUIRES: the place has the record that was written last. Directly behind the word's store.
  void mark(const NumberedSession& session, uint16_t place);

  // --- Recovery: Table's. ---

  // Marks the blocks, and ends all sessions. kCorrupt: no kill leaves this; nothing was stored.
  [[nodiscard]] Code mark_live();
  // The one record that a kill has left open; null: there is none.
  struct Open {
    NumberedSession* session = nullptr;
    uint16_t place = 0;
    RecordState state{};
    uint64_t stamp = 0;
    uint64_t before = 0;
  };
  [[nodiscard]] const Open* open() const noexcept { return open_ ? &*open_ : nullptr; }
  // Marks it, if its word has been stored, else drops it; but where the log's last change is its own
  // (`logged_stamp`; 0: none, or a group) it stays open: the table makes that change now, and marks it then.
  void settle_open(uint64_t logged_stamp);
  // Directly behind the word's store; does nothing where none is open.
  void mark_open();

 private:
  [[nodiscard]] Offset at(const NumberedSession& session, uint16_t place) const noexcept;
  [[nodiscard]] uint64_t number_at(const NumberedSession& session, uint16_t place) const noexcept;
  [[nodiscard]] std::optional<uint16_t> look_up(const NumberedSession& session,
                                                uint64_t number) const noexcept;
  void note(NumberedSession& session, uint64_t number, uint16_t place) const;
  void forget(NumberedSession& session, uint16_t place) const;
  void give_back(NumberedSession& session, uint16_t place);
  void add_places(NumberedSession& session, Offset block) const;
  void grow_index(NumberedSession& session) const;
  [[nodiscard]] NumberedSession* session_of_id(uint64_t id) const noexcept;
  void unlink(size_t which);
  [[nodiscard]] bool adopt_session(Offset at);
  [[nodiscard]] bool adopt_block(NumberedSession& session, Offset at, uint64_t kind);
  [[nodiscard]] bool adopt_record(NumberedSession& session, uint16_t place);
  [[nodiscard]] bool adopt_open(NumberedSession& session, uint16_t place);

  Writer& writer_;
  Heap& heap_;
  const Clock& clock_;
  size_t ended_max_ = 256;
  size_t ended_ = 0;
  std::vector<std::unique_ptr<NumberedSession>> sessions_;  // In their order in the space.
  std::unordered_map<uint64_t, NumberedSession*> by_connection_;
  std::optional<Open> open_;
};

}  // namespace refract::kv
