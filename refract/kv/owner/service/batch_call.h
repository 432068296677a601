// SPDX-License-Identifier: Apache-2.0
// A call of several changes at one moment (batch_wire.h), taken out of the sender's reach, and its answer.
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/result.h"
#include "refract/kv/layout/batch_wire.h"
#include "refract/kv/owner/table/batch.h"
#include "refract/kv/owner/table/table.h"

namespace refract::kv {

class BatchCall {
 public:
  BatchCall() = default;
  BatchCall(const BatchCall&) = delete;
  BatchCall& operator=(const BatchCall&) = delete;
  ~BatchCall() = default;

  // Copies `body`, then takes it apart. kMalformed; kInvalidArgument, kTooLarge with failed(): a key is
  // empty, or there is too much. The table outlives the call.
  [[nodiscard]] Code decode(const wire::BatchRequest& request, std::span<const std::byte> body,
                            const Table& table, const Clock& clock);

  [[nodiscard]] TableBatch& batch() noexcept { return batch_; }
  [[nodiscard]] const TableBatch& batch() const noexcept { return batch_; }
  [[nodiscard]] size_t items() const noexcept { return conditions_.size() + writes_.size(); }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_.size(); }
  // Of the answer, if it is executed.
  [[nodiscard]] size_t answer_bytes() const noexcept {
    return sizeof(wire::BatchReply) + (writes_.size() - rows_.size()) * sizeof(wire::WrittenOfBatch) +
           rows_.size() * sizeof(wire::RowOfBatch);
  }
  // Whether what it is answered cannot be told from the table alone, later: of erasures and of rows.
  [[nodiscard]] bool has_answers() const noexcept;
  // All keys: of the conditions, then of the writes.
  [[nodiscard]] const TableKey& key(size_t which) const noexcept {
    return which < conditions_.size() ? conditions_[which].key : writes_[which - conditions_.size()].key;
  }

  // Of an executed one, from which tell_again() knows its versions; 0: it made no entry.
  [[nodiscard]] uint64_t base() const noexcept;
  // For a repetition. The sum of an add, and what a row answered, only where its entry still stands, and
  // nothing of erasures.
  void tell_again(Table& table, uint64_t base);
  // Likewise, of what answer() made then. False: that is not known, or it is of another batch.
  [[nodiscard]] bool take_told(std::span<const std::byte> told);
  // Where an entry still says that it was made by this very batch: true, and what that one was told.
  [[nodiscard]] bool find_executed(Table& table);
  // Whether a version that it asks for of a key which it certainly writes is still there: then it was not
  // executed.
  [[nodiscard]] bool is_untouched(Table& table) const;

  // BatchReply, and where `code` is kOk what was written. The reply's view is left to the caller.
  [[nodiscard]] std::vector<std::byte> answer(Code code) const;
  // Likewise PartReply.
  [[nodiscard]] std::vector<std::byte> answer_of_part(Code code) const;

 private:
  [[nodiscard]] Code take_condition(std::span<const std::byte>& body, const Table& table);
  [[nodiscard]] Code take_write(std::span<const std::byte>& body, const Table& table, const Clock& clock);
  // Of a write that computes. REQUIRES: rows_ has room.
  [[nodiscard]] Code take_row(const wire::WriteOfBatch& asked, BatchWrite& write);

  // What a few short items need. With all else as much as the C library gives out quickly.
  alignas(std::max_align_t) std::array<std::byte, 832> room_;
  std::pmr::monotonic_buffer_resource arena_{room_.data(), room_.size()};
  std::span<std::byte> bytes_;
  std::pmr::vector<BatchCondition> conditions_{&arena_};
  std::pmr::vector<BatchWrite> writes_{&arena_};
  std::pmr::vector<BatchRow> rows_{&arena_};  // With their answers; writes lead to them.
  TableBatch batch_;
  uint64_t base_ = 0;  // Of a repetition; 0: not known.
};

}  // namespace refract::kv
