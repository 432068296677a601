// SPDX-License-Identifier: Apache-2.0
// A home of all ids that is no member of the list: what a directory asks of it, and what it says on its own
// (docs/design/056-directory-in-redis.md). It keeps the rules of HomeTable.
//
// A member keeps one stream to it: a hello, a report, then changes in their order, one page at a time.
//
// Threads: only the shard that owns the objects. What a home says comes in a turn of its own, never inside of
// a call.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/object/directory/directory_wire.h"
#include "refract/object/directory/home_table.h"
#include "refract/runtime/task.h"

namespace refract::object {

class OutsideHome {
 public:
  using MemberSet = HomeTable::MemberSet;

  // Of a stream.
  struct Change {
    wire::ChangeKind kind{};
    std::string id;
    uint64_t birth = 0;
    ObjectParts parts;
    CopiesWord copies = {};  // Of what is held.
  };
  struct Page {
    std::span<const Change> changes;
    bool is_report = false;
    bool is_last = false;  // Of the report.
  };
  struct LookUp {
    bool pulls = false;        // A copy comes to this member.
    bool tells_later = false;  // appeared() follows when it is published.
  };
  struct Buried {
    Code code = Code::kUnavailable;
    MemberSet missing;  // Have not acknowledged,
    MemberSet unknown;  // and without a stream now.
  };
  // What is known of the bound copies of an object.
  struct Copies {
    Code code = Code::kUnavailable;  // kNotFound; kVersionMismatch: of another birth, which is told.
    uint64_t birth = 0;
    HomeTable::Bound bound;
    MemberSet current;  // Members that have a stream, and have ended its report.
  };
  // Who speaks, under which list.
  struct Speaker {
    uint64_t list_version = 0;
    uint64_t list_digest = 0;
    size_t members = 0;
    MemberIndex self = 0;
    std::array<uint64_t, 2> identity{};  // Of its memory.
  };
  struct Counts {
    HomeTable::Counts home;
    bool is_complete = false;
    MemberSet unknown;           // Members that it has not heard from, as of its last word.
    uint64_t conflicts = 0;      // Births that were buried because another one stays.
    uint64_t repeated = 0;       // Writes that came too late, and were done again.
    uint64_t streams_begun = 0;  // By all members, as of its last word.
    uint64_t streams_ended = 0;  // Of this member, by the home or with a connection.
  };

  // The member.
  class Watcher {
   public:
    // hello() may be said, until home_closed().
    virtual void home_opened() noexcept = 0;
    // It cannot be reached, or the stream is over. Calls under way end with kUnavailable.
    virtual void home_closed() noexcept = 0;
    virtual void home_ordered(wire::DirectoryMethod method, const std::string& id,
                              uint64_t birth) noexcept = 0;
    // A member has dropped what was buried; so many processes held its memory.
    virtual void home_heard(MemberIndex member, const std::string& id, uint64_t birth,
                            uint64_t holders) noexcept = 0;

   protected:
    ~Watcher() = default;
  };

  virtual ~OutsideHome() = default;
  // From now on it is reached for under this list, again and again. The watcher outlives the home.
  virtual void reach(const Speaker& speaker, Watcher& watcher) = 0;
  // No page of changes is longer, with ids and all.
  [[nodiscard]] virtual size_t page_bytes_max() const noexcept = 0;

  // So long it may believe in a stream whose end this member has seen.
  [[nodiscard]] virtual uint64_t unseen_ns() const noexcept = 0;

  // Begins a stream; the one before has ended.
  [[nodiscard]] virtual runtime::Task<Code> hello() = 0;
  // `codes` has one for each change, as in docs/formats/directory.md. kVersionMismatch: the stream is over.
  [[nodiscard]] virtual runtime::Task<Code> changes(Page page, std::vector<Code>& codes) = 0;
  // Nothing: it did not answer.
  [[nodiscard]] virtual runtime::Task<std::optional<HomeTable::Found>> look_up(std::string id,
                                                                               LookUp how) = 0;
  // From now on this birth is refused everywhere: each member is told, and this one too.
  [[nodiscard]] virtual runtime::Task<Buried> bury(std::string id, uint64_t birth) = 0;

  // So many copies are to be bound from now on (wire::CopiesRequest::kAsItIs: nothing is changed); `birth` 0:
  // of whichever birth there is. kIndeterminate: it may be so.
  [[nodiscard]] virtual runtime::Task<Copies> copies(std::string id, uint64_t birth, uint8_t wanted) = 0;

  [[nodiscard]] virtual Counts counts() const noexcept = 0;
  // Where it is, for people.
  [[nodiscard]] virtual std::string name() const = 0;
  // Why it is not reached; code kOk: it is.
  [[nodiscard]] virtual Report trouble() const = 0;
};

}  // namespace refract::object
