// SPDX-License-Identifier: Apache-2.0
// The keys that one client adds to a store, in their order, so that others can be asked for by how new they
// are.
//
// Clients do not share theirs: what would tell each of all others' would be measured with the store. So
// "latest" is the latest of one's own.
//
// Threads: one at a time. It outlives the workloads of its client, which go on where the last one ended.
#pragma once

#include <cstdint>
#include <vector>

namespace refract::bench {

// So that the keys of different clients differ, however many there are in a run.
inline constexpr uint64_t kClientsMax = 256;

class InsertedKeys {
 public:
  struct Place {
    uint64_t keys = 0;    // That were there before; theirs are the indexes below.
    uint64_t client = 0;  // Below kClientsMax.
    uint64_t room = 1;    // For so many new keys; after them the oldest are put again.
  };
  explicit InsertedKeys(const Place& place) : place_(place) {}

  // Which insert comes next, and the index of its key.
  [[nodiscard]] uint64_t begin() noexcept { return begun_++; }
  [[nodiscard]] uint64_t index_of(uint64_t insert) const noexcept {
    return place_.keys + insert % place_.room * kClientsMax + place_.client;
  }
  [[nodiscard]] bool is_repeated(uint64_t insert) const noexcept { return insert >= place_.room; }
  // Inserts may end in any order. One counts as there when all before it have ended, too.
  void ended(uint64_t insert);
  // The key with `rank` newer ones. REQUIRES: rank < the keys that were there before.
  [[nodiscard]] uint64_t latest(uint64_t rank) const noexcept;

 private:
  Place place_;
  uint64_t begun_ = 0;
  uint64_t ended_ = 0;  // All below.
  std::vector<uint64_t> early_;
};

}  // namespace refract::bench
