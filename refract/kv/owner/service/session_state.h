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
#include "refract/kv/layout/wire.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/outcomes.h"
#include "refract/kv/owner/table/table.h"
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
    std::optional<Window> window;  // The value comes by WRITEs, which are counted when it is closed.
    bool is_pulled = false;        // READs may still land in the draft: no other call may change it.

    [[nodiscard]] uint64_t bytes() const noexcept { return draft.lengths.value_bytes; }
  };
  // Of a value, which stays in its pinned buffer, or of a page of keys that was written for it.
  struct View {
    uint64_t id = 0;  // 0: free.
    uint64_t used_ns = 0;
    Offset buffer;
    std::span<const std::byte> shown;
    std::vector<std::byte> page;
    std::optional<Window> window;

    [[nodiscard]] uint64_t bytes() const noexcept { return shown.size(); }
  };
  // A client that lost interest without saying so (a deadline, a dropped coroutine) loses its place to the
  // next one when it has not touched it for so long. One-sided requests are no touch that the owner sees:
  // where there is a window, the time that its bytes take on a slow path comes on top.
  static constexpr uint64_t kIdle_ns = 30 * kSecond_ns;
  static constexpr uint64_t kIdlePerMiB_ns = kSecond_ns;

  // All outlive the state. `windows` is null where the session's channel has no use for them. The bytes of
  // open uploads are counted in `all_upload_bytes`, which all sessions share; what becomes of their writes
  // meanwhile is watched in `outcomes`.
  SessionState(Table& table, SessionPins& pins, WindowSource* windows, uint64_t& all_upload_bytes,
               Outcomes& outcomes) noexcept
      : table_(table),
        pins_(pins),
        windows_(windows),
        all_upload_bytes_(all_upload_bytes),
        outcomes_(outcomes) {}
  SessionState(const SessionState&) = delete;
  SessionState& operator=(const SessionState&) = delete;
  // Closes everything. REQUIRES: nothing lands in what is pulled any more.
  ~SessionState();

  // A place for one more of so many bytes, with all but id and content set; null: the session has its share.
  [[nodiscard]] Upload* free_upload(uint64_t bytes, uint64_t now_ns);
  [[nodiscard]] View* free_view(uint64_t bytes, uint64_t now_ns);
  // Makes a free place an upload.
  void begin(Upload& upload, uint64_t id, const Table::Draft& draft, const PutOptions& options);
  // From now on only the puller finds it; until release_pulled().
  void mark_pulled(Upload& upload) noexcept { upload.is_pulled = true; }
  // An upload like others again. REQUIRES: it is marked.
  Upload& release_pulled(uint64_t id) noexcept;
  // The open one with this id; null: there is none.
  [[nodiscard]] Upload* find_upload(uint64_t id, uint64_t now_ns) noexcept;
  [[nodiscard]] View* find_view(uint64_t id, uint64_t now_ns) noexcept;

  void pin(View& view, Offset buffer, std::span<const std::byte> value);
  void close(View& view) noexcept;
  void abandon(Upload& upload);
  // Gives up the upload untouched for the longest time. False: none has been for long enough.
  [[nodiscard]] bool abandon_idle_upload(uint64_t now_ns);
  // From now on no client changes the value: its window is closed. True: all of it has come.
  [[nodiscard]] bool seal(Upload& upload) noexcept;
  // The place is free, and the draft no longer the session's matter. REQUIRES: sealed.
  void forget(Upload& upload);

  // A way to the value for one-sided requests, if the session wants and gets one.
  void open_window(View& view, std::byte* value);
  void open_window(Upload& upload, std::byte* value);
  [[nodiscard]] size_t uploads() const noexcept;
  [[nodiscard]] size_t views() const noexcept;
  [[nodiscard]] uint64_t view_bytes() const noexcept;

  // kInvalidated: the piece does not follow on what is there. kTooLarge: no key is so long.
  [[nodiscard]] Code stage(size_t place, uint64_t offset, std::span<const std::byte> piece);
  // Empties the place; nothing where the key is not complete. `place` < kStagedKeysPerSession.
  [[nodiscard]] std::optional<std::vector<std::byte>> take_staged(size_t place, size_t key_bytes) noexcept;

 private:
  Table& table_;
  SessionPins& pins_;
  WindowSource* windows_;
  uint64_t& all_upload_bytes_;
  Outcomes& outcomes_;
  std::array<Upload, wire::kUploadsPerSession> uploads_;
  std::array<View, wire::kViewsPerSession> views_;
  std::array<std::vector<std::byte>, wire::kStagedKeysPerSession> staged_;
};

}  // namespace refract::kv
