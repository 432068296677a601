// SPDX-License-Identifier: Apache-2.0
// A table that is changed at random, beside a model of what it holds, for tests of what is read from it
// meanwhile.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/kv/owner/snapshot/snapshot_block.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv::test {

struct ModelEntry {
  uint64_t stamp = 0;
  uint64_t expires_wall_ns = 0;
  RequestId request;
  std::string value;
  bool operator==(const ModelEntry&) const = default;
};
using Model = std::map<std::string, ModelEntry>;

inline void drop_expired(Model& model, uint64_t wall_ns) {
  std::erase_if(model, [&](const auto& entry) {
    return entry.second.expires_wall_ns != 0 && entry.second.expires_wall_ns <= wall_ns;
  });
}

// Keeps what it is given, as a disk would.
class BlocksInMemory : public SnapshotSink {
 public:
  struct Kept {
    SnapshotBlockKind kind;
    uint32_t entries;
    std::vector<std::byte> bytes;
  };

  [[nodiscard]] Code write(const SnapshotBlock& block) override {
    blocks.push_back({block.kind, block.entries, {block.bytes.begin(), block.bytes.end()}});
    return Code::kOk;
  }

  // What the blocks hold. An entry that comes twice, or blocks that make no sense, make it unequal to any
  // model.
  [[nodiscard]] Model read() const {
    Model model;
    SnapshotBlockReader reader;
    for (const Kept& block : blocks) {
      if (!reader.begin({.kind = block.kind, .entries = block.entries, .bytes = block.bytes}))
        return {{"a block that makes no sense", {}}};
      SnapshotEntry entry;
      Result<> more = reader.next(entry);
      for (; more; more = reader.next(entry)) {
        const bool is_new =
            model
                .emplace(text_of(entry.key), ModelEntry{.stamp = entry.stamp,
                                                        .expires_wall_ns = entry.expires_wall_ns,
                                                        .request = entry.request,
                                                        .value = text_of(entry.value)})
                .second;
        if (!is_new) return {{"twice: " + text_of(entry.key), {}}};
      }
      if (more.error().code != Code::kNotFound) return {{"an entry that makes no sense", {}}};
    }
    if (!reader.is_complete()) return {{"pieces are missing", {}}};
    return model;
  }

  std::vector<Kept> blocks;
};

// Changes a table at random, and the model with it.
class RandomOwner {
 public:
  struct Options {
    uint64_t seed = 1;
    uint64_t keys = 300;
  };
  RandomOwner(Space& space, const Options& options) : space_(space), options_(options), prng_(options.seed) {}

  void step() {
    const uint64_t draw = prng_.below(100);
    const std::string key = "key " + std::to_string(prng_.below(options_.keys));
    if (draw < 57) {
      put(key);
    } else if (draw < 62) {
      install(key);
    } else if (draw < 82) {
      if (space_.table().erase(bytes_of(key), 0)) model_.erase(key);
    } else if (draw < 88) {
      space_.clock().advance_ns(prng_.below(3));
    } else if (draw < 92) {
      (void)space_.table().sweep(1 + prng_.below(64));
    } else {
      // So that what was retired is reused at once.
      space_.heap().reclaim();
    }
  }
  void put(const std::string& key) {
    ModelEntry entry;
    entry.value.assign(value_bytes(), '\0');
    for (char& letter : entry.value) letter = static_cast<char>(prng_.next() >> 56);
    if (prng_.chance(0.2)) entry.expires_wall_ns = space_.clock().wall_ns() + 1 + prng_.below(20);
    if (prng_.chance(0.2)) entry.request = {.client = 1 + prng_.below(9), .sequence = ++sequence_};
    const auto version =
        space_.table().put(bytes_of(key), bytes_of(entry.value),
                           {.expires_wall_ns = entry.expires_wall_ns, .request = entry.request});
    if (!version) return;
    entry.stamp = *version;
    model_[key] = entry;
  }

  // Few lengths, since each class of buffers takes a chunk for itself; the longest is an extent.
  [[nodiscard]] uint64_t value_bytes() noexcept {
    const uint64_t draw = prng_.below(1'000);
    return draw < 700 ? prng_.below(24) : draw < 985 ? 200 : draw < 998 ? 3'000 : 70'000;
  }

  // As a chain replaces an entry: one that does not expire, and its buffer is given back a little later.
  void install(const std::string& key) {
    Table& table = space_.table();
    const Table::HashedKey hashed = table.hashed(bytes_of(key));
    const Table::Standing standing = table.standing(hashed);
    if (!standing.slot || standing.slot.expires()) return;
    Lengths lengths;
    lengths.key_bytes = static_cast<uint16_t>(key.size());
    lengths.value_bytes = 30;
    const auto buffer = space_.heap().allocate(lengths.total_bytes());
    if (!buffer) return;
    ModelEntry entry;
    entry.value.assign(30, static_cast<char>(prng_.next() >> 56));
    Writer& writer = space_.writer();
    writer.publish(*buffer, 0);
    writer.publish(buffer->plus(offsetof(BufferHeader, lengths)), lengths.word());
    writer.copy(buffer->plus(lengths.key_at()), bytes_of(key));
    writer.copy(buffer->plus(lengths.value_at()), bytes_of(entry.value));
    entry.stamp = space_.heap().next_stamp();
    writer.publish(*buffer, entry.stamp);
    const uint64_t old_bytes =
        Lengths::from_word(writer.load(standing.slot.buffer().plus(offsetof(BufferHeader, lengths))))
            .total_bytes();
    table.depart(standing.slot);
    writer.publish(
        standing.slot_at,
        Slot::of(
            {.hash = hashed.hash, .stamp = entry.stamp, .bytes = lengths.total_bytes(), .buffer = *buffer})
            .bits);
    replaced_.push_back({standing.slot.buffer(), old_bytes});
    model_[key] = entry;
    if (replaced_.size() > 3) end_chains();
  }
  void end_chains() {
    for (const auto& [buffer, bytes] : replaced_) space_.table().retire(buffer, bytes);
    replaced_.clear();
  }

  // What the table holds now.
  [[nodiscard]] Model model() {
    Model model = model_;
    drop_expired(model, space_.clock().wall_ns());
    return model;
  }
  [[nodiscard]] Prng& prng() noexcept { return prng_; }

 private:
  Space& space_;
  Options options_;
  Prng prng_;
  Model model_;
  std::vector<std::pair<Offset, uint64_t>> replaced_;
  uint64_t sequence_ = 0;
};

}  // namespace refract::kv::test
