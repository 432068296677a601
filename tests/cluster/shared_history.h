// SPDX-License-Identifier: Apache-2.0
// What is known of all objects that several nodes share, and what a client of any of them may be told
// therefore.
//
// Each put has a number of its own, which its body tells. The judge knows only when calls began and ended. A
// removal that was acknowledged before a get began hides its object from that get; what was sealed before a
// call began and what no removal was begun for until its end is found by it, or some node is away.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace refract::test {

class SharedHistory {
 public:
  // Nothing, or what no one history explains.
  using Wrong = std::optional<std::string>;
  struct Target {
    uint64_t number = 0;
    uint64_t birth = 0;
  };

  // A put through this node. Returns its number.
  [[nodiscard]] uint64_t begin_put(const std::string& id, size_t node, uint64_t now_ns);
  [[nodiscard]] Wrong sealed(uint64_t number, uint64_t birth, uint64_t now_ns);
  // There is another object, or one is being made.
  [[nodiscard]] Wrong refused(uint64_t number, uint64_t now_ns);
  // It was told that nothing was changed.
  void not_made(uint64_t number, uint64_t now_ns);

  // The last object that was sealed of this id, and that no removal was acknowledged of. Nothing: none.
  [[nodiscard]] std::optional<Target> begin_removal(const std::string& id, uint64_t now_ns);
  // `missed`: the nodes that had not dropped it.
  void removed(uint64_t number, const std::set<size_t>& missed, uint64_t now_ns);
  // The removal was told that there was none.
  [[nodiscard]] Wrong not_there_to_remove(uint64_t number);

  // A get through this node that began then.
  [[nodiscard]] Wrong found(const std::string& id, const Target& body, size_t node, uint64_t begun_ns,
                            uint64_t now_ns);
  // Its removal was acknowledged: only nodes that have missed that have it still.
  [[nodiscard]] bool is_removed(uint64_t number) const;
  [[nodiscard]] Wrong missing(const std::string& id, uint64_t begun_ns, uint64_t ended_ns) const;

  // What was made through this node may be lost from now on.
  void lose(size_t node);

 private:
  static constexpr uint64_t kNever = UINT64_MAX;
  struct Birth {
    std::string id;
    size_t node = 0;
    uint64_t birth = 0;
    uint64_t begun_ns = 0;
    uint64_t sealed_ns = kNever;         // A client was told so.
    uint64_t removal_begun_ns = kNever;  // The first.
    uint64_t removed_ns = kNever;        // The first that was acknowledged.
    uint64_t gone_ns = kNever;           // It was never made.
    int removals = 0;
    std::set<size_t> missed;
  };
  [[nodiscard]] bool may_be_lost(const Birth& one) const { return lost_.contains(one.node); }
  [[nodiscard]] std::string story_of(uint64_t number) const;
  [[nodiscard]] Wrong seal(uint64_t number, uint64_t birth, uint64_t now_ns);

  mutable std::mutex mutex_;
  std::map<uint64_t, Birth> births_;  // By their numbers.
  std::map<std::string, std::set<uint64_t>> by_id_;
  std::set<size_t> lost_;
};

}  // namespace refract::test
