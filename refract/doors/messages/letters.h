// SPDX-License-Identifier: Apache-2.0
// Messages on their way from one thread of the doors to another: a queue for each pair of them.
//
// Threads: one puts, another one takes.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "refract/doors/messages/shared_text.h"

namespace refract::doors::redis {

struct Hearers;

// One message for subscribers of one thread.
struct Letter {
  std::string text = {};  // What is the same for all of them; empty where `shared` has it.
  SharedText shared = {};
  std::vector<Hearers*> to = {};  // Of the thread that takes it.
  size_t cost = 0;                // Bytes that it takes, here and in their connections.
};

class LetterQueue {
 public:
  static constexpr size_t kLettersMax = 512;
  // One that costs more is put where there are no others.
  static constexpr size_t kCostMax = size_t{32} << 20;

  // By the thread that puts.
  [[nodiscard]] bool has_room(size_t cost) const noexcept {
    const size_t waiting_cost = cost_.load(std::memory_order_relaxed);
    return put_.load(std::memory_order_relaxed) - taken_.load(std::memory_order_acquire) < kLettersMax &&
           (waiting_cost == 0 || waiting_cost + cost <= kCostMax);
  }
  // REQUIRES: has_room().
  void put(Letter letter) {
    const size_t at = put_.load(std::memory_order_relaxed);
    if (letters_.empty()) letters_.resize(kLettersMax);
    cost_.fetch_add(letter.cost, std::memory_order_relaxed);
    letters_[at % kLettersMax] = std::move(letter);
    put_.store(at + 1, std::memory_order_release);
  }

  // By the thread that takes: where those end that are there now, counted since the beginning.
  [[nodiscard]] size_t end() const noexcept { return put_.load(std::memory_order_acquire); }
  // The next one in front of this end, which end() has told. False: there is none.
  [[nodiscard]] bool take_before(size_t end, Letter& letter) {
    const size_t at = taken_.load(std::memory_order_relaxed);
    if (at == end) return false;
    letter = std::exchange(letters_[at % kLettersMax], {});
    taken_.store(at + 1, std::memory_order_release);
    cost_.fetch_sub(letter.cost, std::memory_order_relaxed);
    return true;
  }

 private:
  alignas(64) std::atomic<size_t> put_ = 0;
  alignas(64) std::atomic<size_t> taken_ = 0;
  std::atomic<size_t> cost_ = 0;
  std::vector<Letter> letters_;  // Made by the first put: most pairs of threads have none.
};

}  // namespace refract::doors::redis
