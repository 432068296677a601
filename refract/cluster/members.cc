// SPDX-License-Identifier: Apache-2.0
#include "refract/cluster/members.h"

#include <fmt/format.h>

#include "refract/base/printable.h"

namespace refract::cluster {
namespace {

// The node's place in a list that makes sense.
Reported<size_t> place_of(const MemberList& list, const std::string& self) {
  if (auto sound = check(list); !sound) return report(sound.error());
  const auto place = list.index_of(self);
  if (place) return *place;
  return report(Code::kInvalidArgument,
                fmt::format("this node's name, '{}', is not in the list, which has {}", printable(self),
                            names_text(list)),
                "name the node by cluster.self, or add it to the list");
}

}  // namespace

Reported<Members> Members::create(MemberList list, const std::string& self) {
  const auto place = place_of(list, self);
  if (!place) return report(place.error());
  return Members(std::move(list), *place);
}

Reported<bool> Members::take(MemberList list) {
  if (list.version < list_.version) {
    return report(
        Code::kInvalidArgument,
        fmt::format("its version is {}, which is older than version {}", list.version, list_.version),
        "each new list has a higher version than all before");
  }
  if (list.version == list_.version) {
    if (list == list_) return false;
    return report(Code::kInvalidArgument,
                  fmt::format("its version is {}, which is another list's: one with {}", list.version,
                              names_text(list_)),
                  "a list with other names or addresses has a higher version");
  }
  const auto place = place_of(list, self_name());
  if (!place) return report(place.error());
  list_ = std::move(list);
  self_ = *place;
  if (on_change_) on_change_(*this);
  return true;
}

}  // namespace refract::cluster
