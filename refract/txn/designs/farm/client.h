// SPDX-License-Identifier: Apache-2.0
// FaRM's client: reads by READs of index and object, commits by messages and READs.
//
//   lock       a message to each server with written keys: all are as they were read, and locked now
//   validate   a READ of the header of each key read: as it was read, and locked by no other (F1), (F2)
//   update     a message to each server with written keys: new values and versions, unlocked; or, as the row
//              farm-apart has it, unlocked by a message behind all updates
//
// (F1) Every key that was read is validated, behind all locks: this is the moment at which all stands
//      together.
// (F2) A key that another has locked is about to change: what was read of it does not count.
//
// Threads: used only by its shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/calls/task_team.h"
#include "refract/txn/designs/design.h"
#include "refract/txn/designs/farm/layout.h"
#include "refract/txn/designs/farm/object.h"

namespace refract::txn::farm {

// What the protocol cannot do without. Tests break each, and find out.
struct Rules {
  bool validates = true;               // (F1)
  bool validates_behind_locks = true;  // (F1)
  bool minds_locks_of_others = true;   // (F2)
  bool checks_lines = true;            // Of what it reads.
  bool unlocks_what_it_gives_up = true;
};

class FarmClient final : public designs::Client {
 public:
  explicit FarmClient(const designs::ClientParts& parts, const Rules& rules = {}, bool unlocks_apart = false);

  [[nodiscard]] runtime::Task<Result<>> attach(uint64_t deadline_ns) override;
  [[nodiscard]] std::unique_ptr<designs::Transaction> begin() override;

  struct Counts {
    uint64_t entries = 0;  // READs of each kind, repetitions too.
    uint64_t objects = 0;
    uint64_t headers = 0;
    uint64_t not_whole = 0;  // READs of objects that were locked or being written.
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  class Attempt;
  // Where a READ lands. One whose READ was given up belongs to the channel for ever.
  class Landing;

  struct ServerAt {
    explicit ServerAt(rpc::Session& session_there) noexcept : session(session_there) {}

    rpc::Session& session;
    AttachReply at{};
    Root root{};
  };
  struct Place {
    uint64_t at = 0;
    uint64_t bytes = 0;
  };

  [[nodiscard]] uint64_t deadline_or_default(uint64_t deadline_ns) const noexcept {
    return deadline_ns != 0 ? deadline_ns : shard_.now_ns() + timeout_ns_;
  }
  [[nodiscard]] runtime::Task<Code> attach_to(ServerAt& there, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> read(const ServerAt& there, Landing& landing, Place place,
                                         uint64_t deadline_ns);

  std::vector<std::unique_ptr<ServerAt>> servers_;
  runtime::Shard& shard_;
  uint64_t timeout_ns_;
  Rules rules_;
  bool unlocks_apart_;
  std::vector<std::unique_ptr<uint64_t[]>> landings_;  // Free ones, of landing_words_ each.
  std::vector<std::unique_ptr<uint64_t[]>> lost_;
  size_t landing_words_ = sizeof(Root) / sizeof(uint64_t);
  Counts counts_;
};

// The rows' entries.
[[nodiscard]] std::unique_ptr<designs::Client> make_client(const designs::ClientParts& parts);
[[nodiscard]] std::unique_ptr<designs::Client> make_client_that_unlocks_apart(
    const designs::ClientParts& parts);

}  // namespace refract::txn::farm
