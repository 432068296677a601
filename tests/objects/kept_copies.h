// SPDX-License-Identifier: Apache-2.0
// What a campaign was promised of copies: an id of which two were counted, and which no client deletes, is
// there behind the loss of any one memory.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace refract::campaign {

class KeptCopies {
 public:
  // A call that sets or asks for copies begins now.
  [[nodiscard]] uint64_t begin() const noexcept { return losses_; }
  // It was answered with so many. `begun`: what begin() returned.
  void counted(const std::string& id, unsigned copies, uint64_t begun) {
    if (copies < 2 || deleted_.contains(id)) return;
    ++promises_;
    kept_[id] = begun;
    drop_lost();
  }
  // A delete of it, or a wish for fewer, is sent: nothing is promised any more.
  void given_up(const std::string& id) {
    deleted_.insert(id);
    kept_.erase(id);
  }
  void memory_lost() {
    ++losses_;
    drop_lost();
  }

  [[nodiscard]] std::vector<std::string> ids() const {
    std::vector<std::string> ids;
    for (const auto& [id, losses] : kept_) ids.push_back(id);
    return ids;
  }
  [[nodiscard]] uint64_t promises() const noexcept { return promises_; }
  // Of those that are kept still, how many have outlived a loss.
  [[nodiscard]] uint64_t outlived() const noexcept {
    uint64_t outlived = 0;
    for (const auto& [id, losses] : kept_) outlived += losses < losses_ ? 1 : 0;
    return outlived;
  }

 private:
  // The second loss may come before the first one is mended.
  void drop_lost() {
    std::erase_if(kept_, [this](const auto& one) { return losses_ > one.second + 1; });
  }

  uint64_t losses_ = 0;
  uint64_t promises_ = 0;
  std::map<std::string, uint64_t> kept_;  // Losses before the promise.
  std::set<std::string> deleted_;
};

}  // namespace refract::campaign
