// SPDX-License-Identifier: Apache-2.0
// The pieces of Refract's own table as parts to print: a line with its slots, a buffer, a key's way to it.
//
// Threads: one. REQUIRES, throughout: SpaceWords::read_header() found nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "apps/inspect/part.h"
#include "apps/inspect/space_words.h"

namespace refract::inspect {

class TableLook {
 public:
  // `pause` as in Region; both outlive the look.
  TableLook(SpaceWords& words, const std::function<void()>& pause) noexcept : words_(words), pause_(pause) {}

  [[nodiscard]] Part space();
  [[nodiscard]] Part bucket(uint64_t index);
  [[nodiscard]] Part key(std::string_view key, bool& found);
  [[nodiscard]] Part place(uint64_t at);
  [[nodiscard]] Part buffer(Offset at);

 private:
  // Where a key's buffer is named, and by what.
  struct Named {
    Offset slot_at{};
    kv::Slot slot{};
    explicit operator bool() const noexcept { return static_cast<bool>(slot_at); }
  };

  [[nodiscard]] SpaceWords::Entry steady_entry(Offset slot_at, kv::Slot& slot);
  [[nodiscard]] const char* steady_trailer_fault(Offset slot_at);
  [[nodiscard]] Part line(Offset at, uint64_t index, uint64_t number, uint64_t& used);
  [[nodiscard]] Part slot(Offset at, uint64_t bucket, uint64_t number, uint64_t& used);
  [[nodiscard]] Part header_place(uint64_t at);
  [[nodiscard]] Part slab_place(uint64_t at, ChunkWord chunk);
  [[nodiscard]] Part bucket_place(uint64_t at);
  // Parts of transactions whose home is another node.
  void far_parts(Part& part);
  [[nodiscard]] Part buffer_content(Part part, Offset at, uint64_t room);
  template <typename Is>
  [[nodiscard]] Named find(uint64_t hash, const Is& is);
  template <typename Visit>
  void walk(uint64_t bucket, const Visit& visit);

  SpaceWords& words_;
  const std::function<void()>& pause_;
};

}  // namespace refract::inspect
