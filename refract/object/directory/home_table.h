// SPDX-License-Identifier: Apache-2.0
// What the home of some ids knows of them: who has them, who is making them, what was deleted and is not
// known to all yet. It follows from what members say, and is gone with its process
// (docs/design/052-directory.md).
//
// A member is an index into the list of nodes. The table knows nothing of messages, of time, or of which ids
// are its own.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "refract/base/result.h"
#include "refract/cluster/member_list.h"
#include "refract/object/layout/object_layout.h"

namespace refract::object {

using MemberIndex = uint8_t;

class HomeTable {
 public:
  using MemberSet = std::bitset<cluster::kMembersMax>;
  using Named = std::pair<std::string, uint64_t>;  // Id, birth.

  // Births without a holder that may still be somewhere: beyond so many, no unknown id is granted.
  static constexpr size_t kLingeringMax = 65'536;

  // Forgets all, for a list of so many members.
  void begin(size_t members);

  // --- Streams: what a member says comes in their order. ---

  // Its earlier stream is over. Of another identity nothing is left but what it reports.
  void open_stream(MemberIndex member, const std::array<uint64_t, 2>& identity);
  // All that it has was said: what it has not repeated it has no more.
  void end_report(MemberIndex member);
  void close_stream(MemberIndex member);
  // Whether at some moment all streams stood with their reports ended, and no memory was lost since: from
  // then on each birth under a chosen id has passed through this table.
  [[nodiscard]] bool is_complete() const noexcept { return is_complete_; }
  // Those of which it is not known what they have now: without a stream, or in their report.
  [[nodiscard]] MemberSet unknown() const noexcept { return ~current_ & all(); }
  // Births that are to be buried, because another one of the same id stays: the one that most members hold,
  // then the smaller. Until the table is complete, births stand side by side.
  [[nodiscard]] std::vector<Named> losers() const;

  // --- What a member says. REQUIRES: its stream is open. ---

  // kExists: the id has another birth, and the table is complete. kCancelled: this birth was deleted.
  // `copies`: the word that the member's copy has.
  [[nodiscard]] Code holds(MemberIndex member, std::string_view id, uint64_t birth, const ObjectParts& parts,
                           CopiesWord copies = {});
  // A copy goes to it: it may have it from now on, until it says more. `birth` 0: of whichever birth it
  // finds.
  void comes(MemberIndex member, std::string_view id, uint64_t birth, const ObjectParts& parts);
  void gone(MemberIndex member, std::string_view id, uint64_t birth);
  // kUnavailable: another birth may be somewhere, or the member has not dropped one that was deleted. A
  // member's report may claim before the table is complete.
  [[nodiscard]] Code claims(MemberIndex member, std::string_view id, uint64_t birth, bool is_reported);
  void unclaims(MemberIndex member, std::string_view id, uint64_t birth);

  // --- Look-ups ---

  struct Found {
    uint64_t birth = 0;  // 0: no member has it.
    ObjectParts parts;
    std::vector<MemberIndex> holders;  // Those to which it comes are the last.
    MemberSet doubtful;                // They may have it, or another birth.
    CopiesWord wish;                   // Of this birth: so many copies are to be bound.
    uint8_t counted = 0;               // And are, at members that have a stream.
  };
  [[nodiscard]] Found look_up(std::string_view id) const;
  // Whether some other birth of the id is known, also in creation.
  [[nodiscard]] bool has_other(std::string_view id, uint64_t birth) const;

  // --- Deletes ---

  // From now on this birth is refused, and has no holder. Members acknowledge it one by one.
  void bury(std::string_view id, uint64_t birth);
  // True: the last one was missing, and the tombstone is gone from this table.
  [[nodiscard]] bool acknowledge(MemberIndex member, std::string_view id, uint64_t birth);
  [[nodiscard]] bool is_buried(std::string_view id, uint64_t birth) const;
  // Who has not acknowledged. Empty: there is no such tombstone.
  [[nodiscard]] MemberSet missing(std::string_view id, uint64_t birth) const;
  // What this member has not acknowledged.
  [[nodiscard]] std::vector<Named> unacknowledged(MemberIndex member) const;

  // --- Copies that are bound: home_copies.cc, docs/design/054-copies.md ---

  // So many are to be bound from now on. False: there is no such birth, it is so already, or it was changed
  // too often.
  bool wish(std::string_view id, uint64_t birth, uint8_t wanted);
  // A bound copy that its member would rather not have: kOk, it is not bound from now on. kUnavailable: too
  // few others are.
  [[nodiscard]] Code release(MemberIndex member, std::string_view id, uint64_t birth);
  struct Bound {
    CopiesWord wish;
    MemberSet bound;       // Members that have said so; of some it is not known whether they still do.
    MemberSet counted;     // Those of them that have the very wish, and a stream whose report has ended.
    MemberSet behind;      // Those that have an older wish.
    MemberSet loose;       // Have a copy that is not bound.
    MemberSet coming;      // Get one just now.
    bool is_alone = true;  // The id has no other birth.
  };
  [[nodiscard]] Bound bound(std::string_view id, uint64_t birth) const;
  // Members that have ended a report since begin().
  [[nodiscard]] MemberSet heard() const noexcept { return heard_; }
  [[nodiscard]] bool is_current(MemberIndex member) const noexcept { return current_[member]; }
  // Of all births that are to have bound copies, the next behind `last`.
  [[nodiscard]] std::vector<Named> wished_behind(const Named& last, size_t most);

  struct Counts {
    size_t ids = 0;
    size_t lingering = 0;
    size_t tombstones = 0;
  };
  [[nodiscard]] Counts counts() const noexcept;
  // Looks at all entries: for tests.
  [[nodiscard]] size_t count_claims() const noexcept;

 private:
  friend class HomeRows;  // Of a home that keeps its entries outside.

  struct Word {  // What a member said of a birth.
    MemberIndex member = 0;
    uint32_t stream = 0;  // In which of its streams.
    bool is_coming = false;
    CopiesWord copies = {};
  };
  struct Birth {
    uint64_t birth = 0;
    ObjectParts parts;
    CopiesWord wish;
    std::vector<Word> holders;
    bool was_held = false;  // By some member, or a copy came to one.
    bool is_claimed = false;
    Word claim;

    [[nodiscard]] bool is_silent() const noexcept { return holders.empty() && !is_claimed; }
  };
  using Entry = std::vector<Birth>;  // Of one id. More than one: a conflict that is not decided yet.
  [[nodiscard]] MemberSet all() const noexcept;
  [[nodiscard]] Word word_of(MemberIndex member, bool is_coming = false) const {
    return {.member = member, .stream = streams_[member], .is_coming = is_coming};
  }
  [[nodiscard]] Birth* find(std::string_view id, uint64_t birth) {
    return const_cast<Birth*>(std::as_const(*this).find(id, birth));
  }
  [[nodiscard]] const Birth* find(std::string_view id, uint64_t birth) const;
  [[nodiscard]] bool is_counted(const Birth& birth, const Word& word) const noexcept;
  // Makes it, if need be. REQUIRES: a word follows at once.
  [[nodiscard]] Birth& birth_for(std::string_view id, uint64_t birth);
  void set_holder(Birth& birth, const Word& word);
  static bool drop_words(Birth& birth, const std::function<bool(const Word&)>& is_over);
  void drop_words(const std::function<bool(const Word&)>& is_over);
  void end_word(std::string_view id, uint64_t birth, MemberIndex member);
  // Behind the end of a word: a birth without any goes, or lingers while a member may have it that cannot say
  void settle(std::string_view id, uint64_t birth);
  [[nodiscard]] static bool is_better(const Birth& one, const Birth& other) noexcept;

  size_t members_ = 0;
  std::vector<uint32_t> streams_;                    // The number of each member's stream, from 1 on.
  std::vector<std::array<uint64_t, 2>> identities_;  // Of each member's memory.
  MemberSet current_;                                // Have ended the report of their stream, which is open.
  MemberSet heard_;
  bool is_complete_ = false;
  std::unordered_map<std::string, Entry> entries_;
  size_t lingering_ = 0;                   // Births without a word.
  std::map<Named, MemberSet> tombstones_;  // Who has acknowledged.
  std::set<Named> wished_;                 // Births with a wish, and some that are gone.
};

}  // namespace refract::object
