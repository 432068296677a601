// SPDX-License-Identifier: Apache-2.0
#include "refract/node/store_space.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "refract/base/boot_id.h"
#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/kv/table.h"
#include "refract/memory/heap.h"
#include "refract/memory/store_time.h"

namespace refract::node {
namespace {

constexpr uint64_t kRegionUnit = 2 * kMiB;
constexpr uint64_t kRegionBytesMin = 64 * kMiB;
constexpr uint64_t kRegionBytesMax = kGiB;
constexpr size_t kRegionCountMax = 240;
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
    return report(Code::kMalformed, "the file does not begin with a space's header");
  if (header.layout_version != kSpaceLayoutVersion) {
    return report(Code::kUnsupported, fmt::format("the file has layout version {}, this program reads {}",
                                                  header.layout_version, kSpaceLayoutVersion));
  }
  return {};
}

// How a shard's first file begins. Of no size, or zeros, it is as if it were not there: a node died before it
// wrote the header.
struct StoredStart {
  bool is_there = false;
  std::optional<SpaceHeader> header;  // Nothing: it is none; refused by whoever takes the file up.
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
  if (header.magic == kSpaceMagic && header.layout_version == kSpaceLayoutVersion) start.header = header;
  return start;
}

std::unexpected<Report> made_otherwise(const NodeConfig& config, uint32_t count) {
  return report(
      Code::kInvalidArgument,
      fmt::format("the store in {} was made with server.shards {}, and this node has {}",
                  config.memory_backing.folder, count, config.server_shards),
      fmt::format("start with --server-shards {}; to have another number, save the store with refract "
                  "dump and load it into a node on an empty folder",
                  count));
}

}  // namespace

Reported<StoreOrigin> find_store(const NodeConfig& config) {
  StoreOrigin origin;
  Backing backing = config.memory_backing;
  std::optional<uint32_t> missing;
  for (uint32_t shard = 0; backing.kind == BackingKind::kFile && shard < kShardsMax; ++shard) {
    backing.shard = shard;
    const auto start = stored_start(backing);
    if (!start) return report(start.error());
    if (!start->is_there && shard < config.server_shards && !missing) missing = shard;
    if (!start->header) continue;
    const SpaceHeader& header = *start->header;
    const uint32_t count = std::max<uint32_t>(header.shard_count, 1);
    if (count != config.server_shards) return made_otherwise(config, count);
    if (header.shard_index != shard || (origin.existed && header.hash_seed != origin.hash_seed)) {
      return report(Code::kCorrupt, fmt::format("{} belongs to another store", region_path(backing, 0)),
                    "put the files of one store, and no others, into the folder");
    }
    origin = {.hash_seed = header.hash_seed, .existed = true};
  }
  if (missing && *missing > 0) {
    backing.shard = *missing;
    return report(Code::kCorrupt,
                  fmt::format("{} is missing, and with it a part of the store", region_path(backing, 0)),
                  "put it back; or move the folder's other files away to begin with an empty store");
  }
  if (!origin.existed) origin.hash_seed = secure_random_u64();
  return origin;
}

Reported<StoreSpace> StoreSpace::open(const NodeConfig& config, uint32_t shard, const StoreOrigin& origin) {
  StoreSpace space;
  space.backing_ = config.memory_backing;
  space.backing_.shard = shard;
  space.hash_seed_ = origin.hash_seed;
  space.time_ = origin.time;
  space.shard_count_ = config.server_shards;
  space.limit_bytes_ = share_of_shard(config.memory_limit_bytes, config.server_shards);
  auto addresses = AddressSpace::reserve(space.limit_bytes_, {.in_core_dumps = config.memory_in_core_dumps});
  if (!addresses) return report(addresses.error());
  space.addresses_ = std::move(*addresses);
  const uint64_t initial = share_of_shard(config.memory_initial_bytes, config.server_shards);
  if (auto opened = space.open_first(initial); !opened) return report(opened.error());
  return space;
}

uint64_t StoreSpace::bytes() const noexcept {
  return regions_.empty() ? 0 : regions_.back().region.base() + regions_.back().region.bytes();
}

RegionSpec StoreSpace::spec_of(uint64_t bytes) const {
  RegionSpec spec;
  spec.backing = backing_;
  spec.id = static_cast<uint16_t>(regions_.size());
  spec.bytes = bytes;
  spec.base = this->bytes();
  if (regions_.empty()) spec.accept_existing = accept_start;
  return spec;
}

Reported<> StoreSpace::open_first(uint64_t initial_bytes) {
  if (auto existing = open_existing(); !existing || existed_) return existing;
  if (auto begun = begin_growth(initial_bytes); !begun) return begun;
  if (auto populated = growing_->region.populate(); !populated) return populated;
  const SpaceTime time = time_.value_or(begin_time(system_clock(), host_boot_id()));
  if (auto made = make_store(growing_->region, time); !made) return made;
  return finish_growth();
}

Reported<> StoreSpace::open_existing() {
  while (regions_.size() < kRegionCountMax) {
    const auto bytes = existing_region_bytes(backing_, static_cast<uint16_t>(regions_.size()));
    if (!bytes) return report(bytes.error());
    if (*bytes == 0) break;
    if (this->bytes() + *bytes > limit_bytes_) {
      return report(Code::kInvalidArgument,
                    fmt::format("the stored regions have more than the {} MiB that --memory-limit allows",
                                limit_bytes_ / kMiB),
                    "start with the limit that the node had before, or a higher one");
    }
    if (auto begun = begin_growth(*bytes); !begun) return begun;
    if (auto populated = growing_->region.populate(); !populated) return populated;
    if (regions_.empty()) {
      const std::span<const std::byte> start{growing_->region.data(), growing_->region.bytes()};
      const Result<> header = Heap::check_header(start);
      // All zero: a node died before it finished its store, so there is nothing to lose.
      if (header.code() == Code::kMalformed) {
        const SpaceTime time = begin_time(system_clock(), host_boot_id());
        if (auto made = make_store(growing_->region, time); !made) return made;
      } else if (!header) {
        return report(header.error().code,
                      fmt::format("the space in {} is damaged: {}", backing_.folder,
                                  info(header.error().code).sentence),
                      fmt::format("look at it with: refract check --path {}", backing_.folder));
      } else if (reinterpret_cast<const SpaceHeader*>(start.data())->chunks_max * kChunkBytes >
                 limit_bytes_) {
        return report(Code::kInvalidArgument,
                      "the stored space was made with a higher --memory-limit than this node has",
                      "start with the limit that the node had before");
      } else {
        set_time(resume_time(reinterpret_cast<const SpaceHeader*>(start.data())->time, system_clock(),
                             host_boot_id()));
      }
    }
    existed_ = true;
    if (auto finished = finish_growth(); !finished) return finished;
  }
  return {};
}

Reported<> StoreSpace::make_store(const Region& first, const SpaceTime& time) {
  const uint64_t chunks_max = limit_bytes_ / kChunkBytes;
  const Heap::Geometry geometry{.chunks_max = chunks_max,
                                .store_area_bytes = kv::Table::store_area_bytes(chunks_max),
                                .hash_seed = hash_seed_,
                                .shard_index = backing_.shard,
                                .shard_count = shard_count_,
                                .time = time};
  Writer writer(addresses_.base());
  NobodyPins pins;
  if (Heap::format_bytes(geometry) < first.bytes()) {
    Heap::format(writer, geometry);
    Heap heap(writer, pins);
    heap.add({0}, first.bytes());
    if (kv::Table::format(writer, heap)) return {};
  }
  return report(Code::kInvalidArgument,
                fmt::format("{} MiB are too little for a node that may grow to {} MiB", first.bytes() / kMiB,
                            limit_bytes_ / kMiB),
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

void StoreSpace::leave() noexcept {
  const auto* header = reinterpret_cast<const SpaceHeader*>(addresses_.base());
  set_time(leave_time(header->time, system_clock()));
}

uint64_t StoreSpace::next_region_bytes(uint64_t value_bytes) const noexcept {
  const uint64_t left = limit_bytes_ - bytes();
  // An eighth of what there is, so that little lies idle and a large node still makes few regions; but not
  // below the first step, and a value lies in one region.
  const uint64_t least = round_up(value_bytes + 2 * kChunkBytes, kRegionUnit);
  const uint64_t step = std::clamp(round_up(bytes() / 8, kRegionUnit), kRegionBytesMin, kRegionBytesMax);
  const uint64_t wanted = std::max(step, least);
  if (regions_.size() >= kRegionCountMax || left < least || left == 0) return 0;
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
