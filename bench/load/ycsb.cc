// SPDX-License-Identifier: Apache-2.0
#include "bench/load/ycsb.h"

#include <array>

namespace refract::bench {
namespace {

constexpr std::array kLoads = {
    Ycsb{.letter = 'a', .what = "half reads, half updates", .gets = 0.5},
    Ycsb{.letter = 'b', .what = "95 % reads, 5 % updates", .gets = 0.95},
    Ycsb{.letter = 'c', .what = "reads", .gets = 1},
    Ycsb{.letter = 'd',
         .what = "95 % reads of the latest, 5 % inserts",
         .gets = 0.95,
         .inserts = 0.05,
         .reads_latest = true},
    Ycsb{
        .letter = 'e', .what = "95 % scans of 1 to 100 entries, 5 % inserts", .inserts = 0.05, .scans = 0.95},
    Ycsb{.letter = 'f', .what = "half reads, half reads that a write follows", .gets = 0.5, .replaces = 0.5},
};

}  // namespace

void Ycsb::apply_to(WorkloadOptions& workload) const noexcept {
  workload.get_share = gets;
  workload.insert_share = inserts;
  workload.scan_share = scans;
  workload.replace_share = replaces;
  workload.reads_latest = reads_latest;
}

std::span<const Ycsb> ycsb_loads() noexcept {
  return kLoads;
}

const Ycsb* find_ycsb(const std::string& letter) noexcept {
  for (const Ycsb& load : kLoads) {
    if (letter.size() == 1 && letter[0] == load.letter) return &load;
  }
  return nullptr;
}

std::string caveat_of(const Ycsb& load) {
  std::string text;
  if (load.scans > 0) {
    text =
        "no range scans: no store here keeps its keys in order, so none can start at a key; a scan begins ";
    text +=
        "at a random place of the store's own order, takes as many keys from there and gets their values ";
    text += "(refract: scan, multi_get, whose messages go together, so that trips counts messages here; ";
    text += "redis: SCAN, MGET)";
  }
  if (load.replaces > 0) {
    text = "a write that follows a read: put_if of the version that was read on refract, cas on memcached, ";
    text +=
        "both tried again until no client wrote in between; SET on redis, which overwrites what others "
        "wrote ";
    text += "between; under the table's own lock in the client's process";
  }
  if (load.reads_latest) text = "latest: of the keys that the same client inserted";
  return text;
}

}  // namespace refract::bench
