// SPDX-License-Identifier: Apache-2.0
// check: the space of a node, the region files that one left, or what it keeps on disk, looked through for
// damage.
#include <fmt/format.h>

#include "apps/progress/progress.h"
#include "apps/refract/check/check_data.h"
#include "apps/refract/check/check_space.h"
#include "apps/refract/commands.h"
#include "apps/refract/node_memory.h"
#include "apps/refract/terminal.h"

#include "refract/client/link/address.h"
#include "refract/fabric/shm/meeting.h"
#include "refract/memory/host/backing.h"
#include "refract/memory/host/region.h"

namespace refract::cli {
namespace {

using progress::bytes_text;
using progress::count_text;

documents::Value json_of(const SpaceReport& found, std::string_view place) {
  documents::Value damages = documents::Value::array();
  for (const Damage& damage : found.damages) {
    damages.push_back({{"offset", damage.offset}, {"what", damage.what}});
  }
  return {{"healthy", found.damage_count == 0},
          {"checked", place},
          {"bytes", found.bytes},
          {"chunks", found.chunks},
          {"buckets", found.buckets},
          {"overflow_lines", found.overflow_lines},
          {"entries", found.entries},
          {"expiring_entries", found.expiring_entries},
          {"content_bytes", found.content_bytes},
          {"pending_entries", found.pending_entries},
          {"far_parts", found.far_parts},
          {"damage_count", found.damage_count},
          {"damages", damages}};
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
  if (found.pending_entries + found.far_parts > 0) {
    out += fmt::format("  open     {} entries are pending, {} transactions wait for other nodes\n",
                       count_text(found.pending_entries), count_text(found.far_parts));
  }
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
  const int written = invocation.json ? write_json(json_of(found, place)) : write_text(text_of(found, place));
  if (written != kDone || found.damage_count == 0) return written;
  return complain(kNotDone, fmt::format("{} damages in {}", count_text(found.damage_count), place),
                  "save what can be read with refract dump, and load it into a new node");
}

// Sets `shards` to how many the node has.
int check_shard(const Invocation& invocation, const std::string& path, uint64_t& shards) {
  const auto memory = NodeMemory::attach(path, invocation.timeout_ns);
  if (!memory) return complain(with_what_to_start(memory.error()));
  const SpaceReport found = check_space({.space = (*memory)->space(),
                                         .is_live = true,
                                         .grown = [&memory] { return (*memory)->grown(); },
                                         .pause = wait_a_moment});
  shards = (*memory)->shard_count();
  return tell(invocation, found, fmt::format("the node at {}", path));
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

int check_folder(const Invocation& invocation, const std::string& folder) {
  Backing backing{.kind = BackingKind::kFile, .folder = folder};
  if (existing_region_bytes(backing, 0).value_or(1) == 0) {
    return complain(
        kFailed,
        fmt::format("{} holds no data of a node (store, log-..., snapshot-...) and no memory of one "
                    "(region-...)",
                    in_quotes(folder)),
        "name the folder that the node has as --data-folder, or behind --memory-backing file:");
  }
  int exit = kDone;
  // Shards share the folder; the first one is always there.
  do {
    const auto regions = map_region_files(backing);
    if (!regions) return complain(regions.error());
    const SpaceReport found = check_space({.space = regions->space(), .is_live = false});
    const int one =
        tell(invocation, found,
             fmt::format("{} region file{} in {}{}", regions->count, regions->count == 1 ? "" : "s", folder,
                         backing.shard == 0 ? "" : fmt::format(", shard {}", backing.shard)));
    if (exit == kDone) exit = one;
    ++backing.shard;
  } while (existing_region_bytes(backing, 0).value_or(0) > 0);
  return exit;
}

}  // namespace

int run_check(const Invocation& invocation) {
  if (invocation.path.empty()) return check_node(invocation);
  const auto whole = whole_path(invocation.path);
  if (!whole) return complain(kFailed, whole.error().what, whole.error().next);
  if (!is_data(*whole)) return check_folder(invocation, *whole);
  const int data = check_data(invocation, *whole);
  // Regions may lie in the same folder.
  const Backing backing{.kind = BackingKind::kFile, .folder = *whole};
  const bool has_regions = is_folder(*whole) && existing_region_bytes(backing, 0).value_or(0) > 0;
  const int regions = has_regions ? check_folder(invocation, *whole) : kDone;
  return data != kDone ? data : regions;
}

}  // namespace refract::cli
