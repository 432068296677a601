// SPDX-License-Identifier: Apache-2.0
// The list of nodes as one of them has it, and what may replace it: a list with a higher version, in which
// the node itself still stands.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "refract/base/report.h"
#include "refract/cluster/member_list.h"

namespace refract::cluster {

class Members {
 public:
  // kInvalidArgument: the list makes no sense, or `self` is not in it.
  [[nodiscard]] static Reported<Members> create(MemberList list, const std::string& self);

  [[nodiscard]] const MemberList& list() const noexcept { return list_; }
  [[nodiscard]] size_t self() const noexcept { return self_; }  // An index into the list's members.
  [[nodiscard]] const std::string& self_name() const noexcept { return list_.members[self_].name; }

  // Replaces the list. False: it is the same one. kInvalidArgument, and the old one stays: the version is an
  // older one, or the same with other names or addresses; the list makes no sense, or lacks this node.
  [[nodiscard]] Reported<bool> take(MemberList list);

  // Called inside take(), behind each change.
  void call_on_change(std::function<void(const Members&)> callback) { on_change_ = std::move(callback); }

 private:
  Members(MemberList list, size_t self) noexcept : list_(std::move(list)), self_(self) {}

  MemberList list_;
  size_t self_;
  std::function<void(const Members&)> on_change_;
};

}  // namespace refract::cluster
