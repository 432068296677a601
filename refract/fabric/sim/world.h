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
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/fabric/channel.h"
#include "refract/fabric/sim/visible_memory.h"
#include "refract/runtime/fault.h"
#include "refract/runtime/shard.h"

namespace refract::sim {

class Host;
class Network;
class SimChannel;
class SimDomain;
class World;

// The way between two hosts; all its times are drawn anew for every message.
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
  LinkOptions link;
  uint32_t depth = 64;
  uint32_t message_bytes_max = 64 * 1024;
  double short_post_chance = 0.02;      // That post takes less than it could.
  bool one_sided_needs_target = false;  // One-sided requests wait until the target's process runs.
  uint64_t poll_ns = 1'000;             // What a productive turn of a host takes, at most.
  uint64_t steps_max = 20'000'000;
  // Fault sites: the chance that one is on in this run, and that it then fires when a host with faults
  // reaches it.
  double fault_site_chance = 0.5;
  double fault_chance = 0.02;
};

enum class CrashMemory : uint8_t { kKeep, kLose };

// One simulated process on one machine. Its shard and domain are new after a restart; the Host stays.
class Host {
 public:
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] World& world() noexcept { return *world_; }
  [[nodiscard]] const Clock& clock() const noexcept { return clock_; }
  // REQUIRES: alive().
  [[nodiscard]] runtime::Shard& shard() noexcept { return *shard_; }
  [[nodiscard]] fabric::Domain& domain() noexcept;

  [[nodiscard]] bool alive() const noexcept { return shard_ != nullptr; }
  [[nodiscard]] bool paused() const noexcept { return paused_; }
  // Its task is in the middle of something that runs the world: a crash takes effect when that is over.
  [[nodiscard]] bool busy() const noexcept { return busy_; }
  [[nodiscard]] uint64_t crash_count() const noexcept { return crash_count_; }

  // The space this host's process stores to; not owned. What it says is noticed by nobody before the stores
  // that came before it. A crash cuts its log.
  void attach(VisibleMemory* memory) noexcept { memory_ = memory; }
  [[nodiscard]] VisibleMemory* memory() noexcept { return memory_; }

  // Makes an object that belongs to the process: destroyed, last first, when the host crashes or the world
  // ends.
  template <typename T, typename... Arguments>
  T& emplace(Arguments&&... arguments) {
    auto owned = std::make_unique<Owned<T>>(std::forward<Arguments>(arguments)...);
    T& value = owned->value;
    belongings_.push_back(std::move(owned));
    return value;
  }
  // Called by World::restart, to start the process's work anew.
  void on_restart(std::function<void(Host&)> start) { start_ = std::move(start); }

  // The wall clock is set forward or back, as by an administrator.
  void step_wall_clock_ns(int64_t by_ns) noexcept { clock_.offset_ns += static_cast<uint64_t>(by_ns); }
  // Each turn of this host takes up to `poll_ns`: a slow or overloaded machine.
  void slow_down(uint64_t poll_ns) noexcept { poll_ns_ = poll_ns; }
  // Fault sites reached by this host's tasks may fire; a crash site kills the host there.
  void allow_faults(bool allowed) noexcept { faults_ = allowed; }
  // Whether new channels to it are accepted.
  void listen(bool listening) noexcept { listening_ = listening; }

 private:
  friend class World;
  friend class Network;
  friend class SimChannel;
  friend class SimDomain;

  struct HostClock final : Clock {
    [[nodiscard]] uint64_t now_ns() const noexcept override { return world->now_ns(); }
    [[nodiscard]] uint64_t wall_ns() const noexcept override { return world->wall_ns() + offset_ns; }
    const ManualClock* world = nullptr;
    uint64_t offset_ns = 0;
  };
  struct Belonging {
    virtual ~Belonging() = default;
  };
  template <typename T>
  struct Owned final : Belonging {
    template <typename... Arguments>
    explicit Owned(Arguments&&... arguments) : value(std::forward<Arguments>(arguments)...) {}
    T value;
  };
  // Lets a blocking call on the shard (block_on) move the world.
  struct HostIdler final : runtime::Idler {
    [[nodiscard]] bool idle(uint64_t until_ns) noexcept override;
    World* world = nullptr;
    Host* host = nullptr;
  };

  Host(World* world, std::string name, size_t index);
  void boot();
  void end();
  [[nodiscard]] bool runnable() const noexcept {
    return alive() && !paused_ && !polling_ && !busy_ && !doomed_;
  }
  // The host gets a turn soon, though nothing arrives.
  void poll_again() noexcept;
  [[nodiscard]] uint64_t log_position() const noexcept {
    return memory_ == nullptr ? 0 : memory_->position();
  }
  void make_visible(uint64_t log_position) noexcept {
    if (memory_ != nullptr) memory_->make_visible(log_position);
  }

  World* world_;
  std::string name_;
  size_t index_;
  HostClock clock_;
  HostIdler idler_;
  std::unique_ptr<runtime::Shard> shard_;
  std::unique_ptr<SimDomain> domain_;
  std::vector<std::unique_ptr<Belonging>> belongings_;
  std::function<void(Host&)> start_;
  VisibleMemory* memory_ = nullptr;
  bool paused_ = false;
  bool busy_ = false;
  bool polling_ = false;
  bool doomed_ = false;  // Crashed, but its task has not returned yet; what it does now never happened.
  CrashMemory crash_memory_ = CrashMemory::kKeep;
  bool listening_ = true;
  bool faults_ = false;
  uint64_t poll_ns_;
  uint64_t next_poll_ns_ = 0;
  uint64_t sending_until_ns_ = 0;
  uint64_t crash_position_ = 0;
  uint64_t crash_count_ = 0;
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
  // kill -9, at a seeded moment among the host's last stores that nobody has noticed.
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
