// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/sim/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/hash.h"
#include "refract/fabric/sim/domain.h"
#include "refract/fabric/sim/network.h"

namespace refract::sim {
namespace {

constexpr unsigned kStallDepthMax = 3;  // Readers that are descheduled inside each other's stalls.
constexpr uint64_t kPollAgain_ns = 100;

// A failed check anywhere must name the seed; the hook takes no argument.
uint64_t running_seed = 0;

void print_seed() noexcept {
  fmt::print(stderr, "sim: seed {}\n", running_seed);
}

}  // namespace

Host::Host(World* world, std::string name, size_t index)
    : world_(world), name_(std::move(name)), index_(index), poll_ns_(world->options_.poll_ns) {
  clock_.world = &world->clock_;
  idler_.world = world;
  idler_.host = this;
}

Host::~Host() = default;

fabric::Domain& Host::domain() noexcept {
  return *domain_;
}

void Host::boot() {
  shard_ = std::make_unique<runtime::Shard>(clock_, runtime::ShardOptions{.idler = &idler_});
  domain_ = std::make_unique<SimDomain>(this, world_->network_.get());
  next_poll_ns_ = 0;
}

// What ends here may still call its shard and domain, but no peer is told of it.
void Host::end() {
  if (!alive()) return;
  domain_->silence();
  shard_->drop_tasks();
  while (!belongings_.empty()) belongings_.pop_back();
  domain_.reset();
  shard_.reset();
}

void Host::poll_again() noexcept {
  next_poll_ns_ = std::max(next_poll_ns_, world_->now_ns() + kPollAgain_ns);
}

bool Host::HostIdler::idle(uint64_t until_ns) noexcept {
  if (host->doomed_ || world->out_of_steps()) return false;
  const bool was_busy = std::exchange(host->busy_, true);
  bool moved = world->step(until_ns);
  host->busy_ = was_busy;
  if (!moved && until_ns != kForever_ns) {
    world->clock_.set_now_ns(std::max(until_ns, world->now_ns()));
    moved = true;
  }
  return moved;
}

World::World(const WorldOptions& options)
    : options_(options), prng_(options.seed), network_(std::make_unique<Network>(this)) {
  running_seed = options.seed;
  set_check_hook(print_seed);
  runtime::fault_listener = this;
}

World::~World() {
  for (const auto& host : hosts_) host->end();
  if (runtime::fault_listener == this) runtime::fault_listener = nullptr;
}

Host& World::add_host(std::string_view name) {
  REFRACT_CHECK(find_host(name) == nullptr);
  hosts_.push_back(std::unique_ptr<Host>(new Host(this, std::string(name), hosts_.size())));
  hosts_.back()->boot();
  return *hosts_.back();
}

Host* World::find_host(std::string_view name) noexcept {
  const auto found =
      std::ranges::find(hosts_, name, [](const auto& host) { return std::string_view(host->name_); });
  return found == hosts_.end() ? nullptr : found->get();
}

void World::trace(uint64_t a, uint64_t b) noexcept {
  trace_hash_ = mix(trace_hash_ ^ mix(now_ns() ^ mix(a)) ^ b);
}

void World::spawn(Host& host, runtime::Task<> task) {
  REFRACT_CHECK(host.alive());
  Host* const before = std::exchange(current_, &host);
  const bool was_polling = std::exchange(host.polling_, true);
  host.shard_->spawn(std::move(task));
  host.polling_ = was_polling;
  current_ = before;
  host.poll_again();
  if (host.doomed_ && !was_polling && !host.busy_) finish_crash(host);
}

void World::after(uint64_t ns, std::function<void()> what) {
  network_->call_after(ns, std::move(what));
}

size_t World::poll_host(Host& host) {
  Host* const before = std::exchange(current_, &host);
  host.polling_ = true;
  const size_t did = host.shard_->poll_once();
  host.polling_ = false;
  current_ = before;
  if (did > 0) {
    trace(1'000 + host.index_, did);
    host.next_poll_ns_ = now_ns() + (host.poll_ns_ == 0 ? 0 : 1 + prng_.below(host.poll_ns_));
  }
  if (host.doomed_) finish_crash(host);
  return did;
}

// By index: what runs here may add hosts.
size_t World::poll_hosts() {
  size_t did = 0;
  const size_t first = hosts_.empty() ? 0 : prng_.below(hosts_.size());
  for (size_t i = 0; i < hosts_.size(); ++i) {
    Host& host = *hosts_[(first + i) % hosts_.size()];
    if (host.doomed_ && !host.polling_ && !host.busy_) finish_crash(host);
    if (host.runnable() && host.next_poll_ns_ <= now_ns()) did += poll_host(host);
  }
  return did;
}

uint64_t World::next_moment_ns() const noexcept {
  uint64_t next = network_->next_event_ns();
  for (const auto& host : hosts_) {
    if (!host->runnable()) continue;
    if (host->next_poll_ns_ > now_ns()) next = std::min(next, host->next_poll_ns_);
    const uint64_t timer_ns = host->shard_->next_timer_ns();
    if (timer_ns != kForever_ns) next = std::min(next, std::max(timer_ns, host->next_poll_ns_));
  }
  return next;
}

bool World::step(uint64_t until_ns) {
  ++steps_;
  if (poll_hosts() > 0) return true;
  const uint64_t next = next_moment_ns();
  if (next == kForever_ns || next > until_ns) return false;
  if (next > now_ns()) clock_.set_now_ns(next);
  if (network_->next_event_ns() > now_ns()) return true;
  network_->run_event();
  for (const auto& host : hosts_) {
    if (host->memory_ != nullptr) host->memory_->advance_random(prng_);
  }
  return true;
}

bool World::out_of_steps() const {
  if (steps_ < options_.steps_max) return false;
  fmt::print(stderr, "sim: seed {}: no end after {} steps, at {} ns\n", options_.seed, steps_, now_ns());
  return true;
}

bool World::run_until_idle() {
  while (step(kForever_ns)) {
    if (out_of_steps()) return false;
  }
  for (const auto& host : hosts_) host->make_visible(UINT64_MAX);
  return true;
}

bool World::run_for(uint64_t ns) {
  const uint64_t until_ns = now_ns() + ns;
  while (step(until_ns)) {
    if (out_of_steps()) return false;
    // Each turn takes time; without it, hosts that never rest would hold the clock.
    if (now_ns() >= until_ns) return true;
  }
  clock_.set_now_ns(std::max(until_ns, now_ns()));
  return true;
}

bool World::run_until(const std::function<bool()>& done) {
  while (!done()) {
    if (out_of_steps()) return false;
    if (!step(kForever_ns)) return done();
  }
  return true;
}

LinkOptions& World::link(const Host& a, const Host& b) {
  return network_->link(a, b);
}

void World::cut(Host& a, Host& b) {
  network_->cut(a, b);
}

void World::heal(Host& a, Host& b) {
  network_->heal(a, b);
}

void World::resume(Host& host) {
  if (!std::exchange(host.paused_, false)) return;
  network_->resume(host);
}

void World::crash(Host& host, CrashMemory memory) {
  if (!host.alive() || host.doomed_) return;
  doom(host, host.memory_ == nullptr ? 0 : host.memory_->draw_crash_position(prng_), memory);
  if (!host.polling_ && !host.busy_) finish_crash(host);
}

void World::doom(Host& host, uint64_t position, CrashMemory memory) noexcept {
  host.doomed_ = true;
  host.crash_position_ = position;
  host.crash_memory_ = memory;
  host.domain_->silence();
  if (host.memory_ != nullptr) host.memory_->freeze(position);
  if (host.crashed_) host.crashed_(host);
}

void World::finish_crash(Host& host) {
  trace(2'000 + host.index_, host.crash_position_);
  network_->host_died(host, host.crash_position_);
  host.end();
  if (host.memory_ != nullptr) {
    host.memory_->crash(host.crash_position_);
    if (host.crash_memory_ == CrashMemory::kLose) host.memory_->wipe();
  }
  host.doomed_ = false;
  host.paused_ = false;
  ++host.crash_count_;
}

void World::restart(Host& host) {
  REFRACT_CHECK(!host.alive());
  host.boot();
  if (host.start_) host.start_(host);
}

std::unique_ptr<SeededReader> World::make_reader(Host& host, VisibleMemory& memory,
                                                 const ReaderOptions& options) {
  SeededReader::Options reader = {.seed = prng_.next(), .stall_chance = options.stall_chance, .stall = {}};
  reader.stall = [this, &host, ns = options.stall_ns] { stall(host, prng_.below(ns + 1)); };
  return std::make_unique<SeededReader>(memory, std::move(reader));
}

void World::stall(Host& host, uint64_t ns) {
  if (stall_depth_ == kStallDepthMax || steps_ >= options_.steps_max) return;
  ++stall_depth_;
  Host* const before = std::exchange(current_, nullptr);
  const bool was_busy = std::exchange(host.busy_, true);
  static_cast<void>(run_for(ns));
  // Stopped meanwhile, it continues when it is resumed.
  while (host.paused_ && !host.doomed_ && step(kForever_ns) && steps_ < options_.steps_max) {
  }
  host.busy_ = was_busy;
  current_ = before;
  --stall_depth_;
}

bool World::decide(const runtime::FaultSite& site, Kind kind) noexcept {
  if (current_ == nullptr || !current_->faults_ || current_->doomed_) return false;
  // Whether a site is on follows from its name, so that a new site elsewhere changes nothing here.
  Prng site_prng(hash_key(std::as_bytes(std::span(site.name())), options_.seed));
  if (!site_prng.chance(options_.fault_site_chance) || !prng_.chance(options_.fault_chance)) return false;
  trace(3'000 + current_->index_, static_cast<uint64_t>(kind));
  if (kind == Kind::kCrash) doom(*current_, current_->log_position(), CrashMemory::kKeep);
  return true;
}

}  // namespace refract::sim
