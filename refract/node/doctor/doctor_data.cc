// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doctor/doctor_data.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>

#include "refract/base/clock.h"
#include "refract/memory/host/descriptor.h"
#include "refract/node/config/config.h"
#include "refract/node/durable/folder_reading.h"
#include "refract/storage/log/log_writer.h"
#include "refract/storage/posix_disk.h"
#include "refract/storage/ring/ring_file.h"
#include "refract/storage/store_folder.h"

namespace refract::node {
namespace {

// Not in every linux/magic.h.
constexpr uint64_t kCifs = 0xff534d42;
constexpr uint64_t kSmb2 = 0xfe534d42;
constexpr uint64_t kFuse = 0x65735546;

constexpr std::string_view kOnDisk = "choose a folder on a disk of this host (--data-folder)";

// A log is at most so long before a snapshot makes it short again.
constexpr uint64_t kLogBytesWanted = 512ULL << 20;

uint64_t free_bytes(const std::string& path) {
  struct statvfs status{};
  return ::statvfs(path.c_str(), &status) == 0 ? status.f_bavail * status.f_frsize : 0;
}

std::string parent_of(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

// The folder, or the nearest one above that there is.
std::string existing_part(std::string path) {
  while (path.size() > 1 && ::access(path.c_str(), F_OK) != 0) path = parent_of(path);
  return path;
}

bool is_held(const std::string& folder) {
  const Descriptor lock(::open((folder + "/lock").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

Finding absent_folder(const DoctorInputs& inputs) {
  const std::string& path = inputs.data_folder;
  const std::string parent = existing_part(path);
  const bool is_made = parent == parent_of(path) || inputs.is_data_folder_default;
  if (!is_made) {
    return {"data folder", Health::kFail,
            fmt::format("{} cannot be made: there is no {}", path, parent_of(path)),
            fmt::format("mkdir -m 700 -p {}", path)};
  }
  if (::access(parent.c_str(), W_OK | X_OK) != 0) {
    return {"data folder", Health::kFail, fmt::format("{} cannot be made: {} is not writable", path, parent),
            fmt::format("make it as root and give it to the node's user, or choose another (--data-folder)")};
  }
  return {"data folder", Health::kOk, fmt::format("{} is made when a node starts", path), ""};
}

Finding data_folder(const DoctorInputs& inputs) {
  const std::string& path = inputs.data_folder;
  if (::access(path.c_str(), F_OK) != 0) return absent_folder(inputs);
  if (::access(path.c_str(), W_OK | X_OK) != 0) {
    return {"data folder", Health::kFail, fmt::format("{} is not writable", path),
            "run as its owner, or choose another (--data-folder)"};
  }
  auto disk = storage::open_existing_posix_disk(path);
  if (!disk) return {"data folder", Health::kFail, disk.error().what, "choose a folder (--data-folder)"};
  const auto facts = storage::StoreFolder::look(**disk);
  if (!facts) return {"data folder", Health::kFail, facts.error().what, facts.error().next};
  const std::string held = is_held(path) ? ", in use by a node that runs" : "";
  if (!*facts)
    return {"data folder", Health::kOk, fmt::format("{} is there, without a store yet{}", path, held), ""};
  if ((*facts)->shard_count != inputs.shards) {
    return {"data folder", Health::kFail,
            fmt::format("{} has a store of server.shards {}, and this is {}", path, (*facts)->shard_count,
                        inputs.shards),
            fmt::format("start with --server-shards {}", (*facts)->shard_count)};
  }
  if ((*facts)->copies != inputs.copies) {
    return {
        "data folder", Health::kFail,
        fmt::format("{} has a store of kv.copies {}, and this is {}", path, (*facts)->copies, inputs.copies),
        fmt::format("start with --kv-copies {}", (*facts)->copies)};
  }
  return {"data folder", Health::kOk, fmt::format("{} has a store{}", path, held), ""};
}

// What may lie there at the worst moment: two snapshots, the new one and the one before, and the log.
uint64_t bytes_wanted(const DoctorInputs& inputs) {
  return 2 * inputs.memory_limit_bytes +
         std::max(kLogBytesWanted * inputs.shards, 2 * inputs.memory_limit_bytes);
}

uint64_t bytes_held(const std::string& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const uintmax_t size = entry.file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

Finding disk(const DoctorInputs& inputs) {
  const std::string place = existing_part(inputs.data_folder);
  struct statfs status{};
  if (::statfs(place.c_str(), &status) != 0) {
    return {"data disk", Health::kFail, fmt::format("{}: {}", place, errno_text(errno)),
            std::string(kOnDisk)};
  }
  const FileSystemFacts kind = file_system_facts(static_cast<uint64_t>(status.f_type));
  const uint64_t free = free_bytes(place);
  std::string found = kind.name.empty() ? fmt::format("{} free", bytes_text(free))
                                        : fmt::format("{}, {} free", kind.name, bytes_text(free));
  if (!kind.trouble.empty()) {
    return {"data disk", Health::kWarn, fmt::format("{}: {}", found, kind.trouble), std::string(kind.mend)};
  }
  const uint64_t wanted = bytes_wanted(inputs);
  const uint64_t room = free + bytes_held(inputs.data_folder);
  if (room >= wanted) return {"data disk", Health::kOk, std::move(found), ""};
  return {
      "data disk", Health::kWarn,
      fmt::format("{}; a full node of memory.limit {} may need {} for two snapshots and the log", found,
                  bytes_text(inputs.memory_limit_bytes), bytes_text(wanted)),
      "make room there, or lower memory.limit (--memory-limit): with a full disk the node refuses writes"};
}

// What a log's first files take: the ring of each shard, and a segment.
constexpr uint64_t kShardBytes =
    storage::kRingBytesDefault + storage::kRingHeaderBytes + storage::LogOptions{}.segment_bytes;

// A ring that the last node left in use, and that is not there.
std::optional<Finding> missing_ring(const DoctorInputs& inputs) {
  auto disk = storage::open_existing_posix_disk(inputs.data_folder);
  if (!disk || is_held(inputs.data_folder)) return {};
  const auto facts = storage::StoreFolder::look(**disk);
  if (!facts || !*facts || (*facts)->rings.always != 0) return {};
  for (uint32_t shard = 0; shard < (*facts)->shard_count; ++shard) {
    const storage::LogId id{.store = (*facts)->store, .shard = shard};
    const std::string path = ring_path({.disk = **disk, .log_id = id, .rings = (*facts)->rings});
    if (path.empty() || ::access(path.c_str(), F_OK) == 0) continue;
    return Finding{
        "log's ring", Health::kFail,
        fmt::format("{} is gone, and with it what a node acknowledged that was not stopped", path),
        fmt::format("put it back, or: refract restore --salvage {} --to NEWFOLDER", inputs.data_folder)};
  }
  return {};
}

Finding ring(const DoctorInputs& inputs) {
  if (auto missing = missing_ring(inputs)) return *std::move(missing);
  const std::string place = existing_part(inputs.data_folder);
  struct statfs status{};
  const bool is_known = ::statfs(place.c_str(), &status) == 0;
  if (is_known && !storage::keeps_mapped_stores(static_cast<uint64_t>(status.f_type))) {
    if (inputs.durability == Durability::kAlways) {
      return {"log's ring", Health::kOk, "lies in memory on this file system, which costs always nothing",
              ""};
    }
    return {"log's ring", Health::kWarn,
            "lies in memory on this file system: what was acknowledged in the last second is lost if all "
            "processes of the node die at once",
            "choose a folder on ext4 or xfs (--data-folder), or --data-durability always"};
  }
  const bool has_store = ::access((inputs.data_folder + "/store").c_str(), F_OK) == 0;
  const uint64_t wanted = has_store ? 0 : inputs.shards * kShardBytes;
  const uint64_t free = free_bytes(place);
  if (free >= wanted) {
    return {"log's ring", Health::kOk,
            fmt::format("lies in the folder, {} for each shard, and outlives every process",
                        bytes_text(storage::kRingBytesDefault)),
            ""};
  }
  return {"log's ring", Health::kFail,
          fmt::format("{} free, and the log's first files take {}", bytes_text(free), bytes_text(wanted)),
          "make room there, or choose another folder (--data-folder)"};
}

// Where log and snapshots are not asked for, but something lies where they would.
Finding nothing_kept(const DoctorInputs& inputs) {
  auto disk = storage::open_existing_posix_disk(inputs.data_folder);
  const bool has_store = disk && storage::StoreFolder::look(**disk).value_or(std::nullopt).has_value();
  if (has_store) {
    return {"data", Health::kWarn,
            fmt::format("data.durability is none, so what {} has is not read and not written",
                        inputs.data_folder),
            "start with --data-durability everysec to have it, or choose another --data-folder"};
  }
  return {"data", Health::kOk,
          inputs.backing.kind == BackingKind::kFile
              ? "data.durability is none: a crash of the host loses everything"
              : "data.durability is none: everything is lost when the node stops or the host crashes",
          ""};
}

std::optional<uint64_t> one_sync_ns(int file) {
  const std::array<char, 4096> block{};
  const uint64_t begun_ns = system_clock().now_ns();
  if (::pwrite(file, block.data(), block.size(), 0) != static_cast<ssize_t>(block.size())) return {};
  if (::fdatasync(file) != 0) return {};
  return system_clock().now_ns() - begun_ns;
}

}  // namespace

FileSystemFacts file_system_facts(uint64_t type) noexcept {
  switch (type) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
      return {"tmpfs", "it is memory, and what it holds is lost with the host", kOnDisk};
    case OVERLAYFS_SUPER_MAGIC:
      return {"overlay", "it belongs to a container, and may go with it",
              "put a volume there (docker run -v), or choose a folder on one (--data-folder)"};
    case NFS_SUPER_MAGIC:
      return {"nfs", "each fdatasync is a round trip to a server, which must not be exported 'async'",
              kOnDisk};
    case kCifs:
    case kSmb2:
      return {"smb", "each fdatasync is a round trip to a server that may only pretend", kOnDisk};
    case kFuse:
      return {"fuse", "whether fdatasync means anything is up to the program behind it", kOnDisk};
    case EXT4_SUPER_MAGIC:
      return {"ext4", "", ""};
    case XFS_SUPER_MAGIC:
      return {"xfs", "", ""};
    case BTRFS_SUPER_MAGIC:
      return {"btrfs", "", ""};
    default:
      return {};
  }
}

std::vector<Finding> examine_data(const DoctorInputs& inputs) {
  if (inputs.durability == Durability::kNone) return {nothing_kept(inputs)};
  return {data_folder(inputs), disk(inputs), ring(inputs)};
}

std::vector<Finding> measure_data(const DoctorInputs& inputs) {
  if (inputs.durability == Durability::kNone) return {};
  const std::string place = existing_part(inputs.data_folder);
  // Without a name, so that nothing is left whatever happens.
  const Descriptor file(::open(place.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return {};
  std::array<uint64_t, 7> taken{};
  for (uint64_t& each : taken) {
    const auto took_ns = one_sync_ns(file.get());
    if (!took_ns) {
      return {{"data sync", Health::kFail, fmt::format("fdatasync in {}: {}", place, errno_text(errno)),
               "look at dmesg; choose a folder on another disk (--data-folder)"}};
    }
    each = *took_ns;
  }
  std::ranges::sort(taken);
  const uint64_t median_ns = taken[taken.size() / 2];
  const uint64_t a_second = 1'000'000'000 / std::max<uint64_t>(median_ns, 1);
  Finding finding{
      "data sync", Health::kOk,
      fmt::format("fdatasync takes {:.2f} ms (median of {}): with always, {} group commits a second",
                  static_cast<double>(median_ns) / 1e6, taken.size(), a_second),
      ""};
  finding.figures = {{"sync_ns_p50", median_ns}, {"sync_ns_max", taken.back()}};
  return {std::move(finding)};
}

}  // namespace refract::node
