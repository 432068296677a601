// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/sim/visible_memory.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/units.h"

namespace refract::sim {
namespace {

constexpr size_t kShuffleWindowWords = 64;  // A copy routine's disorder reaches no farther than a few lines.

uint64_t word_at(const std::byte* image, uint64_t offset) noexcept {
  uint64_t word = 0;
  std::memcpy(&word, image + offset, sizeof(word));
  return word;
}

}  // namespace

// Begins with a page, as memory that a provider registers does: what depends on places inside of pages is the
// same in each run. In front of it stands where it was taken.
VisibleMemory::Image VisibleMemory::zeroes(uint64_t bytes) {
  void* const taken = std::calloc(bytes + 2 * kPageBytes, 1);  // The kernel's zero pages, where it is large.
  REFRACT_CHECK(taken != nullptr);
  void* first = static_cast<std::byte*>(taken) + sizeof(taken);
  size_t room = bytes + 2 * kPageBytes - sizeof(taken);
  auto* const image = static_cast<std::byte*>(std::align(kPageBytes, bytes, first, room));
  std::memcpy(image - sizeof(taken), static_cast<const void*>(&taken), sizeof(taken));
  return Image(image);
}

void VisibleMemory::Free::operator()(std::byte* bytes) const noexcept {
  void* taken = nullptr;
  std::memcpy(static_cast<void*>(&taken), bytes - sizeof(taken), sizeof(taken));
  std::free(taken);
}

VisibleMemory::VisibleMemory(const Options& options)
    : owner_(options.owner),
      bytes_(options.bytes),
      bytes_max_(std::max(options.bytes, options.bytes_max)),
      lag_words_max_(options.lag_words_max),
      shuffle_chance_(options.shuffle_chance),
      prng_(options.seed) {
  REFRACT_CHECK(bytes_ > 0 && bytes_ % kWordBytes == 0 && bytes_max_ % kWordBytes == 0);
  image_ = zeroes(bytes_max_);
  if (owner_ == nullptr) {
    owned_ = zeroes(bytes_max_);
    owner_ = owned_.get();
  } else {
    std::memcpy(image_.get(), owner_, bytes_);
  }
}

VisibleMemory::VisibleMemory(const Options& options, std::span<const std::byte> image)
    : VisibleMemory(options) {
  REFRACT_CHECK(image.size() <= bytes_);
  std::memcpy(owner_, image.data(), image.size());
  std::memcpy(image_.get(), image.data(), image.size());
}

void VisibleMemory::extend(uint64_t bytes) {
  REFRACT_CHECK(bytes >= bytes_ && bytes <= bytes_max_ && bytes % kWordBytes == 0);
  std::memcpy(image_.get() + bytes_, owner_ + bytes_, bytes - bytes_);
  bytes_ = bytes;
}

void VisibleMemory::stored(Offset at, std::span<const std::byte> bytes) noexcept {
  if (bytes.empty()) return;
  REFRACT_CHECK(at.value < bytes_ && bytes.size() <= bytes_ - at.value);
  forget_applied();
  const size_t begin = log_.size();
  const uint64_t end = at.value + bytes.size();
  for (uint64_t word = at.value / kWordBytes * kWordBytes; word < end; word += kWordBytes) {
    log_.push_back({Offset{word}, word_at(owner_, word)});
  }
  if (log_.size() - begin > 1 && prng_.chance(shuffle_chance_)) {
    for (size_t i = begin; i < log_.size(); ++i) {
      const size_t window = std::min(kShuffleWindowWords, log_.size() - i);
      std::swap(log_[i], log_[i + prng_.below(window)]);
    }
  }
  if (position() - visible_ > lag_words_max_) make_visible(position() - lag_words_max_ / 2);
}

void VisibleMemory::apply(const Store& store) noexcept {
  std::memcpy(image_.get() + store.at.value, &store.word, sizeof(store.word));
}

// Removal is put off until it is half of the log, so that it costs a constant for each store.
void VisibleMemory::forget_applied() noexcept {
  const auto applied = static_cast<ptrdiff_t>(visible_ - first_);
  if (applied < 64 || static_cast<size_t>(applied) * 2 < log_.size()) return;
  log_.erase(log_.begin(), log_.begin() + applied);
  first_ = visible_;
}

void VisibleMemory::make_visible(uint64_t position) noexcept {
  const uint64_t end = std::min({position, this->position(), limit_});
  while (visible_ < end) apply(log_[visible_++ - first_]);
}

void VisibleMemory::advance_random(Prng& prng) noexcept {
  const uint64_t lag = position() - visible_;
  if (lag == 0) return;
  const uint64_t draw = prng.next();
  uint64_t words = 0;
  switch (draw % 16) {
    case 8:
    case 9:
    case 10:
    case 11:
      words = 1;
      break;
    case 12:
    case 13:
      words = 1 + (draw >> 8) % 8;
      break;
    case 14:
      words = 1 + (draw >> 8) % 64;
      break;
    case 15:
      words = 1 + (draw >> 8) % lag;
      break;
    default:
      return;
  }
  make_visible(visible_ + words);
}

void VisibleMemory::store_from_outside(Offset at, std::span<const std::byte> bytes) noexcept {
  REFRACT_CHECK(at.value <= bytes_ && bytes.size() <= bytes_ - at.value);
  make_visible(position());
  std::memcpy(owner_ + at.value, bytes.data(), bytes.size());
  std::memcpy(image_.get() + at.value, bytes.data(), bytes.size());
}

uint64_t VisibleMemory::draw_crash_position(Prng& prng) const noexcept {
  return visible_ + prng.below(std::min(position(), limit_) - visible_ + 1);
}

std::vector<std::byte> VisibleMemory::crash_image(Prng& prng) const {
  std::vector<std::byte> bytes(image_.get(), image_.get() + bytes_);
  const uint64_t end = draw_crash_position(prng);
  for (uint64_t i = visible_; i < end; ++i) {
    const Store& store = log_[i - first_];
    std::memcpy(bytes.data() + store.at.value, &store.word, sizeof(store.word));
  }
  return bytes;
}

void VisibleMemory::crash(uint64_t position) noexcept {
  REFRACT_CHECK(visible_ <= position && position <= this->position());
  limit_ = UINT64_MAX;
  make_visible(position);
  for (uint64_t i = position - first_; i < log_.size(); ++i) {
    const uint64_t offset = log_[i].at.value;
    std::memcpy(owner_ + offset, image_.get() + offset, kWordBytes);
  }
  log_.clear();
  first_ = visible_;
}

void VisibleMemory::wipe() noexcept {
  crash(visible_);
  std::memset(owner_, 0, bytes_);
  std::memset(image_.get(), 0, bytes_);
}

uint64_t ReaderMemory::observe(Offset at) const noexcept {
  REFRACT_CHECK(at.value % kWordBytes == 0 && at.value < bytes_);
  schedule_->before_load(at);
  return word_at(image_, at.value);
}

void ReaderMemory::copy(void* target, Offset at, size_t bytes) const noexcept {
  REFRACT_CHECK(at.value <= bytes_ && bytes <= bytes_ - at.value);
  if (bytes == 0) return;
  auto* to = static_cast<std::byte*>(target);
  const uint64_t end = at.value + bytes;
  const uint64_t first = at.value / kWordBytes;
  const uint64_t words = (end - 1) / kWordBytes - first + 1;
  const bool backward = schedule_->next_copy_is_backward();
  for (uint64_t i = 0; i < words; ++i) {
    const uint64_t word = (first + (backward ? words - 1 - i : i)) * kWordBytes;
    const uint64_t from = std::max(word, at.value);
    schedule_->before_load(Offset{word});
    std::memcpy(to + (from - at.value), image_ + from, std::min(word + kWordBytes, end) - from);
  }
}

bool ReaderMemory::equals(Offset at, std::span<const std::byte> bytes) const noexcept {
  std::array<std::byte, 256> piece{};
  for (size_t done = 0; done < bytes.size();) {
    const size_t count = std::min(piece.size(), bytes.size() - done);
    copy(piece.data(), at.plus(done), count);
    if (std::memcmp(piece.data(), bytes.data() + done, count) != 0) return false;
    done += count;
  }
  return true;
}

SeededReader::SeededReader(VisibleMemory& memory, Options options)
    : memory_(&memory), options_(std::move(options)), prng_(options_.seed) {}

void SeededReader::before_load(Offset) noexcept {
  if (options_.stall && prng_.chance(options_.stall_chance)) options_.stall();
  memory_->advance_random(prng_);
}

}  // namespace refract::sim
