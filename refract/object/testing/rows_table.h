// SPDX-License-Identifier: Apache-2.0
// A home's table that is kept as rows, as the one in Redis is: each call reads what it is about, changes it
// and writes it back. The rows lie in a map.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/check.h"
#include "refract/object/redis/home_rows.h"

namespace refract::object::test {

class RowsTable {
 private:
  auto change(std::string_view id, const auto& what) {
    HomeRows rows = read({std::string(id)});
    const auto result = what(rows.table);
    write(rows, std::string(id));
    return result;
  }

 public:
  void begin(size_t members) {
    HomeRows rows;
    rows.begin(members, {.run = "run"}, 1);
    state_ = rows.next_state();
    rows_.clear();
    lingering_ = 0;
  }
  void open_stream(MemberIndex member, const std::array<uint64_t, 2>& identity) {
    HomeRows rows = read({});
    rows.open_stream(member, identity);
    state_ = rows.next_state();
  }
  // Row by row, as a walk does; the state at last.
  void end_report(MemberIndex member) {
    for (const std::string& id : ids()) {
      HomeRows rows = read({id});
      rows.table.end_report(member);
      write(rows, id);
    }
    HomeRows rows = read({});
    rows.table.end_report(member);
    count(rows);
    state_ = rows.next_state();
  }
  void close_stream(MemberIndex member) {
    HomeRows rows = read({});
    rows.table.close_stream(member);
    state_ = rows.next_state();
  }
  [[nodiscard]] bool is_complete() const { return read({}).table.is_complete(); }
  [[nodiscard]] HomeTable::MemberSet unknown() const { return read({}).table.unknown(); }
  [[nodiscard]] std::vector<HomeTable::Named> losers() const { return read(ids()).table.losers(); }

  [[nodiscard]] Code holds(MemberIndex member, std::string_view id, uint64_t birth,
                           const ObjectParts& parts) {
    return change(id, [&](HomeTable& table) { return table.holds(member, id, birth, parts); });
  }
  void comes(MemberIndex member, std::string_view id, uint64_t birth, const ObjectParts& parts) {
    change(id, [&](HomeTable& table) {
      table.comes(member, id, birth, parts);
      return Code::kOk;
    });
  }
  void gone(MemberIndex member, std::string_view id, uint64_t birth) {
    change(id, [&](HomeTable& table) {
      table.gone(member, id, birth);
      return Code::kOk;
    });
  }
  [[nodiscard]] Code claims(MemberIndex member, std::string_view id, uint64_t birth, bool is_reported) {
    return change(id, [&](HomeTable& table) { return table.claims(member, id, birth, is_reported); });
  }
  void unclaims(MemberIndex member, std::string_view id, uint64_t birth) {
    change(id, [&](HomeTable& table) {
      table.unclaims(member, id, birth);
      return Code::kOk;
    });
  }
  [[nodiscard]] HomeTable::Found look_up(std::string_view id) const {
    return read({std::string(id)}).table.look_up(id);
  }

  void bury(std::string_view id, uint64_t birth) {
    change(id, [&](HomeTable& table) {
      table.bury(id, birth);
      return Code::kOk;
    });
  }
  [[nodiscard]] bool acknowledge(MemberIndex member, std::string_view id, uint64_t birth) {
    return change(id, [&](HomeTable& table) { return table.acknowledge(member, id, birth); });
  }
  [[nodiscard]] bool is_buried(std::string_view id, uint64_t birth) const {
    return read({std::string(id)}).table.is_buried(id, birth);
  }
  [[nodiscard]] std::vector<HomeTable::Named> unacknowledged(MemberIndex member) const {
    return read(ids()).table.unacknowledged(member);
  }
  [[nodiscard]] HomeTable::Counts counts() const {
    return {.ids = rows_.size(), .lingering = unknown().none() ? 0 : lingering_, .tombstones = 0};
  }

 private:
  [[nodiscard]] std::vector<std::string> ids() const {
    std::vector<std::string> ids;
    for (const auto& [id, row] : rows_) ids.push_back(id);
    return ids;
  }
  [[nodiscard]] HomeRows read(const std::vector<std::string>& ids) const {
    HomeRows rows;
    REFRACT_CHECK(rows.take_state(state_, lingering_));
    for (const std::string& id : ids) {
      const auto at = rows_.find(id);
      REFRACT_CHECK(at == rows_.end() || rows.take_row(id, at->second));
    }
    return rows;
  }
  void count(const HomeRows& rows) {
    const auto count = static_cast<int64_t>(lingering_) + rows.lingering_delta();
    lingering_ = count < 0 ? 0 : static_cast<uint64_t>(count);
  }
  void write(const HomeRows& rows, const std::string& id) {
    count(rows);
    const std::string row = rows.row(id);
    if (row.empty()) {
      rows_.erase(id);
    } else {
      rows_[id] = row;
    }
  }
  std::string state_;
  std::map<std::string, std::string> rows_;
  uint64_t lingering_ = 0;
};

}  // namespace refract::object::test
