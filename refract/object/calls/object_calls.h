// SPDX-License-Identifier: Apache-2.0
// The client's side of the calls to the owner of objects: object_wire.h has their bodies.
//
// Outcomes: the owner's codes as object_wire.h has them. kUnavailable: the session is closed and nothing was
// changed. kDeadlineExceeded: likewise, no answer in time. kIndeterminate: a call that changes something was
// sent, and whether it was executed is unknown. kMalformed: the owner's answer made no sense. A busy owner
// (kOverloaded) is asked again until the deadline.
//
// Where the session reopens by itself, calls are sent again until the deadline; they have a claim, so that
// the owner knows them. Over another session the caller repeats them: kUnavailable, or kIndeterminate with a
// closed session. evict() alone is never sent twice.
//
// A deadline is a moment of the shard's clock; 0 stands for "timeout_ns from now", and of what moves an
// object's bytes for so long for each piece. What calls are given must live until the task has ended. The
// tasks use this: drop them first. A task that ends early while one-sided requests are under way closes the
// session.
//
// Threads: used only by its shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/kv/calls/lender.h"
#include "refract/memory/host/shared_buffer.h"
#include "refract/object/calls/object_answers.h"
#include "refract/object/layout/object_birth.h"
#include "refract/object/layout/object_layout.h"
#include "refract/object/layout/object_wire.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::object {

struct ObjectCallsOptions {
  uint64_t timeout_ns = 5 * kSecond_ns;
  // Of the domain whose channel the session has; outlives the calls. Null: bytes are written through windows.
  kv::Lender* lender = nullptr;
  // Whether a session that reopens by itself will not, so that no call waits for it. Empty: not known.
  std::function<bool()> is_given_up = {};
};

class ObjectCalls;

// An object that is being made, as its creator has it: given to each call about it, over whatever session.
struct Making {
  std::span<const std::byte> id;
  uint64_t claim = 0;  // Drawn for it: object_birth.h.
  ObjectParts parts;
  std::byte* bytes = nullptr;      // Body, padding and metadata. Null where these are none.
  SharedBuffer* shared = nullptr;  // Where they lie; null: anywhere.

  // What the calls know of it.
  uint64_t object_at = 0;  // Once it is created.
  bool is_sealed = false;
  bool maybe_sealed = false;  // A seal was sent, and its answer was lost.
  const ObjectCalls* at = nullptr;
  uint64_t opened_ns = 0;        // The session of `at` that has the creation.
  bool is_written = false;       // Through the window, since the owner does not READ.
  bool is_read_refused = false;  // The owner, or its process, could not take what was lent.
  wire::Place window{};
  uint64_t written_bytes = 0;
  uint64_t told_bytes = 0;  // By filled().

  [[nodiscard]] uint64_t birth() const noexcept { return birth_of(id, claim); }
};

class ObjectCalls : public ObjectAnswers {
 public:
  // Both outlive this.
  ObjectCalls(rpc::Session& session, runtime::Shard& shard, const ObjectCallsOptions& options = {});
  ObjectCalls(const ObjectCalls&) = delete;
  ObjectCalls& operator=(const ObjectCalls&) = delete;
  ~ObjectCalls() = default;

  // --- Creations ---

  [[nodiscard]] runtime::Task<Code> create(Making& making, uint64_t room_timeout_ns,
                                           uint64_t deadline_ns = 0);
  // The first `bytes` of what it is filled with are final. Where the owner READs them it does not wait.
  [[nodiscard]] runtime::Task<Code> filled(Making& making, uint64_t bytes, uint64_t deadline_ns = 0);
  // Continues a creation that another session had. kExists, kNotFound, kAccessDenied, kIndeterminate as
  // object_wire.h has them. kOverloaded with is_read_refused: the owner cannot take the bytes now; it may be
  // sealed again.
  [[nodiscard]] runtime::Task<Code> seal(Making& making, uint64_t deadline_ns = 0);
  [[nodiscard]] runtime::Task<Code> end_creation(Making& making, uint64_t deadline_ns = 0);

  // --- Whole objects in a message ---

  struct Put {
    std::span<const std::byte> id;
    std::span<const std::byte> body;
    std::span<const std::byte> metadata;
    uint64_t claim = 0;
    Code code = Code::kUnavailable;  // Of put_many().

    [[nodiscard]] uint64_t birth() const noexcept { return birth_of(id, claim); }
  };
  [[nodiscard]] bool fits_message(const Put& put) const noexcept;
  // REQUIRES, for both: they fit.
  [[nodiscard]] runtime::Task<Code> put(Put put, uint64_t room_timeout_ns, uint64_t deadline_ns = 0);
  // Each gets its own code.
  [[nodiscard]] runtime::Task<> put_many(std::span<Put> puts, uint64_t deadline_ns = 0);

  // --- Reading ---

  // Once it is sealed; kNotFound when the time is over before.
  struct CopyWish {
    uint8_t transfer = 0;  // As AwaitRequest has them.
    uint8_t flags = 0;
  };
  [[nodiscard]] runtime::Task<Result<wire::ObjectReply>> await(std::span<const std::byte> id,
                                                               uint64_t timeout_ns, uint64_t deadline_ns = 0,
                                                               CopyWish wish = {0, 0});
  // Where a fetched object goes.
  class Room {
   public:
    // For ObjectParts::filled_bytes(); asked again when an attempt has failed. Null: there is no memory.
    [[nodiscard]] virtual std::byte* room(const ObjectParts& parts) = 0;

   protected:
    ~Room() = default;
  };
  // The same with its bytes. kTooLarge: no room was given.
  [[nodiscard]] runtime::Task<Result<wire::ObjectReply>> fetch(std::span<const std::byte> id,
                                                               uint64_t timeout_ns, Room& room,
                                                               uint64_t deadline_ns = 0);

  [[nodiscard]] runtime::Task<Result<Places>> where(std::span<const std::byte> id, uint64_t deadline_ns = 0);

  [[nodiscard]] runtime::Task<Result<Paths>> paths(uint32_t first, uint64_t deadline_ns = 0);

  [[nodiscard]] runtime::Task<Result<wire::CopiesAnswer>> set_copies(std::span<const std::byte> id,
                                                                     KeptCopies copies,
                                                                     uint64_t deadline_ns = 0);
  // In how much time each node could have them, found out within `timeout_ns`. kTooLarge: they do not fit one
  // message.
  [[nodiscard]] runtime::Task<Result<Ranked>> rank(std::span<const std::span<const std::byte>> ids,
                                                   uint64_t timeout_ns, uint64_t deadline_ns = 0);
  // Has copies of it brought to these nodes, or to all, within `timeout_ns`. kInvalidArgument: `done` has the
  // names that are of no node. kTooLarge: they do not fit one message.
  [[nodiscard]] runtime::Task<Code> broadcast(std::span<const std::byte> id,
                                              std::span<const std::string> nodes, uint64_t timeout_ns,
                                              Broadcasted& done, uint64_t deadline_ns = 0);

  struct Listed {
    std::string id;
    wire::ListedObject object;
  };
  struct Page {
    std::vector<Listed> objects;
    uint64_t next = 0;
  };
  [[nodiscard]] runtime::Task<Result<Page>> list(uint64_t cursor, uint64_t deadline_ns = 0);
  struct Noticed {
    std::string id;
    wire::Notice notice;
  };
  struct Notices {
    std::vector<Noticed> notices;
    uint64_t next = 0;
    bool is_lost = false;
  };
  [[nodiscard]] runtime::Task<Result<Notices>> notices(uint64_t cursor, uint64_t timeout_ns,
                                                       uint64_t deadline_ns = 0);
  [[nodiscard]] runtime::Task<Result<wire::StatReply>> stat(uint64_t deadline_ns = 0);

  // --- Ending ---

  struct Removed {
    uint64_t holders = 0;
    std::vector<std::string> missed;  // Nodes that have not dropped it yet.
  };
  [[nodiscard]] runtime::Task<Result<Removed>> remove(std::span<const std::byte> id, uint64_t birth,
                                                      uint64_t deadline_ns = 0);
  [[nodiscard]] runtime::Task<Code> keep(std::span<const std::byte> id, bool is_kept,
                                         uint64_t deadline_ns = 0);
  [[nodiscard]] runtime::Task<Result<uint64_t>> evict(uint64_t bytes, uint64_t deadline_ns = 0);

  // Names of the nodes that the owner could not reach, as it said with its last kAway.
  [[nodiscard]] const std::vector<std::string>& away() const noexcept { return away_; }
  // What the owner said with its last kNoSpace.
  [[nodiscard]] const std::optional<wire::NoSpaceReply>& no_space() const noexcept { return no_space_; }
  [[nodiscard]] rpc::Session& session() noexcept { return session_; }

 private:
  struct Call {
    wire::Method method;
    std::span<const std::byte> head;
    std::span<const std::byte> tail;
    uint64_t deadline_ns;
    bool may_repeat = true;
  };
  struct Answer {
    runtime::OpResult reply;
    bool was_lost = false;  // An earlier attempt was sent, and not answered.

    [[nodiscard]] bool is_answered() const noexcept { return reply.value != 0; }
  };
  struct PutTeam;

  [[nodiscard]] uint64_t deadline_or_default(uint64_t deadline_ns) const noexcept;
  // Until there is an answer, or none can come.
  [[nodiscard]] runtime::Task<Answer> ask(Call call);
  [[nodiscard]] runtime::Task<bool> is_open_again(uint64_t deadline_ns);
  // What became of a call that changes nothing, and of one that does.
  [[nodiscard]] Code read_outcome(const Answer& answer) const noexcept;
  [[nodiscard]] static Code write_outcome(const Answer& answer) noexcept;

  [[nodiscard]] bool has(const Making& making) const noexcept {
    return making.at == this && making.opened_ns == session_.opened_ns() &&
           session_.state() == rpc::Session::State::kOpen;
  }
  [[nodiscard]] bool can_be_read(const Making& making) const noexcept;
  [[nodiscard]] kv::Lender::Loan lend(const Making& making);
  [[nodiscard]] runtime::Task<Code> take_back(Making& making, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> write(Making& making, uint64_t bytes, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Answer> seal_once(Making& making, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> fetch_rest(const wire::FetchReply& reply, std::span<std::byte> target);
  [[nodiscard]] runtime::Task<> put_batches(PutTeam& team);
  // Takes the codes; false: the answer makes no sense.
  static void settle(std::span<Put> puts, const Answer& answer) noexcept;
  void note_no_space(const Answer& answer) noexcept;

  rpc::Session& session_;
  runtime::Shard& shard_;
  ObjectCallsOptions options_;
  size_t body_bytes_max_;
  std::optional<wire::NoSpaceReply> no_space_;
  std::vector<std::string> away_;
};

}  // namespace refract::object
