// SPDX-License-Identifier: Apache-2.0
// What happened to objects, for subscribers: the last notices in a ring, and replays of all sealed objects.
//
// A notice has a number of the heap's stamps, which only grow, across restarts too. A cursor is the number of
// the last notice that a subscriber has; so one of an earlier run, or of notices that have left the ring, is
// known to be. A cursor of a replay is a stamp, too, drawn for each page: a page is handed out once.
//
// A replay is exact although objects come and go meanwhile: it begins at a notice, and shows each object that
// is sealed then, also one that is deleted before its place is reached, and none that is sealed later. What
// has happened since, the ring tells.
//
// Threads: only the shard that owns the objects. Allocates.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "refract/memory/heap.h"
#include "refract/object/layout/object_wire.h"
#include "refract/object/owner/object_store.h"
#include "refract/object/owner/reply_page.h"
#include "refract/rpc/server.h"

namespace refract::object {

class Notices {
 public:
  static constexpr size_t kReplaysPerSession = 4;  // The one looked at least lately makes place for another.
  static constexpr size_t kReplaysMax = 256;

  // Both outlive it. `notices_max` are kept.
  Notices(ObjectStore& store, Heap& heap, size_t notices_max);

  // REQUIRES: the store's listener calls, in the order of the changes.
  void add(wire::NoticeKind kind, std::span<const std::byte> id, const Object& object);

  // Nothing would be told now: there is nothing behind the cursor. Nothing is due to a replay.
  [[nodiscard]] bool is_at_end(uint64_t cursor) const noexcept { return cursor == newest_; }
  struct Told {
    uint64_t next = 0;
    bool is_lost = false;
  };
  // Fills the page with what is behind the cursor. Nothing: too many replays are under way.
  [[nodiscard]] std::optional<Told> tell(rpc::SessionId session, uint64_t cursor, ReplyPage& page);
  void end(rpc::SessionId session) noexcept;

  [[nodiscard]] uint64_t newest() const noexcept { return newest_; }
  struct Counts {
    uint64_t notices = 0;
    uint64_t lost = 0;
    uint64_t replays = 0;
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  struct Kept {
    uint64_t number = 0;
    wire::Notice notice{};
    std::string id;
  };
  struct Shown {
    wire::Notice notice{};
    std::string id;
  };
  struct Replay {
    rpc::SessionId session;
    uint64_t cursor = 0;  // Of its next page.
    uint64_t begin = 0;   // The newest notice when it began.
    uint64_t place = 0;   // In the store's list.
    bool is_listed = false;
    std::unordered_set<uint64_t> settled;  // Objects that were shown, or that the ring tells of.
    std::deque<Shown> to_show;
  };

  // What a replay knows an object by.
  [[nodiscard]] static uint64_t mark_of(std::span<const std::byte> id, uint64_t birth) noexcept;
  [[nodiscard]] bool knows(uint64_t cursor) const noexcept { return cursor >= floor_ && cursor <= newest_; }
  [[nodiscard]] Replay* begin_replay(rpc::SessionId session);
  [[nodiscard]] uint64_t tell_replay(Replay& replay, ReplyPage& page);
  void list_some(Replay& replay);

  ObjectStore& store_;
  Heap& heap_;
  const size_t notices_max_;
  std::deque<Kept> kept_;
  uint64_t floor_;                                // The last notice that is not kept.
  uint64_t newest_;                               // The last notice.
  std::vector<std::unique_ptr<Replay>> replays_;  // The one looked at most lately is the last.
  Counts counts_;
};

}  // namespace refract::object
