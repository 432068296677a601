// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/store_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "refract/base/hash.h"
#include "refract/base/prng.h"

namespace refract::storage {
namespace {

constexpr std::string_view kPageName = "store";
constexpr std::string_view kFreshPageName = "store.new";
constexpr std::string_view kLockName = "lock";

uint64_t checksum_of(const StorePage& page) noexcept {
  return XXH3_64bits(&page, offsetof(StorePage, checksum));
}

// Whether it is of a log or a snapshot.
bool is_data(const std::string& name) noexcept {
  return name.starts_with("log-") || name.starts_with("snapshot-");
}

}  // namespace

Reported<std::optional<StoreFacts>> StoreFolder::look(Disk& disk) {
  auto file = disk.open(kPageName, OpenMode::kRead);
  if (!file) {
    if (file.error().code != Code::kNotFound) return report(std::move(file).error());
    auto names = disk.list();
    if (!names) return report(std::move(names).error());
    if (std::ranges::none_of(*names, is_data)) return std::nullopt;
    return report(
        Code::kCorrupt, fmt::format("{} is missing beside a log", disk.path_of(kPageName)),
        "put it back from where the other files came from, or save what is there into a new folder with "
        "refract restore --salvage");
  }
  StorePage page{};
  const auto bytes = (*file)->read(0, std::as_writable_bytes(std::span(&page, 1)));
  if (!bytes) return report(bytes.error());
  const bool is_page = *bytes == sizeof(page) && page.magic == kStoreMagic;
  if (is_page && page.version != kStoreVersion) {
    return report(Code::kUnsupported,
                  fmt::format("{} has version {}, this program reads {}", disk.path_of(kPageName),
                              page.version, kStoreVersion),
                  "use the release that wrote it: refract dump there, refract load here");
  }
  if (!is_page || checksum_of(page) != page.checksum || page.shard_count == 0) {
    return report(Code::kCorrupt, fmt::format("{} is damaged", disk.path_of(kPageName)),
                  "put it back from a copy of the folder, or save what is there into a new one with refract "
                  "restore --salvage");
  }
  return StoreFacts{.store = page.store,
                    .shard_count = page.shard_count,
                    .copies = static_cast<uint32_t>(page.copies),
                    .placement = page.placement,
                    .hash_seed = page.hash_seed,
                    .created_wall_ns = page.created_wall_ns,
                    .time = page.time,
                    .rings = page.rings};
}

StoreId random_store_id() {
  StoreId id;
  std::ranges::generate(id, [] { return static_cast<std::byte>(secure_random_u64()); });
  return id;
}

namespace {

StorePage page_of(const StoreFacts& facts) noexcept {
  StorePage page{};
  page.magic = kStoreMagic;
  page.version = kStoreVersion;
  page.shard_count = facts.shard_count;
  page.store = facts.store;
  page.hash_seed = facts.hash_seed;
  page.created_wall_ns = facts.created_wall_ns;
  page.time = facts.time;
  page.rings = facts.rings;
  page.copies = facts.copies;
  page.placement = facts.placement;
  page.checksum = checksum_of(page);
  return page;
}

Reported<> replace_page(Disk& disk, const StorePage& page) {
  if (auto removed = disk.remove(kFreshPageName); !removed && removed.error().code != Code::kNotFound) {
    return removed;
  }
  auto file = disk.open(kFreshPageName, OpenMode::kCreate);
  if (!file) return report(std::move(file).error());
  if (auto written = (*file)->write(0, std::as_bytes(std::span(&page, 1))); !written) return written;
  if (auto synced = (*file)->sync(); !synced) return synced;
  if (auto renamed = disk.rename(kFreshPageName, kPageName); !renamed) return renamed;
  return disk.sync_folder();
}

Reported<> write_over_page(Disk& disk, const StorePage& page) {
  auto file = disk.open(kPageName, OpenMode::kReadWrite);
  if (!file) return report(std::move(file).error());
  if (auto written = (*file)->write(0, std::as_bytes(std::span(&page, 1))); !written) return written;
  return (*file)->sync();
}

}  // namespace

Reported<> write_store_page(Disk& disk, const StoreFacts& facts) {
  const StorePage page = page_of(facts);
  Reported<> replaced = replace_page(disk, page);
  if (replaced || replaced.error().code != Code::kNoSpace) return replaced;
  (void)disk.remove(kFreshPageName);
  if (auto written = write_over_page(disk, page); written) return {};
  return replaced;
}

Reported<StoreFolder> StoreFolder::open(std::unique_ptr<Disk> disk, const StoreFacts& wanted) {
  auto lock = disk->lock(kLockName);
  if (!lock) return report(std::move(lock).error());
  StoreFolder folder(std::move(disk), std::move(*lock));
  const auto found = look(*folder.disk_);
  if (!found) return report(found.error());
  folder.existed_ = found->has_value();
  folder.facts_ = found->value_or(wanted);
  if (!folder.existed_) {
    if (auto written = write_store_page(*folder.disk_, folder.facts_); !written)
      return report(written.error());
  }
  return folder;
}

Reported<> StoreFolder::set(const SpaceTime& time, const RingUse& rings) {
  facts_.time = time;
  facts_.rings = rings;
  return write_store_page(*disk_, facts_);
}

}  // namespace refract::storage
