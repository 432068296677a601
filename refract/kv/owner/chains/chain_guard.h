// SPDX-License-Identifier: Apache-2.0
// What chains may change in a table's region: nothing but the value of an entry that is there, by the very
// stores that its owner would make. A client that may send chains that write can so damage nothing that a put
// could not.
//
//   allowed    a compare-and-swap that changes nothing, wherever it may read: a test
//   allowed    a swap of the slot that names an entry without a time to live, to a buffer that the same chain
//              has just allocated for the same key, with sound lengths that cover exactly its bytes, no
//              flags, a stamp younger than what it replaces, and the slot's word as the owner would have made
//              it; the replaced buffer is retired
//   refused    everything else: WRITE, fetch-and-add, inserts, erasures, an ALLOCATE that its chain does not
//   own
//
// Where the table has a log, an install is told to it before it is made, and refused with kOverloaded or
// kReadOnly where the log has no room: the owner's call then waits for it, or says why.
//
// Why each condition is needed: docs/design/019-chains-on-our-table.md. Threads: used only by the shard that
// owns the table.
#pragma once

#include <cstdint>

#include "refract/kv/layout/layout.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/writer.h"
#include "refract/prism/snic/buffers.h"
#include "refract/prism/snic/guard.h"

namespace refract::kv {

class ChainGuard : public prism::snic::Guard {
 public:
  // All outlive the guard.
  ChainGuard(Table& table, const Writer& writer, const prism::snic::Buffers& buffers) noexcept
      : table_(table), writer_(writer), buffers_(buffers) {}

  [[nodiscard]] bool may_write(Offset at, uint64_t bytes) noexcept override;
  [[nodiscard]] Code may_swap(const prism::snic::Swap& swap) noexcept override;
  [[nodiscard]] bool may_allocate_unowned() noexcept override;

  [[nodiscard]] uint64_t installed_count() const noexcept { return installed_count_; }
  [[nodiscard]] uint64_t refused_count() const noexcept { return refused_count_; }

 private:
  [[nodiscard]] bool is_install(const prism::snic::Swap& swap) const noexcept;

  Table& table_;
  const Writer& writer_;
  const prism::snic::Buffers& buffers_;
  uint64_t installed_count_ = 0;
  uint64_t refused_count_ = 0;
};

}  // namespace refract::kv
