// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/linearizability/window.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace refract::linearizability {
namespace {

// Enough for any contradiction of few operations; a search that needs more says nothing about one.
constexpr uint64_t kStepsMax = 2'000'000;
constexpr size_t kSurroundingMax = 40;

class Reduction {
 public:
  Reduction(std::span<const Item> items, size_t convicted) : items_(items), convicted_(convicted) {
    keep_until(items[convicted].ended);
    if (contradicts_itself(kept_, 0)) return;
    // Part of the evidence came later: a version that was told late.
    std::vector<uint64_t> ends;
    for (const Item& item : items) {
      if (item.ended > end_ && item.ended != kNever) ends.push_back(item.ended);
    }
    std::ranges::sort(ends);
    const auto is_too_early = [&](uint64_t end) {
      keep_until(end);
      return !contradicts_itself(kept_, 0);
    };
    const auto found = std::ranges::partition_point(ends, is_too_early);
    keep_until(found == ends.end() ? kNever : *found);
    const auto last = std::ranges::find(items, end_, &Item::ended);
    if (end_ != kNever) convicted_ = static_cast<size_t>(last - items.begin());
  }

  [[nodiscard]] Window run() {
    shorten();
    thin_out();
    shorten();
    Window window{.convicted = convicted_, .involved = involved(), .surrounding = {}};
    for (size_t i = 0; i < items_.size() && window.surrounding.size() < kSurroundingMax; ++i) {
      const bool is_of_the_time = items_[i].ended > from_ && items_[i].operation->began < end_;
      if (is_of_the_time && from_ != 0 && !std::ranges::binary_search(window.involved, i)) {
        window.surrounding.push_back(i);
      }
    }
    return window;
  }

 private:
  void keep_until(uint64_t end) {
    end_ = end;
    kept_.clear();
    for (size_t i = 0; i < items_.size() && items_[i].operation->began < end; ++i) kept_.push_back(i);
  }

  // What is left of the kept items where only the time from `from` on is known. Writes that were under way
  // then may have taken effect before, and writes still under way at the end need not take effect in it.
  [[nodiscard]] std::vector<Item> cut(const std::vector<size_t>& kept, uint64_t from) const {
    std::vector<Item> result;
    for (const size_t i : kept) {
      Item item = items_[i];
      const bool is_whole = item.operation->began >= from && item.ended <= end_;
      if (item.ended <= from) continue;
      if (!is_whole) {
        if (!item.operation->changes()) continue;
        item.optional = true;
        item.ended = kNever;
      }
      result.push_back(item);
    }
    forget_untold(result);
    return result;
  }

  // The version of a put that was not acknowledged is known only together with the reader of its value.
  static void forget_untold(std::vector<Item>& items) {
    std::unordered_set<uint64_t> told;
    for (const Item& item : items) {
      if (item.operation->kind == Kind::kGet && item.version != 0) told.insert(item.operation->value);
    }
    for (Item& item : items) {
      const Operation& operation = *item.operation;
      if (operation.kind != Kind::kPut || operation.version == item.version) continue;
      if (told.contains(operation.value)) continue;
      item.version = 0;
      item.optional = item.optional || operation.outcome == Outcome::kUnknown;
    }
  }

  [[nodiscard]] bool contradicts_itself(const std::vector<size_t>& kept, uint64_t from) const {
    return contradict(cut(kept, from), from);
  }

  // Whether these items are a contradiction, whatever was put before `from`.
  [[nodiscard]] bool contradict(const std::vector<Item>& left, uint64_t from) const {
    std::vector<Item> earlier;
    for (const Item& item : items_) {
      if (item.operation->began >= from) break;
      if (item.operation->kind == Kind::kPut && item.operation->changes()) earlier.push_back(item);
    }
    const Start start{.anything = from != 0, .earlier = earlier};
    return find_order(left, start, kStepsMax).verdict == Answer::Verdict::kBad;
  }

  // The latest beginning from which on the kept items still contradict each other.
  void shorten() {
    std::vector<uint64_t> beginnings;
    beginnings.reserve(kept_.size());
    for (const size_t i : kept_) beginnings.push_back(items_[i].operation->began);
    // From the end in steps that double, then between the last two by halves.
    size_t bad = 0;
    size_t good = beginnings.size();
    for (size_t back = 1; back < beginnings.size(); back *= 2) {
      const size_t at = beginnings.size() - back;
      if (beginnings[at] > from_ && contradicts_itself(kept_, beginnings[at])) {
        bad = at;
        break;
      }
      good = at;
    }
    while (bad + 1 < good) {
      const size_t middle = bad + (good - bad) / 2;
      (contradicts_itself(kept_, beginnings[middle]) ? bad : good) = middle;
    }
    if (bad > 0) from_ = std::max(from_, beginnings[bad]);
    std::erase_if(kept_, [&](size_t i) { return items_[i].ended <= from_; });
  }

  // Leaves out reads, many at once and then fewer, as long as the rest stays a contradiction.
  void thin_out() {
    constexpr size_t kTrialsMax = 2'000;
    size_t trials = 0;
    std::vector<size_t> reads;
    for (const size_t i : kept_) {
      if (i != convicted_ && !items_[i].operation->changes()) reads.push_back(i);
    }
    for (size_t width = reads.size(); width > 0; width /= 2) {
      for (size_t at = 0; at < reads.size() && trials < kTrialsMax;) {
        ++trials;
        const size_t count = std::min(width, reads.size() - at);
        const auto first = reads.begin() + static_cast<ptrdiff_t>(at);
        const std::vector<size_t> without(first, first + static_cast<ptrdiff_t>(count));
        std::vector<size_t> rest = kept_;
        std::erase_if(rest, [&](size_t i) { return std::ranges::binary_search(without, i); });
        if (contradicts_itself(rest, from_)) {
          kept_ = std::move(rest);
          reads.erase(first, first + static_cast<ptrdiff_t>(count));
        } else {
          at += count;
        }
      }
    }
  }

  // The reads that are left, and the writes that must have happened for the contradiction, or were noticed.
  [[nodiscard]] std::vector<size_t> involved() const {
    std::vector<size_t> result;
    for (const size_t i : kept_) {
      if (!items_[i].operation->changes() || i == convicted_ || is_noticed(i) || is_needed(i)) {
        result.push_back(i);
      }
    }
    return result;
  }

  [[nodiscard]] bool is_noticed(size_t write) const {
    const Item& item = items_[write];
    return std::ranges::any_of(kept_, [&](size_t i) {
      const Item& other = items_[i];
      if (i == write) return false;
      const uint64_t value = item.operation->value;
      const bool names_value =
          value != 0 && ((other.operation->kind == Kind::kGet && other.operation->value == value) ||
                         other.operation->if_value == value);
      const bool names_version =
          item.version != 0 && (other.version == item.version || other.operation->if_version == item.version);
      return names_value || names_version;
    });
  }

  // Whether it may not even be doubted.
  [[nodiscard]] bool is_needed(size_t write) const {
    if (kept_.size() > 1'000) return true;
    std::vector<Item> left = cut(kept_, from_);
    for (Item& item : left) {
      if (item.operation != items_[write].operation) continue;
      if (item.optional) return false;
      item.optional = true;
      item.ended = kNever;
    }
    return !contradict(left, from_);
  }

  std::span<const Item> items_;
  size_t convicted_;
  uint64_t end_ = 0;
  std::vector<size_t> kept_;
  uint64_t from_ = 0;  // 0: the whole history, from the empty store on.
};

}  // namespace

Window smallest_window(std::span<const Item> items, size_t convicted) {
  return Reduction(items, convicted).run();
}

}  // namespace refract::linearizability
