// SPDX-License-Identifier: Apache-2.0
// A World is a number of hosts and the network between them in virtual time: one thread, one event queue, one
// seed. The same seed gives the same run, event by event, and trace_hash() proves it.
//
//   sim::World world({.seed = seed});
//   sim::Host& server = world.add_host("server");
//   sim::Host& client = world.add_host("client");
//   KvServer& kv = server.emplace<KvServer>(server.shard(), server.domain(), memory);
//   world.spawn(client, work(client, ...));           // A coroutine: a Task<>.
//   ASSERT_TRUE(world.run_until_idle());
//
// What is modelled, and how: docs/design/008-simulation.md. Functions that run the world may be called from a
// task (a reader that stalls does so): the host whose task it is counts as descheduled meanwhile, and is not
// polled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/fabric/sim/host.h"
#include "refract/fabric/sim/visible_memory.h"
#include "refract/runtime/fault.h"
#include "refract/runtime/shard.h"

namespace refract::sim {

class Network;

// The way between two hosts; all its times are drawn for each message.
struct LinkOptions {
  uint64_t delay_ns = 1'500;  // At least.
  uint64_t jitter_ns = 2'000;
  double tail_chance = 0.01;  // Of `tail_ns` on top, at most.
  uint64_t tail_ns = 300'000;
  uint64_t bytes_per_us = 10'000;  // 0: without limit.
  double torn_chance = 0.5;        // That a READ or WRITE meets the memory in 64-byte pieces, apart in time.
  uint64_t torn_ns = 20'000;       // Between its first and last piece, at most.
  uint64_t break_ns = 20'000'000;  // A channel over a cut link, or to a dead host, closes within this.
};

struct WorldOptions {
  uint64_t seed = 1;
  LinkOptions link = {};
  uint32_t depth = 64;
  uint32_t message_bytes_max = 64 * 1024;
  uint32_t one_sided_bytes_min = 0;     // What the channels say of themselves: nothing changes by it here.
  uint32_t shared_read_bytes_min = 0;   // Likewise.
  double short_post_chance = 0.02;      // That post takes less than it could.
  bool one_sided_needs_target = false;  // One-sided requests wait until the target's process runs.
  uint64_t poll_ns = 1'000;             // What a productive turn of a host takes, at most.
  uint64_t steps_max = 20'000'000;
  // Fault sites: the chance that one is on in this run, and that it then fires when a host with faults
  // reaches it.
  double fault_site_chance = 0.5;
  double fault_chance = 0.02;
};

class World final : private runtime::FaultListener {
 public:
  explicit World(const WorldOptions& options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() override;

  [[nodiscard]] uint64_t seed() const noexcept { return options_.seed; }
  [[nodiscard]] const WorldOptions& options() const noexcept { return options_; }
  [[nodiscard]] uint64_t now_ns() const noexcept { return clock_.now_ns(); }
  // For the test's own choices, so that they follow from the seed.
  [[nodiscard]] Prng& prng() noexcept { return prng_; }
  // Over all events and turns so far.
  [[nodiscard]] uint64_t trace_hash() const noexcept { return trace_hash_; }
  [[nodiscard]] uint64_t step_count() const noexcept { return steps_; }

  Host& add_host(std::string_view name);
  [[nodiscard]] Host* find_host(std::string_view name) noexcept;
  void spawn(Host& host, runtime::Task<> task);
  // Calls `what` after that time, outside any host: for chaos.
  void after(uint64_t ns, std::function<void()> what);

  // All return true when they reached their end, and false, with the seed on standard error, when steps_max
  // came first: then something never ends. At run_until_idle's end all stores are visible.
  [[nodiscard]] bool run_until_idle();
  [[nodiscard]] bool run_for(uint64_t ns);
  // False also if everything is idle before.
  [[nodiscard]] bool run_until(const std::function<bool()>& done);

  // The link between two hosts, to change it.
  [[nodiscard]] LinkOptions& link(const Host& a, const Host& b);
  // What is on the way waits, and channels break after a while; healed before that, nothing is lost.
  void cut(Host& a, Host& b);
  void heal(Host& a, Host& b);
  // SIGSTOP, SIGCONT. Its memory stays readable.
  void pause(Host& host) noexcept { host.paused_ = true; }
  void resume(Host& host);
  // kill -9, at a seeded moment among the host's last stores that no reader has noticed.
  void crash(Host& host, CrashMemory memory = CrashMemory::kKeep);
  void restart(Host& host);

  // A direct reader on `host` of another host's memory. Some loads are preceded by up to `stall_ns` in which
  // the host is descheduled and all others work: stores, frees, reuse, crashes.
  struct ReaderOptions {
    double stall_chance = 0.02;
    uint64_t stall_ns = 200'000;
  };
  [[nodiscard]] std::unique_ptr<SeededReader> make_reader(Host& host, VisibleMemory& memory,
                                                          const ReaderOptions& options);
  // The host is descheduled for that time: for its tasks' own use.
  void stall(Host& host, uint64_t ns);

 private:
  friend class Host;
  friend class Network;
  friend class SimDomain;

  bool decide(const runtime::FaultSite& site, Kind kind) noexcept override;
  // Does the next thing there is, none later than `until_ns`; false: there is none.
  bool step(uint64_t until_ns);
  size_t poll_hosts();
  size_t poll_host(Host& host);
  [[nodiscard]] uint64_t next_moment_ns() const noexcept;
  [[nodiscard]] bool out_of_steps() const;
  void doom(Host& host, uint64_t position, CrashMemory memory) noexcept;
  void finish_crash(Host& host);
  void trace(uint64_t a, uint64_t b) noexcept;

  WorldOptions options_;
  ManualClock clock_;
  Prng prng_;
  uint64_t trace_hash_ = 0;
  uint64_t steps_ = 0;
  unsigned stall_depth_ = 0;
  Host* current_ = nullptr;
  std::unique_ptr<Network> network_;
  std::deque<std::unique_ptr<Host>> hosts_;
};

}  // namespace refract::sim
