// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/data_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>

#include "refract/base/boot_id.h"
#include "refract/base/clock.h"
#include "refract/base/log.h"
#include "refract/base/prng.h"
#include "refract/memory/store_time.h"
#include "refract/node/space/predecessor.h"
#include "refract/storage/posix_disk.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::node {
namespace {

// The folder's parents, where the folder was not named: ~/.local/state is not there on every machine.
Reported<> make_parents(const NodeConfig& config) {
  const std::filesystem::path folder(config.data_folder);
  std::string made;
  for (const auto& part : folder.parent_path()) {
    made = made.empty() ? part.string() : (std::filesystem::path(made) / part).string();
    if (::access(made.c_str(), F_OK) == 0) continue;
    if (!config.is_data_folder_default) {
      return report(Code::kNotFound, fmt::format("cannot make {}: there is no {}", config.data_folder, made),
                    fmt::format("mkdir -m 700 -p {}; or choose another --data-folder", config.data_folder));
    }
    if (::mkdir(made.c_str(), 0700) == 0 || errno == EEXIST) continue;
    const int cause = errno;
    return report(Code::kSystem, fmt::format("cannot make {} for the data: {}", made, errno_text(cause)),
                  "name a folder that can be written to (--data-folder)");
  }
  return {};
}

Reported<storage::StoreFolder> take_folder(const NodeConfig& config) {
  if (auto made = make_parents(config); !made) return report(made.error());
  const storage::StoreFacts wanted{.store = storage::random_store_id(),
                                   .shard_count = config.server_shards,
                                   .copies = config.kv_copies,
                                   .placement = config.kv_placement,
                                   .hash_seed = secure_random_u64(),
                                   .created_wall_ns = system_clock().wall_ns(),
                                   .time = begin_time(system_clock(), host_boot_id())};
  return take_from_predecessor([&]() -> Reported<storage::StoreFolder> {
    auto disk = storage::open_posix_disk(config.data_folder);
    if (!disk) return report(std::move(disk).error());
    return storage::StoreFolder::open(std::move(*disk), wanted);
  });
}

}  // namespace

Reported<DataFolder> DataFolder::open(const NodeConfig& config) {
  auto folder = take_folder(config);
  if (!folder) return report(std::move(folder).error());
  const storage::StoreFacts& facts = folder->facts();
  const StoreShape shape{.shards = facts.shard_count, .copies = facts.copies, .placement = facts.placement};
  if (auto fits = check_shape(config, config.data_folder, shape); !fits) return report(fits.error());
  const SpaceTime time =
      folder->existed() ? resume_time(facts.time, system_clock(), host_boot_id()) : facts.time;
  // A node that died while it wrote one left its beginning.
  if (auto removed = storage::remove_unfinished_snapshots(folder->disk()); !removed) {
    return report(removed.error());
  }
  auto rings = take_from_predecessor([&] { return DataRings::open(config, *folder, time); });
  if (!rings) return report(std::move(rings).error());
  return DataFolder(*std::move(folder), *std::move(rings));
}

void warn_of_unused_data(const NodeConfig& config) {
  auto disk = storage::open_existing_posix_disk(config.data_folder);
  if (!disk) return;
  if (!storage::StoreFolder::look(**disk).value_or(std::nullopt).has_value()) return;
  log_warn("data.durability is none: what {} has of an earlier node is not read and not written",
           config.data_folder);
}

StoreOrigin DataFolder::origin() const noexcept {
  return {.hash_seed = folder_.facts().hash_seed, .existed = false, .time = folder_.facts().time};
}

Reported<> DataFolder::leave(bool is_settled) {
  const storage::RingUse rings = is_settled ? storage::RingUse{} : rings_.use();
  return folder_.set(leave_time(folder_.facts().time, system_clock()), rings);
}

}  // namespace refract::node
