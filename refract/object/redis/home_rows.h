// SPDX-License-Identifier: Apache-2.0
// A home's table that is kept elsewhere as one row for each id and the state of the streams: a table that has
// some of the rows, for as long as it takes to change them.
//
// Rows say of each word in which stream it was said. A word of an earlier memory of its member is void, and a
// birth without a word is of no account once all members are known: both are left out when a row is read.
//
// Threads: any one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/object/directory/home_table.h"
#include "refract/object/redis/rows_wire.h"

namespace refract::object {

class HomeRows {
 public:
  // Of which list and run a directory is.
  struct Era {
    std::string run;  // Of Redis: kRunBytes at most.
    uint64_t list_version = 0;
    uint64_t list_digest = 0;
    bool operator==(const Era&) const = default;
  };
  // Of a directory that begins now, with this number of the first change.
  void begin(size_t members, const Era& era, uint64_t change);
  // False: it is no state. `lingering` is the number of births without a word in all rows.
  [[nodiscard]] bool take_state(std::string_view bytes, uint64_t lingering);
  // False: it is no row. REQUIRES: the state was taken, the row was not.
  [[nodiscard]] bool take_row(std::string_view id, std::string_view bytes);

  [[nodiscard]] Era era() const;
  [[nodiscard]] size_t members() const noexcept { return streams_.size(); }
  [[nodiscard]] uint32_t stream_of(MemberIndex member) const noexcept { return table.streams_[member]; }
  [[nodiscard]] bool is_current(MemberIndex member) const noexcept { return table.current_[member]; }
  [[nodiscard]] HomeTable::MemberSet current() const noexcept { return table.current_; }

  // In place of the table's own; the state has changed.
  void open_stream(MemberIndex member, const std::array<uint64_t, 2>& identity);

  // As it is now, under the next number of a change.
  [[nodiscard]] std::string next_state() const;
  // Empty: nothing is known of the id.
  [[nodiscard]] std::string row(std::string_view id) const;
  // By so much the number of births without a word has grown.
  [[nodiscard]] int64_t lingering_delta() const noexcept;
  // Ids with more than one birth that has a word.
  [[nodiscard]] std::vector<std::string> conflicts() const;

  HomeTable table;

 private:
  [[nodiscard]] bool take_birth(std::string_view& rest, HomeTable::Entry& entry);
  [[nodiscard]] bool take_tombstone(std::string_view& rest, std::string_view id);
  [[nodiscard]] bool is_sound(const wire::RowWord& word) const noexcept;
  [[nodiscard]] bool is_void(MemberIndex member, uint32_t stream) const noexcept;

  wire::StateHead head_;
  std::vector<wire::StreamState> streams_;
  uint64_t lingering_ = 0;  // In all rows, as they were taken.
  uint64_t silent_ = 0;     // In those that were taken.
};

}  // namespace refract::object
