// SPDX-License-Identifier: Apache-2.0
#include "tests/objects/object_run.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "tests/campaign/chaos.h"
#include "tests/objects/holder.h"
#include "tests/objects/object_owner.h"
#include "tests/objects/object_worker.h"
#include "tests/objects/repeated_calls.h"

#include "refract/base/units.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/sim/world.h"

namespace refract::campaign {
namespace {

[[nodiscard]] bool crashes_often(const ObjectRun& run) {
  return run.crashes && run.seed % 4 == 0;
}

[[nodiscard]] sim::WorldOptions options_of(const ObjectRun& run) {
  sim::WorldOptions options = world_options(run.seed, crashes_often(run));
  options.one_sided_bytes_min = 1;  // Channels have windows.
  // Much happens while the bytes of an object travel.
  if (run.seed % 3 == 0) options.link.bytes_per_us = 50;
  return options;
}

// All loads see the memory as it is at this moment: nothing more becomes visible by them.
class OneMoment final : public sim::LoadSchedule {
 public:
  explicit OneMoment(const sim::VisibleMemory& memory) noexcept : memory_(memory) {}

  void before_load(Offset) noexcept override {}
  [[nodiscard]] uint64_t position() const noexcept override { return memory_.visible(); }

 private:
  const sim::VisibleMemory& memory_;
};

class Campaign {
 public:
  explicit Campaign(const ObjectRun& run)
      : run_(run),
        owned_world_(options_of(run)),
        world_(*owned_world_),
        owner_(world_.add_host("owner")),
        memory_(owner_, run_),
        stage_{.run = run_,
               .world = world_,
               .owner = owner_,
               .memory = memory_,
               .births = Births(run.evicts),
               .outcome = {}},
        chaos_(world_, {&owner_}, judge_, clients_,
               {.crashes = run.crashes, .crashes_often = crashes_often(run)}) {
    owner_.on_restart([this](sim::Host&) {
      stage_.births.crashed();
      start_owner();
    });
    start_owner();
    owner_.allow_faults(run_.crashes);
    for (int i = 0; i < run_.clients; ++i) add_client(i);
    memory_.at_looks([this] { look_on(); });
  }

  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;
  // What lives in the hosts uses everything else here.
  ~Campaign() { owned_world_.reset(); }

  [[nodiscard]] ObjectOutcome run() {
    chaos_.begin();
    const auto done = [this] { return stage_.workers_left == 0 || stage_.is_over(); };
    if (!world_.run_until(done)) stage_.complain("the workers never end");
    chaos_.calm();
    memory_.at_looks(nullptr);
    onlooker_.let_all_go();
    if (!stage_.is_over()) clear();
    if (!stage_.is_over()) settle_accounts();
    if (!stage_.is_over()) die_once_more();
    stage_.outcome.crashes = owner_.crash_count();
    stage_.outcome.trace_hash = world_.trace_hash();
    return stage_.outcome;
  }

 private:
  void start_owner() {
    process_ = &owner_.emplace<ObjectOwner>(owner_, memory_, stage_.outcome);
    if (!process_->damage().empty()) stage_.complain(process_->damage());
  }

  void add_client(int number) {
    sim::Host& host = world_.add_host(fmt::format("client{}", number));
    clients_.push_back(&host);
    // Two are far away: much happens between two of their messages.
    const bool is_far = number == 1 || number == 2;
    if (is_far) world_.link(owner_, host).delay_ns = 80'000;
    fabric::Domain* domain = &host.domain();
    if (number % 2 == 1) {
      domain = &host.emplace<RepeatedCalls>(*domain, mix(run_.seed + static_cast<uint64_t>(number)),
                                            stage_.outcome.repeated);
    }
    static_cast<void>(host.emplace<fabric::Dispatcher>(*domain, host.shard()));
    ObjectWorker& worker = host.emplace<ObjectWorker>(
        stage_, host, *domain,
        ObjectWorker::Options{.stall_chance = number == 0 ? 0.01 : 0.0005,
                              .operations = is_far ? run_.operations / 8 : run_.operations,
                              .is_far = is_far,
                              .lends = number != 3,
                              .is_doubled = number % 2 == 1});
    ++stage_.workers_left;
    world_.spawn(host, worker.work());
  }

  // A reader of another core meets the owner before and behind a look at pins.
  void look_on() {
    if (stage_.is_over()) return;
    onlooker_.let_one_go();
    if (!world_.prng().chance(0.3)) return;
    const std::string* const deleted = stage_.births.last_deleted();
    if (deleted == nullptr) return;
    const std::string id = world_.prng().chance(0.5) ? *deleted : any_id(world_.prng(), run_);
    if (!onlooker_.hold(id)) stage_.complain("a direct get gave up although nothing changes meanwhile");
  }

  // Everything is silent: what is found now is what was sealed last.
  void clear() {
    static_cast<void>(judge_.emplace<fabric::Dispatcher>(judge_.domain(), judge_.shard()));
    ObjectWorker& worker =
        judge_.emplace<ObjectWorker>(stage_, judge_, judge_.domain(), ObjectWorker::Options{});
    stage_.workers_left = 1;
    world_.spawn(judge_, worker.clear());
    const auto done = [this] { return stage_.workers_left == 0 || stage_.is_over(); };
    if (!world_.run_until(done)) stage_.complain("the last reading never ends");
  }

  // No session, no handle, no object: nothing is left, and nothing is counted.
  void settle_accounts() {
    // Creations wait for their creators so long.
    if (!world_.run_for(2 * object::ObjectService::kClaim_ns)) return stage_.complain("there is no rest");
    if (!world_.run_until_idle()) return stage_.complain("the world never rests");
    expect_nothing("at the end");
  }

  void expect_nothing(const char* when) {
    if (const std::string wrong = process_->contradiction(); !wrong.empty()) {
      return stage_.complain(fmt::format("{}: {}", when, wrong));
    }
    process_->heap().reclaim();
    const object::ObjectAccounts& accounts = process_->store().accounts();
    const Heap::Stats& heap = process_->heap().stats();
    if (accounts.used() != 0 || accounts.objects + accounts.creations + accounts.departed != 0 ||
        process_->table().stats().entries != 0 || heap.buffers_live > kSpareBuffers) {
      stage_.complain(
          fmt::format("{} there are {} bytes, {} objects, {} creations, {} departed ones, {} records "
                      "and {} buffers",
                      when, accounts.used(), accounts.objects, accounts.creations, accounts.departed,
                      process_->table().stats().entries, heap.buffers_live));
    }
  }

  void die_once_more() {
    world_.crash(owner_);
    world_.restart(owner_);
    if (!stage_.is_over()) expect_nothing("after the last recovery");
  }

  // What the owner keeps for records of departures.
  static constexpr uint64_t kSpareBuffers = 2;

  const ObjectRun run_;
  std::optional<sim::World> owned_world_;
  sim::World& world_;
  sim::Host& owner_;
  sim::Host& judge_ = world_.add_host("judge");
  ObjectMemory memory_;
  ObjectStage stage_;
  Holder onlooker_{stage_, judge_, std::make_unique<OneMoment>(memory_.visible())};
  ObjectOwner* process_ = nullptr;
  std::vector<sim::Host*> clients_;
  Chaos chaos_;
};

}  // namespace

void ObjectOutcome::add(const ObjectOutcome& other) {
  for (uint64_t ObjectOutcome::* const number : {&ObjectOutcome::found,
                                                 &ObjectOutcome::missing,
                                                 &ObjectOutcome::held,
                                                 &ObjectOutcome::held_over_crash,
                                                 &ObjectOutcome::held_over_delete,
                                                 &ObjectOutcome::fetched,
                                                 &ObjectOutcome::sealed,
                                                 &ObjectOutcome::pulled,
                                                 &ObjectOutcome::written,
                                                 &ObjectOutcome::sealed_over_crash,
                                                 &ObjectOutcome::put,
                                                 &ObjectOutcome::aborted,
                                                 &ObjectOutcome::left,
                                                 &ObjectOutcome::deleted,
                                                 &ObjectOutcome::evicted,
                                                 &ObjectOutcome::refused,
                                                 &ObjectOutcome::no_space,
                                                 &ObjectOutcome::unknown,
                                                 &ObjectOutcome::repeated,
                                                 &ObjectOutcome::crashes}) {
    this->*number += other.*number;
  }
}

std::string ObjectOutcome::text() const {
  return fmt::format(
      "found {} missing {} held {} over a crash {} over a delete {} fetched {} sealed {} pulled {} written "
      "{} "
      "over a crash {} put {} aborted {} left {} deleted {} evicted {} refused {} no space {} unknown {} "
      "repeated {} crashes {}",
      found, missing, held, held_over_crash, held_over_delete, fetched, sealed, pulled, written,
      sealed_over_crash, put, aborted, left, deleted, evicted, refused, no_space, unknown, repeated, crashes);
}

ObjectOutcome run_objects(const ObjectRun& run) {
  Campaign campaign(run);
  return campaign.run();
}

}  // namespace refract::campaign
