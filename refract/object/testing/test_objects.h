// SPDX-License-Identifier: Apache-2.0
// The owner of objects as a process has it, over memory that outlives it, and the bodies of its calls: for
// tests that speak to it by hand.
#pragma once

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
#include "refract/object/testing/test_roles.h"
#include "refract/rpc/server.h"
#include "refract/rpc/service_table.h"
#include "refract/runtime/shard.h"

namespace refract::object::test {

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

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
  cluster::Peers* peers = nullptr;  // Null: it shares its objects with no other node.
  std::array<uint64_t, 2> identity{};
  OutsideHome* outside = nullptr;
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
                           .is_node = [this](rpc::SessionId session) { return roles->is_node(session); },
                           .identity = options.identity,
                           .unseen_ns = 8 * kMillisecond_ns,
                           .outside = options.outside});
    }
    service =
        std::make_unique<ObjectService>(ObjectService::Parts{.store = store,
                                                             .heap = heap,
                                                             .writer = writer,
                                                             .pins = fetches,
                                                             .growth = growth,
                                                             .shard = shard,
                                                             .windows = &windows,
                                                             .pull_piece_bytes = options.pull_piece_bytes,
                                                             .notices = options.notices,
                                                             .elsewhere = directory.get()});
    if (directory != nullptr) {
      services.emplace(std::initializer_list<rpc::ServiceTable::Row>{
          {0, service.get()}, {wire::kDirectoryMethodsBegin, directory.get()}});
      roles.emplace(*services);
    }
    rpc::Service& all = roles ? static_cast<rpc::Service&>(*roles) : *service;
    server = std::make_unique<rpc::Server>(all, shard);
    dispatcher = std::make_unique<fabric::Dispatcher>(domain, shard, server.get());
    service->answer_through(server.get());
    if (directory != nullptr) directory->answer_through(server.get());
  }
  // All accounts are sums over what there is, and the table is sound.
  [[nodiscard]] bool is_sound() { return !table.validate().has_value() && !store.damage().has_value(); }

  kv::SessionPins fetches;
  kv::SessionPins readers;  // Of clients that map the memory.
  kv::PinSources pins;
  kv::NoGrowth no_growth;
  Writer writer;
  Heap heap;
  kv::Table table;
  ObjectStore store;
  kv::DomainWindows windows;
  std::unique_ptr<Directory> directory;
  std::unique_ptr<ObjectService> service;
  std::optional<rpc::ServiceTable> services;
  std::optional<Roles> roles;
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<fabric::Dispatcher> dispatcher;
};

// --- Bodies ---
template <typename T>
[[nodiscard]] std::string body_of(const T& fixed, std::string_view behind = {}) {
  std::string body(reinterpret_cast<const char*>(&fixed), sizeof(fixed));
  return body.append(behind);
}
[[nodiscard]] inline uint16_t short_of(size_t bytes) {
  return static_cast<uint16_t>(bytes);
}

struct Lengths {
  uint64_t body = 0;
  uint32_t metadata = 0;

  [[nodiscard]] uint64_t filled() const {
    return ObjectParts{.body_bytes = body, .metadata_bytes = metadata, .id_bytes = 0}.filled_bytes();
  }
};
[[nodiscard]] inline std::string create_body(std::string_view id, uint64_t claim, const Lengths& lengths,
                                             uint64_t timeout_ns = 0, bool wants_window = false) {
  return body_of(wire::CreateRequest{.claim = claim,
                                     .body_bytes = lengths.body,
                                     .timeout_ns = timeout_ns,
                                     .metadata_bytes = lengths.metadata,
                                     .id_bytes = short_of(id.size()),
                                     .wants_window = static_cast<uint8_t>(wants_window ? 1 : 0),
                                     .reserved = 0},
                 id);
}
[[nodiscard]] inline std::string fill_body(std::string_view id, uint64_t claim, uint64_t filled_bytes,
                                           const wire::Place& source, uint64_t timeout_ns = kSecond_ns) {
  return body_of(wire::FillRequest{.claim = claim,
                                   .filled_bytes = filled_bytes,
                                   .source = source,
                                   .timeout_ns = timeout_ns,
                                   .id_bytes = short_of(id.size()),
                                   .reserved = {}},
                 id);
}
[[nodiscard]] inline std::string id_body(std::string_view id, uint64_t birth_or_claim, uint8_t flag = 0) {
  return body_of(
      wire::IdRequest{.birth = birth_or_claim, .id_bytes = short_of(id.size()), .flag = flag, .reserved = {}},
      id);
}
[[nodiscard]] inline std::string put_body(std::string_view id, uint64_t claim, std::string_view body,
                                          std::string_view metadata = {}, uint64_t timeout_ns = 0) {
  return body_of(wire::PutRequest{.claim = claim,
                                  .timeout_ns = timeout_ns,
                                  .body_bytes = static_cast<uint32_t>(body.size()),
                                  .metadata_bytes = static_cast<uint32_t>(metadata.size()),
                                  .id_bytes = short_of(id.size()),
                                  .reserved = {}},
                 id)
      .append(body)
      .append(metadata);
}
[[nodiscard]] inline std::string many_body(std::span<const std::string> puts) {
  std::string body = body_of(wire::CountRequest{.count = static_cast<uint32_t>(puts.size()), .reserved = 0});
  for (const std::string& put : puts) body.append((8 - body.size() % 8) % 8, '\0').append(put);
  return body;
}
[[nodiscard]] inline std::string await_body(std::string_view id, uint64_t timeout_ns = 0) {
  return body_of(
      wire::AwaitRequest{.timeout_ns = timeout_ns, .id_bytes = short_of(id.size()), .reserved = {}}, id);
}

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
    std::memcpy(&entry, rest.data(), sizeof(entry));
    rest.remove_prefix(sizeof(entry));
    REFRACT_CHECK(rest.size() >= entry.id_bytes);
    entries.emplace_back(entry, rest.substr(0, entry.id_bytes));
    rest.remove_prefix(entry.id_bytes);
  }
  REFRACT_CHECK(entries.size() == answer.as<Head>().count);
  return entries;
}

}  // namespace refract::object::test
