// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/snapshot/snapshot_glance.h"

#include <fmt/core.h>

#include <span>

#include "refract/base/hash.h"

namespace refract::storage {
namespace {

template <typename Part>
bool is_whole(const Part& part, uint64_t key) noexcept {
  return XXH3_64bits_withSeed(&part, sizeof(part) - sizeof(uint64_t), key) == part.checksum;
}

template <typename Part>
Reported<Part> read_part(File& file, uint64_t offset) {
  Part part{};
  const auto got = file.read(offset, std::as_writable_bytes(std::span(&part, 1)));
  if (!got) return report(got.error());
  return part;
}

}  // namespace

Reported<SnapshotGlance> glance_at_snapshot(Disk& disk, std::string_view name) {
  auto file = disk.open(name, OpenMode::kRead);
  if (!file) return report(std::move(file).error());
  const auto bytes = (*file)->bytes();
  if (!bytes) return report(bytes.error());
  const auto not_whole = [&] {
    return report(Code::kCorrupt, fmt::format("{} is no whole snapshot of this version", disk.path_of(name)));
  };
  if (*bytes < sizeof(SnapshotHeader) + sizeof(SnapshotFooter)) return not_whole();
  const auto header = read_part<SnapshotHeader>(**file, 0);
  if (!header) return report(header.error());
  const uint64_t footer_at = *bytes - sizeof(SnapshotFooter);
  const auto footer = read_part<SnapshotFooter>(**file, footer_at);
  if (!footer) return report(footer.error());
  const bool is_header = header->magic == kSnapshotMagic && header->version == kSnapshotVersion;
  if (!is_header || !is_whole(*header, 0) || footer->magic != kSnapshotFooterMagic ||
      footer->offset != footer_at || !is_whole(*footer, header->checksum)) {
    return not_whole();
  }
  return SnapshotGlance{.facts = {.store = header->store,
                                  .shard_index = header->shard_index,
                                  .shard_count = header->shard_count,
                                  .copies = header->copies,
                                  .placement = header->placement,
                                  .hash_seed = header->hash_seed,
                                  .stamp = header->stamp,
                                  .wall_ns = header->wall_ns,
                                  .entries_max = header->entries_max,
                                  .log_position = header->log_position},
                        .totals = {.blocks = footer->blocks,
                                   .entries = footer->entries,
                                   .payload_bytes = footer->payload_bytes,
                                   .file_bytes = *bytes}};
}

}  // namespace refract::storage
