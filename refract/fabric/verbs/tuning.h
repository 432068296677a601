// SPDX-License-Identifier: Apache-2.0
// Every bound and every time of the verbs provider.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/base/units.h"

namespace refract::fabric::verbs {

// What a channel may hold.

inline constexpr uint32_t kDepth = 128;  // Requests in flight.
inline constexpr size_t kMessageBytesMax = 8 * kKiB;
// Messages that a peer may have under way to us. Each has its receive waiting in the shared queue.
inline constexpr uint32_t kCredits = 32;
// Credits are returned alone once so many are owed, if no message is sent that could carry them.
inline constexpr uint32_t kCreditsReturned = kCredits / 2;
// Messages that only return credits need none: at most two are under way, for a third would return credits
// that the peer cannot have used without seeing the first; and one more for luck.
inline constexpr uint32_t kCreditMessages = 3;
inline constexpr uint32_t kReceivesEach = kCredits + kCreditMessages;

inline constexpr uint32_t kSendQueue = 256;  // Work requests of one queue pair.
// The last work request of a turn is signalled, and each so-many-th before it.
inline constexpr uint32_t kSignalEvery = 64;
inline constexpr uint32_t kInlineBytes = 220;  // Asked for; the device may grant more, or refuse.
static_assert(kSendQueue >= kDepth + kCredits && kSignalEvery < kSendQueue);

// Of a channel's registered memory for what does not lie in registered memory itself.
inline constexpr size_t kBounceBytes = 256 * kKiB;
inline constexpr size_t kBouncePieceBytes = 32 * kKiB;
// One work request moves at most so much, that others of the queue get their turn.
inline constexpr uint64_t kPieceBytes = kMiB;

// Of a domain.

inline constexpr uint32_t kServerChannelsMax = 256;
inline constexpr uint32_t kClientChannelsMax = 64;
inline constexpr int kCompletionsABatch = 32;
inline constexpr int kBatchesATurn = 8;
// The introducer costs a system call to ask, and says nothing for most of the time.
inline constexpr uint32_t kPollsBetweenNews = 32;
// Of each step of an introduction that waits for the peer.
inline constexpr uint64_t kIntroductionTimeout_ns = 5 * kSecond_ns;
// A channel whose path is gone introduces itself again after so long, and gives up once it has been without
// one for that long: then its owner may look for a way without RDMA.
inline constexpr uint64_t kPause_ns = kSecond_ns / 4;
inline constexpr uint64_t kReturnPatience_ns = 10 * kSecond_ns;

// Of the transport. A lost packet is sent again after 4.096 us x 2^15 = 134 ms, 6 times: a path that is gone
// ends a queue pair after one second (devices may take up to four times as long). Not 7 times, which
// Soft-RoCE takes for ever and the specification does not. A peer that died is noticed by the introducer, at
// once. A receiver without a receive is asked again after 164 ms, 6 times: our own credits rule that out, and
// a peer that breaks them is cut by the end that it floods, in its next poll. If that does not come within a
// second, the others' messages are failed rather than kept.
inline constexpr uint8_t kTimeoutExponent = 15;
inline constexpr uint8_t kRetries = 6;
inline constexpr uint8_t kReceiverNotReadyRetries = 6;
inline constexpr uint8_t kReceiverNotReadyTimer = 28;  // 164 ms.
inline constexpr uint8_t kHopLimit = 64;

}  // namespace refract::fabric::verbs
