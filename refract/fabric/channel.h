// SPDX-License-Identifier: Apache-2.0
// A Channel is an ordered path from one shard to one peer, over any provider; a Domain is a shard's share of
// a provider: its channels, the regions it serves, and the one queue where all completions come out.
//
// Requests go in by batches and completions come out by batches. No call here blocks, allocates or throws,
// except those marked "control path". Whatever fails, a dead peer too, comes back as a completion, so that
// callers handle it in one place. Requests of one channel take effect at the peer in the order posted; a
// large WRITE may become visible there piece by piece (docs/design/003-memory-model.md).
//
// Threads: a domain and its channels are used only by the shard that opened them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "refract/base/report.h"
#include "refract/memory/remote_pointer.h"

namespace refract::fabric {

enum class Op : uint8_t {
  kRead,         // remote -> local
  kWrite,        // local -> remote
  kCompareSwap,  // 8 bytes; the old value comes back
  kFetchAdd,     // 8 bytes; the old value comes back
  kSend,         // local + tail, as one message to the peer's receiver
  kReceive,      // only in completions: a message from the peer
  kOpened,       // only in completions: the channel is ready, or `code` says why it never will be
  // Only in completions. With `value` 0 the last one of a channel that was open. With `value` 1 the provider
  // itself is reconnecting: the channel lives on, posts fail, and another kOpened or a last kClosed follows.
  kClosed,
};

// Without member initialisers, so that it can stand in the union below; write `LocalSpan span{}`.
struct LocalSpan {
  std::byte* data;
  size_t bytes;
};

struct RemoteSpan {
  RemotePointer address;
  RemoteKey key;
};

// Never a local variable of a coroutine: frames are aligned to 16 bytes. A coroutine calls a function that
// posts.
struct alignas(64) Request {
  uint64_t token = 0;  // Comes back, unchanged, in the completion. 0: no completion is wanted on success.
  LocalSpan local{};   // The bytes must stay put until the completion; of a kSend only until post returns.
  union {
    RemoteSpan remote{};  // Not used by kSend. As long as `local`; 8 bytes for the atomics.
    LocalSpan tail;       // kSend: the second half of the message, may be empty.
  };
  uint64_t compare = 0;  // kCompareSwap: what `remote` must hold.
  uint64_t operand = 0;  // kCompareSwap: the new value. kFetchAdd: the addend.
  Op op = Op::kSend;
};
static_assert(sizeof(Request) == 64, "a request fills one cache line");

// Regions with numbers from here on are lent to a peer for the time of a call, or of some.
inline constexpr uint16_t kLentRegionFirst = 0xc000;

class Channel;

struct Completion {
  uint64_t token = 0;
  Channel* channel = nullptr;
  // kReceive: the message, 8-byte aligned, valid until the next poll of the domain. The peer may still be
  // changing the bytes: copy what you check before you check it.
  std::span<const std::byte> bytes = {};
  uint64_t value = 0;  // kCompareSwap, kFetchAdd: what the word held before.
  Op op = Op::kSend;
  Code code = Code::kOk;
};

// What a channel can do, as numbers. The whole contract is required of every provider; these say how well.
struct Capabilities {
  uint32_t depth = 0;                     // Requests in flight, at most.
  uint32_t message_bytes_max = 0;         // kSend: local + tail together.
  bool read_bypasses_target_cpu = false;  // kRead works while the peer's process is stopped.
  bool peer_reads_bypass_cpu = false;     // The other way: the peer's kRead works while this one is stopped.
  // Regions that the connecting end registers with a memory file are mapped by the accepting end, whose kRead
  // of them needs no other process; of others from kLentRegionFirst on it is refused.
  bool maps_lent_files = false;
  // From so many bytes on, one kRead of such memory may be copied by several threads, so one of this length
  // is better than several shorter ones. 0: it makes no difference.
  uint32_t shared_read_bytes_min = 0;
  bool atomics_coherent_with_cpu = true;  // kCompareSwap meets the peer's own atomics on one word.
  bool counts_written_bytes = true;       // revoke_region knows what WRITEs have brought; devices do not say.
  // A message is a few stores: the peer sees it at once, and two small ones cost hardly more than one. Else
  // each batch costs a system call or a doorbell.
  bool messages_are_stores = false;
  // From so many bytes on one READ or WRITE beats messages. 0: messages are always the better way.
  uint32_t one_sided_bytes_min = 0;
};

class Channel {
 public:
  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  virtual ~Channel() = default;

  // Takes a prefix of `requests` and returns its length. A short count means "poll, then post the rest"; it
  // is no failure. On a closed channel everything is taken and completes with kUnavailable.
  [[nodiscard]] virtual size_t post(std::span<const Request> requests) noexcept = 0;

  // What was posted leaves now, where it would wait for the end of the turn: for those whose next posts take
  // a while, so that the peer begins meanwhile.
  virtual void flush() noexcept {}

  // The peer's next message, for a caller that waits for one message outside of any poll: what was posted
  // leaves now, then memory is looked at so many times, with a pause of the processor between two looks. The
  // bytes are those of a kReceive, and never come out of a poll. Empty: none came, something else comes
  // before it, or this provider has no memory to look at; poll. docs/design/040-waiting-for-one-message.md.
  [[nodiscard]] virtual std::span<const std::byte> await_message(unsigned /*looks*/) noexcept { return {}; }

  // How many more messages of the largest size can be posted now: for servers that must not start work whose
  // reply would not fit.
  [[nodiscard]] virtual size_t room() const noexcept = 0;

  [[nodiscard]] virtual const Capabilities& capabilities() const noexcept = 0;

  // The peer's space as mapped here, read-only, for plain loads; the fastest path there is. Null where there
  // is none. `bytes` grows as the node does.
  struct LocalView {
    const std::byte* base = nullptr;
    uint64_t bytes = 0;
  };
  [[nodiscard]] virtual LocalView local_view() const noexcept { return {}; }

  // Control path, may wait some milliseconds: maps what the peer's space has grown by. False: nothing new.
  [[nodiscard]] virtual bool refresh_local_view() noexcept { return false; }

  // Gives up the channel: outstanding requests complete with kUnavailable, then kClosed comes. Idempotent.
  virtual void close() noexcept = 0;

  // True between a kClosed and the kOpened that the provider brings about by itself, when the peer is
  // expected back.
  [[nodiscard]] virtual bool reconnects() const noexcept { return false; }

  // The owner's word for this channel, untouched by the provider.
  void* context = nullptr;
};

class Domain {
 public:
  Domain() = default;
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;
  virtual ~Domain() = default;

  [[nodiscard]] virtual std::string_view provider() const noexcept = 0;

  // Fills a prefix of `completions` and returns its length. Ends the validity of earlier kReceive bytes. Of
  // one accepted channel it delivers at most room() messages a call, so that each can be answered at once by
  // the largest reply. The connecting end gets all there is: if both ends waited for room, both could wait
  // for ever.
  [[nodiscard]] virtual size_t poll(std::span<Completion> completions) noexcept = 0;

  // Ends a turn: everything posted since the last call leaves now, and sleeping peers are woken.
  virtual void flush() noexcept = 0;

  // Control path. Serves `bytes` at `base` to one-sided requests of peers that show the key. The memory must
  // stay mapped until the domain is gone or the region is revoked.
  struct RegionSpec {
    uint16_t region = 0;
    std::byte* base = nullptr;
    uint64_t bytes = 0;
    Rights rights;
    // The offset of `base`, for memory that does not begin at a page: what base is beyond one. Smaller ones
    // are not served.
    uint64_t first = 0;
    // Where `base` is the beginning of a memory file that is_lendable(): its descriptor, open as long as the
    // region. See Capabilities::maps_lent_files; others make nothing of it.
    int lent_file = -1;
  };
  [[nodiscard]] virtual Reported<RemoteKey> register_region(const RegionSpec& spec) = 0;
  // Returns how many bytes completed WRITEs have brought into it, as far as the provider learns of them (see
  // Capabilities::counts_written_bytes); a byte written twice counts twice.
  virtual uint64_t revoke_region(uint16_t region) noexcept = 0;

  // Control path, does not wait: the channel's first completion is kOpened. The domain owns the channel until
  // its kClosed (or failed kOpened) completion has been polled; from the next poll on the pointer is dead.
  [[nodiscard]] virtual Reported<Channel*> connect(std::string_view address) = 0;

  // Sleeping, as runtime::Poller has it: announce that this domain's shard sleeps and look again.
  [[nodiscard]] virtual bool prepare_sleep() noexcept { return true; }
  virtual void woke() noexcept {}
  // Descriptors whose readability must end the shard's sleep; asked again after every kOpened or kClosed.
  [[nodiscard]] virtual std::span<const int> wake_descriptors() const noexcept { return {}; }
};

}  // namespace refract::fabric
