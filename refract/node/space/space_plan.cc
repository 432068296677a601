// SPDX-License-Identifier: Apache-2.0
#include "refract/node/space/space_plan.h"

#include "refract/base/units.h"
#include "refract/memory/size_class.h"

namespace refract::node {
namespace {

constexpr uint64_t kUnit = 2 * kMiB;
// docs/design/050-objects.md: a share of the limit, and so much at least.
constexpr uint64_t kObjectsBeside = 8;
constexpr uint64_t kObjectsBesideMin = 64 * kMiB;
constexpr uint64_t kObjectsInitial = 16 * kMiB;

}  // namespace

SpacePlan plan_key_space(const NodeConfig& config, uint32_t shard, const StoreArea& area) {
  SpacePlan plan{.area = area,
                 .backing = config.memory_backing,
                 .shard_count = config.server_shards,
                 .copies = config.kv_copies,
                 .placement = config.kv_placement,
                 .bytes_initial = share_of_shard(config.memory_initial_bytes, config.server_shards),
                 .bytes_max = share_of_shard(config.memory_limit_bytes, config.server_shards),
                 .in_core_dumps = config.memory_in_core_dumps};
  plan.backing.shard = shard;
  return plan;
}

SpacePlan plan_object_space(const NodeConfig& config, const StoreArea& area) {
  const uint64_t limit = config.objects_limit_bytes;
  const uint64_t for_objects = round_up(limit + limit / kObjectsBeside + kObjectsBesideMin, kUnit);
  const uint64_t chunks = for_objects / kChunkBytes;
  const uint64_t header = Heap::format_bytes({.chunks_max = chunks, .store_area_bytes = area.bytes(chunks)});
  const bool is_huge = config.memory_backing.kind == BackingKind::kHugetlb;
  return {.area = area,
          .backing = {.kind = is_huge ? BackingKind::kHugetlb : BackingKind::kMemfd,
                      .folder = {},
                      .shard = object_shard(config)},
          .shard_count = config.server_shards,
          .bytes_initial = round_up(header + kObjectsInitial, kUnit),
          .bytes_max = for_objects + round_up(header, kUnit),
          .in_core_dumps = config.memory_in_core_dumps,
          .spans_regions = true};
}

}  // namespace refract::node
