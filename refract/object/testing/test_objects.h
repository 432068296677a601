// SPDX-License-Identifier: Apache-2.0
// The owner of objects as a process has it, over memory that outlives it, and the bodies of its calls: for
// tests that speak to it by hand.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/clock.h"
#include "refract/fabric/dispatcher.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/domain_windows.h"
#include "refract/kv/owner/service/session_state.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"
#include "refract/object/directory/directory.h"
#include "refract/object/layout/object_birth.h"
#include "refract/object/layout/object_layout.h"
#include "refract/object/layout/object_wire.h"
#include "refract/object/owner/object_service.h"
#include "refract/object/owner/object_store.h"
#include "refract/object/testing/object_bodies.h"
#include "refract/object/testing/test_roles.h"
#include "refract/object/transfer/transfer_giver.h"
#include "refract/rpc/server.h"
#include "refract/rpc/service_table.h"
#include "refract/runtime/shard.h"

namespace refract::object::test {

// A space with an empty table of objects.
inline void format_space(std::byte* base, uint64_t chunks, uint64_t chunks_max, const Clock& clock) {
  struct NoPins final : PinSource {
    void collect(PinSet&) noexcept override {}
  } pins;
  Writer writer(base);
  Heap::format(writer, {.chunks_max = chunks_max,
                        .store_area_bytes = kv::Table::store_area_bytes(chunks_max),
                        .hash_seed = 42});
  Heap heap(writer, pins);
  heap.add({0}, chunks * kChunkBytes);
  REFRACT_CHECK(kv::Table::format(writer, heap).has_value());
  (void)clock;
}

struct OwnerOptions {
  std::byte* base = nullptr;
  uint64_t chunks = 0;
  StoreLog* log = nullptr;
  uint64_t limit = 0;
  kv::GrowthSource* growth = nullptr;  // Null: there is none.
  size_t notices = ObjectService::kNotices;
  uint64_t pull_piece_bytes = kv::PullFetcher::kPieceBytes;
  cluster::Peers* peers = nullptr;  // Null: it shares its objects with no other node,
  Elsewhere* elsewhere = nullptr;   // but as this has it.
  std::array<uint64_t, 2> identity{};
  TransferLimits transfers = {};
  uint64_t seed = secure_random_u64();  // Directory::Parts has it,
  size_t broadcast_degree = 0;          // and it.
  OutsideHome* outside = nullptr;
  uint64_t grace_ns = 60 * kSecond_ns;
};

// Recovers what the memory holds, and serves it.
struct Owner {
  Owner(runtime::Shard& shard, fabric::Domain& domain, const Clock& clock, const OwnerOptions& options)
      : writer(options.base, options.log),
        heap(writer, pins),
        table(writer, heap, clock),
        store({.writer = writer,
               .heap = heap,
               .table = table,
               .limit = options.limit,
               .growth = options.growth}),
        windows(domain) {
    pins.add(fetches);
    pins.add(readers);
    heap.add({0}, options.chunks * kChunkBytes);
    kv::Table::Recovery recovery;
    heap.begin_recovery();
    REFRACT_CHECK(table.mark_live(nullptr, recovery).has_value());
    REFRACT_CHECK(store.mark_live().has_value());
    heap.end_recovery();
    REFRACT_CHECK(table.finish_recovery(nullptr, recovery).has_value());
    REFRACT_CHECK(store.finish_recovery().has_value());
    kv::GrowthSource& growth = options.growth != nullptr ? *options.growth : no_growth;
    if (options.peers != nullptr) {
      directory = std::make_unique<Directory>(
          Directory::Parts{.store = store,
                           .shard = shard,
                           .peers = *options.peers,
                           .growth = growth,
                           .pins = &fetches,
                           .is_node = [this](rpc::SessionId session) { return roles->is_node(session); },
                           .identity = options.identity,
                           .unseen_ns = 8 * kMillisecond_ns,
                           .grace_ns = options.grace_ns,
                           .transfers = options.transfers,
                           .seed = options.seed,
                           .broadcast_degree = options.broadcast_degree,
                           .outside = options.outside,
                           .arrivals = &arrivals});
    }
    service = std::make_unique<ObjectService>(
        ObjectService::Parts{.store = store,
                             .heap = heap,
                             .writer = writer,
                             .pins = fetches,
                             .growth = growth,
                             .shard = shard,
                             .windows = &windows,
                             .pull_piece_bytes = options.pull_piece_bytes,
                             .notices = options.notices,
                             .elsewhere = directory ? directory.get() : options.elsewhere});
    if (directory != nullptr) {
      giver = std::make_unique<TransferGiver>(
          TransferGiver::Parts{.store = store,
                               .writer = writer,
                               .pins = fetches,
                               .shard = shard,
                               .elsewhere = *directory,
                               .windows = &windows,
                               .has_let_go = [this] { service->on_store_changed(); },
                               .arrivals = &arrivals});
      path_teller.emplace(*directory);
      services.emplace(
          std::initializer_list<rpc::ServiceTable::Row>{{0, service.get()},
                                                        {wire::kPathMethodsBegin, &*path_teller},
                                                        {wire::kDirectoryMethodsBegin, directory.get()},
                                                        {wire::kTransferMethodsBegin, giver.get()}});
      roles.emplace(*services);
    }
    rpc::Service& all = roles ? static_cast<rpc::Service&>(*roles) : *service;
    server = std::make_unique<rpc::Server>(all, shard);
    dispatcher = std::make_unique<fabric::Dispatcher>(domain, shard, server.get());
    service->answer_through(server.get());
    if (directory != nullptr) directory->answer_through(server.get());
    if (giver != nullptr) giver->answer_through(server.get());
    if (path_teller) path_teller->answer_through(server.get());
  }
  // All accounts are sums over what there is, and the table is sound.
  [[nodiscard]] bool is_sound() { return !table.validate().has_value() && !store.damage().has_value(); }
  // An object that is made here.
  void make(std::string_view id, std::string_view body, uint64_t birth) {
    const Result<Creation> made =
        store.create({.id = as_bytes(id), .birth = birth, .body_bytes = body.size()});
    REFRACT_CHECK(made.has_value());
    writer.copy(made->object.plus(ObjectParts::body_at()), as_bytes(body));
    REFRACT_CHECK(store.seal(as_bytes(id), birth).has_value());
  }
  // Empty: it is not here.
  [[nodiscard]] std::string body_of(std::string_view id) {
    const Result<Object> object = store.find(as_bytes(id));
    if (!object) return {};
    const std::byte* const first = writer.base() + object->object.value + ObjectParts::body_at();
    return {reinterpret_cast<const char*>(first), object->parts.body_bytes};
  }
  // What is given to others, open to their READs, pinned or being made. Empty: nothing, and all is sound.
  [[nodiscard]] std::string left_over() {
    const TransferGiver::Counts given = giver->counts();
    const size_t creations = store.accounts().creations;
    const bool is_clean = given.open == 0 && given.waiting == 0 && windows.open_count() == 0 &&
                          fetches.count() == 0 && creations == 0 && is_sound();
    if (is_clean) return {};
    return fmt::format("{} transfers, {} that wait, {} windows, {} pins, {} creations, sound: {}", given.open,
                       given.waiting, windows.open_count(), fetches.count(), creations, is_sound());
  }

  kv::SessionPins fetches;
  kv::SessionPins readers;  // Of clients that map the memory.
  kv::PinSources pins;
  kv::NoGrowth no_growth;
  Writer writer;
  Heap heap;
  kv::Table table;
  ObjectStore store;
  kv::DomainWindows windows;
  Arrivals arrivals;
  std::unique_ptr<Directory> directory;
  std::unique_ptr<ObjectService> service;
  std::unique_ptr<TransferGiver> giver;
  std::optional<PathTeller> path_teller;
  std::optional<rpc::ServiceTable> services;
  std::optional<Roles> roles;
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<fabric::Dispatcher> dispatcher;
};

// --- Answers ---

struct Answer {
  Code code = Code::kUnavailable;
  std::string bytes;

  template <typename T>
  [[nodiscard]] T as() const {
    REFRACT_CHECK(bytes.size() >= sizeof(T));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  template <typename T>
  [[nodiscard]] std::string behind() const {
    return bytes.substr(sizeof(T));
  }
};

// What stands behind the head of a page: each an Entry and its id.
template <typename Head, typename Entry>
[[nodiscard]] std::vector<std::pair<Entry, std::string>> entries_of(const Answer& answer) {
  std::vector<std::pair<Entry, std::string>> entries;
  std::string_view rest = answer.bytes;
  rest.remove_prefix(sizeof(Head));
  while (!rest.empty()) {
    Entry entry;
    REFRACT_CHECK(rest.size() >= sizeof(entry));
    const std::span<const char> head = std::span(rest).first(sizeof(entry));
    std::memcpy(&entry, head.data(), head.size());
    rest.remove_prefix(sizeof(entry));
    REFRACT_CHECK(rest.size() >= entry.id_bytes);
    entries.emplace_back(entry, rest.substr(0, entry.id_bytes));
    rest.remove_prefix(entry.id_bytes);
  }
  REFRACT_CHECK(entries.size() == answer.as<Head>().count);
  return entries;
}

}  // namespace refract::object::test
