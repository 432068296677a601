// SPDX-License-Identifier: Apache-2.0
// The calls of transactions over several shards of a node: docs/design/066. They have a range of methods of
// their own, which a node that takes none answers with kUnsupported.
//
// As wire.h: little endian, no padding, reserved fields are 0. Whatever comes from the peer is copied out
// once and checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/kv/layout/batch_wire.h"

namespace refract::kv::wire {

inline constexpr uint16_t kTransactionMethodsBegin = 0xc0;
// Numbers travel and never change.
enum class TransactionMethod : uint16_t {
  kWords = 0xc0,    // WordsRequest. Of a home: words for transactions that it decides.
  kPiece = 0xc1,    // BatchPieceRequest, as kBatchPiece: of the body of the next kPrepare or kDecide.
  kPrepare = 0xc2,  // PartRequest. Of the other shards: conditions hold, writes are pending.
  kDecide = 0xc3,   // PartRequest. Of the home: the same, and all has happened.
  kAnswer = 0xc4,   // AnswerRequest. What did not fit the answer to one of the two.
  kSettle = 0xc5,  // NameRequest. A part ends, as its word says. kOk: it has happened; kConflict: it has not;
                   // kNotFound: there is no such part, or no more.
  kOutcome = 0xc6,  // NameRequest. Of the home: kOk, it has happened; kConflict: it has not, and never will;
                    // kInvalidated: the word is at a later number.
};

struct WordsRequest {     // | places (DecisionPlace::bits), 8 B each
  uint32_t words;         // So many are wanted.
  uint32_t brought_back;  // Of so many it is known what became of the transaction that was committed by it.
};
static_assert(sizeof(WordsRequest) == 8);

// The answer: as many as there are, at most kWordsPerCall. They are the session's while it is open, or until
// it brings them back; a word commits once.
struct GivenWord {
  uint64_t place;  // DecisionPlace::bits
  uint64_t first;  // The first number for it;
  uint64_t count;  // of so many. Each is used once, in their order, until one commits.
};
static_assert(sizeof(GivenWord) == 24);
inline constexpr size_t kWordsPerCall = 16;

// Answered with a PartReply.
struct PartRequest {
  uint64_t place;  // Of the word: DecisionPlace::bits
  uint64_t number;
  // For how long its transaction has tried: older ones wait for keys of younger ones, for 5 ms at most.
  uint64_t tried_ns;
  // kDecide: from this moment on it is refused (kConflict), since an entry has expired that a part stands on.
  // By the store's time; 0: none does. Of kPrepare 0.
  uint64_t not_after_wall_ns;
  BatchRequest batch;  // Without an identity.
};
static_assert(sizeof(PartRequest) == 64 && offsetof(PartRequest, batch) == 32);

// As kBatch has it: a WrittenOfBatch for each write behind it, or, where its view is not 0, by kAnswer. Where
// it is kOk, all of it held at `looked_wall_ns`, and while its keys are held it holds until
// `expires_wall_ns`: the first moment at which an entry expires that a condition, a sum or an erasure stands
// on; 0: none of them does. Both by the store's time.
struct PartReply {
  BatchReply batch;
  uint64_t looked_wall_ns;
  uint64_t expires_wall_ns;
};
static_assert(sizeof(PartReply) == 32 && offsetof(PartReply, looked_wall_ns) == 16);

// Of the last answer that did not fit: as many bytes from here on as a message has room for.
struct AnswerRequest {
  uint64_t view;
  uint32_t offset;
  uint32_t reserved;
};
static_assert(sizeof(AnswerRequest) == 16);

struct NameRequest {
  uint64_t place;
  uint64_t number;
};
static_assert(sizeof(NameRequest) == 16);

}  // namespace refract::kv::wire
