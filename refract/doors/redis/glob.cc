// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/glob.h"

#include <cctype>
#include <cstddef>
#include <utility>

namespace refract::doors::redis {
namespace {

class Matcher {
 public:
  Matcher(std::string_view pattern, std::string_view text, bool ignores_case) noexcept
      : pattern_(pattern), text_(text), ignores_case_(ignores_case) {}

  // A star takes as little as it can, and one more each time that what stands behind it does not fit. Only
  // the last star needs that: what fits between two stars fits at its first place.
  [[nodiscard]] bool run() noexcept {
    size_t star = std::string_view::npos;
    size_t from = 0;
    while (at_ < text_.size()) {
      if (next_ < pattern_.size() && pattern_[next_] == '*') {
        star = ++next_;
        from = at_;
      } else if (next_ < pattern_.size() && take_one()) {
        ++at_;
      } else if (star != std::string_view::npos) {
        next_ = star;
        at_ = ++from;
      } else {
        return false;
      }
    }
    while (next_ < pattern_.size() && pattern_[next_] == '*') ++next_;
    return next_ == pattern_.size();
  }

 private:
  [[nodiscard]] int folded(char c) const noexcept {
    const auto byte = static_cast<unsigned char>(c);
    return ignores_case_ ? std::tolower(byte) : byte;
  }
  // The pattern's next item and the text's next byte. Where they fit, the item is taken.
  [[nodiscard]] bool take_one() noexcept {
    const char c = pattern_[next_];
    if (c == '[') return take_set();
    if (c == '\\' && next_ + 1 < pattern_.size()) {
      if (folded(pattern_[next_ + 1]) != folded(text_[at_])) return false;
      next_ += 2;
      return true;
    }
    if (c != '?' && folded(c) != folded(text_[at_])) return false;
    ++next_;
    return true;
  }
  // One that does not end has all that follows, as in Redis.
  [[nodiscard]] bool take_set() noexcept {
    size_t in = next_ + 1;
    const bool is_not = in < pattern_.size() && pattern_[in] == '^';
    if (is_not) ++in;
    bool is_member = false;
    const int byte = folded(text_[at_]);
    while (in < pattern_.size() && pattern_[in] != ']') {
      if (pattern_[in] == '\\' && in + 1 < pattern_.size()) {
        is_member |= folded(pattern_[in + 1]) == byte;
        in += 2;
      } else if (in + 2 < pattern_.size() && pattern_[in + 1] == '-') {
        int least = folded(pattern_[in]);
        int most = folded(pattern_[in + 2]);
        if (least > most) std::swap(least, most);
        is_member |= least <= byte && byte <= most;
        in += 3;
      } else {
        is_member |= folded(pattern_[in]) == byte;
        ++in;
      }
    }
    if (is_member == is_not) return false;
    next_ = in < pattern_.size() ? in + 1 : in;
    return true;
  }

  std::string_view pattern_;
  std::string_view text_;
  bool ignores_case_;
  size_t next_ = 0;
  size_t at_ = 0;
};

}  // namespace

bool matches(std::string_view pattern, std::string_view text, bool ignores_case) noexcept {
  return Matcher(pattern, text, ignores_case).run();
}

}  // namespace refract::doors::redis
