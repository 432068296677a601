// SPDX-License-Identifier: Apache-2.0
// The reference model itself; random_chains_test.cc holds the executor against it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "refract/prism/snic/test_reference.h"

namespace refract::prism::snic::test {
namespace {

constexpr uint16_t kScratchId = 0xffff;

[[nodiscard]] uint64_t number(const std::string& bytes, uint64_t at, uint64_t count) {
  uint64_t value = 0;
  for (uint64_t i = count; i > 0; --i) value = value * 256 + static_cast<uint8_t>(bytes[at + i - 1]);
  return value;
}

[[nodiscard]] std::string bytes_of_number(uint64_t value, uint64_t count) {
  std::string bytes;
  for (uint64_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return bytes;
}

[[nodiscard]] uint64_t rounded(uint64_t count) {
  while (count % 8 != 0) ++count;
  return count;
}

[[nodiscard]] char both(char a, char b) {
  return static_cast<char>(static_cast<uint8_t>(a) & static_cast<uint8_t>(b));
}

[[nodiscard]] std::string masked(const std::string& bytes, const std::string& mask) {
  std::string result;
  for (size_t i = 0; i < bytes.size(); ++i) result.push_back(both(bytes[i], mask[i]));
  return result;
}

// The first word of 8 bytes is the most significant; each word is little endian, and so is a short last one.
[[nodiscard]] int compare(const std::string& a, const std::string& b) {
  for (size_t at = 0; at < a.size(); at += 8) {
    const size_t count = std::min<size_t>(8, a.size() - at);
    const uint64_t left = number(a, at, count);
    const uint64_t right = number(b, at, count);
    if (left < right) return -1;
    if (left > right) return 1;
  }
  return 0;
}

[[nodiscard]] bool flag(const OperationHeader& header, unsigned bit) {
  return (header.flags >> bit & 1) != 0;
}
enum Bit : unsigned {
  kIndirect,
  kBounded,
  kDataIndirect,
  kCompareIndirect,
  kConditional,
  kRedirect,
  kSlot,
  kRetire,
  kOwned,
  kMasked
};

}  // namespace

void ReferenceRegion::recycle(uint64_t at) {
  if (out.erase(at) == 0) return;
  for (size_t i = 0; i < lists.size(); ++i) {
    const uint64_t end = lists[i].start + lists[i].buffer_bytes * lists[i].count;
    if (at >= lists[i].start && at < end) free[i].push_back(at);
  }
}

void ReferenceRegion::give_back(uint64_t at) {
  std::erase(waiting, at);
  recycle(at);
}

Reference::Chain::Chain(Reference& model, ReferencePeer& peer, const std::string& message, size_t room)
    : model_(model), peer_(peer), room_(room) {
  if (!parse(message)) {
    code_ = Code::kMalformed;
  } else if (operations_.size() * 8 > room) {
    code_ = Code::kTooLarge;
  }
  if (code_ != Code::kOk) operations_.clear();
  if (code_ == Code::kOk) ++model_.under_way_;
}

bool Reference::Chain::parse(const std::string& message) {
  if (message.size() < 8 || message[0] != 1) return false;
  const auto count = static_cast<uint8_t>(message[1]);
  if (count < 1 || count > 16 || number(message, 2, 6) != 0) return false;
  size_t at = 8;
  for (int i = 0; i < count; ++i) {
    if (message.size() - at < 32) return false;
    Parsed parsed{};
    std::memcpy(&parsed.header, message.data() + at, 32);
    at += 32;
    if (!is_sound(parsed.header, i == 0)) return false;
    const uint64_t whole = rounded(parsed.header.bytes);
    uint64_t tail = 0;
    if (parsed.header.opcode == 2 && !flag(parsed.header, kDataIndirect)) tail = whole;
    if (parsed.header.opcode == 3) tail = whole;
    if (parsed.header.opcode == 4) {
      tail += flag(parsed.header, kCompareIndirect) ? 8 : whole;
      tail += flag(parsed.header, kDataIndirect) ? 8 : whole;
      tail += flag(parsed.header, kMasked) ? 2 * whole : 0;
    }
    if (message.size() - at < tail) return false;
    parsed.inline_bytes = message.substr(at, tail);
    at += tail;
    operations_.push_back(parsed);
  }
  return at == message.size();
}

bool Reference::Chain::is_sound(const OperationHeader& header, bool first) {
  // One letter a flag that the opcode knows, in the order of the bits.
  static const char* const kKnown[] = {"",           "ib  crs   ", "ibd c s   ",
                                       "    crs o ", "i dxc sR m", "i   c s   "};
  if (header.opcode < 1 || header.opcode > 5 || header.flags >= 1024) return false;
  for (unsigned bit = 0; bit < 10; ++bit) {
    if (flag(header, bit) && kKnown[header.opcode][bit] == ' ') return false;
  }
  const bool is_cas = header.opcode == 4;
  const uint32_t most = is_cas ? 32 : header.opcode == 5 ? 8 : 65536;
  const uint32_t least = is_cas ? 1 : header.opcode == 5 ? 8 : 0;
  if (header.bytes < least || header.bytes > most) return false;
  if (flag(header, kBounded) && (!flag(header, kIndirect) || flag(header, kSlot))) return false;
  if (flag(header, kConditional) && first) return false;
  if (flag(header, kOwned) && !flag(header, kRedirect)) return false;
  if (flag(header, kSlot) && header.opcode != 3 && !flag(header, kIndirect) && !flag(header, kRetire))
    return false;
  if (flag(header, kRetire)) {
    if (header.bytes % 8 != 0) return false;
    if (!flag(header, kIndirect) && header.address >> 48 == kScratchId) return false;
  }
  if (is_cas && header.mode > 2) return false;
  if (!is_cas && !flag(header, kRedirect) && header.mode != 0) return false;
  if (flag(header, kRedirect)) {
    const uint64_t output = header.opcode == 3 ? 8 : header.bytes;
    if (header.mode % 8 != 0 || header.mode + output > 64) return false;
  }
  if (header.opcode == 1 || is_cas) return header.operand == 0;
  if (header.opcode == 2) return header.operand == 0 || flag(header, kDataIndirect);
  if (header.opcode != 3) return true;
  if (!flag(header, kSlot)) return header.operand == 0;
  return header.operand % (uint64_t{1} << 35) == 0 && (header.operand >> 40) % 65536 == 0;
}

void Reference::Chain::step() {
  const Parsed& operation = operations_[next_++];
  output_.clear();
  if (flag(operation.header, kConditional) && last_ != Code::kOk) {
    last_ = Code::kCancelled;
  } else {
    key_ = nullptr;
    region_ = nullptr;
    for (const ReferenceKey& key : peer_.keys) {
      if (key.key == operation.header.key) key_ = &key;
    }
    for (ReferenceRegion& region : model_.regions) {
      if (key_ != nullptr && region.id == key_->region) region_ = &region;
    }
    last_ = execute(operation);
  }
  outcomes_ += bytes_of_number(static_cast<uint64_t>(last_), 2) + bytes_of_number(0, 2);
  outcomes_ += bytes_of_number(output_.size(), 4);
  output_.resize(rounded(output_.size()));
  outputs_ += output_;
}

std::string Reference::Chain::end() {
  if (code_ != Code::kOk) return {};
  for (const Owned& owned : owned_) {
    if (!owned.stored) owned.region->give_back(owned.at);
  }
  if (--model_.under_way_ == 0) {
    for (ReferenceRegion& region : model_.regions) {
      const std::vector<uint64_t> waiting = std::exchange(region.waiting, {});
      for (const uint64_t at : waiting) region.recycle(at);
    }
  }
  for (; next_ < operations_.size(); ++next_) {
    outcomes_ += bytes_of_number(static_cast<uint64_t>(Code::kCancelled), 8);
  }
  return outcomes_ + outputs_;
}

Code Reference::Chain::execute(const Parsed& operation) {
  switch (operation.header.opcode) {
    case 1:
      return read(operation);
    case 2:
      return write(operation);
    case 3:
      return allocate(operation);
    case 4:
      return compare_swap(operation);
    default:
      return fetch_add(operation);
  }
}

Code Reference::Chain::reach(uint64_t pointer, Spot& spot) {
  const uint64_t at = pointer % (uint64_t{1} << 48);
  if (pointer >> 48 == kScratchId) {
    spot = {.bytes = &peer_.scratch, .region = nullptr, .at = at};
  } else {
    if (region_ == nullptr || region_->id != pointer >> 48) return Code::kAccessDenied;
    spot = {.bytes = &region_->bytes, .region = region_, .at = at};
  }
  return at <= spot.bytes->size() ? Code::kOk : Code::kAccessDenied;
}

bool Reference::Chain::allowed(const Spot& spot, uint8_t right, uint64_t size) const {
  if (spot.at + size > spot.bytes->size()) return false;
  return spot.region == nullptr || (key_->rights & right) == right;
}

Code Reference::Chain::target(const OperationHeader& header, Spot& spot, uint64_t& bound) {
  bound = UINT64_MAX;
  if (!flag(header, kIndirect)) return reach(header.address, spot);
  if (header.address % 8 != 0) return Code::kInvalidArgument;
  if (const Code code = reach(header.address, spot); code != Code::kOk) return code;
  if (!allowed(spot, 1, flag(header, kBounded) ? 16 : 8)) return Code::kAccessDenied;
  const uint64_t word = number(*spot.bytes, spot.at, 8);
  if (flag(header, kBounded)) bound = number(*spot.bytes, spot.at + 8, 8);
  const uint64_t at = flag(header, kSlot) ? word % (uint64_t{1} << 35) * 16 : word % (uint64_t{1} << 48);
  if (at == 0) return Code::kNotFound;
  const bool elsewhere = !flag(header, kSlot) && region_ != nullptr && word >> 48 != region_->id;
  if (region_ == nullptr || elsewhere || at > region_->bytes.size()) return Code::kAccessDenied;
  spot = {.bytes = &region_->bytes, .region = region_, .at = at};
  return Code::kOk;
}

bool Reference::Chain::fits(uint64_t size) const {
  return operations_.size() * 8 + outputs_.size() + rounded(size) <= room_;
}

Code Reference::Chain::read(const Parsed& operation) {
  const OperationHeader& header = operation.header;
  Spot spot;
  uint64_t size = 0;
  if (const Code code = target(header, spot, size); code != Code::kOk) return code;
  size = std::min<uint64_t>(size, header.bytes);
  if (flag(header, kSlot)) size = std::min<uint64_t>(size, spot.bytes->size() - spot.at);
  if (!allowed(spot, 1, size)) return Code::kAccessDenied;
  const std::string bytes = spot.bytes->substr(spot.at, size);
  if (flag(header, kRedirect)) {
    peer_.scratch.replace(header.mode, size, bytes);
    return Code::kOk;
  }
  if (!fits(size)) return Code::kTooLarge;
  output_ = bytes;
  return Code::kOk;
}

Code Reference::Chain::write(const Parsed& operation) {
  const OperationHeader& header = operation.header;
  Spot spot;
  uint64_t bound = 0;
  if (const Code code = target(header, spot, bound); code != Code::kOk) return code;
  if (header.bytes > bound) return Code::kTooLarge;
  if (!allowed(spot, 2, header.bytes)) return Code::kAccessDenied;
  std::string data = operation.inline_bytes.substr(0, header.bytes);
  Spot source;
  if (flag(header, kDataIndirect)) {
    if (const Code code = reach(header.operand, source); code != Code::kOk) return code;
    if (!allowed(source, 1, header.bytes)) return Code::kAccessDenied;
    data = source.bytes->substr(source.at, header.bytes);
  }
  const bool guarded = spot.region != nullptr && spot.region->guarded;
  if (guarded && ReferenceRegion::refuses(spot.at, header.bytes)) return Code::kAccessDenied;
  for (Owned& owned : owned_) {
    const bool from_scratch = source.bytes == &peer_.scratch && spot.region != nullptr;
    const bool within = owned.place >= source.at && owned.place + 8 <= source.at + header.bytes;
    if (from_scratch && within && peer_.scratch.substr(owned.place, 8) == owned.word) owned.stored = true;
  }
  spot.bytes->replace(spot.at, data.size(), data);
  return Code::kOk;
}

Code Reference::Chain::allocate(const Parsed& operation) {
  const OperationHeader& header = operation.header;
  const bool open = region_ != nullptr && header.address >> 48 == region_->id && !region_->lists.empty();
  if (!open || (key_->rights & 8) == 0) return Code::kAccessDenied;
  if (!flag(header, kRedirect) && !fits(8)) return Code::kTooLarge;
  const uint64_t list = header.address % (uint64_t{1} << 48);
  if (list >= region_->lists.size()) return Code::kInvalidArgument;
  const ReferenceList& geometry = region_->lists[list];
  const bool granular = geometry.start % 16 == 0 && geometry.buffer_bytes % 16 == 0;
  if (flag(header, kSlot) && !granular) return Code::kInvalidArgument;
  if (header.bytes > geometry.buffer_bytes) return Code::kTooLarge;
  if (region_->free[list].empty()) return Code::kNoSpace;
  const uint64_t at = region_->free[list].front();
  region_->free[list].pop_front();
  region_->out.insert(at);
  region_->bytes.replace(at, header.bytes, operation.inline_bytes.substr(0, header.bytes));
  const uint64_t value = flag(header, kSlot) ? header.operand + at / 16 : (uint64_t{region_->id} << 48) + at;
  const std::string word = bytes_of_number(value, 8);
  if (flag(header, kRedirect)) {
    peer_.scratch.replace(header.mode, 8, word);
  } else {
    output_ = word;
  }
  if (flag(header, kOwned)) {
    owned_.push_back({.region = region_, .at = at, .place = header.mode, .word = word, .stored = false});
  }
  return Code::kOk;
}

Code Reference::Chain::check_place(const Spot& spot, uint64_t size, uint8_t right) const {
  const bool crosses = size >= 8 ? spot.at % 8 != 0 : spot.at % 8 + size > 8;
  if (crosses) return Code::kInvalidArgument;
  return allowed(spot, right, size) ? Code::kOk : Code::kAccessDenied;
}

Code Reference::Chain::operand(bool indirect, uint64_t size, std::string& rest, std::string& value,
                               Spot* from) {
  if (!indirect) {
    value = rest.substr(0, size);
    rest.erase(0, rounded(size));
    return Code::kOk;
  }
  Spot spot;
  if (const Code code = reach(number(rest, 0, 8), spot); code != Code::kOk) return code;
  rest.erase(0, 8);
  if (!allowed(spot, 1, size)) return Code::kAccessDenied;
  value = spot.bytes->substr(spot.at, size);
  if (from != nullptr) *from = spot;
  return Code::kOk;
}

Code Reference::Chain::compare_swap(const Parsed& operation) {
  const OperationHeader& header = operation.header;
  const uint64_t size = header.bytes;
  Spot spot;
  uint64_t bound = 0;
  if (const Code code = target(header, spot, bound); code != Code::kOk) return code;
  const uint8_t right = flag(header, kRetire) ? 12 : 4;
  if (const Code code = check_place(spot, size, right); code != Code::kOk) return code;
  std::string rest = operation.inline_bytes;
  std::string supplied;
  std::string swap;
  Spot source;
  if (const Code code = operand(flag(header, kCompareIndirect), size, rest, supplied, nullptr);
      code != Code::kOk) {
    return code;
  }
  if (const Code code = operand(flag(header, kDataIndirect), size, rest, swap, &source); code != Code::kOk) {
    return code;
  }
  std::string compare_mask(size, '\xff');
  std::string swap_mask(size, '\xff');
  if (flag(header, kMasked)) {
    compare_mask = rest.substr(0, size);
    swap_mask = rest.substr(rounded(size), size);
  }
  if (!fits(size)) return Code::kTooLarge;
  const std::string old = spot.bytes->substr(spot.at, size);
  const int order = compare(masked(supplied, compare_mask), masked(old, compare_mask));
  const bool holds = header.mode == 0 ? order == 0 : header.mode == 1 ? order > 0 : order < 0;
  if (!holds) {
    output_ = old;
    return Code::kCompareFailed;
  }
  std::string next;
  for (size_t i = 0; i < size; ++i) {
    const auto keep = static_cast<char>(~swap_mask[i]);
    next.push_back(static_cast<char>(both(old[i], keep) | both(swap[i], swap_mask[i])));
  }
  const Code code = replace(operation, spot, next, swap_mask, source);
  if (code == Code::kOk) output_ = old;
  return code;
}

Code Reference::Chain::replace(const Parsed& operation, const Spot& spot, const std::string& next,
                               const std::string& mask, const Spot& source) {
  const bool by_slot = flag(operation.header, kSlot);
  const std::string old = spot.bytes->substr(spot.at, next.size());
  uint64_t retired = 0;
  if (flag(operation.header, kRetire)) {
    // A place is a region and an offset; a slot word's region is the key's.
    const auto place = [&](const std::string& bytes) {
      const uint64_t word = number(bytes, bytes.size() - 8, 8);
      return by_slot ? (uint64_t{spot.region->id} << 48) + word % (uint64_t{1} << 35) * 16 : word;
    };
    const uint64_t from = place(old);
    const uint64_t offset = from % (uint64_t{1} << 48);
    if (offset != 0 && from != place(next)) {
      if (from >> 48 != spot.region->id || !spot.region->can_retire(offset)) return Code::kAccessDenied;
      retired = offset;
    }
  }
  const uint64_t word_at = spot.at - spot.at % 8;
  if (spot.region != nullptr && spot.region->guarded &&
      ReferenceRegion::refuses(word_at, rounded(next.size()))) {
    return Code::kAccessDenied;
  }
  for (Owned& owned : owned_) {
    if (source.bytes != &peer_.scratch || spot.region == nullptr) continue;
    if (owned.place < source.at || owned.place + 8 > source.at + next.size()) continue;
    const bool whole = mask.substr(owned.place - source.at, 8) == std::string(8, '\xff');
    if (whole && peer_.scratch.substr(owned.place, 8) == owned.word) owned.stored = true;
  }
  spot.bytes->replace(spot.at, next.size(), next);
  if (retired != 0) {
    for (Owned& owned : owned_)
      owned.stored = owned.stored || (owned.region == spot.region && owned.at == retired);
    spot.region->waiting.push_back(retired);
  }
  return Code::kOk;
}

Code Reference::Chain::fetch_add(const Parsed& operation) {
  Spot spot;
  uint64_t bound = 0;
  if (const Code code = target(operation.header, spot, bound); code != Code::kOk) return code;
  if (const Code code = check_place(spot, 8, 4); code != Code::kOk) return code;
  if (!fits(8)) return Code::kTooLarge;
  const std::string old = spot.bytes->substr(spot.at, 8);
  const uint64_t sum = number(old, 0, 8) + operation.header.operand;
  const Code code = replace(operation, spot, bytes_of_number(sum, 8), std::string(8, '\xff'), {});
  if (code == Code::kOk) output_ = old;
  return code;
}

TEST(PrismReference, orders_words_by_the_first_and_bytes_in_a_word_by_the_last) {
  EXPECT_EQ(compare(std::string("\0\1", 2), std::string("\1\0", 2)), 1);
  const std::string one_then_much = bytes_of_number(1, 8) + bytes_of_number(UINT64_MAX, 8);
  const std::string two_then_nothing = bytes_of_number(2, 8) + bytes_of_number(0, 8);
  EXPECT_EQ(compare(one_then_much, two_then_nothing), -1);
}

}  // namespace refract::prism::snic::test
