// SPDX-License-Identifier: Apache-2.0
// The simulator's own trial: a tiny store with one key, whose server stores and whose clients read directly.
// The right protocol must pass under stalls, late stores, crashes and refusals; each wrong one must be
// caught, or the model has no teeth.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "refract/fabric/sim/test_port.h"
#include "refract/fabric/sim/world.h"

namespace refract::sim::protocol_test {
namespace {

using fabric::Channel;
using runtime::Task;

enum class Flaw : uint8_t {
  kNone,
  kReaderSkipsLastCheck,
  kPublishBeforeCopy,
  kReplyBeforePublish,
};

constexpr uint64_t kBytes = 4096;
constexpr Offset kSlot{8};
constexpr uint64_t kValueWords = 24;

constexpr uint64_t buffer_of(uint64_t version) {
  return 64 + version % 3 * 512;
}

// Values are versions; a put of version v is acknowledged by the word v, and refused by the word 0.
class Server {
 public:
  Server(Host& host, VisibleMemory& memory, Flaw flaw)
      : port_(host), writer_(memory.owner(), &memory), flaw_(flaw) {
    port_.on_word = [this](Channel& channel, uint64_t version) { put(channel, version); };
  }

 private:
  void put(Channel& channel, uint64_t version) {
    if (REFRACT_FAULT_FAILS("sim_test.put.refused")) {
      static_cast<void>(port_.send(channel, 0));
      return;
    }
    const uint64_t buffer = buffer_of(version);
    const std::vector<uint64_t> value(kValueWords, version);
    if (flaw_ == Flaw::kReplyBeforePublish) static_cast<void>(port_.send(channel, version));
    writer_.publish(Offset{buffer}, version);
    if (flaw_ == Flaw::kPublishBeforeCopy) publish(version, buffer);
    writer_.copy(Offset{buffer + 8}, std::as_bytes(std::span(value)));
    REFRACT_FAULT("sim_test.put.after_copy");
    if (flaw_ != Flaw::kPublishBeforeCopy) publish(version, buffer);
    REFRACT_FAULT("sim_test.put.before_reply");
    if (flaw_ != Flaw::kReplyBeforePublish) static_cast<void>(port_.send(channel, version));
  }

  void publish(uint64_t version, uint64_t buffer) { writer_.publish(kSlot, version << 32 | buffer); }

  TestPort port_;
  Writer writer_;
  Flaw flaw_;
};

constexpr uint64_t kRetry = ~uint64_t{0};
constexpr uint64_t kTorn = kRetry - 1;

uint64_t read_once(const ReaderMemory& memory, Flaw flaw) {
  const uint64_t slot = memory.observe(kSlot);
  if (slot == 0) return 0;
  const Offset buffer{slot & 0xffffffff};
  if (memory.observe(buffer) != slot >> 32) return kRetry;
  std::array<uint64_t, kValueWords> value;
  memory.copy(value.data(), buffer.plus(8), sizeof(value));
  if (flaw != Flaw::kReaderSkipsLastCheck && memory.observe(buffer) != slot >> 32) return kRetry;
  const bool whole = std::ranges::all_of(value, [&](uint64_t word) { return word == value[0]; });
  return whole ? value[0] : kTorn;
}

struct Outcome {
  uint64_t acknowledged = 0;
  uint64_t reads = 0;
  uint64_t violations = 0;        // Of readers.
  uint64_t crash_violations = 0;  // Of what crashes left.
  uint64_t refusals = 0;
};

constexpr uint64_t kVersions = 60;

// Puts version after version; each is repeated until it is acknowledged.
Task<> write_all(Host* host, TestPort* port, Outcome* outcome) {
  uint64_t version = 1;
  while (version <= kVersions) {
    if (port->open.empty()) {
      static_cast<void>(port->connect("server"));
      const size_t failed = port->failed_opens.size();
      while (port->open.empty() && port->failed_opens.size() == failed)
        co_await host->shard().sleep_for(10'000);
      continue;
    }
    port->words.clear();
    const size_t closed = port->closed.size();
    if (!port->send(*port->open[0], version)) {
      co_await host->shard().sleep_for(1'000);
      continue;
    }
    while (port->words.empty() && port->closed.size() == closed) co_await host->shard().sleep_for(1'000);
    if (port->words.empty()) continue;
    if (port->words[0] == 0) {
      ++outcome->refusals;
      continue;
    }
    outcome->acknowledged = port->words[0];
    ++version;
  }
}

Task<> read_all(World* world, Host* host, SeededReader* reader, Flaw flaw, Outcome* outcome) {
  uint64_t last = 0;
  while (outcome->acknowledged < kVersions) {
    const uint64_t least = std::max(outcome->acknowledged, last);
    const uint64_t value = read_once(reader->memory(), flaw);
    if (value != kRetry) {
      ++outcome->reads;
      if (value == kTorn || value < least) ++outcome->violations;
      if (value != kTorn) last = value;
    }
    co_await host->shard().sleep_for(world->prng().below(20'000));
  }
}

struct Trial {
  Flaw flaw = Flaw::kNone;
  bool crashes = false;
  bool pauses = false;
};

void schedule_chaos(World& world, Host& server, const Trial& trial, const Outcome* outcome) {
  world.after(world.prng().below(200'000), [&world, &server, trial, outcome] {
    if (outcome->acknowledged >= kVersions) {
      if (!server.alive()) world.restart(server);
      world.resume(server);
      return;
    }
    if (!server.alive()) {
      world.restart(server);
    } else if (trial.pauses && world.prng().chance(0.3)) {
      server.paused() ? world.resume(server) : world.pause(server);
    } else if (trial.crashes && world.prng().chance(0.1)) {
      world.crash(server);
    }
    schedule_chaos(world, server, trial, outcome);
  });
}

// What a crash left must parse: the slot names a buffer that was wholly stored before it, and nothing that
// was acknowledged is missing.
uint64_t count_violations_after_crash(const VisibleMemory& memory, const Outcome& outcome) {
  uint64_t slot = 0;
  std::memcpy(&slot, memory.owner() + kSlot.value, sizeof(slot));
  if (slot == 0) return outcome.acknowledged > 0 ? 1 : 0;
  std::array<uint64_t, kValueWords> value;
  std::memcpy(value.data(), memory.owner() + (slot & 0xffffffff) + 8, sizeof(value));
  const uint64_t version = slot >> 32;
  const bool whole = std::ranges::all_of(value, [version](uint64_t word) { return word == version; });
  return whole && version >= outcome.acknowledged ? 0 : 1;
}

Outcome run(uint64_t seed, const Trial& trial) {
  Outcome outcome;
  VisibleMemory memory({.bytes = kBytes, .seed = mix(seed)});
  World world({.seed = seed, .steps_max = 2'000'000});
  Host& server = world.add_host("server");
  Host& writer = world.add_host("writer");
  Host& reading = world.add_host("reader");
  server.attach(&memory);
  server.allow_faults(trial.crashes);
  const auto start = [&](Host& host) {
    if (trial.crashes) outcome.crash_violations += count_violations_after_crash(memory, outcome);
    static_cast<void>(host.emplace<Server>(host, memory, trial.flaw));
  };
  server.on_restart(start);
  start(server);
  TestPort& port = writer.emplace<TestPort>(writer);
  const auto reader = world.make_reader(reading, memory, {});
  world.spawn(writer, write_all(&writer, &port, &outcome));
  world.spawn(reading, read_all(&world, &reading, reader.get(), trial.flaw, &outcome));
  if (trial.crashes || trial.pauses) schedule_chaos(world, server, trial, &outcome);
  EXPECT_TRUE(world.run_until_idle()) << "seed " << seed;
  EXPECT_EQ(outcome.acknowledged, kVersions) << "seed " << seed;
  return outcome;
}

TEST(Protocol, the_right_one_passes_with_stalled_readers_and_late_stores) {
  uint64_t reads = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Outcome outcome = run(seed, {});
    ASSERT_EQ(outcome.violations, 0u) << "seed " << seed;
    reads += outcome.reads;
  }
  EXPECT_GT(reads, 1'000u);
}

TEST(Protocol, the_right_one_passes_crashes_pauses_and_refusals_and_each_fault_fires) {
  uint64_t refusals = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Outcome outcome = run(seed, {.crashes = true, .pauses = true});
    ASSERT_EQ(outcome.violations, 0u) << "seed " << seed;
    ASSERT_EQ(outcome.crash_violations, 0u) << "seed " << seed;
    refusals += outcome.refusals;
  }
  EXPECT_GT(refusals, 0u);
  std::set<std::string> fired;
  for (const runtime::FaultSite* site = runtime::FaultSite::first(); site != nullptr; site = site->next()) {
    if (!site->name().starts_with("sim_test.")) continue;  // Of what else is linked, nothing is called.
    EXPECT_GT(site->fired_count(), 0u) << site->name();
    EXPECT_GT(site->reached_count(), site->fired_count()) << site->name();
    fired.insert(std::string(site->name()));
  }
  EXPECT_EQ(fired, (std::set<std::string>{"sim_test.put.after_copy", "sim_test.put.before_reply",
                                          "sim_test.put.refused"}));
}

TEST(Protocol, runs_with_all_faults_replay_from_their_seed) {
  const Trial trial = {.crashes = true, .pauses = true};
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome one = run(seed, trial);
    const Outcome two = run(seed, trial);
    EXPECT_EQ(one.reads, two.reads);
    EXPECT_EQ(one.refusals, two.refusals);
  }
}

uint64_t violations_of(const Trial& trial) {
  uint64_t violations = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) violations += run(seed, trial).violations;
  return violations;
}

TEST(Protocol, a_reader_without_the_last_stamp_check_is_caught) {
  EXPECT_GT(violations_of({.flaw = Flaw::kReaderSkipsLastCheck}), 0u);
}

TEST(Protocol, a_slot_that_is_published_before_its_bytes_is_caught) {
  EXPECT_GT(violations_of({.flaw = Flaw::kPublishBeforeCopy}), 0u);
}

TEST(Protocol, a_slot_that_is_published_before_its_bytes_is_caught_by_what_a_crash_leaves) {
  uint64_t violations = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    violations += run(seed, {.flaw = Flaw::kPublishBeforeCopy, .crashes = true}).crash_violations;
  }
  EXPECT_GT(violations, 0u);
}

TEST(Protocol, a_message_that_overtakes_its_store_is_caught) {
  EXPECT_GT(violations_of({.flaw = Flaw::kReplyBeforePublish}), 0u);
}

}  // namespace
}  // namespace refract::sim::protocol_test
