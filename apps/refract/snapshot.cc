// SPDX-License-Identifier: Apache-2.0
// snapshot: a copy of the store as it is now, in the node's folder.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "apps/progress/progress.h"
#include "apps/refract/commands.h"
#include "apps/refract/data_text.h"
#include "apps/refract/node_link.h"
#include "apps/refract/terminal.h"

#include "refract/base/units.h"

namespace refract::cli {
namespace {

using observe::ShardState;
using observe::SnapshotStatus;

constexpr uint64_t kLook_ns = 20 * kMillisecond_ns;
// A look takes some of the server's time, and a snapshot is meant to take none: so it grows rarer.
constexpr uint64_t kLookMin_ns = 5 * kMillisecond_ns;
constexpr uint64_t kLookMax_ns = 250 * kMillisecond_ns;
constexpr uint64_t kLookShare = 2;  // Of the time that has passed.

// One shard's part of what was asked for.
struct Asked {
  uint64_t attempt = 0;
  uint64_t incarnation = 0;
  SnapshotStatus status = {};  // As last seen.

  [[nodiscard]] bool ended() const noexcept { return status.ended >= attempt; }
  [[nodiscard]] bool written() const noexcept { return status.written_attempt >= attempt; }
};

Reported<> check_that_it_can(const ShardState& state) {
  if (state.data.durability.empty()) {
    return report(Code::kUnsupported, "the node is of a version that does not write snapshots on demand",
                  "refract dump -o FILE saves what it holds");
  }
  if (!state.data.folder.empty()) return {};
  return report(
      Code::kUnsupported,
      "the node keeps nothing on disk (data.durability is none), so it has no folder for a snapshot, "
      "and would not look for one at its next start",
      "start it with --data-durability everysec --data-folder FOLDER; until then refract dump -o FILE "
      "saves what it holds, and refract load brings it back");
}

Reported<std::vector<Asked>> ask_all(NodeLink& link) {
  std::vector<Asked> all(link.shard_count());
  for (size_t shard = 0; shard < all.size(); ++shard) {
    const auto state = link.watcher(shard).state();
    if (!state) return report(state.error());
    if (auto can = check_that_it_can(*state); !can) return report(can.error());
    all[shard].incarnation = state->incarnation;
  }
  for (size_t shard = 0; shard < all.size(); ++shard) {
    const auto attempt = link.watcher(shard).want_snapshot();
    if (!attempt) return report(attempt.error());
    all[shard].attempt = *attempt;
  }
  return all;
}

// How far one is that is being written, or was.
progress::Done done_of(const Asked& asked) {
  if (asked.written()) return {.count = asked.status.entries, .bytes = asked.status.bytes};
  const bool is_its_turn = asked.status.begun >= asked.attempt && !asked.ended();
  return is_its_turn ? progress::Done{.count = asked.status.entries_now, .bytes = asked.status.bytes_now}
                     : progress::Done{};
}

// A server that ends takes the answer along; the link then goes to the next one.
Reported<ShardState> state_of(NodeLink& link, size_t shard, uint64_t timeout_ns) {
  const uint64_t until_ns = link.shard().refresh_now() + timeout_ns;
  while (true) {
    auto state = link.watcher(shard).state();
    const bool is_final = state || state.error().code != Code::kDeadlineExceeded;
    if (is_final || link.shard().refresh_now() > until_ns) return state;
    (void)link.shard().run_until([] { return false; }, link.shard().refresh_now() + kLook_ns);
  }
}

Reported<> wait_for_all(NodeLink& link, std::vector<Asked>& all, uint64_t timeout_ns,
                        progress::Progress& progress) {
  const uint64_t began_ns = link.shard().refresh_now();
  while (true) {
    bool is_over = true;
    progress::Done done;
    uint64_t entries_max = 0;
    for (size_t shard = 0; shard < all.size(); ++shard) {
      Asked& asked = all[shard];
      if (!asked.ended()) {
        const auto state = state_of(link, shard, timeout_ns);
        if (!state) return report(state.error());
        if (state->incarnation != asked.incarnation) {
          return report(Code::kUnavailable, "the server was started again while the snapshot was written",
                        "what was there before still is; ask again: refract snapshot");
        }
        asked.status = state->data.snapshots;
      }
      is_over = is_over && asked.ended();
      const progress::Done one = done_of(asked);
      done.count += one.count;
      done.bytes += one.bytes;
      entries_max += asked.ended() ? one.count : asked.status.entries_max;
    }
    if (is_over) return {};
    progress.set_total({.count = entries_max, .bytes = {}});
    progress.update(done);
    const uint64_t now_ns = link.shard().refresh_now();
    const uint64_t pause_ns = std::clamp((now_ns - began_ns) / kLookShare, kLookMin_ns, kLookMax_ns);
    (void)link.shard().run_until([] { return false; }, now_ns + pause_ns);
  }
}

std::string text_of(const std::vector<Asked>& all) {
  std::string out;
  for (const Asked& asked : all) {
    if (!asked.written()) continue;
    out += fmt::format("{}: {} entr{}, {} in {}\n", printable(asked.status.file),
                       progress::count_text(asked.status.entries), asked.status.entries == 1 ? "y" : "ies",
                       progress::bytes_text(asked.status.bytes),
                       progress::duration_text(static_cast<double>(asked.status.took_ns) / 1e9));
  }
  return out;
}

documents::Value json_of(const std::vector<Asked>& all, bool waited) {
  documents::Value shards = documents::Value::array();
  for (size_t shard = 0; shard < all.size(); ++shard) {
    const Asked& asked = all[shard];
    documents::Value row = {{"shard", shard}, {"attempt", asked.attempt}};
    if (waited && asked.written()) {
      row.update({{"file", asked.status.file},
                  {"entries", asked.status.entries},
                  {"bytes", asked.status.bytes},
                  {"took_ns", asked.status.took_ns}});
    } else if (waited) {
      row.update({{"error", asked.status.failed_why}, {"next", asked.status.failed_next}});
    }
    shards.push_back(std::move(row));
  }
  return {{"shards", shards}};
}

int complain_of(const std::vector<Asked>& all) {
  for (const Asked& asked : all) {
    if (asked.written()) continue;
    const SnapshotStatus& status = asked.status;
    return complain(kFailed, status.failed_why,
                    fmt::format("{}{}what was on the disk before still is", printable(status.failed_next),
                                status.failed_next.empty() ? "" : "; "));
  }
  return kDone;
}

}  // namespace

int run_snapshot(const Invocation& invocation) {
  auto link = NodeLink::open(link_options(invocation));
  if (!link) return complain(with_what_to_start(link.error()));
  auto all = ask_all(**link);
  if (!all) return complain(all.error());
  if (invocation.no_wait) {
    return invocation.json ? write_json(json_of(*all, false))
                           : write_text("asked for; refract stat tells when it is there\n");
  }
  progress::Style style = progress::style_of(STDERR_FILENO);
  style.silent = invocation.no_progress;
  progress::Progress progress(system_clock(), progress::write_to_descriptor(STDERR_FILENO), style,
                              "writing a snapshot", "entries");
  const auto waited = wait_for_all(**link, *all, invocation.timeout_ns, progress);
  if (!waited) return complain(waited.error());
  say_last(progress, style, {});
  const int written = invocation.json ? write_json(json_of(*all, true)) : write_text(text_of(*all));
  if (written != kDone) return written;
  return complain_of(*all);
}

}  // namespace refract::cli
