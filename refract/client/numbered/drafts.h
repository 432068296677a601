// SPDX-License-Identifier: Apache-2.0
// Values of one shard's long numbered writes on their way into drafts, and the drafts that are not committed
// (docs/design/077, section 2).
//
// A draft is one connection's. Whatever ends early gives it back: a write that goes, its time, the
// connection; then nothing reads the write's value any more.
//
// Threads: used only by the shard of its peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "refract/base/result.h"
#include "refract/client/numbered/numbered_write.h"
#include "refract/client/numbered/numbered_writes.h"
#include "refract/client/paths/connection.h"
#include "refract/client/paths/peers.h"
#include "refract/kv/layout/wire.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::client {

class Drafts {
 public:
  // Half of what the owner has open for a connection, so that it need not refuse any: places, and bytes,
  // which one alone may exceed.
  static constexpr size_t kCountMax = kv::wire::kUploadsPerSession / 2;
  static constexpr uint64_t kBytesMax = kv::wire::kOpenBytesPerSession / 2;

  class Listener {
   public:
    // There is something to tell. Not to be told inside.
    virtual void draft_is_over() noexcept = 0;

   protected:
    ~Listener() = default;
  };

  // Both outlive it.
  Drafts(runtime::Shard& shard, Listener& listener) noexcept : shard_(shard), listener_(listener) {}
  Drafts(const Drafts&) = delete;
  Drafts& operator=(const Drafts&) = delete;
  ~Drafts() = default;

  [[nodiscard]] bool has_room() const noexcept { return drafts_.size() < kCountMax && bytes_ < kBytesMax; }
  // One of NumberedWrites::next_draft(). REQUIRES: the connection's session is open.
  void begin(Connection& connection, NumberedWrite& write, uint64_t deadline_ns);
  [[nodiscard]] bool has_to_tell() const noexcept;
  // Tells what has become of drafts. May end writes, and so drafts.
  void tell(NumberedWrites& writes);
  // The write is over, or has left. It need not have one.
  void end(NumberedWrite& write) noexcept;
  // The connection is over.
  void end_all() noexcept;

 private:
  struct Draft {
    Draft(Connection& at, NumberedWrite& of) noexcept : write(of), connection(at), use(at) {}

    NumberedWrite& write;
    Connection& connection;
    Peers::Use use;
    Result<uint64_t> handle = fail(Code::kUnavailable);
    bool is_over = false;  // The way there.
    bool is_told = false;
    runtime::Task<> task;
  };
  using Owned = std::unique_ptr<Draft>;

  [[nodiscard]] runtime::Task<> bring(Draft& draft, uint64_t deadline_ns);
  [[nodiscard]] Owned take(const NumberedWrite& write) noexcept;

  runtime::Shard& shard_;
  Listener& listener_;
  std::vector<Owned> drafts_;
  uint64_t bytes_ = 0;
};

}  // namespace refract::client
