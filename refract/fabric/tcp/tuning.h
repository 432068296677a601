// SPDX-License-Identifier: Apache-2.0
// Every bound and every time of the TCP provider.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/base/units.h"

namespace refract::fabric::tcp {

// What a connection may hold.

inline constexpr uint32_t kDepth = 64;  // One-sided requests in flight; also the largest messages that fit.
inline constexpr size_t kMessageBytesMax = 32 * kKiB;
inline constexpr size_t kBlockBytes = 64 * kKiB;  // Of a domain's pool, taken only while bytes are pending.
// Up to here a payload is copied into the queue; a longer one is gathered from where it lies.
inline constexpr size_t kCopiedBytesMax = 4 * kKiB;
inline constexpr uint64_t kOutputBytesMax = kDepth * (kMessageBytesMax + 8);
// What answers to one-sided requests may take beyond it, so that they never wait for messages.
inline constexpr uint64_t kAnswerBytesMax = kDepth * (kCopiedBytesMax + 16);
static_assert(kMessageBytesMax + 8 <= kBlockBytes, "a message lies in one block when it is delivered");

// From here on a READ or WRITE, whose bytes are copied nowhere on their way, beats messages.
inline constexpr uint32_t kOneSidedBytesMin = 16 * kKiB;

// A connection's share of a turn.

inline constexpr size_t kSendBytesATurn = kMiB;
// Of large transfers, from half of it on, where no other connection is active and so none waits for the end
// of the turn. A get of 4 MiB is a tenth faster so, and a put, which the kernel then often takes as a whole,
// up to a half. Several shorter ones are slower, for they wait for each other. With 4 KiB more, for what
// stands behind the value, puts were as slow as before.
inline constexpr size_t kSendBytesAlone = 4 * kMiB;
inline constexpr size_t kReceiveBytesATurn = kMiB;
inline constexpr size_t kSpansASend = 64;
// Of all connections. A turn ends with a send, so that peers with many requests in flight work on one half
// while the other half travels: with 64 a turn both ends took turns at working, and did half as much.
inline constexpr size_t kCompletionsATurn = 32;

// From this size on a transfer is worth large socket buffers, where the round trip is long.
inline constexpr uint64_t kLargeTransferBytes = kMiB;
inline constexpr uint32_t kLongPath_us = 1'000;
inline constexpr int kLargeSocketBuffer = 16 * 1024 * 1024;

// When to ask the kernel which connections to read.

// So few active connections are asked directly, which saves the question which to ask.
inline constexpr size_t kDirectMax = 4;
inline constexpr uint32_t kPollsBetweenEvents = 64;
// Where there are others besides: they wait so many polls, of which each may serve those that are read
// directly. With 64, ten connections had a 99th percentile of ten times Redis's.
inline constexpr uint32_t kPollsBetweenOthers = 4;
inline constexpr uint32_t kIdlePollsMax = 65'536;
// Being watched costs a connection about a tenth of a short round trip, for each packet wakes epoll. After so
// many polls without a sleep, those that are read directly and were busy just now are not watched.
inline constexpr uint32_t kPollsUntilUnwatched = 512;
inline constexpr int kEventsATurn = 64;

// Dead peers: 5 + 3 x 3 seconds without a sign, or 15 with bytes that the peer did not acknowledge.

inline constexpr int kKeepAliveIdle_s = 5;
inline constexpr int kKeepAliveInterval_s = 3;
inline constexpr int kKeepAliveProbes = 3;
inline constexpr unsigned kUserTimeout_ms = 15'000;

// Pauses before coming back.

inline constexpr uint64_t kPauseFirst_ns = 10 * kMillisecond_ns;
inline constexpr uint64_t kPauseLongest_ns = kSecond_ns;
// A connection that lasted so long shows that the peer is well: the next pause is the first again.
inline constexpr uint64_t kWellAfter_ns = kSecond_ns;

inline constexpr int kBacklog = 4096;
// After accept failed because descriptors or memory were short.
inline constexpr uint64_t kAcceptPause_ns = 100 * kMillisecond_ns;

}  // namespace refract::fabric::tcp
