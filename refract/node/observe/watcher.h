// SPDX-License-Identifier: Apache-2.0
// The asking end of wire.h: one shard of a node, looked at over one session.
//
// Blocking: each call drives the shard that the session lives on, at most for the timeout. What comes is
// checked like anything a peer sends; a node that does not know these calls gives kUnsupported.
//
// Threads: used only by its shard.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "refract/base/report.h"
#include "refract/node/observe/state.h"
#include "refract/node/observe/wire.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"

namespace refract::observe {

struct Recording {
  wire::TraceHeader header{};
  std::vector<wire::TraceRecord> records;  // Oldest first.
};

// Newest last; `ns` is the node's clock.
struct Event {
  uint64_t ns = 0;
  std::string text;  // "thread 2: shard sleeps, ..."
};

class Watcher {
 public:
  // Both outlive the watcher. `timeout_ns` is that of one message.
  Watcher(rpc::Session& session, runtime::Shard& shard, uint64_t timeout_ns) noexcept
      : session_(session), shard_(shard), timeout_ns_(timeout_ns) {}

  [[nodiscard]] Reported<ShardState> state();
  // At most so many, in the order of their places.
  [[nodiscard]] Reported<std::vector<ConnectionState>> connections(size_t connections_max);
  // Returns the node's clock when the recording began.
  [[nodiscard]] Reported<uint64_t> start_trace(uint64_t duration_ns, uint64_t records_max);
  // Ends the recording that start_trace began.
  [[nodiscard]] Reported<Recording> recording();
  [[nodiscard]] Reported<std::vector<Event>> events();
  // Has a snapshot written, which may take long: state() tells how far it is. Returns the attempt's number.
  [[nodiscard]] Reported<uint64_t> want_snapshot();

 private:
  [[nodiscard]] Reported<std::string> ask(wire::Topic topic, uint64_t from = 0);
  [[nodiscard]] Result<std::string> ask_once(wire::Topic topic, uint64_t from);
  [[nodiscard]] runtime::OpResult call(wire::Method method, std::span<const std::byte> body);

  rpc::Session& session_;
  runtime::Shard& shard_;
  uint64_t timeout_ns_;
};

}  // namespace refract::observe
