// SPDX-License-Identifier: Apache-2.0
// The calls of transactions over several shards of a node (docs/design/066) and over several nodes (070).
// They have a range of methods of their own, which a node that takes none answers with kUnsupported.
//
// As wire.h: little endian, no padding, reserved fields are 0. Whatever comes from the peer is copied out
// once and checked.
#pragma once

#include <compare>
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
  // Of a part whose home is another node, and of such a home; places have the home's member.
  kPrepareFar = 0xc7,  // FarPrepareRequest, answered as kPrepare.
  kDecideFar = 0xc8,   // FarDecideRequest, answered as kDecide. It may have conditions alone.
  kSettleFar = 0xc9,   // FarSettleRequest. The part ends; answered as kSettle. kOverloaded: not yet.
  kFates = 0xca,       // FatesRequest, of a home: what became of these.
  kGone = 0xcb,        // FatesRequest, of a shard with parts: which of these it has no more.
  kOpenFar = 0xcc,     // OpenFarRequest, of a shard with parts: those that wait for their homes.
  kGiveUp = 0xcd,      // GiveUpRequest. A home will not come back: its parts end as a person says.
};

struct WordsRequest {     // | places (DecisionPlace::bits), 8 B each
  uint16_t words;         // So many are wanted; 0: the answer's head is.
  uint16_t is_far;        // 1: far words, for transactions with parts on other nodes that write.
  uint32_t brought_back;  // Of so many it is known what became of the transaction that was committed by it.
};
static_assert(sizeof(WordsRequest) == 8);

// The answer, in front of as many words as there are, at most kWordsPerCall. They are the session's while it
// is open, or until it brings them back; a word commits once.
struct WordsReply {     // | GivenWord, each
  uint64_t generation;  // Of the memory that has the words; another one has another.
  uint64_t wall_ns;     // The store's time.
};
static_assert(sizeof(WordsReply) == 16);
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

struct FarPrepareRequest {
  uint64_t generation;  // WordsReply::generation of its home. Not 0.
  PartRequest part;     // `place` with the home's member.
};
static_assert(sizeof(FarPrepareRequest) == 72 && offsetof(FarPrepareRequest, part) == 8);

struct FarDecideRequest {  // | FarPlace, each | as behind PartRequest
  uint64_t generation;     // As it was told to the parts; another memory refuses it (kInvalidated).
  uint32_t parts;          // So many shards of other nodes have prepared parts that write. At least 1.
  uint32_t reserved;
  PartRequest part;  // `place` as the home gave it, of a far word.
};
static_assert(sizeof(FarDecideRequest) == 80 && offsetof(FarDecideRequest, part) == 16);
struct FarPlace {
  uint16_t member;
  uint16_t shard;
  [[nodiscard]] constexpr auto operator<=>(const FarPlace&) const noexcept = default;
};
static_assert(sizeof(FarPlace) == 4);
inline constexpr size_t kFarPartsMax = 96;
static_assert(sizeof(FarDecideRequest) + kFarPartsMax * sizeof(FarPlace) <= 512);

// What became of a transaction. Numbers travel and never change.
enum class Fate : uint8_t {
  kOpen = 0,         // Or it is not known now.
  kHappened = 1,     // For good.
  kNever = 2,        // It has not, and never will.
  kUnconfirmed = 3,  // It has happened; a crash of its home's host may still undo it.
};

// `fate`: kHappened and kNever are believed of the session that has prepared the part. Of others, and where
// it is kOpen, the owner asks the home.
struct FarSettleRequest {
  NameRequest name;
  uint64_t fate;
};
static_assert(sizeof(FarSettleRequest) == 24);

// Of nodes alone. Answered with a byte for each name: kFates: a Fate; kGone: 1, nothing of it is left here,
// not on the disk either; 0, not yet.
struct FatesRequest {   // | NameRequest, each
  uint64_t placement;   // cluster::placement_of() the node that is meant. Another one refuses (kInvalidated).
  uint64_t generation;  // Of the home's memory, as it was told to the parts. Of kGone 0.
  uint32_t names;       // At least 1.
  uint32_t is_demanded;  // 1: what is open is decided against now, and then told.
};
static_assert(sizeof(FatesRequest) == 24);
inline constexpr size_t kFatesPerCall = 30;
static_assert(sizeof(FatesRequest) + kFatesPerCall * sizeof(NameRequest) <= 512);

struct OpenFarRequest {
  uint64_t from;  // How many are passed over.
};
static_assert(sizeof(OpenFarRequest) == 8);
struct OpenFarReply {  // | OpenFarPart, each
  uint32_t parts;      // Of the shard, in all,
  uint32_t told;       // and so many here.
};
static_assert(sizeof(OpenFarReply) == 8);
struct OpenFarPart {
  NameRequest name;
  uint64_t age_ns;     // Since it was prepared, or found by a start.
  uint64_t silent_ns;  // For so long its home has not answered; 0: it does, or was not asked.
  uint32_t keys;
  uint32_t writes;  // Of these.
};
static_assert(sizeof(OpenFarPart) == 40);
inline constexpr size_t kOpenFarPerCall = 10;
static_assert(sizeof(OpenFarReply) + kOpenFarPerCall * sizeof(OpenFarPart) <= 448);

// kConflict: the home has answered within kGiveUpAfter_ns, or was not asked for that long.
struct GiveUpRequest {
  uint32_t member;
  uint32_t reserved;
  uint64_t fate;  // kHappened, kNever
};
static_assert(sizeof(GiveUpRequest) == 16);
struct GiveUpReply {
  uint64_t ended;  // So many parts.
};
static_assert(sizeof(GiveUpReply) == 8);
inline constexpr uint64_t kGiveUpAfter_ns = 10'000'000'000;

}  // namespace refract::kv::wire
