// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/data_rings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "refract/base/boot_id.h"
#include "refract/base/log.h"
#include "refract/base/prng.h"

namespace refract::node {
namespace {

using storage::RingFile;
using storage::RingPlace;

bool is_in_folder(const storage::RingUse& use) noexcept {
  return use.place == static_cast<uint64_t>(RingPlace::kFolder);
}

// What only it had may have been acknowledged: nothing is served before an operator has decided.
std::unexpected<Report> missing_ring(Report why, const std::string& folder) {
  why.what +=
      "; the last node on this folder was not stopped, and what it acknowledged in its last second "
      "may have been in that ring alone";
  why.next = fmt::format(
      "put the file back; or save the rest into a new folder: refract restore --salvage "
      "{0} --to NEWFOLDER. Nothing on the disk was changed",
      folder);
  return report(std::move(why));
}

}  // namespace

storage::RingIdentity DataRings::identity(const storage::StoreFacts& facts, uint32_t shard) const {
  return {.store = facts.store, .shard = shard, .boot = use_.boot, .number = use_.number};
}

Reported<DataRings> DataRings::open(const NodeConfig& config, storage::StoreFolder& folder,
                                    const SpaceTime& time) {
  const storage::StoreFacts& facts = folder.facts();
  DataRings rings;
  auto opened = storage::RingFolder::open(config.data_folder);
  if (!opened) return report(std::move(opened).error());
  rings.folder_ = *std::move(opened);
  const auto boot = host_boot_id();
  if (!boot) {
    log_warn(
        "this system does not say which boot it is: what is not on the disk counts as lost whenever the "
        "node was not stopped");
  }
  const storage::RingUse& left = facts.rings;
  const bool counts = left.is_in_use != 0 && boot && left.boot == *boot;
  if (counts && !is_in_folder(left) && left.always == 0) {
    log_error(
        "the log's ring lay in memory, and went with the last node, which was not stopped: what it "
        "acknowledged in its last second may be missing");
  }
  if (counts && is_in_folder(left)) {
    rings.use_ = left;
    const Reported<> taken = rings.take_up(facts);
    const bool is_gone =
        !taken && (taken.error().code == Code::kNotFound || taken.error().code == Code::kCorrupt);
    if (is_gone && left.always == 0) return missing_ring(taken.error(), config.data_folder);
    if (!taken && !is_gone) return report(taken.error());
    if (is_gone) {
      log_warn("{}; nothing that was acknowledged was in it alone, and the node continues without it",
               taken.error().what);
      rings.files_.clear();
    }
  }
  const bool is_made = rings.files_.empty();
  if (is_made) {
    rings.use_ = {.is_in_use = 1, .boot = boot.value_or(BootId{})};
    if (auto made = rings.make(config, facts); !made) return report(made.error());
  }
  // What rings hold that were taken up may have been acknowledged by a node that promised less.
  const bool had_less = !is_made && left.always == 0;
  rings.use_.always = config.durability == Durability::kAlways && !had_less ? 1 : 0;
  if (auto said = folder.set(time, rings.use_); !said) return report(said.error());
  rings.events_ = Descriptor(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  for (const RingFile& file : rings.files_) rings.watch(file);
  return rings;
}

Reported<> DataRings::take_up(const storage::StoreFacts& facts) {
  bool is_copy = false;
  for (uint32_t shard = 0; shard < facts.shard_count; ++shard) {
    auto file = RingFile::take_up(folder_, identity(facts, shard));
    if (!file) return report(std::move(file).error());
    is_copy = is_copy || file->is_copy();
    files_.push_back(*std::move(file));
  }
  if (is_copy) {
    log_warn(
        "{} is a copy, made of the folder of a node that had not been stopped: it has what was there "
        "when it was copied",
        folder_.path());
  }
  return {};
}

Reported<> DataRings::make(const NodeConfig& config, const storage::StoreFacts& facts) {
  use_.number = secure_random_u64();
  std::string why = "this file system may refuse a store into a mapped file (ext4 and xfs do not)";
  if (folder_.keeps_rings()) why.clear();
  for (uint32_t shard = 0; shard < facts.shard_count && why.empty(); ++shard) {
    auto file = RingFile::make(folder_, identity(facts, shard), storage::kRingBytesDefault);
    if (!file && file.error().code == Code::kInUse) return report(std::move(file).error());
    if (file) {
      files_.push_back(*std::move(file));
    } else {
      why = file.error().to_string();
    }
  }
  if (why.empty()) return {};
  files_.clear();
  use_.place = static_cast<uint64_t>(RingPlace::kMemory);
  for (uint32_t shard = 0; shard < facts.shard_count; ++shard) {
    auto file = RingFile::make_in_memory(identity(facts, shard), storage::kRingBytesDefault);
    if (!file) return report(std::move(file).error());
    files_.push_back(*std::move(file));
  }
  if (config.durability == Durability::kAlways) return {};
  log_warn(
      "the log's ring lies in memory, not in {}: if all processes of this node die at once, what was "
      "acknowledged since the last sync is lost, a second or so",
      config.data_folder);
  log_warn("{}", why);
  return {};
}

// By what it is, wherever its name may be.
void DataRings::watch(const RingFile& file) const noexcept {
  if (!events_ || !is_in_folder(use_)) return;
  const std::string link = fmt::format("/proc/self/fd/{}", file.descriptor());
  (void)::inotify_add_watch(events_.get(), link.c_str(), IN_ATTRIB | IN_MOVE_SELF);
}

bool DataRings::has_lost_names() {
  alignas(inotify_event) char events[4096];
  while (events_ && ::read(events_.get(), events, sizeof(events)) > 0) {
  }
  if (!is_in_folder(use_)) return false;
  return std::ranges::any_of(files_, [this](const RingFile& file) { return !file.has_name(folder_); });
}

Reported<DataRings::Prepared> DataRings::prepare() const {
  if (::faccessat(folder_.descriptor(), "store", F_OK, 0) != 0) {
    return report(Code::kNotFound, fmt::format("{} has lost its other files, too", folder_.path()),
                  "save what the node has with refract dump, and start it on another folder");
  }
  Prepared prepared;
  for (const RingFile& file : files_) {
    if (file.has_name(folder_)) continue;
    auto fresh = RingFile::prepare(folder_, file.identity(), file.ring_bytes());
    if (!fresh) return report(std::move(fresh).error());
    prepared.push_back(*std::move(fresh));
  }
  return prepared;
}

Reported<> DataRings::replace(Prepared prepared) {
  for (RingFile& fresh : prepared) {
    RingFile& old = files_[fresh.identity().shard];
    if (auto copied = fresh.copy_content(old); !copied) return copied;
    if (auto named = fresh.take_name(folder_); !named) return named;
    std::swap(old, fresh);
    watch(old);
  }
  return {};
}

Reported<bool> DataRings::replace_damaged() {
  bool is_any = false;
  for (RingFile& file : files_) {
    if (file.is_whole()) continue;
    is_any = true;
    log_error("{} was cut or written over, and what it held is lost", file.path());
    auto fresh = RingFile::prepare(folder_, file.identity(), file.ring_bytes());
    if (!fresh) return report(std::move(fresh).error());
    if (auto said = fresh->say_lost(); !said) return report(said.error());
    if (auto named = fresh->take_name(folder_); !named) return report(named.error());
    std::swap(file, *fresh);
    watch(file);
  }
  return is_any;
}

Reported<> DataRings::move_to_memory(storage::StoreFolder& folder) {
  if (!is_in_folder(use_)) return {};
  std::vector<RingFile> moved;
  for (const RingFile& file : files_) {
    auto fresh = RingFile::make_in_memory(file.identity(), file.ring_bytes());
    if (!fresh) return report(std::move(fresh).error());
    if (auto copied = fresh->copy_content(file); !copied) return copied;
    moved.push_back(*std::move(fresh));
  }
  storage::RingUse use = use_;
  use.place = static_cast<uint64_t>(RingPlace::kMemory);
  if (auto said = folder.set(folder.facts().time, use); !said) return said;
  use_ = use;
  files_ = std::move(moved);
  log_error(
      "a store into the log's ring was refused by its file system, and ended the server: from now on "
      "the ring lies in memory, and what was acknowledged since the last sync is lost if all processes "
      "of this node die at once");
  return {};
}

}  // namespace refract::node
