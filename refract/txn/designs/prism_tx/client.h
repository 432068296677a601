// SPDX-License-Identifier: Apache-2.0
// PRISM-TX's client: everything by chains, one for each key, those of one step side by side.
//
//   read       READ slot; READ what it leads to                                 the slot first (R1)
//   validate   CAS PW|PR: where PW is what was read, PR becomes TS if greater   of each key read
//   prepare    CAS PW: becomes TS if greater; READ PR: TS >= PR                 of each key written
//   install    WRITE TS, ALLOCATE the item, CAS C|pointer                       likewise
//   abort      CAS C: becomes TS if greater                                     where PW became TS
//
// (R1) What was read stands at C of the slot or of the buffer, whichever is greater: an abort raises the
//      slot's alone. The slot is read first, so that it is never newer than the value.
// (R2) All reads are validated before anything is prepared, those of written keys too.
// (R3) TS >= PR, not >: PR may be this transaction's own, from (R2).
// (R4) An abort raises C wherever PW was raised, whatever came of the key else, or nothing commits there any
//      more.
//
// Threads: used only by its shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/calls/task_team.h"
#include "refract/prism/client.h"
#include "refract/txn/designs/design.h"
#include "refract/txn/designs/prism_tx/layout.h"

namespace refract::txn::prism_tx {

// What the protocol cannot do without. Tests break each, and find out.
struct Rules {
  bool reads_slot_first = true;          // (R1)
  bool reads_greater_of_both = true;     // (R1)
  bool validates_reads = true;           // (R2)
  bool raises_readers = true;            // (R2): PR becomes TS.
  bool validates_written = true;         // (R2), of written keys too.
  bool accepts_own_reader = true;        // (R3)
  bool checks_readers = true;            // (R3)
  bool raises_committed = true;          // (R4)
  bool raises_wherever_prepared = true;  // (R4), and not only where TS >= PR held.
};

class PrismTxClient final : public designs::Client {
 public:
  explicit PrismTxClient(const designs::ClientParts& parts, const Rules& rules = {});

  [[nodiscard]] runtime::Task<Result<>> attach(uint64_t deadline_ns) override;
  [[nodiscard]] std::unique_ptr<designs::Transaction> begin() override;

  struct Counts {
    uint64_t probes = 0;         // Slots that reads looked at.
    uint64_t not_valid = 0;      // Keys whose read was not.
    uint64_t not_prepared = 0;   // Keys that a later writer or reader had.
    uint64_t raised_clocks = 0;  // Timestamps that are ahead of the clock.
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  class Attempt;

  struct ServerAt {
    ServerAt(rpc::Session& session_there) noexcept : session(session_there), chains(session_there) {}
    [[nodiscard]] RemotePointer slot(uint64_t index, size_t word) const noexcept {
      return store.at(slot_at(root, index) + word * sizeof(uint64_t));
    }

    rpc::Session& session;
    prism::Client chains;
    prism::Attachment store;
    Root root{};
  };

  [[nodiscard]] uint64_t deadline_or_default(uint64_t deadline_ns) const noexcept {
    return deadline_ns != 0 ? deadline_ns : shard_.now_ns() + timeout_ns_;
  }
  [[nodiscard]] runtime::Task<Result<>> attach_to(ServerAt& at, uint64_t deadline_ns);
  // Greater than `floor`, and than all before. 0: the clock has come to its end.
  [[nodiscard]] Timestamp next_timestamp(Timestamp floor) noexcept;

  std::vector<std::unique_ptr<ServerAt>> servers_;
  runtime::Shard& shard_;
  const Clock& clock_;
  uint16_t number_;
  uint64_t timeout_ns_;
  Rules rules_;
  uint64_t last_ticks_ = 0;
  Counts counts_;
};

// The row's entry.
[[nodiscard]] std::unique_ptr<designs::Client> make_client(const designs::ClientParts& parts);

}  // namespace refract::txn::prism_tx
