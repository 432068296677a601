// SPDX-License-Identifier: Apache-2.0
// The decoders of published designs, over regions that those designs wrote.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "apps/inspect/decoder.h"

#include "refract/base/prng.h"
#include "refract/kv/designs/pilaf/server.h"
#include "refract/kv/designs/prism/layout.h"

namespace refract::inspect {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Memory of whole cache lines.
class Memory {
 public:
  explicit Memory(uint64_t bytes) : lines_((bytes + 63) / 64) {}
  [[nodiscard]] std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(lines_)); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
};

std::string shown(std::span<const std::byte> region, const Question& question, bool expected = true) {
  const Decoder* decoder = decoder_for(region);
  EXPECT_NE(decoder, nullptr);
  if (decoder == nullptr) return {};
  bool found = false;
  const Part part = decoder->decode({.bytes = region}, question, found);
  EXPECT_EQ(found, expected);
  return text_of(part);
}

// Every question, about bytes in which anything may be wrong.
void ask_at_random(std::span<std::byte> region, uint64_t seed) {
  Prng prng(seed);
  const std::vector<std::byte> sound(region.begin(), region.end());
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 20; ++i) {
      const uint64_t value = i % 2 == 0 ? prng.next() : prng.next() % region.size();
      std::memcpy(region.data() + prng.next() % (region.size() / 8) * 8, &value, 8);
    }
    // The magic stays, or nothing would be looked at.
    std::ranges::copy(std::span(sound).first(72), region.begin());
    for (const Decoder& decoder : decoders()) {
      bool found = false;
      for (const Question& question : {Question{}, Question{.at = prng.next() % region.size()},
                                       Question{.bucket = prng.next() % 64}, Question{.key = "key 3"}}) {
        EXPECT_FALSE(text_of(decoder.decode({.bytes = region}, question, found)).empty());
      }
    }
    std::ranges::copy(sound, region.begin());
  }
}

class Pilaf : public testing::Test {
 protected:
  static constexpr kv::designs::Capacity kCapacity{.keys_max = 100, .keys_at_start = 20};

  Pilaf() : memory_(kv::pilaf::memory_bytes(kCapacity)), table_(memory_.bytes(), kCapacity, 42) {
    for (int i = 0; i < 60; ++i) {
      EXPECT_TRUE(table_.put(bytes_of("key " + std::to_string(i)), bytes_of("value " + std::to_string(i))));
    }
  }

  Memory memory_;
  kv::pilaf::Table table_;
};

TEST_F(Pilaf, keys_are_found_in_the_table_that_counts_now) {
  ASSERT_NE(table_.root_at(), kv::pilaf::kRootAt) << "the store has grown";
  for (int i = 0; i < 60; ++i) {
    EXPECT_NE(
        shown(memory_.bytes(), {.key = "key " + std::to_string(i)}).find("'value " + std::to_string(i) + "'"),
        std::string::npos);
  }
  EXPECT_NE(shown(memory_.bytes(), {.key = "absent"}, false).find("not found"), std::string::npos);
  const std::string whole = shown(memory_.bytes(), {});
  EXPECT_NE(whole.find("entries used   60"), std::string::npos) << whole;
  EXPECT_EQ(whole.find("DAMAGE"), std::string::npos) << whole;
}

TEST_F(Pilaf, a_flipped_bit_of_a_blob_is_shown) {
  const std::string_view all(reinterpret_cast<const char*>(memory_.bytes().data()), memory_.bytes().size());
  const size_t at = all.find("value 7");
  ASSERT_NE(at, std::string_view::npos);
  EXPECT_NE(shown(memory_.bytes(), {.at = at}).find("'value 7'"), std::string::npos);
  memory_.bytes()[at] ^= std::byte{1};
  EXPECT_NE(shown(memory_.bytes(), {}).find("the blob does not verify"), std::string::npos);
}

TEST_F(Pilaf, random_damage_never_leads_outside) {
  ask_at_random(memory_.bytes(), 5);
}

class PrismKv : public testing::Test {
 protected:
  PrismKv() : memory_(uint64_t{64} << 10), root_(kv::prism_kv::root_for({.keys_max = 20}, 42)) {
    std::memcpy(memory_.bytes().data(), &root_, sizeof(root_));
    for (int i = 0; i < 20; ++i) put("key " + std::to_string(i), "value " + std::to_string(i));
  }

  // As a client does by chains: the item first, then the first free slot from the key's home on.
  void put(const std::string& key, const std::string& value) {
    const kv::prism_kv::ItemHeader header{.key_bytes = static_cast<uint32_t>(key.size()),
                                          .value_bytes = static_cast<uint32_t>(value.size())};
    std::byte* item = memory_.bytes().data() + next_;
    std::memcpy(item, &header, sizeof(header));
    std::memcpy(item + sizeof(header), (key + value).data(), key.size() + value.size());
    for (uint64_t index = kv::prism_kv::home_of(bytes_of(key), root_);; ++index) {
      std::byte* at = memory_.bytes().data() + kv::prism_kv::slot_at(root_, index);
      kv::prism_kv::Slot slot;
      std::memcpy(&slot, at, sizeof(slot));
      if (slot.pointer != 0) continue;
      slot = {.pointer = RemotePointer::at(1, next_).bits, .bound = header.item_bytes(), .generation = 1};
      std::memcpy(at, &slot, sizeof(slot));
      break;
    }
    next_ += 64;
  }

  Memory memory_;
  kv::prism_kv::Root root_;
  uint64_t next_ = uint64_t{16} << 10;
};

TEST_F(PrismKv, keys_are_found_by_probing) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_NE(
        shown(memory_.bytes(), {.key = "key " + std::to_string(i)}).find("'value " + std::to_string(i) + "'"),
        std::string::npos);
  }
  EXPECT_NE(shown(memory_.bytes(), {.key = "absent"}, false).find("not found"), std::string::npos);
  const std::string whole = shown(memory_.bytes(), {});
  EXPECT_NE(whole.find("slots used        20"), std::string::npos) << whole;
  EXPECT_EQ(whole.find("DAMAGE"), std::string::npos) << whole;
}

TEST_F(PrismKv, a_slot_that_leads_outside_is_shown) {
  EXPECT_NE(shown(memory_.bytes(), {.at = (16 << 10) + 9}).find("'value 0'"), std::string::npos);
  const kv::prism_kv::Slot wild{.pointer = uint64_t{1} << 47, .bound = 64, .generation = 1};
  std::memcpy(memory_.bytes().data() + kv::prism_kv::slot_at(root_, 3), &wild, sizeof(wild));
  EXPECT_NE(shown(memory_.bytes(), {.bucket = 3}).find("DAMAGE"), std::string::npos);
  EXPECT_NE(shown(memory_.bytes(), {}).find("slot 3: it leads outside the region"), std::string::npos);
}

TEST_F(PrismKv, random_damage_never_leads_outside) {
  ask_at_random(memory_.bytes(), 6);
}

}  // namespace
}  // namespace refract::inspect
