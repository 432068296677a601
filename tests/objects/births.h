// SPDX-License-Identifier: Apache-2.0
// What is known of every object that was ever begun, and what a reader may find therefore.
//
// The judge knows only when calls began and ended. A deletion that was acknowledged before a look began hides
// its object from that look; what was sealed before a look began and what no deletion was begun for until the
// look's end must be found by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace refract::campaign {

struct BirthFacts {
  uint64_t birth = 0;
  uint64_t body_bytes = 0;
  uint32_t metadata_bytes = 0;
};

class Births {
 public:
  using Wrong = std::optional<std::string>;

  static constexpr uint64_t kNever = UINT64_MAX;

  struct Birth {
    std::string id;
    BirthFacts facts;
    bool is_put = false;  // In one message.
    uint64_t begun_ns = 0;
    uint64_t ended_ns = kNever;
    uint64_t crashes_begun = 0;
    uint64_t crashes_ended = 0;
    uint64_t sealed_ns = kNever;        // Its creator was told.
    uint64_t delete_begun_ns = kNever;  // The first.
    uint64_t deleted_ns = kNever;       // The first that was acknowledged.
    uint64_t gone_ns = kNever;          // Its maker knows that it is not there.
  };

  // `evicts`: an object may be missing at any time.
  explicit Births(bool evicts) noexcept : evicts_(evicts) {}

  // The owner was killed again.
  void crashed() noexcept { ++crashes_; }
  void begin(Birth birth);
  [[nodiscard]] Birth* find(uint64_t birth);
  // Its creator is done with it, whatever became of it.
  void end(uint64_t birth, uint64_t now_ns);
  // Wrong, where another object must have been in its place all the time.
  [[nodiscard]] Wrong sealed(uint64_t birth, uint64_t now_ns);
  // A deletion by a caller that does not know the birth may delete any of this id.
  void begin_delete(const std::string& id, uint64_t birth, uint64_t now_ns);
  void deleted(uint64_t birth, uint64_t now_ns);
  // The id that a deletion was begun of last. Null: none was.
  [[nodiscard]] const std::string* last_deleted() const noexcept {
    return last_deleted_.empty() ? nullptr : &last_deleted_;
  }
  // It was never made, or its creation has ended.
  void gone(uint64_t birth, uint64_t now_ns);
  // Another object, or another creation, was said to have its id.
  [[nodiscard]] Wrong judge_refused(uint64_t birth, uint64_t now_ns) const;

  // A look that began then has found an object, or none.
  [[nodiscard]] Wrong judge_found(const std::string& id, const BirthFacts& facts, uint64_t begun_ns);
  [[nodiscard]] Wrong judge_missing(const std::string& id, uint64_t begun_ns, uint64_t ended_ns) const;
  // Body, padding and metadata of a whole object.
  [[nodiscard]] static Wrong judge_bytes(const BirthFacts& facts, std::span<const std::byte> bytes);
  // Fills it as its creator does.
  static void fill(const BirthFacts& facts, std::span<std::byte> bytes);

 private:
  // It may come back: its creator's call was repeated over a crash while it was deleted.
  [[nodiscard]] bool may_come_back(const Birth& birth) const noexcept;

  bool evicts_;
  uint64_t crashes_ = 0;
  std::string last_deleted_;
  std::map<uint64_t, Birth> births_;
};

}  // namespace refract::campaign
