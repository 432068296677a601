// SPDX-License-Identifier: Apache-2.0
// The shards of a node as a rival reads them directly.
#include <fmt/format.h>

#include "tests/campaign/rival.h"

#include "refract/base/hash.h"
#include "refract/kv/layout/routing.h"

namespace refract::campaign {

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

std::string RivalStage::shard_name(size_t index) {
  return index == 0 ? "server" : fmt::format("server{}", index);
}

std::string RivalStage::name_of(size_t life, const std::string& key) const {
  return fmt::format("{}/{}", is_durable() ? 1 : life, key);
}

uint32_t RivalStage::shard_of(size_t life, const std::string& key) const noexcept {
  const Node& node = nodes[life - 1];
  const kv::KeyRouting routing{.shards = static_cast<uint32_t>(node.shards.size())};
  return routing.shard_of(bytes_of(key), hash_key(bytes_of(key), node.hash_seed));
}

// Another node stands at the server's address, with another memory.
void Rival::begin_life() {
  if (life_ == stage_.life()) return;
  life_ = stage_.life();
  if (!stage_.is_durable()) versions_.clear();
  for (Reach& reach : reaches_) {
    reach.reader.reset();
    reach.memory.reset();
    Keeper& keeper = stage_.nodes.back().shards[reach.index];
    reach.pins = PinWriter(keeper.add_pin_table());
    reach.loads = stage_.world.make_reader(host_, keeper.memory(),
                                           {.stall_chance = options_.stall_chance, .stall_ns = 600'000});
    map(reach);
  }
}

void Rival::map(Reach& reach) {
  reach.reader.reset();
  const Mutation mutation = stage_.run.mutation;
  const std::byte* image = stage_.nodes[life_ - 1].shards[reach.index].memory().image();
  reach.memory.emplace(reach.loads->memory(), image, &reach.pins, reach.looks, mutation);
  const Clock* clock = &host_.clock();
  if (mutation == Mutation::kStoppedClock) clock = &stopped_clock_;
  reach.reader.emplace(*reach.memory, *clock);
}

void Rival::read_directly(const std::string& key, bool with_value) {
  // A direct reader dies with the host.
  if (stage_.is_durable() && life_ != stage_.life()) return;
  const size_t record = stage_.recorder.begin(call_of(Kind::kGet, key), stage_.now_ns());
  const uint64_t began_ns = stage_.now_ns();
  Reach& reach = reach_of(key);
  const uint64_t hash = reach.reader->hash(bytes_of(key));
  std::string value;
  const auto sink = [&](uint64_t bytes) {
    value.resize(bytes);
    return reinterpret_cast<std::byte*>(value.data());
  };
  kv::Found found;
  while (true) {
    reach.memory->begin_read();
    found =
        with_value ? reach.reader->get(bytes_of(key), hash, sink) : reach.reader->look(bytes_of(key), hash);
    // Outside of what is mapped, if the space has grown: perhaps more than once while the read stalled.
    const bool has_grown =
        reach.memory->bytes() < stage_.nodes[life_ - 1].shards[reach.index].memory().bytes();
    if (found.code != Code::kCorrupt || !has_grown) break;
    map(reach);
  }
  ++stage_.outcome.direct;
  if (stage_.now_ns() != began_ns) ++stage_.outcome.stalled;
  if (reach.memory->overtaken()) ++stage_.outcome.overtaken;
  end_read(record, key,
           {.code = found.code,
            .version = reach.memory->true_version(found.version),
            .value = with_value ? &value : nullptr});
}

}  // namespace refract::campaign
