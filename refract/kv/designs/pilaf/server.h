// SPDX-License-Identifier: Apache-2.0
// Pilaf's server: the only writer of the store. Puts and erases come as calls and are executed one
// behind the other; gets it never notices.
//
// A put writes a new blob, then the entry, then gives the old blob's bytes back at once: a client that still
// reads them finds out by the CRC. To make room an entry is copied to another of its places before its old
// place is overwritten, so that every key can be found throughout.
//
// Threads: used only by the shard that owns the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/designs/design.h"
#include "refract/kv/designs/pilaf/layout.h"
#include "refract/memory/extent_allocator.h"
#include "refract/memory/writer.h"

namespace refract::kv::pilaf {

// The store without its calls: tests use it alone.
class Table {
 public:
  using Bytes = std::span<const std::byte>;

  // Lays an empty store out in `memory`, which holds zeroes.
  Table(std::span<std::byte> memory, const designs::Capacity& capacity, uint64_t hash_seed,
        StoreLog* log = nullptr);

  // kTooLarge; kInvalidArgument: an empty key; kNoSpace: nothing was changed.
  [[nodiscard]] Result<> put(Bytes key, Bytes value);
  [[nodiscard]] Result<> erase(Bytes key);

  [[nodiscard]] uint64_t root_at() const noexcept { return root_at_; }
  [[nodiscard]] uint64_t key_count() const noexcept { return keys_; }
  [[nodiscard]] uint64_t entry_count() const noexcept { return root_.entry_count; }
  // Of entries that made room for others.
  [[nodiscard]] uint64_t move_count() const noexcept { return moved_; }
  [[nodiscard]] std::optional<std::string> contradiction() const;

 private:
  // A place, and the one whose entry would move there.
  struct Hop {
    uint64_t index;
    size_t from;  // Of the search's list; kNoHop: one of the key's own places.
  };
  static constexpr size_t kNoHop = SIZE_MAX;
  static constexpr size_t kHopsMax = 512;

  [[nodiscard]] Offset entry_at(uint64_t index) const noexcept {
    return {root_.entries + index * sizeof(Entry)};
  }
  [[nodiscard]] uint64_t blob_area_bytes() const noexcept {
    return (memory_bytes_ - tables_end_) / kBlobGranuleBytes * kBlobGranuleBytes;
  }
  [[nodiscard]] Entry entry(uint64_t index) const noexcept;
  [[nodiscard]] Bytes key_in(const Entry& entry) const noexcept;
  [[nodiscard]] std::optional<uint64_t> find(Bytes key) const noexcept;
  [[nodiscard]] std::optional<uint64_t> make_room(Bytes key);
  [[nodiscard]] uint64_t move_along(const std::vector<Hop>& hops, size_t last);
  [[nodiscard]] bool grow();
  void use_table(uint64_t at, uint64_t entry_count);
  [[nodiscard]] std::optional<Offset> store_blob(Bytes key, Bytes value);
  void free_blob(const Entry& entry);
  void store_entry(Offset at, Entry entry);
  void store_root(Offset at, Root& root);

  Writer writer_;
  designs::Capacity capacity_;
  uint64_t memory_bytes_;
  uint64_t tables_end_;  // Where the blobs begin.
  uint64_t root_at_ = 0;
  Root root_{};
  uint64_t next_table_at_ = kRootAt;
  bool may_grow_ = true;
  uint64_t keys_ = 0;
  uint64_t moved_ = 0;
  uint64_t sequence_ = 0;
  uint64_t blob_bytes_used_ = 0;
  ExtentAllocator blobs_;
  std::vector<std::byte> scratch_;  // A blob before it is stored.
};

class PilafServer final : public designs::Server, private rpc::Service {
 public:
  PilafServer(const designs::ServerParts& parts, RemoteKey key);

  [[nodiscard]] rpc::Service& service() noexcept override { return *this; }
  void answer_through(rpc::Server* server) noexcept override { server_ = server; }
  [[nodiscard]] Facts facts() const override { return {.keys = table_.key_count()}; }
  [[nodiscard]] std::optional<std::string> contradiction() const override { return table_.contradiction(); }
  [[nodiscard]] Table& table() noexcept { return table_; }

 private:
  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  [[nodiscard]] Code change(const rpc::IncomingCall& call);
  void attach(const rpc::Responder& to) noexcept;

  Table table_;
  RemoteKey key_;
  uint16_t region_;
  uint64_t memory_bytes_;
  rpc::Server* server_ = nullptr;
  std::vector<std::byte> body_;  // A call's, where its sender cannot change it any more.
};

// The row's entries.
[[nodiscard]] uint64_t memory_bytes(const designs::Capacity& capacity);
[[nodiscard]] Reported<std::unique_ptr<designs::Server>> make_server(const designs::ServerParts& parts);

}  // namespace refract::kv::pilaf
