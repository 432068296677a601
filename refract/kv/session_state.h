// SPDX-License-Identifier: Apache-2.0
// What one session holds open at a table's owner: uploads, views and staged keys, all bounded, all gone with
// it.
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "refract/base/units.h"
#include "refract/kv/table.h"
#include "refract/kv/wire.h"
#include "refract/memory/pins.h"

namespace refract::kv {

// The buffers that open views read from, as the heap asks for them. Outlives heap and service.
class SessionPins final : public PinSource {
 public:
  void pin(Offset buffer) { buffers_.push_back(buffer); }
  // REQUIRES: pinned as often as unpinned.
  void unpin(Offset buffer) noexcept;
  [[nodiscard]] size_t count() const noexcept { return buffers_.size(); }

  // Owner and service are one thread: nothing to fence.
  void collect(PinSet& pins) noexcept override;

 private:
  std::vector<Offset> buffers_;
};

class SessionState {
 public:
  struct Upload {
    uint64_t id = 0;  // 0: free.
    uint64_t used_ns = 0;
    uint64_t filled = 0;  // Bytes of the value that have come.
    Table::Draft draft;
    PutOptions options;
  };
  // Of a value, which stays in its pinned buffer, or of a page of keys that was written for it.
  struct View {
    uint64_t id = 0;  // 0: free.
    uint64_t used_ns = 0;
    Offset buffer;
    std::span<const std::byte> bytes;
    std::vector<std::byte> page;
  };
  // Somebody who lost interest without saying so (a deadline, a dropped coroutine) gives up his place to the
  // next one when he has not touched it for so long.
  static constexpr uint64_t kIdle_ns = 30 * kSecond_ns;

  // `table` and `pins` outlive the state.
  SessionState(Table& table, SessionPins& pins) noexcept : table_(table), pins_(pins) {}
  SessionState(const SessionState&) = delete;
  SessionState& operator=(const SessionState&) = delete;
  // Closes everything.
  ~SessionState();

  // A place for one more, with all but id and content set; null: all are in use.
  [[nodiscard]] Upload* free_upload(uint64_t now_ns);
  [[nodiscard]] View* free_view(uint64_t now_ns);
  // The open one with this id; null: there is none.
  [[nodiscard]] Upload* find_upload(uint64_t id, uint64_t now_ns) noexcept;
  [[nodiscard]] View* find_view(uint64_t id, uint64_t now_ns) noexcept;

  void pin(View& view, Offset buffer, std::span<const std::byte> value);
  void close(View& view) noexcept;
  void abandon(Upload& upload);
  [[nodiscard]] size_t uploads() const noexcept;
  [[nodiscard]] size_t views() const noexcept;

  // kInvalidated: the piece does not follow on what is there. kTooLarge: no key is so long.
  [[nodiscard]] Code stage(size_t place, uint64_t offset, std::span<const std::byte> piece);
  // Empties the place; nothing where the key is not complete. `place` < kStagedKeysPerSession.
  [[nodiscard]] std::optional<std::vector<std::byte>> take_staged(size_t place, size_t key_bytes) noexcept;

 private:
  Table& table_;
  SessionPins& pins_;
  std::array<Upload, wire::kUploadsPerSession> uploads_;
  std::array<View, wire::kViewsPerSession> views_;
  std::array<std::vector<std::byte>, wire::kStagedKeysPerSession> staged_;
};

}  // namespace refract::kv
