// SPDX-License-Identifier: Apache-2.0
// Which session has which of a home's decision words: docs/design/066. Only that session decides by it, with
// numbers of the range it was given; it commits by it once, then brings it back for a new range.
//
// Threads: used only by the shard whose words they are.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/kv/layout/transaction_wire.h"
#include "refract/kv/owner/parts/decisions.h"

namespace refract::kv {

class HomeWords {
 public:
  // How long a decision that was not brought back stays for a client that comes over another session.
  static constexpr uint64_t kKept_ns = 60 * kSecond_ns;
  static constexpr size_t kPerSession = 32;  // Of each kind.
  // The last ones are for transactions with parts on other nodes: after a restart only these are asked about.
  static constexpr size_t kFarBegin = kDecisionWords - kDecisionWords / 4;

  // `decisions` outlives this. What earlier sessions have decided is kept from now on. `first_number`: none
  // below was given in this memory (first_number()).
  HomeWords(Decisions& decisions, uint32_t shard, uint64_t now_ns, uint64_t first_number = 0);

  struct Given {
    DecisionPlace place;
    uint64_t first = 0;
    uint64_t count = 0;
  };
  // As many as there are, and the session may have; none while a shard of the node has not recovered.
  [[nodiscard]] std::vector<Given> give(uint64_t session, size_t wanted, uint64_t now_ns,
                                        bool is_far = false);
  // REQUIRES: is_sound, and the word is of this shard.
  [[nodiscard]] bool is_far_word(DecisionPlace place) const noexcept { return word_of(place) >= kFarBegin; }
  // The session knows what became of its transactions by these words. Others' are left as they are.
  void bring_back(uint64_t session, std::span<const DecisionPlace> places);
  // Whether this session may decide by the name. kConflict: it has been decided against; kInvalidated: it is
  // not this session's, or has been used.
  [[nodiscard]] Code may_decide(uint64_t session, const TransactionName& name) const noexcept;
  void end(uint64_t session, uint64_t now_ns);

  // --- Transactions over several nodes: docs/design/070. A word that one has committed by is not given out
  // again before all of these say that they have no such part any more. ---

  // What it has committed by this word has parts there.
  void note_far(const TransactionName& name, std::span<const wire::FarPlace> places);
  // In a memory whose words an earlier process has used: what is committed may have parts at any other
  // member.
  void note_far_anywhere(uint32_t self, uint32_t members);
  static constexpr uint16_t kAnyShard = UINT16_MAX;
  struct Counted {
    wire::FarPlace place;
    std::vector<TransactionName> names;
  };
  // Which shards are to be asked, and about what.
  [[nodiscard]] std::vector<wire::FarPlace> far_places() const;
  [[nodiscard]] Counted counted_on(wire::FarPlace place) const;
  void is_gone(const TransactionName& name, wire::FarPlace place);
  // What an earlier memory has decided, by its name in the log: no word of this one.
  void note_before(const TransactionName& name, uint32_t self, uint32_t members);
  // What none counts on any more. forgotten(): the log knows, and the word may be used again.
  [[nodiscard]] std::vector<TransactionName> uncounted() const;
  void forgotten(const TransactionName& name);
  // All that is counted on.
  [[nodiscard]] std::vector<TransactionName> decided_afar() const;

 private:
  struct Word {
    uint64_t session = 0;  // 0: none has it.
    uint64_t kept_until_ns = 0;
  };
  [[nodiscard]] bool is_free(size_t word, uint64_t now_ns) const noexcept;
  [[nodiscard]] size_t word_of(DecisionPlace place) const noexcept;
  void clear_if_over(size_t word);

  Decisions& decisions_;
  const uint32_t shard_;
  const uint64_t first_number_;
  std::vector<Word> words_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> sessions_;  // Their words.
  [[nodiscard]] static std::vector<wire::FarPlace> all_others(uint32_t self, uint32_t members);
  // By the place of the word, and the number.
  std::map<std::pair<uint64_t, uint64_t>, std::vector<wire::FarPlace>> far_;
  std::set<size_t> far_words_;                   // Of those the words of this memory.
  std::map<wire::FarPlace, size_t> far_counts_;  // In how many of these it is.
  // Words that were brought back while local parts still counted on them, or before the log confirmed them. A
  // word that is over says so: after a restart those that do not are kept for a while, and of far ones others
  // are asked.
  std::deque<size_t> to_clear_;
  static constexpr size_t kClearedAtOnce = 2 * wire::kWordsPerCall;
  std::array<size_t, 2> next_ = {0, kFarBegin};  // Of each kind.
};

}  // namespace refract::kv
