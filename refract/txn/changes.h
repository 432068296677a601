// SPDX-License-Identifier: Apache-2.0
// What a transaction has read and wants to write, while its body runs: nothing of it leaves the process
// before the commit. PRISM-TX's shape (SOSP 2021, section 8): reads note versions, writes are kept by the
// client, one message compares the versions and makes the writes.
//
// Threads: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/calls/rpc_types.h"
#include "refract/kv/layout/contract.h"

namespace refract::txn {

class Changes {
 public:
  Changes() = default;
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;
  ~Changes() = default;

  // A key as the transaction has it.
  struct Item {
    std::optional<uint64_t> read;  // The version that was read; 0: it was absent. Nothing: it was not read.
    std::optional<kv::WriteKind> write;
    std::pmr::string value;  // kPut.
    uint64_t ttl_ns = 0;     // kPut.
    int64_t addend = 0;      // kAdd.
  };

  // Null: it was not read, and not written.
  [[nodiscard]] const Item* find(std::string_view key) const;

  // What a read has found; version 0: nothing. False: an earlier read found another version, so that this
  // body cannot be committed any more.
  [[nodiscard]] bool note_read(std::string_view key, uint64_t version);
  [[nodiscard]] bool is_doomed() const noexcept { return is_doomed_; }

  // What a get of the key gives without a look at a node: what the transaction has put or erased itself, or
  // what is known. Nothing: it must be read.
  [[nodiscard]] std::optional<Result<std::string>> at_once(std::string_view key);
  [[nodiscard]] bool has_at_once(std::string_view key) const {
    return own_value(key) || known(key) != nullptr;
  }
  // Likewise whether it is there.
  [[nodiscard]] std::optional<Result<bool>> presence_at_once(std::string_view key);

  // What stood together at a moment behind the transaction's begin; stays over the next clear(), for one run
  // of the body: one that was overtaken on it would be so again.
  struct Found {
    uint64_t version = 0;  // 0: it was absent.
    std::string value;
  };
  using Known = std::map<std::string, Found, std::less<>>;
  void know(Known known);
  // All that was read stood together, as it was known.
  [[nodiscard]] bool are_known() const noexcept { return reads_ != 0 && known_reads_ == reads_; }
  // What a get gives behind a read that ended with `code`, and found this. kConflict: an earlier read found
  // another version. kTooLarge; kInvalidArgument: it was added to, and is no number.
  [[nodiscard]] Result<std::string> take_read(std::string_view key, Code code, uint64_t version,
                                              std::string value);
  // Likewise whether it is there.
  [[nodiscard]] Result<bool> take_look(std::string_view key, Code code, uint64_t version);

  // Later writes of a key take the place of earlier ones; an add is added to what is there. kTooLarge: beyond
  // kBatchKeysMax or kBatchBytesMax. kInvalidArgument of an add: the value put before is no number, or the
  // sum would be none.
  [[nodiscard]] Code put(std::string_view key, std::string_view value, uint64_t ttl_ns);
  [[nodiscard]] Code erase(std::string_view key);
  [[nodiscard]] Code add(std::string_view key, int64_t addend);

  [[nodiscard]] size_t keys() const noexcept { return items_.size(); }
  [[nodiscard]] size_t reads() const noexcept { return reads_; }
  [[nodiscard]] bool writes() const noexcept { return has_writes_; }
  // Of one key that is put, and no other that was read: what a put does under a condition.
  struct OnlyPut {
    std::string_view key;
    std::string_view value;
    uint64_t ttl_ns = 0;
    bool if_absent = false;
    uint64_t if_version = 0;  // 0: any.
  };
  [[nodiscard]] std::optional<OnlyPut> only_put() const noexcept;
  // Visits keys with the versions that were read, 0 for absent ones.
  void each_read(const std::function<void(std::string_view key, uint64_t version)>& visit) const;
  // Of some key; empty where there is none.
  [[nodiscard]] std::string_view first_key() const noexcept {
    return items_.empty() ? std::string_view() : std::string_view(items_.begin()->first);
  }

  // The reads as conditions, and the writes; they lead into this. REQUIRES: not changed while they are used.
  struct Request {
    std::vector<kv::RpcCondition> conditions;
    std::vector<kv::RpcBatchWrite> writes;
  };
  [[nodiscard]] Request request() const;

  // Before the body runs again.
  void clear();

 private:
  [[nodiscard]] Item* item_for(std::string_view key, size_t more_bytes);
  [[nodiscard]] std::optional<Result<std::string>> own_value(std::string_view key) const;
  [[nodiscard]] const Found* known(std::string_view key) const;

  // What a few keys and short values need, so that short transactions take no memory. All is given back by
  // clear() only, which bytes_ bounds.
  alignas(std::max_align_t) std::array<std::byte, 1024> room_;
  std::pmr::monotonic_buffer_resource arena_{room_.data(), room_.size()};
  std::pmr::map<std::pmr::string, Item, std::less<>> items_{&arena_};
  Known known_;
  size_t reads_ = 0;
  size_t known_reads_ = 0;  // Of these.
  uint64_t bytes_ = 0;      // Of keys, and of values that were put at some time.
  bool has_writes_ = false;
  bool is_doomed_ = false;
  bool is_known_new_ = false;  // No body has run on it.
};

}  // namespace refract::txn
