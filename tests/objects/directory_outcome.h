// SPDX-License-Identifier: Apache-2.0
// What has happened in runs of the directory's campaign: so a test sees whether they met what they are for.
//
// Threads: one.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace refract::campaign {

struct RunOutcome {
  std::string wrong;  // Empty: nothing.
  uint64_t trace_hash = 0;
  uint64_t puts = 0;
  uint64_t gets = 0;
  uint64_t misses = 0;
  uint64_t ranks = 0;
  uint64_t deletes = 0;
  uint64_t partial_deletes = 0;
  uint64_t broadcasts = 0;  // That were told of nodes,
  uint64_t brought = 0;     // and the nodes that got the object, or had it.
  uint64_t arriving = 0;    // Transfers from a node to which the object was still coming,
  uint64_t passed_on = 0;   // and pieces that it gave meanwhile, in messages.
  uint64_t away = 0;
  uint64_t pulls = 0;
  uint64_t asked_all = 0;
  uint64_t from_several = 0;
  uint64_t givers_left = 0;
  uint64_t reads = 0;
  uint64_t kills = 0;
  uint64_t losses = 0;
  uint64_t lists = 0;
  uint64_t cuts = 0;
  uint64_t redis_losses = 0;
  uint64_t redis_cuts = 0;
  uint64_t promises = 0;
  uint64_t outlived = 0;

  void add(const RunOutcome& other) {
    puts += other.puts;
    gets += other.gets;
    misses += other.misses;
    ranks += other.ranks;
    deletes += other.deletes;
    partial_deletes += other.partial_deletes;
    broadcasts += other.broadcasts;
    brought += other.brought;
    arriving += other.arriving;
    passed_on += other.passed_on;
    away += other.away;
    pulls += other.pulls;
    asked_all += other.asked_all;
    from_several += other.from_several;
    givers_left += other.givers_left;
    reads += other.reads;
    kills += other.kills;
    losses += other.losses;
    lists += other.lists;
    cuts += other.cuts;
    redis_losses += other.redis_losses;
    redis_cuts += other.redis_cuts;
    promises += other.promises;
    outlived += other.outlived;
  }
  [[nodiscard]] std::string text() const {
    return fmt::format(
        "{} puts, {} gets, {} misses, {} ranks, {} deletes, {} that missed a node, {} broadcasts to {} "
        "nodes, "
        "{} transfers from nodes to which it was coming, {} pieces passed on in messages, {} answers that a "
        "node is away, {} pulls, {} of them from several, {} holders left, {} READs, {} times all were "
        "asked, "
        "{} kills, {} memories lost, {} lists, {} cuts, {} times two copies were counted, {} objects that "
        "outlived a memory, {} losses of Redis, {} cuts from it",
        puts, gets, misses, ranks, deletes, partial_deletes, broadcasts, brought, arriving, passed_on, away,
        pulls, from_several, givers_left, reads, asked_all, kills, losses, lists, cuts, promises, outlived,
        redis_losses, redis_cuts);
  }
};

}  // namespace refract::campaign
