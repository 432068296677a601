// SPDX-License-Identifier: Apache-2.0
// Chains of many connections under way at once, interleaved operation by operation by a seed: what each
// operation's atomicity, and the rest that retired buffers get, must make true.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <vector>

#include "refract/base/prng.h"
#include "refract/prism/snic/run.h"
#include "refract/prism/snic/test_world.h"

namespace refract::prism::snic::interleaved_test {
namespace {

using test::Draft;
using test::kRegion;
using test::World;

constexpr std::byte kPoison{0xee};

// One connection and the chain that it has under way.
class Actor {
 public:
  Actor(World& world, uint64_t key) : world_(world), key_{key} {
    EXPECT_TRUE(connection_.add({.key = key_, .region = kRegion, .rights = {ChainRights::kAll}}).has_value());
  }
  virtual ~Actor() = default;
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  // One operation, or the beginning or the end of a chain. False: there is nothing left to do.
  bool turn() {
    if (run_ == nullptr) {
      draft_.chain.clear();
      if (!build(draft_.chain)) return false;
      run_ = std::make_unique<snic::Run>(world_.executor(), connection_);
      EXPECT_TRUE(run_->begin(*draft_.chain.finish(), room_).has_value());
    } else if (!run_->step()) {
      const size_t bytes = run_->end();
      run_.reset();
      const Result<Reply> reply = Reply::of(std::span(room_).first(bytes), draft_.chain.operations());
      EXPECT_TRUE(reply.has_value());
      take(*reply);
    }
    return true;
  }
  // As when its session ends in the middle.
  void abandon() { run_.reset(); }
  [[nodiscard]] bool is_under_way() const { return run_ != nullptr; }

 protected:
  // False: it has done all it wanted.
  [[nodiscard]] virtual bool build(Chain& chain) = 0;
  virtual void take(const Reply& reply) = 0;
  [[nodiscard]] RemoteKey key() const { return key_; }

 private:
  World& world_;
  RemoteKey key_;
  Connection connection_;
  Draft draft_;
  std::array<std::byte, 1024> room_{};
  std::unique_ptr<snic::Run> run_;
};

// Until all have done what they wanted.
void interleave(const std::vector<Actor*>& actors, Prng& prng, unsigned abandoned_per_mille = 0) {
  std::vector<Actor*> busy = actors;
  while (!busy.empty()) {
    const size_t place = prng.next() % busy.size();
    if (busy[place]->is_under_way() && prng.next() % 1000 < abandoned_per_mille) {
      busy[place]->abandon();
    } else if (!busy[place]->turn()) {
      busy.erase(busy.begin() + static_cast<ptrdiff_t>(place));
    }
  }
}

// Raises <counter, client> by a swap that demands a greater tag: the counter that it saw last plus one.
class Incrementer final : public Actor {
 public:
  Incrementer(World& world, uint64_t client, uint64_t wanted)
      : Actor(world, client), client_(client), left_(wanted) {}

  [[nodiscard]] bool build(Chain& chain) override {
    if (left_ == 0) return false;
    const std::array<uint64_t, 2> next = {seen_ + 1, client_};
    static constexpr std::array<uint64_t, 2> kCounterAlone = {~uint64_t{0}, 0};
    const Masks masks = {
        .compare = Operand::of(std::as_bytes(std::span(kCounterAlone))),
        .swap = Operand::of(std::as_bytes(std::span<const uint64_t>({~uint64_t{0}, ~uint64_t{0}})))};
    const Operand tag = Operand::of(std::as_bytes(std::span(next)));
    chain.read(World::at(8), key(), 8);
    chain.compare_swap({.address = World::at(16),
                        .key = key(),
                        .bytes = 16,
                        .comparison = Comparison::kGreater,
                        .compare = tag,
                        .swap = tag,
                        .masks = &masks});
    return true;
  }
  void take(const Reply& reply) override {
    seen_ = reply.word(1);
    if (reply.code(1) != Code::kOk) return;
    EXPECT_TRUE(replaced_->insert(seen_).second) << "two clients replaced the same counter";
    ++seen_;
    --left_;
  }
  void note_in(std::set<uint64_t>& replaced) { replaced_ = &replaced; }

 private:
  uint64_t client_;
  uint64_t left_;
  uint64_t seen_ = 0;
  std::set<uint64_t>* replaced_ = nullptr;
};

TEST(PrismInterleaved, increments_by_a_greater_tag_lose_no_update) {
  constexpr uint64_t kClients = 8;
  constexpr uint64_t kIncrements = 50;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    World world;
    Prng prng(seed);
    std::set<uint64_t> replaced;
    std::vector<std::unique_ptr<Incrementer>> clients;
    std::vector<Actor*> actors;
    for (uint64_t client = 1; client <= kClients; ++client) {
      clients.push_back(std::make_unique<Incrementer>(world, client, kIncrements));
      clients.back()->note_in(replaced);
      actors.push_back(clients.back().get());
    }
    interleave(actors, prng);
    ASSERT_EQ(world.word(16), kClients * kIncrements) << "seed " << seed;
    ASSERT_EQ(replaced.size(), kClients * kIncrements);
  }
}

// Puts a buffer of eight equal words into one of four slots, and has retired what it replaced.
class Writer final : public Actor {
 public:
  Writer(World& world, uint64_t key, Prng& prng, uint64_t puts)
      : Actor(world, key), prng_(prng), left_(puts) {}

  [[nodiscard]] bool build(Chain& chain) override {
    if (left_ == 0) return false;
    --left_;
    std::array<uint64_t, 8> value{};
    value.fill(prng_.next() | 1);
    slot_ = 8 * (1 + prng_.next() % 4);
    chain.allocate(World::at(0), key(), std::as_bytes(std::span(value))).redirect(0).owned();
    chain
        .compare_swap({.address = World::at(slot_),
                       .key = key(),
                       .compare = Operand::of(seen_[slot_ / 8]),
                       .swap = Operand::at(scratch(0))})
        .conditional()
        .retire();
    chain.read(World::at(slot_), key(), 8);
    return true;
  }
  void take(const Reply& reply) override {
    swaps += reply.code(1) == Code::kOk ? 1 : 0;
    failures += reply.code(1) == Code::kCompareFailed ? 1 : 0;
    empty_lists += reply.code(0) == Code::kNoSpace ? 1 : 0;
    seen_[slot_ / 8] = reply.word(2);
  }
  uint64_t swaps = 0;
  uint64_t failures = 0;
  uint64_t empty_lists = 0;

 private:
  Prng& prng_;
  uint64_t left_;
  uint64_t slot_ = 0;
  std::array<uint64_t, 5> seen_{};
};

enum class Hops : uint8_t { kOneOperation, kOneChain, kTwoChains };

// Reads by the pointer in a slot, and counts what is not a value that a writer wrote.
class Reader final : public Actor {
 public:
  Reader(World& world, uint64_t key, Prng& prng, Hops hops, const bool& is_over)
      : Actor(world, key), prng_(prng), hops_(hops), is_over_(is_over) {}

  [[nodiscard]] bool build(Chain& chain) override {
    if (is_over_) return false;
    const RemotePointer slot = World::at(8 * (1 + prng_.next() % 4));
    switch (hops_) {
      case Hops::kOneOperation:
        chain.read(slot, key(), 64).indirect();
        break;
      case Hops::kOneChain:
        chain.read(slot, key(), 8).redirect(8);
        chain.read(scratch(8), key(), 64).indirect();
        break;
      case Hops::kTwoChains:
        if (pointer_.offset() == 0) {
          chain.read(slot, key(), 8);
        } else {
          chain.read(pointer_, key(), 64);
        }
        break;
    }
    return true;
  }
  void take(const Reply& reply) override {
    const std::span<const std::byte> value = reply.bytes(reply.operations() - 1);
    const bool was_pointer = hops_ == Hops::kTwoChains && pointer_.offset() == 0;
    pointer_ = was_pointer ? reply.pointer(0) : RemotePointer{};
    if (was_pointer || value.empty()) return;
    ++reads;
    bool is_whole = true;
    for (size_t at = 8; at < value.size(); ++at) is_whole = is_whole && value[at] == value[at - 8];
    torn += is_whole ? 0 : 1;
    poisoned += value[0] == kPoison && value[1] == kPoison ? 1 : 0;
  }
  uint64_t reads = 0;
  uint64_t torn = 0;
  uint64_t poisoned = 0;

 private:
  Prng& prng_;
  Hops hops_;
  const bool& is_over_;
  RemotePointer pointer_;
};

struct Seen {
  uint64_t reads = 0;
  uint64_t torn = 0;
  uint64_t poisoned = 0;
  uint64_t swaps = 0;
  uint64_t failures = 0;
  uint64_t empty_lists = 0;
};

// Two writers and two readers; retired buffers are poisoned the moment they come back. Few buffers, so that
// each is used again soon.
[[nodiscard]] Seen read_while_others_write(Hops hops, uint64_t seed, unsigned abandoned_per_mille) {
  World world({.buffers = 8});
  world.lists().poison_with(kPoison);
  Prng prng(seed);
  bool is_over = false;
  Writer first(world, 1, prng, 200);
  Writer second(world, 2, prng, 200);
  Reader one(world, 3, prng, hops, is_over);
  Reader other(world, 4, prng, hops, is_over);
  std::vector<Actor*> all = {&first, &second, &one, &other};
  // The readers continue as long as there is a writer.
  std::vector<Actor*> writers = {&first, &second};
  while (!writers.empty()) {
    const size_t place = prng.next() % all.size();
    Actor* actor = all[place];
    if (actor->is_under_way() && prng.next() % 1000 < abandoned_per_mille) {
      actor->abandon();
    } else if (!actor->turn()) {
      std::erase(writers, actor);
    }
  }
  is_over = true;
  interleave(all, prng);
  // Every buffer that is out stands in a slot, and every other one is free.
  std::set<uint64_t> held;
  for (uint64_t slot = 8; slot <= 32; slot += 8) {
    if (world.word(slot) != 0) held.insert(world.word(slot));
  }
  EXPECT_EQ(world.free_buffers() + held.size(), 8u) << "seed " << seed;
  for (const uint64_t pointer : held) EXPECT_TRUE(world.lists().is_out(World::in_space({pointer})));
  EXPECT_EQ(world.executor().open_runs(), 0u);
  return {.reads = one.reads + other.reads,
          .torn = one.torn + other.torn,
          .poisoned = one.poisoned + other.poisoned,
          .swaps = first.swaps + second.swaps,
          .failures = first.failures + second.failures,
          .empty_lists = first.empty_lists + second.empty_lists};
}

[[nodiscard]] Seen over_seeds(Hops hops, unsigned abandoned_per_mille) {
  Seen all;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Seen seen = read_while_others_write(hops, seed, abandoned_per_mille);
    all.reads += seen.reads;
    all.torn += seen.torn;
    all.poisoned += seen.poisoned;
    all.swaps += seen.swaps;
    all.failures += seen.failures;
    all.empty_lists += seen.empty_lists;
  }
  return all;
}

TEST(PrismInterleaved, indirect_read_never_sees_a_reused_buffer) {
  const Seen seen = over_seeds(Hops::kOneOperation, 0);
  EXPECT_GT(seen.reads, 1'000u);
  EXPECT_GT(seen.swaps, 1'000u);
  EXPECT_EQ(seen.torn, 0u);
  EXPECT_EQ(seen.poisoned, 0u);
}

TEST(PrismInterleaved, chain_that_follows_a_pointer_in_two_steps_never_sees_a_reused_buffer) {
  const Seen seen = over_seeds(Hops::kOneChain, 0);
  EXPECT_GT(seen.reads, 1'000u);
  EXPECT_GT(seen.swaps, 1'000u);
  EXPECT_EQ(seen.torn, 0u);
  EXPECT_EQ(seen.poisoned, 0u);
}

// The protection ends with the chain, as the paper says. If this saw nothing, the tests above would see
// nothing.
TEST(PrismInterleaved, pointer_that_is_kept_from_one_chain_to_the_next_does_see_reused_buffers) {
  const Seen seen = over_seeds(Hops::kTwoChains, 0);
  EXPECT_GT(seen.poisoned, 0u);
}

TEST(PrismInterleaved, buffers_are_conserved_when_chains_fail_or_are_abandoned) {
  const Seen seen = over_seeds(Hops::kOneOperation, 100);
  EXPECT_GT(seen.failures, 100u);
  EXPECT_GT(seen.empty_lists, 0u);
  EXPECT_EQ(seen.torn, 0u);
  EXPECT_EQ(seen.poisoned, 0u);
}

}  // namespace
}  // namespace refract::prism::snic::interleaved_test
