// SPDX-License-Identifier: Apache-2.0
// An operation of a table's owner, whose stores are recorded, and reads of a key in every order in which
// those stores can become visible between their loads.
//
// Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/fabric/sim/interleavings.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/testing/test_sim_reader_memory.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv::test {

// The outcome of a read as text, so that failures read well.
inline std::string to_text(const Found& found, const std::string& value) {
  return found.code == Code::kOk ? value : std::string(text(found.code));
}

template <typename Memory>
std::string read(Memory& memory, const Clock& clock, std::string_view key) {
  DirectReader reader(memory, clock);
  std::string value;
  const Found found = reader.get(bytes_of(key), reader.hash(bytes_of(key)), [&](uint64_t bytes) {
    value.assign(bytes, '?');
    return reinterpret_cast<std::byte*>(value.data());
  });
  return to_text(found, value);
}

// The same in the stages of a read among many, without other keys between them.
template <typename Memory>
std::string read_in_stages(Memory& memory, const Clock& clock, std::string_view key) {
  DirectReader reader(memory, clock);
  std::string value;
  const auto room = [&](uint64_t bytes) {
    value.assign(bytes, '?');
    return reinterpret_cast<std::byte*>(value.data());
  };
  typename DirectReader<Memory>::Ahead ahead;
  reader.begin();
  reader.fetch_bucket(reader.hash(bytes_of(key)), ahead);
  reader.fetch_buffer(ahead);
  reader.fetch_behind(ahead);
  Found found;
  if (!reader.get_at_once(ahead, bytes_of(key), room, found)) {
    found = reader.get(bytes_of(key), ahead.hash, room);
  }
  return to_text(found, value);
}

// Hands stores on while it is told to.
class Recorder final : public StoreLog {
 public:
  void stored(Offset at, std::span<const std::byte> bytes) noexcept override {
    if (list != nullptr) list->stored(at, bytes);
  }
  sim::StoreList* list = nullptr;
};

class Trial {
 public:
  Trial() : space_({.chunks = 8, .chunks_max = 8}, &recorder_) {}

  Space& space() { return space_; }
  uint64_t put(std::string_view key, std::string_view value) {
    return refract::test::needed(space_.table().put(bytes_of(key), bytes_of(value), {}));
  }
  void erase(std::string_view key) { ASSERT_TRUE(space_.table().erase(bytes_of(key), 0)); }
  // So that the very next allocation takes a buffer that was freed.
  void reuse_now() { space_.heap().reclaim(); }

  void record(const std::function<void()>& operations) {
    base_.assign(space_.base(), space_.base() + space_.bytes());
    sim::StoreList list(space_.base());
    recorder_.list = &list;
    operations();
    recorder_.list = nullptr;
    stores_ = list.stores();
  }
  std::vector<sim::Store>& stores() { return stores_; }
  // While it records.
  [[nodiscard]] size_t stores_so_far() const { return recorder_.list->stores().size(); }

  // What the key's value is after each number of stores, repetitions left out.
  std::vector<std::string> history(std::string_view key) {
    std::vector<std::string> states;
    for (const std::string& state : states_of(key)) {
      if (states.empty() || states.back() != state) states.push_back(state);
    }
    return states;
  }

  // Reads the key in every interleaving, alone and in stages; the first wrong outcome, or nothing.
  template <typename Memory = SimReaderMemory>
  std::optional<std::string> first_wrong(std::string_view key) {
    const auto wrong = first_wrong_of(key, read<Memory>);
    return wrong ? wrong : first_wrong_of(key, read_in_stages<Memory>);
  }
  template <typename Memory>
  std::optional<std::string> first_wrong_of(std::string_view key,
                                            std::string (*read_by)(Memory&, const Clock&, std::string_view)) {
    const std::vector<std::string> states = states_of(key);
    std::optional<std::string> wrong;
    const auto count = sim::for_each_interleaving(base_, stores_, {}, [&](sim::ReaderMemory& visible) {
      const uint64_t from = visible.position();
      Memory memory(visible);
      const std::string outcome = read_by(memory, space_.clock(), key);
      const uint64_t to = visible.position();
      const auto first = states.begin() + static_cast<ptrdiff_t>(from);
      const auto last = states.begin() + static_cast<ptrdiff_t>(to) + 1;
      if (leaves_to_owner && outcome == text(Code::kInvalidated)) return;
      if (!wrong && std::find(first, last, outcome) == last) wrong = outcome;
    });
    EXPECT_TRUE(count.complete);
    EXPECT_GT(count.runs, stores_.empty() ? 0U : 1U);
    runs_ += count.runs;
    return wrong;
  }
  uint64_t runs() const { return runs_; }

  // What the key's value is behind each number of stores.
  std::vector<std::string> states_of(std::string_view key) {
    std::vector<std::byte> image = base_;
    std::vector<std::string> states;
    for (size_t applied = 0;; ++applied) {
      // The image may have any alignment that a vector has: 16 bytes, as the compare needs.
      MappedMemory memory(image.data(), image.size(), nullptr);
      states.push_back(read(memory, space_.clock(), key));
      if (applied == stores_.size()) return states;
      std::memcpy(image.data() + stores_[applied].at.value, &stores_[applied].word, 8);
    }
  }

  // A space that was killed behind so many of the stores, before its recovery.
  std::unique_ptr<Space> killed_after(size_t stores) {
    auto killed = std::make_unique<Space>(SpaceOptions{.chunks = 8, .chunks_max = 8});
    std::memcpy(killed->base(), base_.data(), base_.size());
    for (size_t i = 0; i < stores; ++i) {
      std::memcpy(killed->base() + stores_[i].at.value, &stores_[i].word, 8);
    }
    return killed;
  }

  // Where buckets are crowded a reader may say at any time that it does not know.
  bool leaves_to_owner = false;

 private:
  Recorder recorder_;
  Space space_;
  std::vector<std::byte> base_;
  std::vector<sim::Store> stores_;
  uint64_t runs_ = 0;
};

}  // namespace refract::kv::test
