// SPDX-License-Identifier: Apache-2.0
// One object on its way here from the members that have it (docs/design/055-object-transport.md).
//
// Its bytes come from several holders at once, each as fast as it gives them: by messages, whose answers are
// copied into the object's room, or by READs into it. A holder that dies, refuses or makes no progress is
// left, and the others bring what it owes. Nothing that a holder says is used before it is checked: no answer
// writes outside of the room, or behind the transfer's end.
//
// The room must not be given to anything else while READs are under way. So run() ends only when each READ
// has completed, or its channel has closed, which is what becomes of a holder that stalls in one. A transfer
// that is dropped closes the sessions in which READs are under way.
//
// It may follow a plan (docs/design/061-broadcast.md): then the first sources are members to which the object
// is coming, too, and of which it takes what they have. One source at a time brings it, in their order.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/memory/writer.h"
#include "refract/object/layout/object_layout.h"
#include "refract/object/owner/elsewhere.h"
#include "refract/object/transfer/arrivals.h"
#include "refract/object/transfer/path_memory.h"
#include "refract/object/transfer/piece_queue.h"
#include "refract/object/transfer/transfer_wire.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::object {

// A member that has it. What stands here outlives the transfer; the session may close.
struct TransferSource {
  std::string name;
  rpc::Session* session = nullptr;
  PathMemory* path = nullptr;
};

// Tests have small ones.
struct TransferLimits {
  uint64_t piece_bytes = kMiB;         // Of a READ.
  uint64_t message_bytes = 1 << 30;    // Of an answer, beside what the channel carries.
  uint64_t stall_ns = 2 * kSecond_ns;  // Nothing came of a holder for so long, while others may take its
  uint64_t stall_alone_ns = 10 * kSecond_ns;  // place, or none may: it is left.
};

struct TransferOrder {
  std::span<const std::byte> id;
  uint64_t birth = 0;
  ObjectParts parts;
  Writer& writer;             // Outlives the transfer.
  std::span<std::byte> room;  // Of parts.filled_bytes(), in the writer's space.
  TransferWish wish = TransferWish::kAuto;
  bool is_checked = false;  // The holders' digests of what came are compared.
  TransferLimits limits = {};
  Arrivals::Entry* arrival = nullptr;  // Told of what has come. Null: nothing is.
  uint64_t plan = 0;                   // 0: it follows none.
  size_t forebears = 0;                // Of the sources, the first: those that follow the same plan.
};

// What one member has done for it.
struct TransferShare {
  std::string name;
  wire::TransferBy by = wire::TransferBy::kMessages;
  uint64_t bytes = 0;
  uint64_t calls = 0;  // Round trips: TRANSFER, DATA, DONE and digests.
  uint64_t reads = 0;
  Code code = Code::kOk;  // Why it was left. kOk: it was not, or not asked.
};
struct TransferOutcome {
  // kOk: all bytes are in the room. Else what the last holder was left for: kNotFound: it is not there;
  // kUnavailable, kDeadlineExceeded; kUnsupported: it does not give in the way that was wished; kMalformed,
  // kCorrupt: it gave what it should not; kOverloaded; kInvalidArgument: it has other lengths.
  Code code = Code::kUnavailable;
  std::vector<TransferShare> shares;
};

class ObjectTransfer {
 public:
  static constexpr uint64_t kPieceBytesMin = 64 * kKiB;  // Of a READ where a second brings less than five.
  static constexpr size_t kSourcesMax = 4;               // At once.

  // `shard` outlives it.
  ObjectTransfer(runtime::Shard& shard, const TransferOrder& order, std::vector<TransferSource> sources);
  ObjectTransfer(const ObjectTransfer&) = delete;
  ObjectTransfer& operator=(const ObjectTransfer&) = delete;
  ~ObjectTransfer();

  // Once.
  [[nodiscard]] runtime::Task<TransferOutcome> run();
  // Nothing more is asked for. What is under way comes to its end, and run() ends with kCancelled.
  void stop();

 private:
  class Source;
  friend class Source;

  // All bytes are there, and an object of none is, too.
  [[nodiscard]] bool is_done() const noexcept { return is_opened_ && queue_.is_done(); }
  void start_sources();
  [[nodiscard]] Source* next_source();
  [[nodiscard]] size_t sources_wanted() const noexcept;
  [[nodiscard]] bool has_spare() const noexcept;
  // One has ended, or it is time to look at them.
  [[nodiscard]] runtime::Task<> wait();
  void leave_stalled();
  void source_ended() noexcept;
  void learn();
  [[nodiscard]] TransferOutcome outcome() const;

  runtime::Shard& shard_;
  const TransferOrder order_;
  PieceQueue queue_;
  std::vector<std::unique_ptr<Source>> sources_;
  size_t running_ = 0;
  bool is_opened_ = false;  // Some holder has said that it has it.
  bool is_stopped_ = false;
  uint64_t began_ns_ = 0;
  runtime::Token waiter_ = 0;
};

}  // namespace refract::object
