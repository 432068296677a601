// SPDX-License-Identifier: Apache-2.0
// A write on its way through a table's service: as it was asked for, while it waits, and what is answered.
// And what the service knows of the session by which it comes.
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/result.h"
#include "refract/fabric/channel.h"
#include "refract/kv/layout/contract.h"
#include "refract/kv/layout/wire.h"
#include "refract/kv/owner/parts/waiting_turns.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/batch_call.h"
#include "refract/kv/owner/service/outcomes.h"
#include "refract/kv/owner/service/session_state.h"
#include "refract/kv/owner/service/staged_body.h"
#include "refract/kv/owner/table/eviction.h"
#include "refract/kv/owner/table/table.h"
#include "refract/rpc/server.h"

namespace refract::kv::writes {

// The first of the client's regions in which a value may be READ. Of others a READ would need the client's
// CPU, which may stand still.
[[nodiscard]] constexpr uint32_t pull_region_min_of(const fabric::Capabilities& can) noexcept {
  if (can.read_bypasses_target_cpu) return 0;
  return can.maps_lent_files ? fabric::kLentRegionFirst : uint32_t{UINT16_MAX} + 1;
}

// When something that has so long to live expires; beyond the end of time: never. Without a time to live the
// clock is not read, which is a tenth of a put.
[[nodiscard]] inline uint64_t expiry(const Clock& clock, uint64_t ttl_ns) noexcept {
  if (ttl_ns == 0) return 0;
  const uint64_t wall_ns = clock.wall_ns();
  return ttl_ns > UINT64_MAX - wall_ns ? 0 : wall_ns + ttl_ns;
}

// Whether room comes by itself: what the log still needs is given back, and what is being emptied soon is.
[[nodiscard]] inline bool room_will_come(const Table& table, const Eviction* eviction) noexcept {
  return table.held_back().count() > 0 || (eviction != nullptr && eviction->is_under_way());
}

// Which attempt of an identified write it is.
struct Repetition {
  bool repeats = false;
  uint64_t first_sent_ns = 0;  // By the shard's clock, or earlier; 0: not known.
  uint64_t opened_ns = 0;      // Likewise: the session by which it comes.
};
struct Write {
  wire::Method method{};
  Table::HashedKey key = {};
  std::span<const std::byte> value = {};
  uint64_t value_bytes = 0;
  bool wants_window = false;
  PutOptions options = {};
  Repetition attempt = {};
  // kPutCommit: which; the rest is there. kPutPulled: 0 before its bytes are, then likewise.
  uint64_t upload = 0;
  fabric::RemoteSpan source{};  // kPutPulled, likewise below.
  uint64_t give_up_ns = 0;
  bool is_draft = false;  // kPutPulled: its upload stays open when the bytes are there.
};
// A page that waits for its turn.
struct PendingScan {
  rpc::Responder from;
  wire::ScanRequest request{};
};
// A write that waits for memory or for room in the log; its key and value lie in `bytes`.
struct Waiting {
  rpc::Responder from;
  Write write;
  std::vector<std::byte> bytes;
  bool for_log = false;
};
// Writes of another service over the same table that wait for the same: memory, the log, keys that are held.
class WaitingBeside {
 public:
  // Each that is over is answered; the others wait on.
  virtual void retry_waiting() noexcept = 0;
  [[nodiscard]] virtual size_t waiting() const noexcept = 0;
  [[nodiscard]] virtual size_t waiting_for_log() const noexcept = 0;
  // Whether one that waits for the log finds room there now.
  [[nodiscard]] virtual bool has_room_in_log() const noexcept = 0;

 protected:
  ~WaitingBeside() = default;
};
// Several changes of this shard that wait for a key which a transaction over several holds (WaitingTurns).
struct WaitingBatch {
  rpc::Responder from;
  wire::Identity identity{};
  std::unique_ptr<BatchCall> call;
  uint64_t session = 0;
  uint64_t begun_ns = 0;  // When it came.
  uint64_t give_up_ns = 0;
  uint64_t bytes = 0;
};
using WaitingBatches = WaitingTurns<WaitingBatch>;
// Of a write: what is answered.
struct Written {
  uint64_t version = 0;  // Made or erased; 0: an upload has been opened instead.
  uint64_t upload = 0;
  std::optional<Window> window = {};

  [[nodiscard]] static Result<Written> from(const Result<uint64_t>& version) noexcept {
    return version ? Result<Written>(Written{.version = *version}) : fail(version.error());
  }
};

// Of a table with a log.
struct LogStats {
  uint64_t held_answers = 0;     // Now, of writes that the log has not confirmed.
  uint64_t waiting_writes = 0;   // Now, for room in the log.
  uint64_t held_back_bytes = 0;  // Now, of buffers that are replaced, and that the log has still to read.
  uint64_t indeterminate = 0;    // Answers, because the log failed before it confirmed a write.
  uint64_t read_only = 0;        // Writes refused because it cannot be written.
};

}  // namespace refract::kv::writes

namespace refract::kv {

struct OpenSession {
  // All outlive it. `windows` as SessionState has them; the counts are of all sessions.
  struct Parts {
    Table& table;
    SessionPins& pins;
    WindowSource* windows;
    Outcomes& outcomes;
    uint64_t& all_upload_bytes;
    uint64_t& all_staged_bytes;
  };
  OpenSession(const Parts& parts, size_t payload_bytes, const fabric::Capabilities& can,
              uint64_t now_ns) noexcept
      : state(parts.table, parts.pins, can.one_sided_bytes_min > 0 ? parts.windows : nullptr,
              parts.all_upload_bytes, parts.outcomes),
        payload_bytes_max(payload_bytes),
        one_sided_bytes_min(can.one_sided_bytes_min),
        pull_region_min(writes::pull_region_min_of(can)),
        opened_ns(now_ns),
        batch(parts.all_staged_bytes) {}

  SessionState state;
  size_t payload_bytes_max;      // Of an answer.
  uint32_t one_sided_bytes_min;  // As the session's channel says, likewise below.
  uint32_t pull_region_min;      // Values may be READ in the client's regions from here on.
  uint64_t opened_ns;
  std::deque<writes::PendingScan> scans;
  StagedBody batch;  // Of the next one.
};

}  // namespace refract::kv
