// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/functions/text.h"

#include <locale.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <system_error>

namespace refract::kv::functions {
namespace {

// Of "C", which glibc has at hand, without an allocation.
locale_t plain_locale() noexcept {
  static const locale_t kept = newlocale(LC_ALL_MASK, "C", nullptr);
  return kept;
}

bool is_space(char letter) noexcept {
  return letter == ' ' || (letter >= '\t' && letter <= '\r');
}

// A whole number of any size, built from its bits, the highest first.
class Whole {
 public:
  // `number`: whole, finite, at least 0.
  explicit Whole(long double number) noexcept {
    int bits_left = 0;
    long double rest = std::frexp(number, &bits_left);
    while (bits_left > 0) {
      const int bits = std::min(bits_left, 30);
      rest = std::ldexp(rest, bits);
      const auto next = static_cast<uint32_t>(rest);
      rest -= static_cast<long double>(next);
      take(next, bits);
      bits_left -= bits;
    }
  }

  [[nodiscard]] bool is_zero() const noexcept { return count_ == 0; }
  [[nodiscard]] size_t digits() const noexcept {
    if (is_zero()) return 1;
    size_t digits = (count_ - 1) * kDigits + 1;
    for (uint32_t highest = limbs_[count_ - 1]; highest >= 10; highest /= 10) ++digits;
    return digits;
  }
  // Writes digits() letters that end in front of `end`.
  void write(char* end) const noexcept {
    const char* const begin = end - digits();
    for (size_t i = 0; i < std::max<size_t>(count_, 1); ++i) {
      uint32_t limb = is_zero() ? 0 : limbs_[i];
      for (size_t digit = 0; digit < kDigits && end > begin; ++digit, limb /= 10) {
        *--end = static_cast<char>('0' + limb % 10);
      }
    }
  }

 private:
  static constexpr size_t kDigits = 9;
  static constexpr uint32_t kBase = 1'000'000'000;
  static constexpr size_t kLimbsMax = (LDBL_MAX_10_EXP + 1 + kDigits - 1) / kDigits;

  void take(uint32_t next, int bits) noexcept {
    uint64_t carry = next;
    for (size_t i = 0; i < count_; ++i) {
      const uint64_t sum = (uint64_t{limbs_[i]} << bits) + carry;
      limbs_[i] = static_cast<uint32_t>(sum % kBase);
      carry = sum / kBase;
    }
    for (; carry != 0; carry /= kBase) limbs_[count_++] = static_cast<uint32_t>(carry % kBase);
  }

  std::array<uint32_t, kLimbsMax> limbs_;  // To the base of 10^9, the lowest first.
  size_t count_ = 0;
};

// Digits behind the point, rounded to the nearest, and to the even one in the middle.
class Fraction {
 public:
  // `fraction`: at least 0, less than 1.
  explicit Fraction(long double fraction) noexcept {
    // Exact: what has bits behind these is less than 10^-17 / 2, whatever the mantissa is.
    static_assert(LDBL_MANT_DIG + 58 <= 32 * kLimbs);
    std::array<uint32_t, kLimbs> limbs;  // The highest first.
    for (uint32_t& limb : limbs) {
      fraction *= 0x1p32L;
      limb = static_cast<uint32_t>(fraction);
      fraction -= static_cast<long double>(limb);
    }
    for (char& digit : digits_) digit = static_cast<char>('0' + times_ten(limbs));
    if (is_rounded_up(limbs, (digits_.back() - '0') % 2 != 0)) count_up();
    while (count_ > 0 && digits_[count_ - 1] == '0') --count_;
  }

  // It is 1, and has no digits.
  [[nodiscard]] bool carries() const noexcept { return carries_; }
  // Without zeros at its end.
  [[nodiscard]] std::string_view digits() const noexcept { return {digits_.data(), count_}; }

 private:
  static constexpr size_t kLimbs = 6;

  static uint32_t times_ten(std::array<uint32_t, kLimbs>& limbs) noexcept {
    uint64_t carry = 0;
    for (size_t i = kLimbs; i > 0; --i) {
      carry += uint64_t{limbs[i - 1]} * 10;
      limbs[i - 1] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    return static_cast<uint32_t>(carry);
  }
  static bool is_rounded_up(const std::array<uint32_t, kLimbs>& rest, bool is_odd) noexcept {
    constexpr uint32_t kHalf = uint32_t{1} << 31;
    if (rest[0] != kHalf) return rest[0] > kHalf;
    return is_odd || std::any_of(rest.begin() + 1, rest.end(), [](uint32_t limb) { return limb != 0; });
  }
  void count_up() noexcept {
    for (size_t i = kFloatDigits; i > 0; --i) {
      if (digits_[i - 1] != '9') {
        ++digits_[i - 1];
        return;
      }
      digits_[i - 1] = '0';
    }
    carries_ = true;
  }

  std::array<char, kFloatDigits> digits_;
  size_t count_ = kFloatDigits;
  bool carries_ = false;
};

// So that what has no room costs nothing: 30102 / 100000 is less than the logarithm of 2.
bool has_no_room(long double whole, size_t bytes) noexcept {
  if (whole < 1) return bytes == 0;
  return static_cast<size_t>(std::ilogb(whole)) * 30102 / 100'000 + 1 > bytes;
}

}  // namespace

std::optional<int64_t> integer_in(std::string_view text) noexcept {
  if (text.empty() || text.size() > kIntegerTextBytesMax) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  const bool is_negative = text.front() == '-';
  const bool begins_with_zero = text[is_negative ? 1 : 0] == '0';
  if (begins_with_zero && text.size() > 1) return std::nullopt;
  return number;
}

size_t write_integer(int64_t number, std::span<char> room) noexcept {
  const auto end = std::to_chars(room.data(), room.data() + room.size(), number).ptr;
  return static_cast<size_t>(end - room.data());
}

std::optional<long double> float_in(std::string_view text) noexcept {
  if (text.empty() || text.size() > kFloatTextBytesRead || is_space(text.front())) return std::nullopt;
  std::array<char, kFloatTextBytesRead + 1> copy;
  std::memcpy(copy.data(), text.data(), text.size());
  copy[text.size()] = '\0';
  const int errno_before = errno;
  errno = 0;
  char* end = nullptr;
  const long double number = strtold_l(copy.data(), &end, plain_locale());
  const bool is_out_of_range = errno == ERANGE && (std::isinf(number) || number == 0);
  errno = errno_before;
  if (end != copy.data() + text.size() || is_out_of_range || std::isnan(number)) return std::nullopt;
  return number;
}

size_t write_float(long double number, std::span<char> room) noexcept {
  long double whole_part = 0;
  const Fraction fraction(std::modf(std::fabs(number), &whole_part));
  // Exact: where there is a fraction, the mantissa has room for it.
  if (fraction.carries()) whole_part += 1;
  if (has_no_room(whole_part, room.size())) return 0;
  const Whole whole(whole_part);
  const std::string_view behind = fraction.digits();
  const size_t sign = std::signbit(number) && !(whole.is_zero() && behind.empty()) ? 1 : 0;
  const size_t in_front = sign + whole.digits();
  const size_t bytes = in_front + (behind.empty() ? 0 : 1 + behind.size());
  if (bytes > room.size()) return 0;
  if (sign != 0) room[0] = '-';
  whole.write(room.data() + in_front);
  if (behind.empty()) return bytes;
  room[in_front] = '.';
  std::ranges::copy(behind, room.begin() + static_cast<ptrdiff_t>(in_front) + 1);
  return bytes;
}

}  // namespace refract::kv::functions
