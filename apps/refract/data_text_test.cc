// SPDX-License-Identifier: Apache-2.0
// What stat and top say of the data that a node keeps.
#include "apps/refract/data_text.h"

#include <gtest/gtest.h>

#include <vector>

#include "refract/base/units.h"

namespace refract::cli {
namespace {

using observe::DataState;

DataState sound() {
  return {.durability = "everysec",
          .backing = "memfd:",
          .folder = "/srv/r",
          .log = {.state = "running", .syncs = 3, .last_sync_age_ns = 2 * kSecond_ns, .disk_bytes = kMiB},
          .snapshots = {.begun = 1,
                        .ended = 1,
                        .file = "/srv/r/snapshot-000",
                        .written_attempt = 1,
                        .entries = 1'000,
                        .bytes = 2 * kMiB,
                        .took_ns = kSecond_ns,
                        .age_ns = 60 * kSecond_ns},
          .recovery = {.source = "disk", .entries = 7, .records = 9, .took_ns = kSecond_ns}};
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(DataText, a_node_that_keeps_nothing_says_plainly_what_is_lost) {
  const DataState none{.durability = "none", .backing = "memfd:", .recovery = {.source = "nothing"}};
  const std::string text = data_lines({&none, 1});
  EXPECT_TRUE(has(text, "a crash of the host loses everything")) << text;
  EXPECT_FALSE(has(text, "log ")) << text;
  const DataState files{.durability = "none", .backing = "file:/srv/m"};
  EXPECT_TRUE(has(data_lines({&files, 1}), "a crash of the host loses everything"));
  const DataState older;
  EXPECT_EQ(data_lines({&older, 1}), "") << "a node that does not say is not spoken for";
}

TEST(DataText, a_sound_node_shows_log_snapshot_and_start) {
  const DataState state = sound();
  const std::string text = data_lines({&state, 1});
  for (const char* part : {"everysec, in /srv/r", "all of it on the disk, 3 syncs", "1,000 entries, 2.0 MiB",
                           "/srv/r/snapshot-000", "7 entries from the disk", "9 changes of the log"}) {
    EXPECT_TRUE(has(text, part)) << part << " in\n" << text;
  }
  EXPECT_FALSE(has(text, "FAILED")) << text;
  EXPECT_FALSE(has(text, "refused")) << text;
}

TEST(DataText, a_ring_in_memory_is_not_said_to_outlive_every_process) {
  DataState state = sound();
  EXPECT_TRUE(has(data_lines({&state, 1}), "outlives every process"));
  state.ring = "memory";
  const std::string text = data_lines({&state, 1});
  EXPECT_FALSE(has(text, "outlives every process")) << text;
  EXPECT_TRUE(has(text, "all but about the last second")) << text;
}

TEST(DataText, the_worst_of_several_shards_is_shown_with_its_reason) {
  std::vector<DataState> shards = {sound(), sound(), sound()};
  shards[1].log.state = "stalled";
  shards[1].log.trouble = "the disk is full";
  shards[2].log.state = "failed";
  shards[2].log.trouble = "fdatasync: EIO";
  shards[2].log.refused_writes = 5;
  shards[0].snapshots.failed_attempt = 2;
  shards[0].snapshots.failed_why = "cannot write";
  shards[0].snapshots.failed_next = "make room";
  const std::string text = data_lines(shards);
  EXPECT_TRUE(has(text, "FAILED, writes are refused: fdatasync: EIO")) << text;
  EXPECT_FALSE(has(text, "the disk is full")) << text;
  EXPECT_TRUE(has(text, "5 writes refused")) << text;
  EXPECT_TRUE(has(text, "cannot write")) << text;
  EXPECT_TRUE(has(text, "make room")) << text;
  EXPECT_TRUE(has(text, "3,000 entries, 6.0 MiB")) << text;
  EXPECT_TRUE(has(data_line(shards), "log failed (fdatasync: EIO)")) << data_line(shards);
  EXPECT_TRUE(has(data_line(shards), "snapshot FAILED")) << data_line(shards);
}

TEST(DataText, a_failure_is_over_once_a_later_snapshot_was_written) {
  DataState state = sound();
  state.snapshots.failed_attempt = 1;
  state.snapshots.failed_why = "cannot write";
  state.snapshots.written_attempt = 2;
  EXPECT_FALSE(has(data_lines({&state, 1}), "FAILED"));
  state.snapshots.failed_attempt = 3;
  EXPECT_TRUE(has(data_lines({&state, 1}), "FAILED"));
}

TEST(DataText, a_node_has_a_snapshot_only_when_each_shard_has_one) {
  std::vector<DataState> shards = {sound(), sound()};
  shards[1].snapshots = {};
  EXPECT_TRUE(has(data_lines(shards), "none yet")) << data_lines(shards);
  std::swap(shards[0], shards[1]);
  EXPECT_TRUE(has(data_lines(shards), "none yet")) << data_lines(shards);
}

TEST(DataText, what_a_hostile_node_says_cannot_touch_the_terminal) {
  DataState state = sound();
  state.folder = "/srv/\x1b[2J";
  state.log.trouble = "\x1b]0;gotcha\x07";
  state.log.state = "failed\x1b[1m";
  state.snapshots.file = "\x1b[31m";
  state.snapshots.failed_attempt = 9;
  state.snapshots.failed_why = "\x1b[5m";
  EXPECT_FALSE(has(data_lines({&state, 1}), "\x1b"));
  EXPECT_FALSE(has(data_line({&state, 1}), "\x1b"));
}

}  // namespace
}  // namespace refract::cli
