// SPDX-License-Identifier: Apache-2.0
// A table that is changed at random, beside a model of what it holds, for tests of what is read from it
// meanwhile.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/testing/test_snapshot.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv::test {

// Changes a table at random, and the model with it.
class RandomOwner {
 public:
  struct Options {
    uint64_t seed = 1;
    uint64_t keys = 300;
    // Transactions over several shards have a part here from time to time, whose home is this shard, too.
    bool has_parts = false;
    StoreLog* log = nullptr;  // Of the space, for their words.
  };
  RandomOwner(Space& space, const Options& options) : space_(space), options_(options), prng_(options.seed) {
    if (!options.has_parts) return;
    const std::vector<Decisions::Home> homes{{.space = space.base(), .log = options.log}};
    decisions_.emplace(homes);
    parts_.emplace(space.table(), *decisions_);
  }

  void step() {
    if (parts_ && prng_.chance(0.15)) return step_part();
    const uint64_t draw = prng_.below(100);
    const std::string key = "key " + std::to_string(prng_.below(options_.keys));
    if (draw < 50) {
      put(key);
    } else if (draw < 57) {
      batch(key);
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

  // The key and the next one change at one moment, and the one behind them goes.
  void batch(const std::string& key) {
    Table& table = space_.table();
    const std::string other = key + " beside";
    const std::string gone = "key " + std::to_string(prng_.below(options_.keys));
    if (gone == key) return;
    const std::string value(value_bytes(), static_cast<char>(prng_.next() >> 56));
    std::vector<BatchWrite> writes(3);
    writes[0] = {.key = table.hashed(bytes_of(key)), .kind = WriteKind::kPut, .value = bytes_of(value)};
    writes[1] = {.key = table.hashed(bytes_of(other)), .kind = WriteKind::kPut, .value = bytes_of(value)};
    writes[2] = {.key = table.hashed(bytes_of(gone)), .kind = WriteKind::kErase};
    TableBatch changes{.conditions = {}, .writes = writes};
    if (!table.change_at_once(changes)) return;
    for (const auto& [name, write] : {std::pair{key, &writes[0]}, std::pair{other, &writes[1]}}) {
      ModelEntry& entry = model_[name] = {};
      entry.stamp = write->version;
      entry.value = value;
    }
    model_.erase(gone);
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
    // As the guard of chains refuses it.
    if (parts_ && parts_->keeps(hashed.hash)) return;
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
  // Two keys are prepared, or what was prepared has happened, or never will.
  void step_part() {
    if (under_way_.empty() || (under_way_.size() < 4 && prng_.chance(0.5))) return prepare();
    const size_t which = prng_.below(under_way_.size());
    const UnderWay one = under_way_[which];
    under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(which));
    const bool happens = prng_.chance(0.6);
    (void)decisions_->decide(
        one.name.place, happens ? Decision::committed(one.name.number) : Decision::aborted(one.name.number));
    (void)parts_->settle(one.name);
    if (!happens) return;
    model_.erase(one.erased);
    ModelEntry& entry = model_[one.put] = {};
    entry.stamp = one.stamp;
    entry.value = one.value;
  }
  void prepare() {
    Table& table = space_.table();
    UnderWay one{.name = {.place = decisions_->place_of(0, words_ % kDecisionWords), .number = 0},
                 .put = "key " + std::to_string(prng_.below(options_.keys)),
                 .erased = "key " + std::to_string(prng_.below(options_.keys)),
                 .value = std::string(value_bytes(), static_cast<char>(prng_.next() >> 56))};
    if (one.put == one.erased) return;
    const uint64_t range = ++words_ << kNumbersShift;
    decisions_->renew(one.name.place, range);
    one.name.number = range + 1;
    std::vector<BatchWrite> writes(2);
    writes[0] = {
        .key = table.hashed(bytes_of(one.put)), .kind = WriteKind::kPut, .value = bytes_of(one.value)};
    writes[1] = {.key = table.hashed(bytes_of(one.erased)), .kind = WriteKind::kErase};
    TableBatch changes{.conditions = {}, .writes = writes};
    if (!parts_->prepare(changes, {.name = one.name})) return;
    one.stamp = writes[0].version;
    under_way_.push_back(one);
  }
  // What is to be told to a snapshot; null: nothing.
  [[nodiscard]] const Table::Parts* parts() const noexcept { return parts_ ? &*parts_ : nullptr; }
  [[nodiscard]] std::vector<uint64_t> pending() const {
    std::vector<uint64_t> stamps;
    if (!parts_) return stamps;
    for (const Table::Parts::Prepared& one : parts_->prepared()) {
      for (const ChangeLog::Change& change : one.changes) stamps.push_back(change.stamp);
    }
    std::ranges::sort(stamps);
    return stamps;
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
  struct UnderWay {
    TransactionName name;
    std::string put;
    std::string erased;
    std::string value;
    uint64_t stamp = 0;
  };
  std::optional<Decisions> decisions_;
  std::optional<Table::Parts> parts_;
  std::vector<UnderWay> under_way_;
  uint64_t words_ = 0;
};

}  // namespace refract::kv::test
