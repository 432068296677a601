// SPDX-License-Identifier: Apache-2.0
// Rules broken on purpose, to see that campaigns find it. Each is a wrapper round the code that is served to
// every run: its memory, its log of stores, its service, its clock or its caller; nothing of it is in there.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace refract::campaign {

enum class Mutation : uint8_t {
  kNone,
  // Direct readers.
  kBlindReaders,    // They never notice that a stamp or slot changed while they read.
  kNoStampCheck,    // They take every stamp for the one that the slot names.
  kNoSecondSlot,    // They do not look at the slot again.
  kNoSecondCount,   // They accept a miss though the table was split meanwhile.
  kStoppedClock,    // They serve what has expired.
  kBelievePending,  // They take what a batch has pending for decided.
  kShortChains,     // They take the last line that they follow for the chain's end.
  kIgnoreWords,     // What is pending of a transaction over several shards is never decided for them.
  // Clients that read the server's memory over the network.
  kNoSlotLook,  // They do not look at the slot again.
  // Clients that lend the server the value of a put.
  kKeepLoans,  // They never revoke what they lent.
  // The server.
  kEarlyReads,         // It publishes what it READs from a client before the bytes are there.
  kIgnorePins,         // It reuses what clients have pinned.
  kForgetPins,         // The same, but only in recovery.
  kReuseAtOnce,        // It reuses what its own answers still show.
  kAcknowledgeEarly,   // A put is answered before its slot is stored.
  kClearBeforeCount,   // A split clears the old slots before it publishes the new count.
  kCountBeforeCopies,  // A split publishes the count before the entries stand in the second place.
  kDecideLate,         // A batch is decided behind the stores that apply it.
  kEarlyCompare,       // A large put compares versions when it begins, not when it takes effect.
  kCompareBeforeRoom,  // A put compares versions before it makes room, and not again.
  kNoOutcomes,         // It takes every write for a new one.
  kForgetBucket,       // Recovery overlooks a bucket, so that its buffers are given out again.
  kStampsAnew,         // Recovery gives stamps again that were given before the crash.
  // The server and its log, where it has one.
  kPublishFirst,       // A change is seen before its record is written.
  kAnswerUnconfirmed,  // A write is answered before the log has confirmed it.
  kReuseNeeded,        // A buffer is reused that the log has still to read.
  kEraseUnstamped,     // An erasure takes no stamp.
  kNoRedo,             // The last record is not looked at after a crash.
  kStampsComeBack,     // After the host has died, stamps continue where the log ends.
  // Callers.
  kLateFirstSent,  // A write that is sent again under its identity says that it is sent for the first time.
  kBlindRetry,     // A put of unknown fate is simply sent again.
  // Transactions over several shards (tests/transactions): their callers,
  kOneLook,  // A transaction that writes nothing does not look again at what it has read.
  // and the shards.
  kNoReadMarks,      // What a condition is about is not held until its part is settled.
  kDropHeld,         // A put takes a held key without a decision against the transaction that holds it.
  kNoHomeChecks,     // The home does not look at its own conditions.
  kWordFirst,        // The home stores the word before its own entries.
  kWordLast,         // The home applies its own entries before it stores the word.
  kEarlySettle,      // What is settled before it is decided is applied.
  kSettleUndoes,     // What is settled is undone, also if the word has committed it.
  kGiveUpUndecided,  // What is settled before it is decided is undone, and the word may still commit it.
  kReuseWords,       // A word is given out again though parts still look at it.
  kOutcomeIsNo,      // Asked what became of a transaction, the home says that nothing did.
  kLateDecisions,    // A word is decided by a session that was not given it.
  kForgetWords,      // Recovery takes every word for undecided.
  kIgnoreExpiry,     // The home decides though what another part stands on has expired.
  kRowsUnmarked,     // A row that changes nothing is not held.
  kRowsTwice,        // A function of a batch runs twice.
  kAnswerRefused,    // What a prepare has answered is given though it was decided against.
  // The shards and their logs.
  kNoNeeds,            // "Decided" says nothing of what it needs,
  kNoNeedsOfSettled,   // and "settled" does not.
  kSettleUnconfirmed,  // A part is settled while the home's log has not confirmed its decision.
  kForgetEarly,        // A home forgets a transaction before "settled" is confirmed.
  kForgetLastRecord,   // Recovery does not look whether a claimed word's decision is in the log.
  kFillAlone,          // What a log leaves open never happens, whatever another log says.
  kCutAlone,           // After the host's death each log ends where it ends.
  // Transactions over several nodes (tests/nodes_transactions): readers of memory,
  kFarIsDone,    // What is pending of another node's transaction is done for them,
  kFarIsUndone,  // or is not.
  // callers,
  kUnknownIsNever,  // Parts are told "never" where the outcome was not learned.
  // parts' owners,
  kOldLooks,           // A look at a home is used for reads that came behind it.
  kLooksRecord,        // A look decides against what is open.
  kUndoAlone,          // A part whose session closes is undone, and its home is not asked.
  kBelieveAnySession,  // What any session says of a part is believed.
  kGoneTooSoon,        // They say that a part is gone which is there.
  // and homes.
  kForgetUnasked,    // They use a word again without asking whether its parts are gone.
  kForgetAsRefused,  // A word that is over tells a late question that its transaction was refused.
};

struct MutationRow {
  Mutation mutation;
  std::string_view name;
  uint64_t first_seed = 1;  // With which the search begins; behind the last one it continues with the first.
};

// Those that the campaign of rivals must find.
inline constexpr std::array kRivalMutations = {
    MutationRow{Mutation::kBlindReaders, "readers never look twice"},
    MutationRow{Mutation::kNoStampCheck, "readers skip the stamp check"},
    MutationRow{Mutation::kNoSecondSlot, "readers skip the second look at the slot"},
    MutationRow{Mutation::kNoSecondCount, "readers accept a miss over a split"},
    MutationRow{Mutation::kStoppedClock, "readers serve an expired entry"},
    MutationRow{Mutation::kNoSlotLook, "remote readers do not look at the slot again"},
    MutationRow{Mutation::kKeepLoans, "what was lent is not revoked"},
    MutationRow{Mutation::kEarlyReads, "a pulled value is published before it has landed"},
    MutationRow{Mutation::kReuseAtOnce, "a buffer is reused at once"},
    MutationRow{Mutation::kAcknowledgeEarly, "a put is acknowledged before it is published"},
    MutationRow{Mutation::kClearBeforeCount, "a split clears the first place before it publishes the second"},
    MutationRow{Mutation::kCountBeforeCopies, "a split without the second place"},
    MutationRow{Mutation::kEarlyCompare, "if_version is compared too early"},
    MutationRow{Mutation::kNoOutcomes, "a write that comes twice is executed twice"},
    MutationRow{Mutation::kForgetBucket, "recovery forgets a bucket"},
    MutationRow{Mutation::kStampsAnew, "recovery begins stamps again"},
    MutationRow{Mutation::kLateFirstSent, "a repetition hides when it was first sent"},
    MutationRow{Mutation::kBlindRetry, "a put without identity is sent again"},
};

// Those that it must find where the node evicts.
inline constexpr std::array kEvictionMutations = {
    MutationRow{Mutation::kCompareBeforeRoom, "a condition is compared before room is made"},
};

// Those that it must find where changes are written to a log.
inline constexpr std::array kDurableMutations = {
    MutationRow{Mutation::kPublishFirst, "a change is published before it is appended"},
    MutationRow{Mutation::kAnswerUnconfirmed, "a write is answered before it is confirmed"},
    MutationRow{Mutation::kReuseNeeded, "a buffer that the log needs is reused"},
    MutationRow{Mutation::kEraseUnstamped, "an erasure without a stamp"},
    MutationRow{Mutation::kNoRedo, "the last record is not redone"},
    MutationRow{Mutation::kStampsComeBack, "stamps that were lost come back"},
};

// Those that the campaign of transactions must find.
inline constexpr std::array kTransactionMutations = {
    MutationRow{Mutation::kBelievePending, "readers believe what is pending"},
    MutationRow{Mutation::kIgnoreWords, "readers ignore the home's word"},
    MutationRow{Mutation::kOneLook, "a transaction that writes nothing looks once"},
    MutationRow{Mutation::kNoReadMarks, "what was read is not held"},
    MutationRow{Mutation::kDropHeld, "a put takes a held key"},
    MutationRow{Mutation::kNoHomeChecks, "the home skips its own conditions"},
    MutationRow{Mutation::kWordFirst, "the home stores the word before its entries"},
    MutationRow{Mutation::kWordLast, "the home applies its entries before it stores the word"},
    MutationRow{Mutation::kEarlySettle, "what is undecided is applied"},
    MutationRow{Mutation::kSettleUndoes, "what is committed is undone"},
    MutationRow{Mutation::kGiveUpUndecided, "a part is given up without a decision"},
    MutationRow{Mutation::kReuseWords, "a word is used again before all parts are settled"},
    MutationRow{Mutation::kOutcomeIsNo, "a lost answer is taken for no"},
    MutationRow{Mutation::kLateDecisions, "a later session decides"},
    MutationRow{Mutation::kForgetWords, "recovery ignores the words"},
    MutationRow{Mutation::kIgnoreExpiry, "the home ignores when parts expire"},
    MutationRow{Mutation::kRowsUnmarked, "a row that changes nothing is not held"},
    MutationRow{Mutation::kRowsTwice, "a function runs twice"},
    MutationRow{Mutation::kAnswerRefused, "answers of a prepare are given after a refusal"},
};

// Those that it must find where each shard has a log.
inline constexpr std::array kTransactionLogMutations = {
    MutationRow{Mutation::kNoNeeds, "decided needs nothing"},
    MutationRow{Mutation::kNoNeedsOfSettled, "settled needs nothing"},
    MutationRow{Mutation::kSettleUnconfirmed, "a part is settled before the decision is confirmed", 58},
    MutationRow{Mutation::kForgetLastRecord, "recovery ignores the last record", 112},
    MutationRow{Mutation::kFillAlone, "what is open never happens in a fill"},
    MutationRow{Mutation::kCutAlone, "each log is cut by itself"},
    MutationRow{Mutation::kAnswerUnconfirmed, "a transaction is answered before it is confirmed"},
};

// Those that the campaign of transactions over several nodes must find.
inline constexpr std::array kNodesMutations = {
    MutationRow{Mutation::kFarIsDone, "readers take far entries for done"},
    MutationRow{Mutation::kFarIsUndone, "readers take far entries for undone"},
    MutationRow{Mutation::kUnknownIsNever, "parts are told never where nothing is known", 22},
    MutationRow{Mutation::kOldLooks, "a look is used for reads that came later"},
    MutationRow{Mutation::kLooksRecord, "a look decides"},
    MutationRow{Mutation::kUndoAlone, "a part is undone when its session closes"},
    MutationRow{Mutation::kBelieveAnySession, "any session is believed"},
    MutationRow{Mutation::kGoneTooSoon, "gone is said of what is there", 91},
    MutationRow{Mutation::kForgetUnasked, "a home forgets unasked"},
    MutationRow{Mutation::kForgetAsRefused, "a word that is over says no", 83},
    MutationRow{Mutation::kIgnoreExpiry, "the home ignores when far parts expire"},
};

}  // namespace refract::campaign
