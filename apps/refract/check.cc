// SPDX-License-Identifier: Apache-2.0
// check: the space of a node, or the region files that one left, looked through for damage.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>

#include "apps/progress/progress.h"
#include "apps/refract/check_space.h"
#include "apps/refract/commands.h"
#include "apps/refract/terminal.h"

#include "refract/base/clock.h"
#include "refract/client/address.h"
#include "refract/fabric/shm/attach.h"
#include "refract/memory/address_space.h"
#include "refract/memory/backing.h"
#include "refract/memory/descriptor.h"
#include "refract/memory/region.h"
#include "refract/memory/size_class.h"

namespace refract::cli {
namespace {

using progress::bytes_text;
using progress::count_text;

constexpr uint16_t kRegionFilesMax = 250;
constexpr uint64_t kPageBytes = 4096;
constexpr int kHeartbeat_ms = 100;

struct Regions {
  AddressSpace addresses;
  uint64_t bytes = 0;
  uint64_t count = 0;
};

std::string json_of(const SpaceReport& found, std::string_view place) {
  std::string out = fmt::format(
      "{{\"healthy\": {}, \"checked\": {}, \"bytes\": {}, \"chunks\": {}, \"buckets\": {}, "
      "\"overflow_lines\": {}, \"entries\": {}, \"expiring_entries\": {}, \"content_bytes\": {}, "
      "\"damage_count\": {}, \"damages\": [",
      found.damage_count == 0, json_text(place), found.bytes, found.chunks, found.buckets,
      found.overflow_lines, found.entries, found.expiring_entries, found.content_bytes, found.damage_count);
  for (size_t i = 0; i < found.damages.size(); ++i) {
    out += fmt::format("{}{{\"offset\": {}, \"what\": {}}}", i == 0 ? "" : ", ", found.damages[i].offset,
                       json_text(found.damages[i].what));
  }
  return out + "]}\n";
}

std::string text_of(const SpaceReport& found, std::string_view place) {
  std::string out = fmt::format(
      "checked {}\n"
      "  space    {} in {} chunks: header and chunk table\n"
      "  table    {} buckets, {} overflow lines, and the directory that leads to them\n"
      "  entries  {} ({} of them expire), {} of keys and values: stamps, lengths, hashes, places\n",
      place, bytes_text(found.bytes), count_text(found.chunks), count_text(found.buckets),
      count_text(found.overflow_lines), count_text(found.entries), count_text(found.expiring_entries),
      bytes_text(found.content_bytes));
  if (found.damage_count == 0) return out + "no damage\n";
  for (const Damage& damage : found.damages) {
    out += fmt::format("damage at offset {:#x}: {}\n", damage.offset, damage.what);
  }
  if (found.damage_count > found.damages.size()) {
    out += fmt::format("and {} more\n", count_text(found.damage_count - found.damages.size()));
  }
  return out;
}

int tell(const Invocation& invocation, const SpaceReport& found, std::string_view place) {
  const int written = write_out(invocation.json ? json_of(found, place) : text_of(found, place));
  if (written != kDone || found.damage_count == 0) return written;
  return complain(kNotDone, fmt::format("{} damages in {}", count_text(found.damage_count), place),
                  "save what can be read with refract dump, and load it into a new node");
}

// Waits until everything that the keeper offers is mapped; the server is not needed.
Reported<> attach(fabric::shm::ClientAttachment& attachment, const Invocation& invocation) {
  const Clock& clock = system_clock();
  const uint64_t until_ns = clock.now_ns() + invocation.timeout_ns;
  if (auto begun = attachment.begin(); !begun) return begun;
  while (!attachment.complete()) {
    const auto progress = attachment.step();
    if (progress == fabric::shm::ClientAttachment::Progress::kEnded) return report(attachment.failure());
    if (progress == fabric::shm::ClientAttachment::Progress::kSomething) continue;
    if (clock.now_ns() >= until_ns) {
      return report(Code::kDeadlineExceeded, "the node's keeper does not answer",
                    "if it was stopped (SIGSTOP), let it go on (kill -CONT); or give a longer --timeout");
    }
    pollfd control{.fd = attachment.control(), .events = POLLIN, .revents = 0};
    (void)::poll(&control, 1, kHeartbeat_ms);
  }
  return {};
}

// Sets `shards` to how many the node has.
int check_shard(const Invocation& invocation, const std::string& path, uint64_t& shards) {
  fabric::shm::ClientAttachment attachment(path, {.populate = false});
  if (const auto attached = attach(attachment, invocation); !attached) {
    return complain(with_what_to_start(attached.error()));
  }
  const auto space = [&attachment] {
    return std::span<const std::byte>{attachment.space(), attachment.mapped_bytes()};
  };
  const auto grown = [&attachment, &space] {
    pollfd control{.fd = attachment.control(), .events = POLLIN, .revents = 0};
    if (attachment.ask_for_regions()) {
      (void)::poll(&control, 1, kHeartbeat_ms);
      (void)attachment.step();
    }
    return space();
  };
  const SpaceReport found = check_space(
      {.space = space(), .is_live = true, .grown = grown, .pause = [] { (void)::poll(nullptr, 0, 1); }});
  shards = observe_u64(&attachment.node_page().shard_count);
  const int exit = tell(invocation, found, fmt::format("the node at {}", path));
  attachment.end();
  return exit;
}

// The first that is not well decides how the command ends; the others are looked at all the same.
int check_node(const Invocation& invocation) {
  const auto path = client::socket_path_of(target_of(invocation));
  if (!path) return complain(path.error());
  uint64_t shards = 1;
  int exit = kDone;
  for (uint32_t shard = 0; shard < shards; ++shard) {
    uint64_t count = 1;
    const int one = check_shard(invocation, fabric::shm::shard_socket_path(*path, shard), count);
    if (exit == kDone) exit = one;
    if (shard == 0) shards = count;
  }
  return exit;
}

Reported<Regions> map_files(const Backing& backing) {
  const std::string& folder = backing.folder;
  std::vector<uint64_t> sizes;
  Regions regions;
  for (uint16_t id = 0; id < kRegionFilesMax; ++id) {
    const auto bytes = existing_region_bytes(backing, id);
    if (!bytes) return report(bytes.error());
    if (*bytes == 0) break;
    // Behind the last whole page there is nothing that a mapping could reach.
    sizes.push_back(*bytes / kPageBytes * kPageBytes);
    regions.bytes += sizes.back();
  }
  if (regions.bytes == 0) {
    return report(Code::kSystem, fmt::format("there are no region files in {}", in_quotes(folder)),
                  "name the folder that the node had as --memory-backing file:FOLDER");
  }
  auto addresses = AddressSpace::reserve(regions.bytes);
  if (!addresses) return report(addresses.error());
  regions.addresses = std::move(*addresses);
  uint64_t at = 0;
  for (const uint64_t bytes : sizes) {
    const std::string path = region_path(backing, static_cast<uint16_t>(regions.count++));
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) {
      return report(Code::kSystem, fmt::format("cannot open {}: {}", in_quotes(path), errno_text(errno)),
                    "call refract check as the user who ran the node");
    }
    if (bytes == 0) continue;
    auto mapped = regions.addresses.map(
        {.descriptor = file.get(), .file_offset = 0, .at = at, .bytes = bytes, .writable = false});
    if (!mapped) return report(mapped.error());
    at += bytes;
  }
  return regions;
}

int check_folder(const Invocation& invocation) {
  const std::unique_ptr<char, void (*)(void*)> whole(::realpath(invocation.path.c_str(), nullptr), std::free);
  if (!whole) {
    return complain(kFailed, fmt::format("cannot open {}: {}", in_quotes(invocation.path), errno_text(errno)),
                    "name the folder that the node had as --memory-backing file:FOLDER");
  }
  Backing backing{.kind = BackingKind::kFile, .folder = whole.get()};
  int exit = kDone;
  // Shards share the folder; the first one is always there.
  do {
    const auto regions = map_files(backing);
    if (!regions) return complain(regions.error());
    const SpaceReport found =
        check_space({.space = {regions->addresses.base(), regions->bytes}, .is_live = false});
    const int one =
        tell(invocation, found,
             fmt::format("{} region file{} in {}{}", regions->count, regions->count == 1 ? "" : "s",
                         whole.get(), backing.shard == 0 ? "" : fmt::format(", shard {}", backing.shard)));
    if (exit == kDone) exit = one;
    ++backing.shard;
  } while (existing_region_bytes(backing, 0).value_or(0) > 0);
  return exit;
}

}  // namespace

int run_check(const Invocation& invocation) {
  return invocation.path.empty() ? check_node(invocation) : check_folder(invocation);
}

}  // namespace refract::cli
