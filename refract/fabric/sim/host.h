// SPDX-License-Identifier: Apache-2.0
// A Host is one simulated process on one machine of a World: a shard, a share of the network, a clock, and
// perhaps a space that others read. World::add_host makes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/clock.h"
#include "refract/fabric/channel.h"
#include "refract/fabric/sim/machine.h"
#include "refract/fabric/sim/visible_memory.h"
#include "refract/runtime/shard.h"

namespace refract::sim {

class Network;
class SimChannel;
class SimDomain;
class World;

enum class CrashMemory : uint8_t { kKeep, kLose };

// Its shard and domain are new after a restart; the Host stays.
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

  // The space this host's process stores to; not owned. No peer notices what it says before the stores that
  // came before it. A crash cuts its log.
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
  // Called by World::restart, to start the process's work again.
  void on_restart(std::function<void(Host&)> start) { start_ = std::move(start); }
  // Called at the moment at which the host is killed, before anything of it ends: for what dies with it.
  void on_crash(std::function<void(Host&)> crashed) { crashed_ = std::move(crashed); }

  // The wall clock is set forward or back, as by an administrator.
  void step_wall_clock_ns(int64_t by_ns) noexcept { clock_.offset_ns += static_cast<uint64_t>(by_ns); }
  // Each turn of this host takes up to `poll_ns`: a slow or overloaded machine.
  void slow_down(uint64_t poll_ns) noexcept { poll_ns_ = poll_ns; }
  // Fault sites reached by this host's tasks may fire; a crash site kills the host there.
  void allow_faults(bool allowed) noexcept { faults_ = allowed; }
  // What its hardware takes from now on, for its life; it outlives crashes. Counts start from zero.
  void install(MachineOptions options) { machine_ = std::make_unique<Machine>(std::move(options)); }
  // Likewise, but with the port and the network card of another host, which has its own: both are one
  // machine, each with cores of its own. REQUIRES: that host stays as long as this one.
  void install_beside(Host& other, MachineOptions options) {
    machine_ = std::make_unique<Machine>(std::move(options), other.machine_.get());
  }
  // Null: none is installed.
  [[nodiscard]] const Machine* machine() const noexcept { return machine_.get(); }
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
  std::function<void(Host&)> crashed_;
  VisibleMemory* memory_ = nullptr;
  std::unique_ptr<Machine> machine_;
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

}  // namespace refract::sim
