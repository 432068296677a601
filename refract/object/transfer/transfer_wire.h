// SPDX-License-Identifier: Apache-2.0
// The bodies of the calls by which a member gets an object's bytes from a holder; docs/formats/transfer.md
// has a worked example: the golden test. docs/design/055-object-transport.md says what they are for.
//
// Only sessions in the node role call them (kAccessDenied), behind a hello under the list that both ends have
// (kVersionMismatch). Offsets count from the body's first byte: body, padding and metadata are one piece of
// ObjectParts::filled_bytes().
//
// Little endian, no padding, reserved fields are 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/base/units.h"

namespace refract::object::wire {

inline constexpr uint16_t kTransferMethodsBegin = 0x610;

// Numbers travel and never change.
enum class TransferMethod : uint16_t {
  kTransfer = 0x610,
  kData = 0x611,
  kDone = 0x612,
  kDigest = 0x613,
  kFollow = 0x614,
  kProgress = 0x615,
};

// What one session may have open at a holder; beyond it kOverloaded.
inline constexpr size_t kTransfersPerSession = 64;
// Of one kDigest.
inline constexpr uint64_t kDigestBytesMax = kMiB;

// How the bytes come.
enum class TransferBy : uint8_t {
  kMessages = 1,  // In the answer of kTransfer, and in those of kData.
  kReads = 2,     // By READs of the pieces that the answer of kTransfer names.
};

// kTransfer: TransferRequest | id -> TransferReply, then `pieces` times a TransferPiece, then the `bytes`
// that were asked for. The holder keeps the object in its place until kDone, the session's end, or until
// nothing was asked of the transfer for a long time. kNotFound: this birth is not here. kInvalidArgument: it
// has other lengths, or `bytes` do not fit the answer. kUnsupported: this holder has no windows.
struct TransferRequest {
  uint64_t birth;
  uint64_t body_bytes;
  uint64_t offset;  // Of the bytes that the answer brings.
  uint32_t metadata_bytes;
  uint32_t bytes;  // kReads: 0.
  uint16_t id_bytes;
  TransferBy by;
  uint8_t wants_digest;  // Of the bytes that the answer brings.
  uint8_t reserved[4];
};
struct TransferReply {
  uint64_t transfer;  // 0: the answer has all bytes of the object, and nothing is kept.
  uint64_t digest;    // XXH3 of the bytes behind the pieces, if it was wanted; else 0.
  uint32_t pieces;    // kMessages: 0.
  uint32_t reserved;
};
// Where some bytes of the object are READ. Pieces follow each other without a gap and have all bytes.
struct TransferPiece {
  uint64_t address;  // RemotePointer::bits
  uint64_t key;      // RemoteKey::bits
  uint64_t offset;   // In the object.
  uint64_t bytes;
};
static_assert(sizeof(TransferRequest) == 40 && offsetof(TransferRequest, id_bytes) == 32);
static_assert(sizeof(TransferReply) == 24 && sizeof(TransferPiece) == 32);

// kData: DataRequest -> as many bytes. kInvalidated: there is no such transfer, or not any more.
// kInvalidArgument: there are no such bytes, or they do not fit the answer. kDigest: likewise -> DigestReply.
struct DataRequest {
  uint64_t transfer;
  uint64_t offset;
  uint32_t bytes;
  uint32_t reserved;
};
struct DigestReply {
  uint64_t digest;  // XXH3 of these bytes.
};
// kDone: the object may go. kInvalidated as of kData.
struct DoneRequest {
  uint64_t transfer;
};
static_assert(sizeof(DataRequest) == 24 && sizeof(DigestReply) == 8 && sizeof(DoneRequest) == 8);

// kFollow: FollowRequest | id -> FollowReply, then pieces and bytes as of kTransfer: of the `bytes` that were
// asked for, those in front of `ready`. An object that is on its way to the holder is given, too, if it
// follows the same plan, or none. Where it is not here, the answer may take `wait_ms`, kFollowWait_ns at
// most: it may be about to come. kDone and kDigest as of kTransfer, and kData in front of `ready`.
// kInvalidated, to any of them: it does not come to this holder any more.
struct FollowRequest {
  TransferRequest transfer;
  uint64_t plan;  // Not 0.
  uint32_t wait_ms;
  uint32_t reserved;
};
struct FollowReply {
  TransferReply transfer;  // `transfer` 0: the answer has all bytes of the object, and nothing is kept.
  uint64_t ready;          // So many bytes can be asked for, or READ.
};
static_assert(sizeof(FollowRequest) == 56 && sizeof(FollowReply) == 32);

// kProgress: ProgressRequest -> ProgressReply, as soon as `least` bytes are ready, at once if all are, or
// after kProgressWait_ns. Several may be under way: at one more than kProgressCalls the first is answered at
// once.
struct ProgressRequest {
  uint64_t transfer;
  uint64_t least;
};
struct ProgressReply {
  uint64_t ready;
};
static_assert(sizeof(ProgressRequest) == 16 && sizeof(ProgressReply) == 8);

inline constexpr uint64_t kFollowWait_ns = kSecond_ns;
inline constexpr size_t kProgressCalls = 4;
inline constexpr uint64_t kProgressWait_ns = 500 * kMillisecond_ns;

}  // namespace refract::object::wire
