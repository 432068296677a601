// SPDX-License-Identifier: Apache-2.0
// inspect: what lies in a node's memory, or in the region files that one left.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "apps/inspect/decoder.h"
#include "apps/refract/commands.h"
#include "apps/refract/node_memory.h"
#include "apps/refract/terminal.h"

#include "refract/base/hash.h"
#include "refract/client/link/address.h"
#include "refract/fabric/shm/node_page.h"
#include "refract/kv/layout/routing.h"
#include "refract/memory/space.h"

namespace refract::cli {
namespace {

std::string known_layouts() {
  std::string names;
  for (const inspect::Decoder& one : inspect::decoders()) {
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", one.name, one.sentence);
  }
  return names;
}

int show(const Invocation& invocation, const inspect::Region& region, const inspect::Question& question,
         std::string_view place) {
  const inspect::Decoder* decoder = invocation.layout.empty() ? inspect::decoder_for(region.bytes)
                                                              : inspect::decoder_named(invocation.layout);
  if (decoder == nullptr && !invocation.layout.empty()) {
    return complain(kUsage, fmt::format("there is no layout {}", in_quotes(invocation.layout)),
                    "known are " + known_layouts());
  }
  if (decoder == nullptr && !question.at) {
    return complain(kFailed, fmt::format("{} holds no layout that is known here", place),
                    "name it with --layout, or look at its bytes with --at 0; known are " + known_layouts());
  }
  bool found = true;
  const inspect::Part part = decoder == nullptr ? inspect::raw_bytes(region.bytes, *question.at)
                                                : decoder->decode(region, question, found);
  const std::string text = invocation.json ? inspect::json_of(part) : inspect::text_of(part);
  if (const int written = write_text(text); written != kDone) return written;
  if (const size_t damages = inspect::damage_count(part); damages > 0) {
    return complain(kNotDone, fmt::format("{} damage{} in {}", damages, damages == 1 ? "" : "s", place),
                    "refract check looks through all of it; refract dump saves what can be read");
  }
  return found && !part.is_nothing ? kDone : kNotDone;
}

// Which shard a key belongs to: each has in its header the seed that all hash with, and how keys are routed.
uint32_t shard_of_key(std::span<const std::byte> space, const std::string& key, uint64_t shards) {
  if (space.size() < sizeof(SpaceHeader) || shards == 0) return 0;
  const uint64_t seed = observe_u64(space.data() + offsetof(SpaceHeader, hash_seed));
  const uint64_t copies = observe_u64(space.data() + offsetof(SpaceHeader, copies));
  const kv::KeyRouting routing{.shards = static_cast<uint32_t>(shards),
                               .copies = static_cast<uint32_t>(copies)};
  const auto bytes = std::as_bytes(std::span(key));
  return routing.shard_of(bytes, hash_key(bytes, seed));
}

int inspect_node(const Invocation& invocation, const inspect::Question& question) {
  const auto path = client::socket_path_of(target_of(invocation));
  if (!path) return complain(path.error());
  const auto attach = [&](uint64_t shard) {
    return NodeMemory::attach(fabric::shm::shard_socket_path(*path, static_cast<uint32_t>(shard)),
                              invocation.timeout_ns);
  };
  auto memory = attach(0);
  if (!memory) return complain(with_what_to_start(memory.error()));
  const uint64_t shards = (*memory)->shard_count();
  if (invocation.shard >= shards) {
    return complain(kUsage, fmt::format("there is no shard {}: the node has {}", invocation.shard, shards),
                    "shards are numbered from 0");
  }
  uint64_t shard = invocation.shard;
  if (question.key) shard = shard_of_key((*memory)->space(), *question.key, shards);
  if (shard != 0) memory = attach(shard);
  if (!memory) return complain(memory.error());
  return show(invocation,
              {.bytes = (*memory)->space(),
               .grown = [&memory] { return (*memory)->grown(); },
               .pause = wait_a_moment},
              question, fmt::format("the node at {}", *path));
}

Reported<RegionFiles> map_shard(const std::string& folder, uint64_t shard) {
  return map_region_files(
      {.kind = BackingKind::kFile, .folder = folder, .shard = static_cast<uint32_t>(shard)});
}

// A folder of region files, or one file with a region of any layout.
int inspect_files(const Invocation& invocation, const inspect::Question& question) {
  const auto whole = whole_path(invocation.path);
  if (!whole) return complain(kFailed, whole.error().what, "name a region's file, or a folder of them");
  auto files = is_folder(*whole) ? map_shard(*whole, invocation.shard) : map_file(*whole);
  if (!files) return complain(files.error());
  if (question.key && is_folder(*whole) && invocation.shard == 0) {
    const std::span<const std::byte> space = files->space();
    uint64_t shards = 1;
    if (space.size() >= sizeof(SpaceHeader)) {
      shards = observe_u64(space.data() + offsetof(SpaceHeader, shard_index)) >> 32;
    }
    const uint32_t shard = shard_of_key(space, *question.key, shards);
    if (shard != 0) files = map_shard(*whole, shard);
    if (!files) return complain(files.error());
  }
  return show(invocation, {.bytes = files->space()}, question, *whole);
}

}  // namespace

int run_inspect(const Invocation& invocation) {
  inspect::Question question{.at = invocation.at, .key = std::nullopt, .bucket = invocation.bucket};
  if (invocation.key.kind != Source::Kind::kNone) {
    auto key = read_key(invocation);
    if (!key) return complain(key.error());
    question.key = std::move(*key);
  }
  return invocation.path.empty() ? inspect_node(invocation, question) : inspect_files(invocation, question);
}

}  // namespace refract::cli
