// SPDX-License-Identifier: Apache-2.0
// A store of objects in ordinary memory, which outlives its owner: for tests of what works on one.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/clock.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"
#include "refract/object/owner/object_store.h"

namespace refract::object::test {

inline std::span<const std::byte> id_of(std::string_view id) {
  return std::as_bytes(std::span(id));
}
inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What readers hold, and what they have used.
class Readers final : public PinSource, public UseSource {
 public:
  void hold(Offset object) { held_.push_back(object); }
  void let_go(Offset object) { held_.erase(std::ranges::find(held_, object)); }
  void let_go_of_all() { held_.clear(); }
  [[nodiscard]] bool holds(Offset object) const { return std::ranges::find(held_, object) != held_.end(); }
  void use(Offset object) { used_.push_back(object.value); }
  // Called when pins are about to be looked at.
  std::function<void()> at_look;

  void collect(PinSet& pins) noexcept override {
    if (at_look) at_look();
    for (const Offset object : held_) pins.add(object);
  }
  void collect_uses(std::vector<uint64_t>& places) override {
    places.insert(places.end(), used_.begin(), used_.end());
    used_.clear();
  }

 private:
  std::vector<Offset> held_;
  std::vector<uint64_t> used_;
};

struct StoreOptions {
  uint64_t chunks = 16;
  uint64_t chunks_max = 64;
  uint64_t limit = 8 * kMiB;
  const kv::GrowthSource* growth = nullptr;
};

// Owns the bytes; what an owner keeps by itself can be dropped and made again, as a restart does.
class StoreWorld {
 public:
  explicit StoreWorld(const StoreOptions& options = {}, StoreLog* log = nullptr)
      : options_(options), memory_(options.chunks_max * kChunkBytes / sizeof(Page)), log_(log) {
    Writer writer(base());
    Heap::format(writer, {.chunks_max = options_.chunks_max,
                          .store_area_bytes = kv::Table::store_area_bytes(options_.chunks_max),
                          .hash_seed = 42});
    Heap heap(writer, readers, Heap::Borders::kCrossed);
    heap.add({0}, options_.chunks * kChunkBytes);
    REFRACT_CHECK(kv::Table::format(writer, heap).has_value());
    REFRACT_CHECK(restart().has_value());
  }
  // Takes over what another memory holds; a restart makes its owner.
  void load(std::span<const std::byte> image) { std::memcpy(base(), image.data(), image.size()); }

  [[nodiscard]] Result<> restart() {
    store_.reset();
    table_.reset();
    writer_ = std::make_unique<Writer>(base(), log_);
    heap_ = std::make_unique<Heap>(*writer_, readers, Heap::Borders::kCrossed);
    heap_->add({0}, options_.chunks * kChunkBytes);
    table_ = std::make_unique<kv::Table>(*writer_, *heap_, clock_);
    store_ = std::make_unique<ObjectStore>(ObjectStoreParts{.writer = *writer_,
                                                            .heap = *heap_,
                                                            .table = *table_,
                                                            .uses = &readers,
                                                            .limit = options_.limit,
                                                            .growth = options_.growth});
    kv::Table::Recovery recovery;
    heap_->begin_recovery();
    if (const Result<> marked = table_->mark_live(nullptr, recovery); !marked) return marked;
    if (const Result<> marked = store_->mark_live(); !marked) return marked;
    heap_->end_recovery();
    if (const Result<> done = table_->finish_recovery(nullptr, recovery); !done) return done;
    return store_->finish_recovery();
  }
  void add_chunks(uint64_t count) {
    heap_->add({heap_->end()}, count * kChunkBytes);
    options_.chunks += count;
  }

  // What comes whole, in one step.
  [[nodiscard]] Result<Object> put(std::string_view id, uint64_t birth, uint64_t body_bytes,
                                   uint32_t metadata_bytes = 0) {
    return store().make(
        {.id = id_of(id), .birth = birth, .body_bytes = body_bytes, .metadata_bytes = metadata_bytes},
        [this](const Creation& made) { fill(made); });
  }
  // What a creator does, from its room to its seal.
  [[nodiscard]] Result<Object> make(std::string_view id, uint64_t birth, uint64_t body_bytes,
                                    uint32_t metadata_bytes = 0) {
    const Result<Creation> made = create(id, birth, body_bytes, metadata_bytes);
    if (!made) return fail(made.error());
    fill(*made);
    return store().seal(id_of(id), birth);
  }
  [[nodiscard]] Result<Creation> create(std::string_view id, uint64_t birth, uint64_t body_bytes,
                                        uint32_t metadata_bytes = 0) {
    return store().create(
        {.id = id_of(id), .birth = birth, .body_bytes = body_bytes, .metadata_bytes = metadata_bytes});
  }
  // With bytes that say whose they are.
  void fill(const Creation& made) {
    const std::span<std::byte> room = store().room_of(made);
    const std::vector<std::byte> bytes(room.size(), byte_of(made.birth));
    if (!bytes.empty()) writer().copy({made.object.value + ObjectParts::body_at()}, bytes);
  }
  [[nodiscard]] static std::byte byte_of(uint64_t birth) { return static_cast<std::byte>(birth * 37 + 11); }
  // Whether the object's bytes are those that it was filled with.
  [[nodiscard]] bool has_its_bytes(Offset object, uint64_t birth, const ObjectParts& parts) const {
    const std::byte* const body = base() + object.value + ObjectParts::body_at();
    return std::all_of(body, body + parts.filled_bytes(),
                       [&](std::byte byte) { return byte == byte_of(birth); });
  }
  // All accounts are sums over the records, the table contradicts itself nowhere, and the heap has nothing in
  // use that has no record, but for one buffer that the store keeps.
  [[nodiscard]] std::string damage() {
    if (const auto damage = table().validate()) return damage->what;
    if (const auto damage = store().damage()) return damage->what;
    heap().reclaim();
    const uint64_t named =
        table().stats().entries + accounts().objects + accounts().creations + accounts().departed;
    const uint64_t live = heap().stats().buffers_live;
    if (live < named || live > named + 1) return "what is in use has no record";
    return {};
  }
  // Ends all that there is; the readers let go of it.
  void empty() {
    readers.let_go_of_all();
    for (const ObjectStore::OpenCreation& open : store().creations()) {
      const Code code =
          open.is_pulled ? store().end_pull(open.id, open.birth) : store().end_creation(open.id, open.birth);
      REFRACT_CHECK(code == Code::kOk);
    }
    for (const auto& [id, object] : objects()) REFRACT_CHECK(store().erase(id_of(id), 0).has_value());
    (void)store().release_departed();
  }
  // The sealed objects, as a list tells them.
  [[nodiscard]] std::map<std::string, Object> objects() {
    std::map<std::string, Object> found;
    uint64_t cursor = 0;
    do {
      cursor = store().list(cursor, [&](const ObjectStore::Listed& listed) {
        if (listed.is_sealed) found.insert_or_assign(text_of(listed.id), listed.object);
      });
    } while (cursor != 0);
    return found;
  }

  [[nodiscard]] std::byte* base() noexcept { return static_cast<std::byte*>(memory_.data()->bytes); }
  [[nodiscard]] const std::byte* base() const noexcept { return memory_.data()->bytes; }
  [[nodiscard]] uint64_t bytes() const noexcept { return options_.chunks * kChunkBytes; }
  [[nodiscard]] ObjectStore& store() noexcept { return *store_; }
  [[nodiscard]] kv::Table& table() noexcept { return *table_; }
  [[nodiscard]] Heap& heap() noexcept { return *heap_; }
  [[nodiscard]] Writer& writer() noexcept { return *writer_; }
  [[nodiscard]] ManualClock& clock() noexcept { return clock_; }
  [[nodiscard]] const ObjectAccounts& accounts() noexcept { return store_->accounts(); }

  Readers readers;

 private:
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };

  StoreOptions options_;
  std::vector<Page> memory_;
  StoreLog* log_;
  ManualClock clock_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Heap> heap_;
  std::unique_ptr<kv::Table> table_;
  std::unique_ptr<ObjectStore> store_;
};

}  // namespace refract::object::test
