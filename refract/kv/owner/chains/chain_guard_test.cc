// SPDX-License-Identifier: Apache-2.0
// What hostile chains can do to a table: nothing that a put could not. They hold every right that a session
// can be given, and the right to WRITE, which none is given.
#include "refract/kv/owner/chains/chain_guard.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/kv/owner/chains/chain_server.h"
#include "refract/kv/testing/test_space.h"
#include "refract/prism/chain.h"
#include "refract/prism/reply.h"

namespace refract::kv {
namespace {

using prism::Operand;
using test::bytes_of;

constexpr RemoteKey kKey{77};
constexpr RemotePointer kList = RemotePointer::at(0, 0);

// A buffer behind its stamp.
std::vector<std::byte> entry_of(std::string_view key, std::string_view value, Lengths lengths) {
  lengths.key_bytes = lengths.key_bytes != 0 ? lengths.key_bytes : static_cast<uint16_t>(key.size());
  lengths.value_bytes = lengths.value_bytes != 0 ? lengths.value_bytes : static_cast<uint32_t>(value.size());
  const uint64_t word = lengths.word();
  const auto front = std::as_bytes(std::span(&word, 1));
  std::vector<std::byte> entry(front.begin(), front.end());
  for (const std::string_view part : {key, value}) {
    entry.insert(entry.end(), bytes_of(part).begin(), bytes_of(part).end());
  }
  return entry;
}

class ChainGuardTest : public testing::Test {
 protected:
  ChainGuardTest() {
    EXPECT_TRUE(connection.add({.key = kKey, .region = 0, .rights = {prism::ChainRights::kAll}}).has_value());
  }

  [[nodiscard]] prism::Reply run(const prism::Chain& chain) {
    const auto bytes = chain.finish();
    EXPECT_TRUE(bytes.has_value());
    const Result<size_t> count = chains.executor().execute(connection, *bytes, reply_);
    EXPECT_TRUE(count.has_value());
    const auto reply = prism::Reply::of(std::span(reply_).first(*count), chain.operations());
    EXPECT_TRUE(reply.has_value());
    return *reply;
  }
  void put(std::string_view key, std::string_view value, const PutOptions& options = {}) {
    ASSERT_TRUE(space.table().put(bytes_of(key), bytes_of(value), options).has_value());
  }
  [[nodiscard]] Table::Standing standing(std::string_view key) {
    return space.table().standing(space.table().hashed(bytes_of(key)));
  }
  [[nodiscard]] static RemotePointer at(Offset offset) { return RemotePointer::at(0, offset.value); }
  // The slot's bits that are the client's.
  [[nodiscard]] uint64_t template_of(std::string_view key, uint64_t buffer_bytes) {
    return Slot::of({.hash = space.table().hash(bytes_of(key)), .bytes = buffer_bytes}).bits;
  }

  // How a swap differs from the one that is allowed.
  struct Forgery {
    std::string_view key = "key";
    std::string_view target = "key";  // Whose slot is swapped.
    Lengths lengths = {};             // Where they are to be others than the entry's.
    uint64_t more_bits = 0;
    bool retires = true;
    bool owned = true;
    Offset slot_at = {};  // In place of the target's.
  };
  // The code of the swap, or of the allocation if that failed.
  [[nodiscard]] Code swap(const Forgery& forgery) {
    const Table::Standing target = standing(forgery.target);
    const std::vector<std::byte> entry = entry_of(forgery.key, "forged", forgery.lengths);
    const uint64_t bits = template_of(forgery.key, 8 + entry.size()) | forgery.more_bits;
    prism::Chain chain(request_);
    if (forgery.owned) {
      chain.allocate(kList, kKey, entry).redirect(0).owned().as_slot_word(bits);
    } else {
      chain.allocate(kList, kKey, entry).redirect(0).as_slot_word(bits);
    }
    const prism::CompareSwap swap = {.address = at(forgery.slot_at ? forgery.slot_at : target.slot_at),
                                     .key = kKey,
                                     .compare = Operand::of(target.slot.bits),
                                     .swap = Operand::at(prism::scratch(0))};
    if (forgery.retires) {
      chain.compare_swap(swap).conditional().retire().by_slot_word();
    } else {
      chain.compare_swap(swap).conditional();
    }
    const prism::Reply reply = run(chain);
    return reply.code(0) != Code::kOk ? reply.code(0) : reply.code(1);
  }
  void expect_unharmed() {
    const auto damage = space.table().validate();
    EXPECT_FALSE(damage.has_value()) << damage->what;
    space.heap().reclaim();
    EXPECT_EQ(space.heap().stats().buffers_live, space.table().stats().entries);
    EXPECT_EQ(space.heap().stats().bytes_retired, 0u);
  }
  [[nodiscard]] std::string value_of(std::string_view key) {
    const auto entry = space.table().find(bytes_of(key));
    return entry ? test::text_of(entry->value) : "nothing";
  }
  // A key with the other's fingerprint in its bucket.
  [[nodiscard]] std::string twin_of(std::string_view key) {
    const uint64_t hash = space.table().hash(bytes_of(key));
    const uint64_t count = space.table().stats().buckets;
    for (uint64_t number = 0;; ++number) {
      std::string twin = "twin" + std::to_string(number);
      const uint64_t other = space.table().hash(bytes_of(twin));
      const bool fits = Slot::fingerprint_of(other) == Slot::fingerprint_of(hash) &&
                        bucket_index(other, count) == bucket_index(hash, count);
      if (fits) return twin;
    }
  }

 public:
  test::Space space;
  runtime::Shard shard{space.clock(), {}};
  ChainServer chains{
      {.table = space.table(), .heap = space.heap(), .writer = space.writer(), .shard = shard}};
  prism::snic::Connection connection;

 private:
  std::vector<std::byte> request_ = std::vector<std::byte>(4'096);
  std::vector<std::byte> reply_ = std::vector<std::byte>(4'096);
};

TEST_F(ChainGuardTest, a_swap_to_a_fresh_buffer_of_the_same_key_is_a_put) {
  put("key", "value");
  EXPECT_EQ(swap({}), Code::kOk);
  EXPECT_EQ(value_of("key"), "forged");
  EXPECT_EQ(chains.guard().installed_count(), 1u);
  expect_unharmed();
}

// A buffer has its stamp since its allocation: of two, the older one may not follow on the younger.
TEST_F(ChainGuardTest, a_version_never_goes_back) {
  put("key", "value");
  const Table::Standing before = standing("key");
  const std::vector<std::byte> entry = entry_of("key", "forged", {});
  const uint64_t bits = template_of("key", 8 + entry.size());
  std::array<std::byte, 1'024> request;
  prism::Chain chain(request);
  chain.allocate(kList, kKey, entry).redirect(0).owned().as_slot_word(bits);
  chain.allocate(kList, kKey, entry).redirect(8).owned().as_slot_word(bits);
  chain
      .compare_swap({.address = at(before.slot_at),
                     .key = kKey,
                     .compare = Operand::of(before.slot.bits),
                     .swap = Operand::at(prism::scratch(8))})
      .retire()
      .by_slot_word();
  chain
      .compare_swap({.address = at(before.slot_at),
                     .key = kKey,
                     .compare = Operand::at(prism::scratch(8)),
                     .swap = Operand::at(prism::scratch(0))})
      .retire()
      .by_slot_word();
  const prism::Reply reply = run(chain);
  EXPECT_EQ(reply.code(2), Code::kOk);
  EXPECT_EQ(reply.code(3), Code::kAccessDenied);
  EXPECT_EQ(chains.guard().installed_count(), 1u);
  expect_unharmed();
}

TEST_F(ChainGuardTest, every_other_change_is_refused_and_changes_nothing) {
  put("key", "value");
  put("other", "value");
  put("mortal", "value", {.expires_wall_ns = UINT64_MAX});
  const std::string twin = twin_of("key");
  put(twin, "value");
  const std::vector<Forgery> forgeries = {
      // Another key's bytes in this key's slot: with its own fingerprint, and with the same one.
      {.key = "other"},
      {.key = twin},
      {.key = twin, .target = "key"},
      // Lengths that say more, or less, than there is; none; flags.
      {.lengths = {.value_bytes = 7}},
      {.lengths = {.value_bytes = 5}},
      {.lengths = {.value_bytes = 4'000'000}},
      {.lengths = {.key_bytes = 4}},
      {.lengths = {.key_bytes = 60'000}},
      {.lengths = {.flags = Lengths::kExpires}},
      {.lengths = {.flags = Lengths::kIdentified}},
      {.lengths = {.flags = 4}},
      // A word that the owner would not have made.
      {.more_bits = uint64_t{1} << Slot::kExpiresShift},
      {.more_bits = uint64_t{8} << Slot::kHintShift},
      {.more_bits = uint64_t{0xff} << 56},
      // A buffer that would be lost.
      {.retires = false},
      {.owned = false},
      // An entry whose end only the owner knows.
      {.key = "mortal", .target = "mortal"},
  };
  for (size_t i = 0; i < forgeries.size(); ++i) {
    EXPECT_EQ(swap(forgeries[i]), Code::kAccessDenied) << i;
    expect_unharmed();
  }
  for (const std::string_view key : {std::string_view("key"), std::string_view("other"),
                                     std::string_view("mortal"), std::string_view(twin)}) {
    EXPECT_EQ(value_of(key), "value");
  }
  EXPECT_EQ(chains.guard().installed_count(), 0u);
}

TEST_F(ChainGuardTest, nothing_is_inserted_erased_written_or_added) {
  put("key", "value");
  const Table::Standing entry = standing("key");
  const Offset bucket{entry.slot_at.value / kLineBytes * kLineBytes};
  Offset free_slot = bucket;
  while (space.writer().load(free_slot) != 0) free_slot = free_slot.plus(8);
  std::array<std::byte, 512> buffer;
  const auto code_of = [&](auto&& build) {
    prism::Chain chain(buffer);
    build(chain);
    return run(chain).code(chain.operations() - 1);
  };
  const auto swap_word = [&](Offset target, uint64_t from, uint64_t to) {
    return code_of([&](prism::Chain& chain) {
      chain
          .compare_swap(
              {.address = at(target), .key = kKey, .compare = Operand::of(from), .swap = Operand::of(to)})
          .retire()
          .by_slot_word();
    });
  };
  EXPECT_EQ(swap_word(entry.slot_at, entry.slot.bits, 0), Code::kAccessDenied) << "erased";
  EXPECT_EQ(swap_word(free_slot, 0, entry.slot.bits), Code::kAccessDenied) << "a second way to a buffer";
  EXPECT_EQ(swap_word(bucket.plus(56), 0, bucket.value), Code::kAccessDenied) << "a chain that is a loop";
  EXPECT_EQ(swap_word(kBucketCountAt, space.table().stats().buckets, 1), Code::kAccessDenied);
  EXPECT_EQ(swap_word(entry.slot.buffer(), space.writer().load(entry.slot.buffer()), 12'345),
            Code::kAccessDenied);
  const uint64_t word = 1;
  for (const Offset target : {Offset{0}, kBucketCountAt, bucket, entry.slot.buffer()}) {
    EXPECT_EQ(code_of([&](prism::Chain& chain) {
                chain.write(at(target), kKey, std::as_bytes(std::span(&word, 1)));
              }),
              Code::kAccessDenied);
    EXPECT_EQ(code_of([&](prism::Chain& chain) { chain.fetch_add(at(target), kKey, 1); }),
              Code::kAccessDenied);
  }
  EXPECT_EQ(value_of("key"), "value");
  expect_unharmed();
}

// A word of the table may stand in places that readers are never led to: in a value, or in a line that is
// out of use. A swap there would free the buffer that the entry still needs.
TEST_F(ChainGuardTest, a_copy_of_a_slot_in_a_value_is_no_slot) {
  put("key", "value");
  const uint64_t word = standing("key").slot.bits;
  put("copy", std::string(64, ' '));
  const Offset buffer = standing("copy").slot.buffer();
  const Offset copy{(buffer.value + 40) / 8 * 8};
  space.writer().publish(copy, word);
  EXPECT_EQ(swap({.slot_at = copy}), Code::kAccessDenied);
  EXPECT_EQ(value_of("key"), "value");
  expect_unharmed();
}

TEST_F(ChainGuardTest, a_buffer_that_was_stored_and_replaced_is_not_stored_again) {
  put("key", "value");
  const Table::Standing target = standing("key");
  const std::vector<std::byte> entry = entry_of("key", "forged", {});
  const uint64_t bits = template_of("key", 8 + entry.size());
  std::array<std::byte, 1'024> buffer;
  prism::Chain chain(buffer);
  chain.allocate(kList, kKey, entry).redirect(0).owned().as_slot_word(bits);
  chain.allocate(kList, kKey, entry).redirect(8).owned().as_slot_word(bits);
  const auto add = [&](const Operand& from, const Operand& to) {
    chain.compare_swap({.address = at(target.slot_at), .key = kKey, .compare = from, .swap = to})
        .conditional()
        .retire()
        .by_slot_word();
  };
  const Operand first = Operand::at(prism::scratch(0));
  const Operand second = Operand::at(prism::scratch(8));
  add(Operand::of(target.slot.bits), first);
  add(first, second);
  add(second, first);
  const prism::Reply reply = run(chain);
  EXPECT_EQ(reply.code(3), Code::kOk);
  EXPECT_EQ(reply.code(4), Code::kAccessDenied);
  EXPECT_EQ(value_of("key"), "forged");
  expect_unharmed();
}

// Chains at random, of plausible parts: whatever they do, each key keeps its own bytes or gets some of its
// own, and every buffer is either an entry's or free.
TEST_F(ChainGuardTest, random_chains_damage_nothing) {
  constexpr int kKeys = 60;
  std::vector<std::string> keys;
  for (int i = 0; i < kKeys; ++i) {
    keys.push_back("key" + std::to_string(i));
    put(keys.back(), keys.back() + "=0");
  }
  Prng prng(11);
  std::array<std::byte, 2'048> buffer;
  const auto any_word = [&] { return standing(keys[prng.below(keys.size())]).slot.bits; };
  const auto any_place = [&]() -> Offset {
    const Table::Standing standing = this->standing(keys[prng.below(keys.size())]);
    if (prng.chance(0.6)) return standing.slot_at;
    if (prng.chance(0.3)) return {standing.slot_at.value / kLineBytes * kLineBytes + prng.below(8) * 8};
    if (prng.chance(0.5)) return standing.slot.buffer().plus(prng.below(4) * 8);
    return {prng.below(space.bytes() / 8) * 8};
  };
  for (int step = 0; step < 20'000; ++step) {
    prism::Chain chain(buffer);
    const std::string& key = keys[prng.below(keys.size())];
    const std::vector<std::byte> entry = entry_of(key, key + "=" + std::to_string(step), {});
    const uint64_t bits = template_of(key, 8 + entry.size());
    const uint64_t operations = 1 + prng.below(6);
    for (uint64_t i = 0; i < operations; ++i) {
      const Table::Standing own = standing(key);
      const Offset place = prng.chance(0.7) ? own.slot_at : any_place();
      const uint64_t word = prng.chance(0.7) ? own.slot.bits : any_word();
      const Operand from = prng.chance(0.8) ? Operand::of(word) : Operand::at(prism::scratch(0));
      const Operand to = prng.chance(0.8) ? (prng.chance(0.7) ? Operand::at(prism::scratch(0))
                                                              : Operand::at(prism::scratch(8)))
                                          : Operand::of(any_word());
      const prism::CompareSwap swap = {.address = at(place), .key = kKey, .compare = from, .swap = to};
      switch (prng.below(6)) {
        case 0:
        case 1:
          chain.allocate(kList, kKey, entry).redirect(0).owned().as_slot_word(bits);
          break;
        case 2:
          chain.allocate(kList, kKey, entry).redirect(8).owned().as_slot_word(prng.chance(0.9) ? bits : 0);
          break;
        case 3:
        case 4:
          chain.compare_swap(swap).retire().by_slot_word();
          break;
        default:
          if (prng.chance(0.5)) {
            chain.compare_swap(swap);
          } else {
            chain.write_from(at(place), kKey, prism::scratch(0), 8);
          }
      }
    }
    (void)run(chain);
    if (step % 500 == 0) expect_unharmed();
  }
  expect_unharmed();
  EXPECT_GT(chains.guard().installed_count(), 1'000u);
  EXPECT_GT(chains.guard().refused_count(), 1'000u);
  for (const std::string& key : keys) EXPECT_TRUE(value_of(key).starts_with(key + "=")) << value_of(key);
  EXPECT_EQ(space.table().stats().entries, keys.size());
}

}  // namespace
}  // namespace refract::kv
