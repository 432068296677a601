// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/check/check_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ranges>

#include "apps/inspect/transaction_words.h"

namespace refract::cli {
namespace {

using inspect::SpaceWords;
using kv::Slot;

constexpr int kLooks = 8;
constexpr uint64_t kBucketsBetweenWords = 4096;

// A slot that looks wrong, and what is wrong with it.
struct Suspect {
  Offset slot_at;
  Damage damage;
};

// What one look at a bucket found.
struct SpaceLook {
  uint64_t lines = 0;
  uint64_t entries = 0;
  uint64_t expiring = 0;
  uint64_t pending = 0;
  uint64_t content_bytes = 0;
  std::vector<Offset> buffers;
  std::vector<Offset> replaced;  // By pending entries.
  std::vector<Suspect> suspects;
  std::vector<Damage> chain_damages;

  void add(const SpaceLook& other) {
    entries += other.entries;
    expiring += other.expiring;
    pending += other.pending;
    content_bytes += other.content_bytes;
    buffers.insert(buffers.end(), other.buffers.begin(), other.buffers.end());
    replaced.insert(replaced.end(), other.replaced.begin(), other.replaced.end());
  }
  [[nodiscard]] bool is_sound() const noexcept { return suspects.empty() && chain_damages.empty(); }
};

class Checker {
 public:
  explicit Checker(const SpaceView& view) : view_(view), words_(view.space, view.grown) {}

  SpaceReport run() {
    if (const auto damaged = words_.read_header()) {
      keep(*damaged);
    } else {
      check_chunks();
      if (!view_.is_live) taken_.resize(words_.bytes() / kGranuleBytes);
      for (uint64_t index = 0; index < words_.bucket_count(); ++index) {
        if (!check_directory(index)) break;
        check_bucket(index);
        ++report_.buckets;
        if (view_.tell && index % kBucketsBetweenWords == 0) view_.tell(index, words_.bucket_count());
      }
      check_decisions();
      check_far_parts();
    }
    report_.bytes = words_.bytes();
    return std::move(report_);
  }

 private:
  void damage(Offset at, std::string what) { keep({at.value, std::move(what)}); }
  void keep(Damage damage) {
    ++report_.damage_count;
    if (report_.damages.size() < SpaceReport::kDamagesMax) report_.damages.push_back(std::move(damage));
  }

  void check_chunks() {
    const uint64_t populated = words_.chunks();
    for (uint64_t index = 0; index < words_.chunks_max(); ++index) {
      const Offset at = words_.chunk_word_at(index);
      const ChunkWord word{words_.observe(at)};
      if (!word.is_sound()) damage(at, fmt::format("the word of chunk {} is none that a heap wrote", index));
      if (index >= populated && !view_.is_live && word.kind() != ChunkKind::kFree) {
        damage(at, fmt::format("chunk {} is in use and lies behind the end of the space", index));
      }
    }
    report_.chunks = populated;
  }

  void check_decisions() {
    const kv::Decision own{words_.observe(kv::kDecisionAt)};
    if (const char* const fault = inspect::fault_of_own_word(words_, own)) damage(kv::kDecisionAt, fault);
    const Offset first = inspect::decision_word_at(words_, 0);
    for (uint64_t index = 0; index < kv::kDecisionWords; ++index) {
      const Offset at = first.plus(index * sizeof(uint64_t));
      const kv::Decision word{words_.observe(at)};
      if (word.bits == 0) continue;  // As nearly all are.
      const char* const fault = inspect::fault_of_word(words_, word);
      if (fault != nullptr) damage(at, fmt::format("decision word {}: {}", index, fault));
    }
  }

  // Of transactions that other nodes decide.
  void check_far_parts() {
    std::optional<Damage> broken;
    for (int look = 0; look < kLooks; ++look) {
      if (look > 0 && view_.pause) view_.pause();
      uint64_t parts = 0;
      broken = inspect::each_far(words_, [&](const inspect::FarLook& one) {
        parts += one.is_decision() ? 0 : 1;
        if (look == 0 && !view_.is_live) take({&one.at, 1});
      });
      report_.far_parts = parts;
      if (!broken) return;
    }
    keep(std::move(*broken));
  }

  // Asked for every bucket, looks once a chunk.
  bool check_directory(uint64_t index) {
    if (index % kv::kBucketsPerChunk != 0) return true;
    bucket_chunk_ = words_.bucket_at(index);
    if (bucket_chunk_) return true;
    damage(words_.directory_word_at(index),
           fmt::format("the directory's word for the buckets from {} on names no chunk of buckets", index));
    return false;
  }

  // What looks wrong is looked at again by itself: in a long chain that others change something is on its way
  // in every look at the whole of it.
  void check_bucket(uint64_t index) {
    SpaceLook look;
    for (int again = 0; again < kLooks; ++again) {
      if (again > 0 && view_.pause) view_.pause();
      look = look_at(index);
      settle(index, look);
      report_.looked_again += again > 0 && look.is_sound() ? 1 : 0;
      if (look.is_sound()) break;
    }
    for (Damage& seen : look.chain_damages) keep(std::move(seen));
    for (Suspect& seen : look.suspects) keep(std::move(seen.damage));
    report_.overflow_lines += look.lines - 1;
    report_.entries += look.entries;
    report_.expiring_entries += look.expiring;
    report_.content_bytes += look.content_bytes;
    report_.pending_entries += look.pending;
    if (view_.is_live) return;
    take(look.buffers);
    take(look.replaced);
  }

  // Keeps the suspects that are as wrong in every look.
  void settle(uint64_t bucket, SpaceLook& look) {
    for (int again = 1; again < kLooks && !look.suspects.empty(); ++again) {
      if (view_.pause) view_.pause();
      std::vector<Suspect> lasting;
      for (Suspect& suspect : look.suspects) {
        SpaceLook one;
        look_at_slot(suspect.slot_at, bucket, one);
        if (!one.suspects.empty() && one.suspects.front().damage == suspect.damage) {
          lasting.push_back(std::move(suspect));
          continue;
        }
        look.add(one);
      }
      if (lasting.size() < look.suspects.size()) ++report_.looked_again;
      look.suspects = std::move(lasting);
    }
  }

  void take(std::span<const Offset> buffers) {
    for (const Offset buffer : buffers) {
      std::vector<bool>::reference taken = taken_[buffer.value / kGranuleBytes];
      if (taken) damage(buffer, "this buffer is named twice");
      taken = true;
    }
  }

  SpaceLook look_at(uint64_t index) {
    SpaceLook look;
    Offset line = bucket_chunk_.plus(index % kv::kBucketsPerChunk * kLineBytes);
    inspect::RingFinder ring;
    (void)ring.was_at(line);
    while (true) {
      ++look.lines;
      for (uint64_t i = 0; i < kv::kSlotsPerBucket; ++i) {
        look_at_slot(line.plus(i * sizeof(Slot)), index, look);
      }
      const uint64_t word_at = line.plus(kv::kOverflowWord * sizeof(Slot)).value;
      bool is_sound = false;
      line = words_.line_after(line, is_sound);
      if (!line) return look;
      if (!is_sound) {
        look.chain_damages.push_back(
            {word_at, fmt::format("bucket {}: its chain continues at no line", index)});
        return look;
      }
      if (ring.was_at(line)) {
        look.chain_damages.push_back({word_at, fmt::format("bucket {}: its chain does not end", index)});
        return look;
      }
    }
  }

  void look_at_slot(Offset at, uint64_t bucket, SpaceLook& look) {
    const Slot slot{words_.observe(at)};
    if (!slot) return;
    const Offset buffer = slot.buffer();
    if (!words_.is_inside(buffer, sizeof(kv::BufferHeader))) {
      look.suspects.push_back(
          {at, {at.value, fmt::format("bucket {}: a slot points outside the space", bucket)}});
      return;
    }
    const SpaceWords::Entry entry = words_.entry_of(slot);
    const char* fault = entry.fault;
    const bool has_trailer = fault == nullptr && (entry.lengths.flags & kv::Lengths::kBatch) != 0;
    if (has_trailer) fault = inspect::fault_of_trailer(words_, slot, entry);
    SpaceWords::Standing place = SpaceWords::Standing::kWrong;
    if (fault == nullptr) {
      place = words_.standing_of(entry.hash, bucket);
      if (place == SpaceWords::Standing::kWrong) fault = "the entry stands in a bucket that is not its key's";
    }
    if (fault != nullptr) {
      look.suspects.push_back({at, {buffer.value, fmt::format("bucket {}: {}", bucket, fault)}});
      return;
    }
    if (place == SpaceWords::Standing::kMoving) return;
    // Entries come forward into the first line alone.
    const auto first_line = look.buffers | std::views::take(kv::kSlotsPerBucket);
    if (words_.comes_forward(bucket) && std::ranges::find(first_line, buffer) != first_line.end()) return;
    ++look.entries;
    look.expiring += slot.expires() ? 1 : 0;
    look.content_bytes += uint64_t{entry.lengths.key_bytes} + entry.lengths.value_bytes;
    look.buffers.push_back(buffer);
    if (!entry.lengths.is_pending()) return;
    ++look.pending;
    const Slot replaced{inspect::trailer_of(words_, slot, entry).replaced};
    if (replaced) look.replaced.push_back(replaced.buffer());
  }

  const SpaceView& view_;
  SpaceWords words_;
  SpaceReport report_;
  Offset bucket_chunk_;      // Of the bucket that is looked at.
  std::vector<bool> taken_;  // A bit for each granule: a slot names the buffer that begins there.
};

}  // namespace

SpaceReport check_space(const SpaceView& view) {
  return Checker(view).run();
}

}  // namespace refract::cli
