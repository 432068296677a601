// SPDX-License-Identifier: Apache-2.0
// What transactions over several shards have in a table between prepare and decision: docs/design/066. A part
// has pending entries, and marks on the keys that its conditions are about. Until it is settled no other
// write changes any of these keys, and no reader takes what is pending for done. A far part is one whose home
// is another node (docs/design/070): no word here decides it, it is told.
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/result.h"
#include "refract/kv/layout/transaction_wire.h"
#include "refract/kv/owner/parts/decisions.h"
#include "refract/kv/owner/parts/part_types.h"
#include "refract/kv/owner/parts/settling.h"
#include "refract/kv/owner/table/table.h"

namespace refract::kv {

class Table::Parts final : public MappedSpaces {
  using Fate = wire::Fate;
  using Part = HeldPart;

 public:
  static constexpr size_t kPartsMax = 4096;
  static constexpr size_t kKeysMax = 65'536;      // Of all parts.
  static constexpr size_t kPartsOfSession = 256;  // One must not take the places of all.

  // All outlive this.
  Parts(Table& table, Decisions& decisions);
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    table_.parts_ = nullptr;
    table_.holding_ = nullptr;
  }

  // All conditions hold now, and all writes are pending: until it is settled. Else nothing has changed: a
  // condition's code; kConflict: another transaction has one of its keys, or this one has been decided;
  // kInvalidArgument: the name leads to no word; kInvalidated: the word is not given out by this number, or
  // the part is there; kOverloaded: there are too many parts.
  [[nodiscard]] Result<> prepare(TableBatch& batch, const PartOf& from);
  // At the home, in one turn: all of that, then the decision, then what follows from it. A refusal is decided
  // as well. kConflict also: an entry has expired that this part stands on, or, by `not_after_wall_ns`,
  // another one; 0: others stand on none that expires. REQUIRES: the number is of the session that has the
  // word.
  [[nodiscard]] Result<> decide(TableBatch& batch, const TransactionName& name,
                                uint64_t not_after_wall_ns = 0,
                                std::optional<uint32_t> member = std::nullopt);

  // Ends the part as its word says; what is not decided is decided against it. kOk: it has happened;
  // kConflict: it has not; kNotFound: there is no such part; kOverloaded: the home's log has not confirmed it
  // yet, or the log here has no room: it stays, and is tried again with the next progress, or by the timer.
  Code settle(const TransactionName& name);
  // All of a session that has closed. Returns how many.
  size_t settle_of(uint64_t session);
  // Likewise those that came before: of which a key was refused to another since, or any.
  using Overdue = PartOverdue;
  size_t settle_overdue(const Overdue& overdue);
  // Those that are decided, where they can be settled now.
  size_t settle_decided();

  // --- Far parts ---

  // Ends the part as its session says. kOverloaded: not now; or, of kOpen and of another session: the home is
  // asked. Else as settle().
  Code settle_far(const TransactionName& name, uint64_t session, Fate fate);
  using Question = PartQuestion;
  // What homes are to be asked: of a part whose end is demanded, or that a read waits for.
  [[nodiscard]] std::vector<Question> questions() const;
  // The answer of its home, to a question that left at this tick.
  void take_fate(const Question& question, Fate fate, uint64_t left);
  // Its home asks, since it has decided it: the part is demanded. Whether nothing of it is left, not on the
  // disk either.
  [[nodiscard]] bool is_gone(const TransactionName& name);
  // A moment between all that happens to far parts.
  [[nodiscard]] uint64_t far_tick() noexcept { return ++far_ticks_; }
  [[nodiscard]] bool has_far() const noexcept { return far_ != 0; }
  // A read that came at this tick: whether it has to wait for a look at the homes of parts that write the key
  // (any key: nothing), and were there before. That look is asked for.
  [[nodiscard]] bool is_unclear(std::optional<uint64_t> hash, uint64_t came);
  // In front of a far part's pending entries, into a buffer with room for record_bytes(): what it holds
  // beside them.
  using Beside = PartBeside;
  [[nodiscard]] static uint64_t record_bytes(std::span<const Beside> beside) noexcept;
  void link_record(Offset at, const PartOf& from, std::span<const Beside> beside, uint64_t first_stamp);
  void drop_record(Offset at);
  // A home has not answered since then; 0: it does. Writes of keys that its parts hold do not wait for it.
  void note_away(uint32_t member, uint64_t since_ns);
  [[nodiscard]] uint64_t away_since(uint32_t member) const noexcept;
  [[nodiscard]] std::vector<const HeldPart*> open_far() const;
  // A person says so of a home that will not come back. Returns of how many parts.
  size_t give_up(uint32_t member, Fate fate);
  [[nodiscard]] bool is_away(uint32_t member) const noexcept { return away_.contains(member); }
  [[nodiscard]] bool is_stuck(uint64_t hash) const noexcept;

  // --- Of a home, with a log ---

  // What an earlier memory has decided, and other nodes may still ask for.
  [[nodiscard]] bool has_decided_before(const TransactionName& name) const noexcept;
  [[nodiscard]] std::vector<TransactionName> decided_before() const;
  // In a memory that is filled. kNoSpace: not yet.
  [[nodiscard]] Code restore_decision(const TransactionName& name);
  // No node asks for it any more. False: the log cannot be told now.
  [[nodiscard]] bool forget_far(const TransactionName& name);
  // Likewise a part that the log leaves open: pending again, with its stamps, and held.
  using Restored = PartRestored;
  [[nodiscard]] Code restore(const Restored& part);

  // Far parts of one home; further ones are refused, so that one that is away does not take all places.
  static constexpr size_t kPartsOfHome = kPartsMax / 4;

  [[nodiscard]] size_t count() const noexcept { return parts_.size(); }
  [[nodiscard]] const std::byte* space_of(uint32_t shard) const noexcept override {
    return decisions_.space_of(shard);
  }
  // As its home was when it was last asked.
  [[nodiscard]] std::optional<bool> has_happened_afar(const TransactionName& name) const noexcept override {
    return has_happened(name);
  }

  // --- With a log: docs/design/067. The table's is the same. ---

  void log_to(PartLog* log) noexcept { log_ = log; }
  // Before the first session, behind a recovery: the words of this home as the log has them, whose last
  // record is `decided`, or another one; then the parts that a killed owner has left, of sessions that are
  // gone.
  void take_up(const std::optional<TransactionName>& decided);
  // What the log has confirmed of decisions and settled parts takes effect elsewhere, and what could not be
  // settled is tried again. Returns how much there was to do.
  size_t on_log_progress();
  // What is prepared and not settled, for a snapshot of this moment: its changes, in the order of their
  // stamps.
  using Prepared = PartPrepared;
  [[nodiscard]] std::vector<Prepared> prepared() const;
  // The transactions that this home has decided for, and whose parts may have to learn it from the disk.
  [[nodiscard]] std::vector<TransactionName> decisions_to_keep() const;
  // How many have been settled: where it grows, keys are free again.
  [[nodiscard]] uint64_t ended() const noexcept { return ended_; }

  // Whether a write of the key has to wait. What has been decided is settled first.
  [[nodiscard]] bool blocks(uint64_t hash) { return blocks(hash, /*also_marks=*/true); }
  [[nodiscard]] bool keeps(uint64_t hash) const noexcept { return holds_.contains(hash); }
  // Whether a batch has to wait; and whether it may: for parts of transactions that have all begun later.
  // What has been decided is settled first.
  [[nodiscard]] bool is_held(const TableBatch& batch);
  [[nodiscard]] bool may_wait(const TableBatch& batch, uint64_t begun_ns);
  // What the key's entry is: the pending one, or what it will replace if that is not decided. Free: none.
  [[nodiscard]] Slot standing_of(Slot slot) const noexcept;
  // Whether the table's number of entries has it: not what is pending and replaces nothing.
  [[nodiscard]] bool is_counted(Slot slot) const noexcept;

 private:
  friend class Table;
  friend class Table::BatchTurn;
  friend class Table::BatchRest;

  struct Hold {
    Part* part;
    bool is_write;
  };

  [[nodiscard]] const Trailer& trailer_of(Slot slot) const noexcept;

  // --- For a turn that makes one.
  [[nodiscard]] bool blocks(uint64_t hash, bool also_marks);
  template <typename IsMeant>
  [[nodiscard]] bool is_held_by(uint64_t hash, bool also_marks, IsMeant is_meant);
  // Of the last one that was kept: its changes, for the log.
  void tell_prepared(std::vector<ChangeLog::Change> changes, uint64_t group_stamp);
  void keep(const TableBatch& batch, std::vector<PendingEntry> writes, Offset record_at);
  // The home's decision, and its log's: `changes` are its own. False: another one was made before.
  // `member`: of this node, where others have parts of it.
  [[nodiscard]] bool commit(const TransactionName& name, std::optional<uint32_t> member, uint64_t group_stamp,
                            std::span<const ChangeLog::Change> changes);
  [[nodiscard]] bool commit_unlogged(const TransactionName& name) {
    const Decision wanted = Decision::committed(name.number);
    return decisions_.decide(name.place, wanted).bits == wanted.bits;
  }
  // In a recovery: pending entries whose name leads to a word. Both buffers of each are live.
  void adopt(std::span<const Slot> pending);
  // Before that: false, what holds keys for far parts is damaged.
  [[nodiscard]] bool mark_live();

  [[nodiscard]] Part* find(const TransactionName& name) const noexcept;
  [[nodiscard]] Code refuse_at_once(const TableBatch& batch, const PartOf& from) const noexcept;
  [[nodiscard]] Code look(const TransactionName& name) const noexcept;
  [[nodiscard]] Fate fate_of(const Part& part, Decision decision) const noexcept;
  [[nodiscard]] bool settle_if_decided(Part& part);
  [[nodiscard]] bool has_happened(const TransactionName& name) const noexcept;
  // False: it cannot be told to the log now.
  [[nodiscard]] bool end(Part& part, bool has_happened);
  void hold(Part& part, std::vector<std::pair<uint64_t, bool>> keys);
  [[nodiscard]] Part& adopted(const TransactionName& name, uint64_t generation);
  void adopt_records();
  [[nodiscard]] std::vector<ChangeLog::Change> marks_of(const Part& part) const;
  [[nodiscard]] Code end_as(Part& part, Fate fate);
  void release(const Part& part);

  [[nodiscard]] bool log_works() const noexcept { return table_.log_->failure() == Code::kOk; }
  [[nodiscard]] bool has_confirmed(uint64_t position) const noexcept {
    return log_works() && table_.log_->confirmed() >= position;
  }
  [[nodiscard]] bool tell_settled(const TransactionName& name, bool has_happened);
  void forget(const Part& part);
  void confirm_from(const TransactionName& name);
  void note_recovered();

  Table& table_;
  Decisions& decisions_;
  const uint32_t shard_;
  PartLog* log_ = nullptr;
  bool is_taken_up_ = false;
  bool is_recovered_ = false;
  std::vector<std::unique_ptr<Part>> parts_;  // In the order in which they came.
  // Keys can be chosen so that their hashes meet.
  struct Mixed {
    uint64_t secret;
    [[nodiscard]] size_t operator()(uint64_t hash) const noexcept { return mix(hash ^ secret); }
  };
  std::unordered_multimap<uint64_t, Hold, Mixed> holds_;
  uint64_t ended_ = 0;
  size_t adopted_ = 0;  // Of parts_, those that a recovery has found, and that end here.
  size_t far_ = 0;
  std::map<uint32_t, uint64_t> away_;                               // Members, and since when.
  std::vector<std::pair<TransactionName, Offset>> decided_before_;  // With their records.
  uint64_t far_ticks_ = 0;
  uint64_t recover_at_ = 0;  // Where the log ended when this owner took it up.
  // What waits for the log, by its positions: words of this home that it is to confirm, and words whose home
  // is to forget a part.
  struct Logged {
    uint64_t position = 0;
    TransactionName name;
  };
  std::deque<Logged> deciding_;
  std::deque<Logged> settled_;
};

}  // namespace refract::kv
