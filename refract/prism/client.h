// SPDX-License-Identifier: Apache-2.0
// The caller's end of chains, over a session: one run() is one round trip.
//
//   const Result<Attachment> store = co_await client.attach("kv", {ChainRights::kRead}, deadline_ns);
//   const Result<Reply> reply = co_await client.run(chain, deadline_ns);
//
// An error of run() says that the outcomes are not known: kInvalidArgument and kTooLarge (finish() refused
// the chain, nothing was sent), kMalformed and kOverloaded (the executor refused it, nothing was executed),
// or the session's own (session.h), of which kIndeterminate leaves open what was executed. What became of
// each operation is in the reply, whose outputs are valid until the caller's next suspension or poll.
//
// A key ends with its session: after a reconnection operations are denied until the store is attached again.
// Threads: the session's shard.
#pragma once

#include <cstdint>
#include <string_view>

#include "refract/base/result.h"
#include "refract/prism/chain.h"
#include "refract/prism/operation.h"
#include "refract/prism/reply.h"
#include "refract/rpc/session.h"
#include "refract/runtime/task.h"

namespace refract::prism {

// What a session may do in a store's region, and where the store begins.
struct Attachment {
  RemoteKey key;
  uint16_t region = 0;
  ChainRights rights;
  uint64_t bytes = 0;  // Of the region when it was attached; it may have grown.
  uint64_t root = 0;   // Offset in the region.
  ChainForm form =
      ChainForm::kPlain;  // The densest that the executor reads; its caller may send the plain one, too.

  [[nodiscard]] RemotePointer at(uint64_t offset) const noexcept { return RemotePointer::at(region, offset); }
};

class Client {
 public:
  // The session outlives the client and its tasks.
  explicit Client(rpc::Session& session) noexcept : session_(session) {}

  // kNotFound: no such store. kAccessDenied: not all of these rights. kUnsupported: the peer executes no
  // chains. `store` lives until the task has ended, and so does a chain.
  [[nodiscard]] runtime::Task<Result<Attachment>> attach(std::string_view store, ChainRights rights,
                                                         uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<Reply>> run(const Chain& chain, uint64_t deadline_ns);

  // The same for callers without a coroutine. REQUIRES: not called from inside a poll.
  [[nodiscard]] Result<Attachment> attach_and_wait(std::string_view store, ChainRights rights,
                                                   uint64_t deadline_ns);
  [[nodiscard]] Result<Reply> run_and_wait(const Chain& chain, uint64_t deadline_ns);

  [[nodiscard]] rpc::Session& session() noexcept { return session_; }

 private:
  rpc::Session& session_;
};

}  // namespace refract::prism
