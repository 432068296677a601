// SPDX-License-Identifier: Apache-2.0
// Random chains, executed and told by the reference model: replies, every byte of memory and scratch, and the
// free lists must be the same after each.
//
// The chains are made of everything that a hostile or confused client can say: all flags, sound together or
// not, pointers of every region (also the scratch, also none) in operations and in memory, at any byte and
// beyond the end, keys of other regions, lists that run empty, buffers retired twice. Half of them run to
// their end, half are interleaved operation by operation with those of a second connection, some of which are
// abandoned. Half of those that are well-formed reach the executor in the dense form.
//
// REFRACT_PRISM_CHAINS says how many, where there is time: 200,000 unless it does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/turns.h"
#include "refract/memory/slot_word.h"
#include "refract/prism/snic/free_lists.h"
#include "refract/prism/snic/run.h"
#include "refract/prism/snic/test_reference.h"
#include "refract/prism/testing/other_form.h"

namespace refract::prism::snic {
namespace {

using test::Reference;
using test::ReferenceKey;
using test::ReferenceList;
using test::ReferencePeer;
using test::ReferenceRegion;

constexpr uint64_t kMargin = 64;  // Around each region: no chain may touch it.

class ModelGuard final : public Guard {
 public:
  [[nodiscard]] bool may_write(Offset at, uint64_t bytes) noexcept override {
    return !ReferenceRegion::refuses(at.value - kMargin, bytes);
  }
  [[nodiscard]] Code may_swap(const Swap& swap) noexcept override {
    return ReferenceRegion::refuses(swap.at.value - kMargin, swap.bytes) ? Code::kAccessDenied : Code::kOk;
  }
};

// One region as the executor has it.
class RealRegion {
 public:
  RealRegion(Executor& executor, const ReferenceRegion& model)
      : memory_((model.bytes.size() + 2 * kMargin) / 8, 0x6d6d'6d6d'6d6d'6d6d), writer_(base()) {
    std::fill_n(base() + kMargin, model.bytes.size(), std::byte{0});
    for (const ReferenceList& list : model.lists) {
      (void)lists_.add_list(
          {.start = {kMargin + list.start}, .buffer_bytes = list.buffer_bytes, .count = list.count});
    }
    const Result<> added = executor.add_region({.id = model.id,
                                                .writer = &writer_,
                                                .start = {kMargin},
                                                .bytes = model.bytes.size(),
                                                .buffers = model.lists.empty() ? nullptr : &lists_,
                                                .guard = model.guarded ? &guard_ : nullptr});
    EXPECT_TRUE(added.has_value());
  }
  RealRegion(const RealRegion&) = delete;
  RealRegion& operator=(const RealRegion&) = delete;

  void set(uint64_t at, uint64_t word) { std::memcpy(base() + kMargin + at, &word, sizeof(word)); }
  [[nodiscard]] std::string differs_from(const ReferenceRegion& model) const {
    const auto* bytes = reinterpret_cast<const char*>(memory_.data());
    const std::string margin(kMargin, '\x6d');
    if (std::string_view(bytes, kMargin) != margin) return "the margin before the region";
    if (std::string_view(bytes + kMargin + model.bytes.size(), kMargin) != margin)
      return "the margin behind it";
    for (size_t i = 0; i < model.bytes.size(); ++i) {
      if (bytes[kMargin + i] != model.bytes[i]) return "byte " + std::to_string(i);
    }
    for (size_t i = 0; i < model.lists.size(); ++i) {
      if (lists_.free_count(i) != model.free[i].size()) return "the length of list " + std::to_string(i);
      for (uint64_t n = 0; n < model.lists[i].count; ++n) {
        const uint64_t at = model.lists[i].start + n * model.lists[i].buffer_bytes;
        if (lists_.is_out({kMargin + at}) != model.can_retire(at)) return "buffer " + std::to_string(at);
      }
    }
    return {};
  }

 private:
  [[nodiscard]] std::byte* base() { return reinterpret_cast<std::byte*>(memory_.data()); }

  std::vector<uint64_t> memory_;
  Writer writer_;
  FreeLists lists_{writer_};
  ModelGuard guard_;
};

// Three regions and two connections, twice.
class Twins {
 public:
  Twins() {
    model.regions.emplace_back(1, 768, std::vector<ReferenceList>{{256, 64, 4}, {520, 24, 3}}, false);
    model.regions.emplace_back(2, 512, std::vector<ReferenceList>{{256, 32, 4}}, true);
    model.regions.emplace_back(3, 256, std::vector<ReferenceList>{}, false);
    for (const ReferenceRegion& region : model.regions) {
      real.push_back(std::make_unique<RealRegion>(executor, region));
    }
    give(0, {.key = 11, .region = 1, .rights = 15});
    give(0, {.key = 22, .region = 2, .rights = 15});
    give(0, {.key = 33, .region = 3, .rights = 5});
    give(1, {.key = 44, .region = 1, .rights = 15});
    give(1, {.key = 55, .region = 2, .rights = 11});
    give(1, {.key = 66, .region = 3, .rights = 2});
    // A key whose region is gone.
    give(1, {.key = 77, .region = 8, .rights = 15});
  }

  void set(size_t region, uint64_t at, uint64_t word) {
    real[region]->set(at, word);
    for (size_t i = 0; i < 8; ++i)
      model.regions[region].bytes[at + i] = static_cast<char>(word >> (8 * i) & 0xff);
  }
  [[nodiscard]] std::string difference() const {
    for (size_t i = 0; i < real.size(); ++i) {
      const std::string text = real[i]->differs_from(model.regions[i]);
      if (!text.empty()) return text + " of region " + std::to_string(model.regions[i].id);
    }
    for (size_t i = 0; i < connections.size(); ++i) {
      const auto* scratch = reinterpret_cast<const char*>(connections[i].scratch());
      if (std::string_view(scratch, 64) != peers[i].scratch) return "scratch " + std::to_string(i);
    }
    return {};
  }

  Reference model;
  Executor executor;
  std::vector<std::unique_ptr<RealRegion>> real;
  std::array<Connection, 2> connections;
  std::array<ReferencePeer, 2> peers;

 private:
  void give(size_t peer, const ReferenceKey& key) {
    peers[peer].keys.push_back(key);
    const Result<> added =
        connections[peer].add({.key = {key.key}, .region = key.region, .rights = {key.rights}});
    EXPECT_TRUE(added.has_value());
  }
};

class ChainMaker {
 public:
  ChainMaker(Prng& prng, const Twins& twins) : prng_(prng), twins_(twins) {}

  [[nodiscard]] std::string make(size_t peer) {
    peer_ = peer;
    const uint64_t count = chance(70) ? 1 + below(5) : 1 + below(16);
    std::string chain{'\1', static_cast<char>(count), 0, 0, 0, 0, 0, 0};
    for (uint64_t i = 0; i < count; ++i) {
      const bool is_put = i + 2 <= count && chance(15);
      chain += is_put ? put() : operation(i == 0);
      i += is_put ? 1 : 0;
    }
    if (chance(2)) chain[below(chain.size())] ^= static_cast<char>(1U << below(8));
    if (chance(1)) chain.resize(below(chain.size()));
    if (chance(1)) chain += "12345678";
    return chain;
  }

  // What is made next is mostly about this region.
  void turn_to(size_t region) { region_ = region; }
  // A word that memory may hold: pointers of all kinds, slot words, tags.
  [[nodiscard]] uint64_t word() {
    switch (below(8)) {
      case 0:
        return below(4);
      case 1:
        return prng_.next();
      case 2:
        return SlotWord::of({aligned(below(3)) / 16 * 16}, prng_.next()).bits | prng_.next() << 56;
      default:
        return pointer(region_ >= 3 || chance(5) ? below(3) : region_);
    }
  }

 private:
  [[nodiscard]] uint64_t below(uint64_t bound) { return prng_.next() % bound; }
  [[nodiscard]] bool chance(uint64_t percent) { return below(100) < percent; }
  [[nodiscard]] uint64_t size_of(size_t region) const { return twins_.model.regions[region].bytes.size(); }

  [[nodiscard]] uint64_t aligned(size_t region) { return below(size_of(region) / 8) * 8; }
  [[nodiscard]] uint64_t offset(size_t region) {
    switch (below(50)) {
      case 0:
      case 1:
        return below(size_of(region));
      case 2:
        return size_of(region) - below(40);
      case 3:
        return size_of(region) + below(64);
      case 4:
        return chance(50) ? 0 : prng_.next() >> 16;
      default:
        return aligned(region);
    }
  }
  [[nodiscard]] uint64_t buffer(size_t region) {
    const auto& lists = twins_.model.regions[region].lists;
    const auto& out = twins_.model.regions[region].out;
    if (!out.empty() && chance(70)) return *std::next(out.begin(), static_cast<int>(below(out.size())));
    if (lists.empty()) return aligned(region);
    const ReferenceList& list = lists[below(lists.size())];
    return list.start + below(list.count) * list.buffer_bytes;
  }
  [[nodiscard]] uint64_t scratch() {
    return (uint64_t{0xffff} << 48) + (chance(90) ? below(9) * 8 : below(80));
  }
  [[nodiscard]] uint64_t pointer(size_t region) {
    if (chance(2)) return scratch();
    if (chance(1)) return (uint64_t{8} << 48) + below(256);
    return (uint64_t{twins_.model.regions[region].id} << 48) + (chance(40) ? buffer(region) : offset(region));
  }

  [[nodiscard]] uint16_t flags(uint8_t opcode, bool first) {
    const uint16_t known = opcode < kOpcodes ? known_flags(static_cast<Opcode>(opcode)) : uint16_t{0};
    auto flags = static_cast<uint16_t>(prng_.next() & prng_.next() & (chance(2) ? 0x3ff : known));
    if (chance(20)) flags |= known & Flag::kIndirect;
    if (chance(30)) flags |= known & Flag::kRetire;
    if (chance(30)) flags |= known & (Flag::kOwned | Flag::kRedirect);
    if (chance(3)) return flags;
    // Mostly what belongs together.
    if (first) flags &= static_cast<uint16_t>(~Flag::kConditional);
    if ((flags & Flag::kBounded) != 0) flags |= Flag::kIndirect;
    if ((flags & Flag::kBounded) != 0) flags &= static_cast<uint16_t>(~Flag::kSlotWord);
    if ((flags & Flag::kOwned) != 0) flags |= Flag::kRedirect;
    if ((flags & Flag::kSlotWord) != 0) flags |= known & Flag::kIndirect;
    return flags;
  }

  [[nodiscard]] uint32_t bytes(uint8_t opcode, uint16_t flags) {
    if (opcode == 5) return chance(98) ? 8 : 4;
    if (opcode == 4) {
      static constexpr std::array<uint32_t, 8> kUsual = {8, 8, 8, 16, 24, 32, 4, 1};
      if ((flags & Flag::kRetire) != 0 && chance(95)) return kUsual[below(6)];
      return static_cast<uint32_t>(chance(70) ? kUsual[below(8)] : below(34));
    }
    if ((flags & Flag::kRedirect) != 0 && opcode == 1)
      return static_cast<uint32_t>(chance(80) ? 8 : below(66));
    if (opcode == 1 && chance(3)) return static_cast<uint32_t>(below(66'000));
    return static_cast<uint32_t>(chance(60) ? below(9) * 4 : below(70));
  }

  // What stands at the address, so that comparisons succeed now and then.
  [[nodiscard]] std::string there(const OperationHeader& header, uint64_t count) {
    std::string bytes;
    const uint64_t at = header.address & RemotePointer::kOffsetMask;
    const bool is_direct = region_ < 3 && (header.flags & Flag::kIndirect) == 0;
    for (uint64_t i = 0; i < count; ++i) {
      const bool is_inside = is_direct && at + i < size_of(region_);
      bytes.push_back(is_inside ? twins_.model.regions[region_].bytes[at + i] : '\0');
    }
    if (chance(10) && count > 0) bytes[below(count)] ^= 1;
    return bytes;
  }
  [[nodiscard]] std::string some_bytes(uint64_t count) {
    std::string bytes;
    while (bytes.size() < count) append(bytes, word());
    bytes.resize(count);
    return bytes;
  }
  static void append(std::string& target, uint64_t word) {
    target.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  static void pad(std::string& bytes) { bytes.resize(padded(bytes.size())); }

  [[nodiscard]] std::string operation(bool first);
  // An allocation and the swap that stores it, or nearly does.
  [[nodiscard]] std::string put();
  [[nodiscard]] std::string operands(const OperationHeader& header);

  Prng& prng_;
  const Twins& twins_;
  size_t peer_ = 0;
  size_t region_ = 0;
};

std::string ChainMaker::operands(const OperationHeader& header) {
  std::string part;
  const auto add = [&](bool is_indirect, const std::string& bytes) {
    std::string operand = bytes;
    if (is_indirect) operand.clear();
    if (is_indirect) append(operand, chance(60) ? scratch() : pointer(region_ < 3 ? region_ : below(3)));
    pad(operand);
    part += operand;
  };
  add((header.flags & Flag::kCompareIndirect) != 0,
      chance(70) ? there(header, header.bytes) : some_bytes(header.bytes));
  add((header.flags & Flag::kDataIndirect) != 0,
      chance(20) ? std::string(header.bytes, '\0') : some_bytes(header.bytes));
  if ((header.flags & Flag::kMasked) != 0) {
    for (int mask = 0; mask < 2; ++mask) add(false, std::string(header.bytes, chance(80) ? '\xff' : '\x0f'));
  }
  return part;
}

std::string ChainMaker::operation(bool first) {
  OperationHeader header{};
  header.opcode = static_cast<uint8_t>(chance(99) ? 1 + below(5) : below(8));
  header.flags = flags(header.opcode, first);
  header.bytes = bytes(header.opcode, header.flags);
  const auto& keys = twins_.peers[peer_].keys;
  const ReferenceKey& key = keys[chance(50) ? 0 : below(keys.size())];
  header.key = chance(96) ? key.key : below(80);
  region_ = chance(95) ? key.region - size_t{1} : below(3);
  header.address = region_ < 3 && !chance(10) ? pointer(region_) : scratch();
  if (header.opcode == 3) header.address = (uint64_t{key.region} << 48) + (chance(90) ? below(2) : below(5));
  const bool is_redirected = (header.flags & Flag::kRedirect) != 0;
  if (is_redirected) header.mode = static_cast<uint8_t>(chance(95) ? below(8) * 8 : below(70));
  if (header.opcode == 4) header.mode = static_cast<uint8_t>(chance(98) ? below(3) : below(5));
  if (header.opcode == 5) header.operand = chance(50) ? 1 : prng_.next();
  if (header.opcode == 2 && (header.flags & Flag::kDataIndirect) != 0) {
    header.operand = chance(50) ? scratch() : pointer(region_ < 3 ? region_ : below(3));
  }
  if (header.opcode == 3 && (header.flags & Flag::kSlotWord) != 0) header.operand = below(256) << 56;
  if (chance(1)) header.operand = prng_.next();
  std::string result(reinterpret_cast<const char*>(&header), sizeof(header));
  const bool has_data =
      header.opcode == 3 || (header.opcode == 2 && (header.flags & Flag::kDataIndirect) == 0);
  if (has_data) result += some_bytes(padded(header.bytes));
  if (header.opcode == 4) result += operands(header);
  return result;
}

std::string ChainMaker::put() {
  const ReferenceKey& key = twins_.peers[peer_].keys[below(2)];
  region_ = key.region - size_t{1};
  OperationHeader take{};
  take.opcode = static_cast<uint8_t>(Opcode::kAllocate);
  take.mode = static_cast<uint8_t>(below(8) * 8);
  take.flags = Flag::kRedirect | Flag::kOwned;
  take.bytes = 8;
  take.address = uint64_t{key.region} << 48;
  take.key = key.key;
  OperationHeader swap{};
  swap.opcode = static_cast<uint8_t>(Opcode::kCompareSwap);
  swap.mode = static_cast<uint8_t>(below(3));
  swap.flags =
      static_cast<uint16_t>(Flag::kDataIndirect | (chance(50) ? Flag::kMasked : 0) |
                            (chance(50) ? Flag::kRetire : 0) | (chance(80) ? Flag::kConditional : 0));
  swap.bytes = static_cast<uint32_t>(8 * (1 + below(4)));
  swap.address = (uint64_t{key.region} << 48) + aligned(region_);
  swap.key = key.key;
  std::string result(reinterpret_cast<const char*>(&take), sizeof(take));
  result += some_bytes(8);
  result.append(reinterpret_cast<const char*>(&swap), sizeof(swap));
  std::string inline_bytes = there(swap, swap.bytes);
  const uint64_t before = 8 * below(swap.bytes / 8);
  const uint64_t from = take.mode >= before ? take.mode - before : take.mode;
  append(inline_bytes, (uint64_t{0xffff} << 48) + from + (chance(5) ? 1 : 0));
  if ((swap.flags & Flag::kMasked) != 0) {
    inline_bytes += std::string(swap.bytes, '\xff');
    std::string mask(swap.bytes, '\xff');
    if (chance(30)) mask[below(mask.size())] = '\x7f';
    inline_bytes += mask;
  }
  return result + inline_bytes;
}

// What the executor gets of a plain chain.
[[nodiscard]] std::vector<std::byte> travelling(const std::string& plain, bool is_dense) {
  const auto bytes = std::as_bytes(std::span(plain));
  return is_dense ? testing::dense_of(bytes) : std::vector<std::byte>(bytes.begin(), bytes.end());
}

// A chain of one connection, on both sides.
struct UnderWay {
  UnderWay(Twins& twins, size_t peer, const std::string& plain, bool is_dense, size_t room_bytes)
      : message(plain),
        travels(travelling(message, is_dense)),
        room(room_bytes, std::byte{0x77}),
        model(twins.model, twins.peers[peer], message, room_bytes),
        real(twins.executor, twins.connections[peer]),
        begun(real.begin(travels, room)) {}

  void step() {
    model.step();
    EXPECT_TRUE(real.step());
  }
  // Whether both ended with the same reply.
  [[nodiscard]] bool end() {
    if (begun.code() != model.code()) return false;
    if (!begun) return true;
    const size_t bytes = real.end();
    return model.end() == std::string_view(reinterpret_cast<const char*>(room.data()), bytes);
  }

  std::string message;
  std::vector<std::byte> travels;
  std::vector<std::byte> room;
  Reference::Chain model;
  snic::Run real;
  Result<> begun;
};

[[nodiscard]] bool run_alone(Twins& twins, size_t peer, const std::string& message, bool is_dense,
                             size_t room_bytes) {
  std::vector<std::byte> room(room_bytes);
  Reference::Chain model(twins.model, twins.peers[peer], message, room_bytes);
  while (!model.done()) model.step();
  const Result<size_t> bytes =
      twins.executor.execute(twins.connections[peer], travelling(message, is_dense), room);
  if (bytes.code() != model.code()) return false;
  const std::string expected = model.end();
  return !bytes || expected == std::string_view(reinterpret_cast<const char*>(room.data()), *bytes);
}

[[nodiscard]] bool run_interleaved(Twins& twins, Prng& prng, ChainMaker& maker, const auto& room) {
  // The first one ends while the second is under way, or the other way round.
  std::array<std::optional<UnderWay>, 2> chains;
  for (size_t peer = 0; peer < 2; ++peer)
    chains[peer].emplace(twins, peer, maker.make(peer), peer == 0, room());
  bool same = true;
  while (chains[0] || chains[1]) {
    auto& chain = chains[prng.next() % 2];
    if (!chain) continue;
    const bool is_abandoned = prng.next() % 64 == 0;
    if (!chain->model.done() && !is_abandoned) {
      chain->step();
    } else {
      same = chain->end() && same;
      chain.reset();
    }
  }
  return same;
}

TEST(PrismRandomChains, executor_and_reference_agree_to_the_bit) {
  const char* wanted = std::getenv("REFRACT_PRISM_CHAINS");
  const uint64_t chains =
      wanted == nullptr ? refract::test::turns(200'000, 20'000) : std::strtoull(wanted, nullptr, 10);
  constexpr uint64_t kChainsOfASeed = 500;
  std::array<uint64_t, 32> codes{};
  uint64_t operations = 0;
  for (uint64_t seed = 1; seed <= chains / kChainsOfASeed; ++seed) {
    Prng prng(seed);
    Twins twins;
    ChainMaker maker(prng, twins);
    const auto room = [&prng]() -> size_t { return prng.next() % 8 == 0 ? prng.next() % 500 : 8192; };
    for (uint64_t i = 0; i < kChainsOfASeed; ++i) {
      for (size_t words = 0; words < 6; ++words) {
        const size_t region = prng.next() % 3;
        maker.turn_to(region);
        twins.set(region, prng.next() % (twins.model.regions[region].bytes.size() / 8) * 8, maker.word());
      }
      const size_t peer = prng.next() % 2;
      const bool same = i % 2 == 0 ? run_alone(twins, peer, maker.make(peer), i % 4 == 0, room())
                                   : run_interleaved(twins, prng, maker, room);
      ASSERT_TRUE(same) << "another reply, seed " << seed << ", chain " << i;
      const std::string difference = twins.difference();
      ASSERT_EQ(difference, "") << "seed " << seed << ", chain " << i;
    }
    operations += twins.executor.counts().all_operations();
    codes[0] += twins.executor.counts().failed_operations;
    codes[1] += twins.executor.counts().failed_comparisons;
    codes[2] += twins.executor.counts().cancelled_operations;
    codes[3] += twins.executor.counts().buffers_retired;
    codes[4] += twins.executor.counts().buffers_given_back;
    codes[5] += twins.executor.counts().malformed_chains;
  }
  // The chains are worth running: a good part succeeds, and everything else happens, too.
  EXPECT_GT(operations - codes[0] - codes[1], operations / 4);
  for (size_t i = 0; i < 6; ++i) EXPECT_GT(codes[i], chains / 1000) << i;
  RecordProperty("operations", static_cast<int>(operations));
}

}  // namespace
}  // namespace refract::prism::snic
