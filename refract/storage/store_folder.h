// SPDX-License-Identifier: Apache-2.0
// The folder of a node's data: one node at a time, and a page of facts that outlive every log and snapshot in
// it. docs/formats/log.md has the bytes.
//
// Threads: one. Control path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>

#include "refract/base/boot_id.h"
#include "refract/base/report.h"
#include "refract/memory/space.h"
#include "refract/storage/disk.h"
#include "refract/storage/record.h"

namespace refract::storage {

inline constexpr uint64_t kStoreMagic = 0x31'45'52'4f'54'53'46'52;  // "RFSTORE1", little endian.
extern const uint32_t kStoreVersion;                                // versions.cc

// Whether what the logs' rings hold counts (ring_file.h), and where they lie.
struct RingUse {
  uint64_t is_in_use =
      0;                // 0: they hold nothing: no node runs on the folder, or the last one has emptied them.
  uint64_t place = 0;   // RingPlace.
  uint64_t always = 0;  // 1: nothing was acknowledged that only they had; 0: it may have been.
  uint64_t number = 0;  // Theirs.
  BootId boot = {};     // Of the host. In another one they hold nothing.
};
static_assert(sizeof(RingUse) == 48);

// The file "store": one sector, replaced as a whole.
struct StorePage {
  uint64_t magic;
  uint32_t version;
  uint32_t shard_count;
  StoreId store;
  uint64_t hash_seed;  // So that what is read back has the order in which it was written.
  uint64_t created_wall_ns;
  SpaceTime time;
  RingUse rings;
  uint64_t copies;     // kv.copies, by which the store's keys are routed.
  uint64_t placement;  // cluster::placement_of(), by which it has some of the slots. 0: it has all.
  uint64_t reserved[44];
  uint64_t checksum;  // XXH3 of everything before.
};
static_assert(sizeof(StorePage) == kSectorBytes && std::is_trivially_copyable_v<StorePage>);
static_assert(std::has_unique_object_representations_v<StorePage>, "no padding may be stored");
static_assert(offsetof(StorePage, store) == 16 && offsetof(StorePage, time) == 48 &&
              offsetof(StorePage, rings) == 88 && offsetof(StorePage, copies) == 136);

struct StoreFacts {
  StoreId store = {};
  uint32_t shard_count = 1;
  uint32_t copies = 0;
  uint64_t placement = 0;
  uint64_t hash_seed = 0;
  uint64_t created_wall_ns = 0;
  SpaceTime time = {};
  RingUse rings = {};
};

// A name for a new store, by chance.
[[nodiscard]] StoreId random_store_id();
// Writes the page, or replaces it: a reader finds the old one or the new one. Where the disk is full, a page
// that is there is written over, which takes no room: it is one sector.
[[nodiscard]] Reported<> write_store_page(Disk& disk, const StoreFacts& facts);

class StoreFolder {
 public:
  // Takes the folder: kInUse where another node has it. Where there is no store in it, one is begun with
  // `wanted`. The facts are then what the folder says: that a node has as many shards is the caller's matter.
  // kUnsupported: a newer or older version wrote it. kCorrupt: the page is damaged, or missing beside a log.
  [[nodiscard]] static Reported<StoreFolder> open(std::unique_ptr<Disk> disk, const StoreFacts& wanted);
  // For callers that only look: the page, without taking the folder. Nothing: there is no store.
  [[nodiscard]] static Reported<std::optional<StoreFacts>> look(Disk& disk);

  [[nodiscard]] Disk& disk() noexcept { return *disk_; }
  [[nodiscard]] const StoreFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] bool existed() const noexcept { return existed_; }
  // Replaces the page.
  [[nodiscard]] Reported<> set(const SpaceTime& time, const RingUse& rings);

 private:
  StoreFolder(std::unique_ptr<Disk> disk, std::unique_ptr<Lock> lock) noexcept
      : disk_(std::move(disk)), lock_(std::move(lock)) {}
  std::unique_ptr<Disk> disk_;
  std::unique_ptr<Lock> lock_;
  StoreFacts facts_;
  bool existed_ = false;
};

}  // namespace refract::storage
