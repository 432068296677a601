// SPDX-License-Identifier: Apache-2.0
// Serves the objects of a shard to its clients: decodes, checks, executes and answers the calls of
// object_wire.h. A call that is refused for its form (kMalformed, kInvalidArgument, kTooLarge) has changed
// nothing.
//
// A creation belongs to the session that made it, or that made the same call again, and is given up when that
// session ends: at once over shared memory, where the kernel says that the process is gone, after kClaim_ns
// over a network. Its memory is given back only when no READ of the owner's can land in it.
//
// Every wait has an end: the call's timeout, the session's end, or the bound of what one session may have.
// While a create waits for room, a timer looks for it, since pins end without a message; an owner without
// calls and without waiting creates needs no CPU.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "refract/base/units.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/pull_fetcher.h"
#include "refract/kv/owner/service/session_state.h"
#include "refract/memory/heap.h"
#include "refract/memory/writer.h"
#include "refract/object/layout/object_wire.h"
#include "refract/object/owner/elsewhere.h"
#include "refract/object/owner/object_store.h"
#include "refract/rpc/server.h"
#include "refract/runtime/shard.h"

namespace refract::object {

class ObjectService final : public rpc::Service {
 public:
  // How long a creation waits for its creator, whose session over a network has ended or whose owner has.
  static constexpr uint64_t kClaim_ns = 10 * kSecond_ns;
  static constexpr size_t kNotices = 4096;  // That are kept for subscribers.

  // All outlive the service.
  struct Parts {
    ObjectStore& store;
    Heap& heap;
    Writer& writer;
    kv::SessionPins& pins;  // Of fetches. Among the sources that the heap asks.
    kv::GrowthSource& growth;
    runtime::Shard& shard;
    kv::WindowSource* windows = nullptr;  // Null: bytes travel by messages and READs of the owner's alone.
    uint64_t pull_piece_bytes = kv::PullFetcher::kPieceBytes;
    size_t notices = kNotices;
    Elsewhere* elsewhere = nullptr;  // Null: the node shares its objects with no other.
  };
  // Behind the store's recovery: creations that it has found wait for their creators from now on. The store
  // tells this service of its changes as long as it lives.
  explicit ObjectService(const Parts& parts);
  ObjectService(const ObjectService&) = delete;
  ObjectService& operator=(const ObjectService&) = delete;
  ~ObjectService() override;

  // What carries the answers. Before the first session; null: no call is answered any more, and all sessions
  // have ended.
  void answer_through(rpc::Server* server) noexcept;

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_opened(rpc::SessionId session) noexcept override;
  void session_closed(rpc::SessionId session) noexcept override;

  // The node has given the heap more memory, or has been refused, and can_grow() says so: creates that waited
  // try again.
  void on_memory_added() noexcept;
  void on_growth_refused() noexcept;

  // What was changed by another caller of the store than this service, its notices and those who wait for
  // them: to be called in the same turn.
  void on_store_changed() noexcept;

  // As a client gets it. Looks at all pins and objects, at most every some milliseconds.
  [[nodiscard]] wire::StatReply stat();

  static constexpr size_t kMethods = 19;
  struct Counts {
    std::array<uint64_t, kMethods> calls{};  // By method, from kMethodsBegin on.
    uint64_t overloaded = 0;                 // Answers.
    uint64_t no_space = 0;                   // Likewise.
    uint64_t given_up = 0;                   // Creations whose session ended, or whose creator did not come.
    uint64_t claimed = 0;                    // Creations that became another session's.
    uint64_t notices = 0;                    // That there have been,
    uint64_t lost = 0;                       // and how often a subscriber had missed some.
    uint64_t replays = 0;
    // Now:
    uint64_t creations = 0;
    uint64_t unclaimed = 0;  // Among them.
    uint64_t waiting_for_room = 0;
    uint64_t waiting_bytes = 0;
    uint64_t waiting_for_objects = 0;  // Calls of kAwait and kFetch.
    uint64_t waiting_for_notices = 0;
    uint64_t fetches = 0;  // Objects that are held for READs,
    uint64_t fetch_bytes = 0;
  };
  [[nodiscard]] Counts counts() const noexcept;
  // Of bytes that were READ from their creators' memory.
  [[nodiscard]] const kv::PullFetcher& pulls() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "create", "seal": for people and counters. Empty for a number that is no method.
[[nodiscard]] std::string_view name(wire::Method method) noexcept;

}  // namespace refract::object
