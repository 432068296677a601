// SPDX-License-Identifier: Apache-2.0
#include "refract/node/space/store_space.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>

#include "refract/base/boot_id.h"
#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/memory/store_time.h"
#include "refract/node/config/knobs.h"

namespace refract::node {
namespace {

constexpr uint64_t kRegionUnit = 2 * kMiB;
// Of keys, so that a small node has little that lies idle; and of values that are long and lie across
// regions.
constexpr uint64_t kRegionBytesMin = 16 * kMiB;
constexpr uint64_t kLongRegionBytesMin = 64 * kMiB;
constexpr uint64_t kRegionBytesMax = kGiB;
constexpr size_t kRegionCountMax = 240;
// So many regions of a size lead to any limit, those before them left aside.
constexpr size_t kRegionCountWanted = 180;
// About ten milliseconds of taking fresh memory: what a client may have to wait for the keeper meanwhile.
constexpr uint64_t kGrowthStep = 8 * kMiB;

class NobodyPins final : public PinSource {
 public:
  void collect(PinSet&) noexcept override {}
};

Reported<> accept_start(std::span<const std::byte> start) {
  if (std::ranges::all_of(start, [](std::byte byte) { return byte == std::byte{0}; })) return {};
  const auto& header = *reinterpret_cast<const SpaceHeader*>(start.data());
  if (header.magic != kSpaceMagic)
    return report(Code::kMalformed, "the file does not begin with a space's header",
                  "choose another folder (--memory-backing); nothing was changed");
  if (!is_known_layout(header.layout_version)) {
    return report(
        Code::kUnsupported,
        fmt::format("the memory has layout version {}, this program reads {}", header.layout_version,
                    kSpaceLayoutVersion),
        "start the release that made it, take a dump (refract dump), and load that into a node of this "
        "one on an empty folder (refract load)");
  }
  return {};
}

// How a shard's first file begins. Of no size, or zeros, it is as if it were not there: a node died before it
// wrote the header.
struct StoredStart {
  bool is_there = false;
  std::optional<SpaceHeader> header;  // Nothing: it is none; refused where the file is taken up.
};

Reported<StoredStart> stored_start(const Backing& backing) {
  StoredStart start;
  const std::string path = region_path(backing, 0);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) {
    if (errno == ENOENT) return start;
    return report(Code::kSystem, fmt::format("cannot read {}: {}", path, errno_text(errno)),
                  "run as the user who owns the folder, or choose another one (--memory-backing)");
  }
  SpaceHeader header{};
  (void)!::pread(file.get(), &header, sizeof(header), 0);
  const auto bytes = std::as_bytes(std::span(&header, 1));
  start.is_there = std::ranges::any_of(bytes, [](std::byte byte) { return byte != std::byte{0}; });
  if (header.magic == kSpaceMagic && is_known_layout(header.layout_version)) start.header = header;
  return start;
}

// Another value of what is fixed when a store is made.
std::unexpected<Report> made_otherwise(const std::string& folder, std::string_view key, uint32_t made_with,
                                       uint32_t now) {
  return report(
      Code::kInvalidArgument,
      fmt::format("the store in {} was made with {} {}, and this node has {}", folder, key, made_with, now),
      fmt::format("start with {} {}; to have another number, save the store with refract dump and "
                  "load it into a node on an empty folder",
                  flag_of(*find_knob(key)), made_with));
}

// As another member, or of other members. What it was is known as a number only.
std::unexpected<Report> made_elsewhere(const NodeConfig& config, const std::string& folder,
                                       const StoreShape& shape) {
  constexpr std::string_view kNext =
      "with kv.copies {} a key is at the node that has its slot, and the slots follow from the names: start "
      "with the "
      "names that it was made with; or save the store with refract dump and load it into nodes on empty "
      "folders";
  const std::string next = fmt::format(kNext, config.kv_copies);
  if (shape.placement == 0) {
    return report(
        Code::kInvalidArgument,
        fmt::format("the store in {} was made by a node alone, with all keys, and cluster.nodes is set",
                    folder),
        next);
  }
  if (config.kv_placement == 0) {
    return report(
        Code::kInvalidArgument,
        fmt::format("the store in {} was made by one of several nodes, and cluster.nodes is not set", folder),
        next);
  }
  return report(
      Code::kInvalidArgument,
      fmt::format("the store in {} was made with other names in cluster.nodes, or as another of these "
                  "nodes, than '{}'",
                  folder, config.cluster_self),
      next);
}

}  // namespace

Reported<> check_shape(const NodeConfig& config, const std::string& folder, const StoreShape& shape) {
  if (shape.shards != config.server_shards)
    return made_otherwise(folder, "server.shards", shape.shards, config.server_shards);
  if (shape.copies != config.kv_copies)
    return made_otherwise(folder, "kv.copies", shape.copies, config.kv_copies);
  if (shape.placement != config.kv_placement) return made_elsewhere(config, folder, shape);
  return {};
}

Reported<StoreOrigin> find_store(const NodeConfig& config) {
  StoreOrigin origin;
  Backing backing = config.memory_backing;
  const std::optional<BootId> boot = host_boot_id();
  std::optional<uint32_t> missing;
  for (uint32_t shard = 0; backing.kind == BackingKind::kFile && shard < kShardsMax; ++shard) {
    backing.shard = shard;
    const auto start = stored_start(backing);
    if (!start) return report(start.error());
    if (!start->is_there && shard < config.server_shards && !missing) missing = shard;
    if (!start->header) continue;
    const SpaceHeader& header = *start->header;
    const StoreShape shape{.shards = std::max<uint32_t>(header.shard_count, 1),
                           .copies = static_cast<uint32_t>(header.copies),
                           .placement = header.placement};
    if (auto fits = check_shape(config, config.memory_backing.folder, shape); !fits)
      return report(fits.error());
    if (header.shard_index != shard || (origin.existed && header.hash_seed != origin.hash_seed)) {
      return report(Code::kCorrupt, fmt::format("{} belongs to another store", region_path(backing, 0)),
                    "put the files of one store, and no others, into the folder");
    }
    const SpaceTime time = resume_time(header.time, system_clock(), boot);
    origin = {.hash_seed = header.hash_seed,
              .existed = true,
              .time = origin.time ? later_time(*origin.time, time) : time};
  }
  if (missing && *missing > 0) {
    backing.shard = *missing;
    return report(Code::kCorrupt,
                  fmt::format("{} is missing, and with it a part of the store", region_path(backing, 0)),
                  "put it back; or move the folder's other files away to begin with an empty store");
  }
  if (!origin.existed) origin = {.hash_seed = secure_random_u64(), .time = begin_time(system_clock(), boot)};
  return origin;
}

Reported<StoreSpace> StoreSpace::open(const SpacePlan& plan, const StoreOrigin& origin) {
  StoreSpace space;
  space.plan_ = plan;
  space.hash_seed_ = origin.hash_seed;
  space.time_ = origin.time;
  auto addresses = AddressSpace::reserve(plan.bytes_max, {.in_core_dumps = plan.in_core_dumps});
  if (!addresses) return report(addresses.error());
  space.addresses_ = std::move(*addresses);
  if (auto opened = space.open_first(); !opened) return report(opened.error());
  return space;
}

uint64_t StoreSpace::bytes() const noexcept {
  return regions_.empty() ? 0 : regions_.back().region.base() + regions_.back().region.bytes();
}

RegionSpec StoreSpace::spec_of(uint64_t bytes) const {
  RegionSpec spec;
  spec.backing = plan_.backing;
  spec.id = static_cast<uint16_t>(regions_.size());
  spec.bytes = bytes;
  spec.base = this->bytes();
  if (regions_.empty()) spec.accept_existing = accept_start;
  return spec;
}

Reported<> StoreSpace::open_first() {
  if (auto existing = open_existing(); !existing || existed_) return existing;
  if (auto begun = begin_growth(plan_.bytes_initial); !begun) return begun;
  if (auto populated = growing_->region.populate(); !populated) return populated;
  const SpaceTime time = time_.value_or(begin_time(system_clock(), host_boot_id()));
  if (auto made = make_store(growing_->region, time); !made) return made;
  return finish_growth();
}

Reported<> StoreSpace::open_existing() {
  while (regions_.size() < kRegionCountMax) {
    const auto bytes = existing_region_bytes(plan_.backing, static_cast<uint16_t>(regions_.size()));
    if (!bytes) return report(bytes.error());
    if (*bytes == 0) break;
    if (this->bytes() + *bytes > plan_.bytes_max) {
      return report(Code::kInvalidArgument,
                    fmt::format("the stored regions have more than the {} MiB that --memory-limit allows",
                                plan_.bytes_max / kMiB),
                    "start with the limit that the node had before, or a higher one");
    }
    if (auto begun = begin_growth(*bytes); !begun) return begun;
    if (auto populated = growing_->region.populate(); !populated) return populated;
    if (regions_.empty()) {
      if (auto checked = check_first(growing_->region); !checked) return checked;
    }
    existed_ = true;
    if (auto finished = finish_growth(); !finished) return finished;
  }
  return {};
}

// The store in files that were found: sound as far as its header says, and taken up.
Reported<> StoreSpace::check_first(const Region& first) {
  const std::span<const std::byte> start{first.data(), first.bytes()};
  const Result<> header = Heap::check_header(start);
  // All zero: a node died before it finished its store, so there is nothing to lose.
  if (header.code() == Code::kMalformed) {
    return make_store(first, time_.value_or(begin_time(system_clock(), host_boot_id())));
  }
  if (!header) {
    return report(header.error().code,
                  fmt::format("the space in {} is damaged: {}", plan_.backing.folder,
                              info(header.error().code).sentence),
                  fmt::format("look at it with: refract check --path {}", plan_.backing.folder));
  }
  const auto& found = *reinterpret_cast<const SpaceHeader*>(start.data());
  if (found.chunks_max * kChunkBytes > plan_.bytes_max) {
    return report(Code::kInvalidArgument,
                  "the stored space was made with a higher --memory-limit than this node has",
                  "start with the limit that the node had before");
  }
  if (auto usable = check_use(first); !usable) return usable;
  set_time(time_ ? *time_ : resume_time(found.time, system_clock(), host_boot_id()));
  return {};
}

// Pages of files reach the disk in any order. So what a node left that did not end by itself is whole only
// where the same pages are still there: in the boot in which it ran, and in these very files
// (docs/design/034-memory-in-files.md).
Reported<> StoreSpace::check_use(const Region& first) const {
  const auto& found = *reinterpret_cast<const SpaceHeader*>(first.data());
  if (found.use.state == kSpaceLeft) return {};
  const bool is_same_boot = is_of_boot(found.time, host_boot_id());
  // One that died before it could say anything had nothing to lose.
  if (is_same_boot && found.use.state == 0) return {};
  if (is_same_boot && first.file() == Region::FileIdentity{found.use.device, found.use.inode}) return {};
  return report(
      Code::kCorrupt,
      is_same_boot
          ? fmt::format("the files in {} are copies of a running node's, made at no one moment, so that "
                        "entries in them may be half there",
                        plan_.backing.folder)
          : fmt::format("the node whose memory is in {} was running when its host went down, so that it "
                        "is unknown which of its pages reached the disk",
                        plan_.backing.folder),
      fmt::format("start on an empty folder and load your last dump (refract load); with a log "
                  "(--data-durability everysec) a node has everything again. refract inspect --file {} shows "
                  "what lies there",
                  plan_.backing.folder));
}

Reported<> StoreSpace::make_store(const Region& first, const SpaceTime& time) {
  const uint64_t chunks_max = plan_.bytes_max / kChunkBytes;
  const Heap::Geometry geometry{.chunks_max = chunks_max,
                                .store_area_bytes = plan_.area.bytes(chunks_max),
                                .hash_seed = hash_seed_,
                                .shard_index = plan_.backing.shard,
                                .shard_count = plan_.shard_count,
                                .copies = plan_.copies,
                                .placement = plan_.placement,
                                .time = time};
  Writer writer(addresses_.base());
  NobodyPins pins;
  if (Heap::format_bytes(geometry) < first.bytes()) {
    Heap::format(writer, geometry);
    Heap heap(writer, pins);
    heap.add({0}, first.bytes());
    if (plan_.area.format(writer, heap)) return {};
  }
  return report(Code::kInvalidArgument,
                fmt::format("{} MiB are too little for a node that may grow to {} MiB", first.bytes() / kMiB,
                            plan_.bytes_max / kMiB),
                "raise --memory-initial or lower --memory-limit");
}

Reported<> StoreSpace::empty() {
  const SpaceHeader before = *reinterpret_cast<const SpaceHeader*>(addresses_.base());
  Writer writer(addresses_.base());
  writer.zero({0}, before.store_area + before.store_area_bytes);
  return make_store(regions_.front().region, before.time);
}

void StoreSpace::set_time(const SpaceTime& time) noexcept {
  Writer writer(addresses_.base());
  writer.copy({offsetof(SpaceHeader, time)}, std::as_bytes(std::span(&time, 1)));
}

void StoreSpace::mark(uint64_t state) noexcept {
  const Region& first = regions_.front().region;
  const SpaceUse use{.state = state, .device = first.file().device, .inode = first.file().inode};
  Writer writer(addresses_.base());
  writer.copy({offsetof(SpaceHeader, use)}, std::as_bytes(std::span(&use, 1)));
}

Reported<> StoreSpace::enter() {
  if (plan_.backing.kind != BackingKind::kFile) return {};
  mark(kSpaceInUse);
  return regions_.front().region.sync();
}

Reported<> StoreSpace::leave() {
  const auto* header = reinterpret_cast<const SpaceHeader*>(addresses_.base());
  set_time(leave_time(header->time, system_clock()));
  if (plan_.backing.kind != BackingKind::kFile) return {};
  for (const Held& held : regions_) {
    if (auto synced = held.region.sync(); !synced) return synced;
  }
  const Descriptor folder(::open(plan_.backing.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) {
    return report(Code::kSystem,
                  fmt::format("cannot bring {} to the disk: {}", plan_.backing.folder, errno_text(errno)));
  }
  // Last, and only when all of that is there.
  mark(kSpaceLeft);
  return regions_.front().region.sync();
}

uint64_t StoreSpace::next_region_bytes(uint64_t value_bytes) const noexcept {
  const uint64_t left = plan_.bytes_max - bytes();
  // An eighth of what there is, so that little lies idle and a large node still makes few regions; but not
  // below the first step, and a value lies in one region.
  const uint64_t least = round_up(value_bytes + 2 * kChunkBytes, kRegionUnit);
  const uint64_t most =
      std::max(kRegionBytesMax, round_up(plan_.bytes_max / kRegionCountWanted, kRegionUnit));
  const uint64_t step_min = plan_.spans_regions ? kLongRegionBytesMin : kRegionBytesMin;
  const uint64_t step = std::clamp(round_up(bytes() / 8, kRegionUnit), step_min, most);
  const uint64_t wanted = std::max(step, least);
  if (regions_.size() >= kRegionCountMax || left == 0) return 0;
  if (left < least && !plan_.spans_regions) return 0;
  return std::min(wanted, left);
}

Reported<> StoreSpace::begin_growth(uint64_t bytes) {
  auto region = Region::create(addresses_, spec_of(bytes));
  if (!region) return report(region.error());
  growing_.emplace(Held{.region = std::move(*region), .key = RemoteKey{secure_random_u64()}});
  return {};
}

Reported<bool> StoreSpace::grow_some() {
  auto done = growing_->region.populate_some(kGrowthStep);
  if (!done) growing_.reset();
  return done;
}

Reported<> StoreSpace::finish_growth() {
  if (auto sealed = growing_->region.seal(); !sealed) {
    growing_.reset();
    return sealed;
  }
  regions_.push_back(std::move(*growing_));
  growing_.reset();
  return {};
}

}  // namespace refract::node
