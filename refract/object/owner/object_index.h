// SPDX-License-Identifier: Apache-2.0
// All objects of a store by the place where they lie, and in what order they were used: private to the
// owner, rebuilt when it starts.
//
// 24 bytes an object, and some 12 of the index, which grows in small steps (kv/owner/table/slot_index.h).
// Places may come from readers: they are looked up, never followed. Threads: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "refract/base/secret_hash.h"
#include "refract/kv/owner/table/slot_index.h"
#include "refract/memory/remote_pointer.h"

namespace refract::object {

class ObjectIndex {
 public:
  // Of an object, which stands in the list of its standing.
  enum class Standing : uint8_t {
    kCreation,
    kLoose,  // Sealed, and may be evicted.
    kKept,   // Sealed, and kept or bound.
    kDeparted,
  };
  static constexpr size_t kStandings = 4;

  // Stays the same as long as the object is here.
  using Number = uint32_t;
  static constexpr Number kNone = UINT32_MAX;

  // REQUIRES: it is not here yet. The newest of its list.
  Number add(Offset object, Standing standing);
  void remove(Number number);
  // The newest of this list from now on; it may be the one where it stands.
  void move(Number number, Standing standing);

  // kNone: there is none.
  [[nodiscard]] Number find(Offset object) const;
  [[nodiscard]] Offset object(Number number) const noexcept { return {node(number).object_at}; }
  [[nodiscard]] Standing standing(Number number) const noexcept { return node(number).standing; }
  [[nodiscard]] bool is_kept(Number number) const noexcept { return node(number).is_kept; }
  void set_kept(Number number, bool is_kept) noexcept { node(number).is_kept = is_kept; }
  // What a recovery remembers of it.
  [[nodiscard]] uint8_t& notes(Number number) noexcept { return node(number).notes; }

  // From the oldest of a list to the newest; kNone behind it.
  [[nodiscard]] Number oldest(Standing standing) const noexcept { return list(standing).oldest; }
  [[nodiscard]] Number newer(Number number) const noexcept { return node(number).newer; }
  [[nodiscard]] size_t count(Standing standing) const noexcept { return list(standing).count; }

 private:
  struct Node {
    uint64_t object_at = 0;
    Number older = kNone;
    Number newer = kNone;
    Standing standing = Standing::kCreation;
    uint8_t notes = 0;
    bool is_kept = false;  // By its record.
  };
  struct List {
    Number oldest = kNone;
    Number newest = kNone;
    size_t count = 0;
  };
  static constexpr size_t kPerBlock = 1024;
  using Block = std::array<Node, kPerBlock>;

  [[nodiscard]] Node& node(Number number) noexcept {
    return (*blocks_[number / kPerBlock])[number % kPerBlock];
  }
  [[nodiscard]] const Node& node(Number number) const noexcept {
    return (*blocks_[number / kPerBlock])[number % kPerBlock];
  }
  [[nodiscard]] List& list(Standing standing) noexcept { return lists_[static_cast<size_t>(standing)]; }
  [[nodiscard]] const List& list(Standing standing) const noexcept {
    return lists_[static_cast<size_t>(standing)];
  }
  void link(Number number, Standing standing) noexcept;
  void unlink(Number number) noexcept;

  SecretHash hash_{SecretKey::draw()};
  kv::SlotIndex places_;
  std::vector<std::unique_ptr<Block>> blocks_;
  Number used_ = 0;      // Numbers from here on were never given.
  Number free_ = kNone;  // Given back; linked by `newer`.
  std::array<List, kStandings> lists_;
};

}  // namespace refract::object
