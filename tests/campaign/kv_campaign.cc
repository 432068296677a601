// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/kv_campaign.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "tests/campaign/chaos.h"
#include "tests/campaign/kv_server.h"
#include "tests/campaign/kv_worker.h"

#include "refract/base/units.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/sim/world.h"

namespace refract::campaign {
namespace {

bool crashes_often(const KvRun& run) {
  return run.crashes && run.seed % 4 == 0;
}

Keeper::Options keeper_options(const KvRun& run) {
  Prng prng(mix(run.seed ^ 0x6b65));
  Keeper::Options options{.seed = run.seed, .mutation = run.mutation, .eviction = run.eviction};
  // Some nodes are full most of the time, some have plenty.
  options.chunks = prng.chance(0.3) ? 8 + prng.below(8) : 30;
  options.chunks_max = options.chunks + prng.below(12);
  if (run.eviction != kv::EvictionPolicy::kNone) {
    options.chunks = 6 + prng.below(4);
    options.chunks_max = options.chunks + prng.below(3);
  }
  return options;
}

class Campaign {
 public:
  explicit Campaign(const KvRun& run)
      : run_(run),
        owned_world_(world_options(run.seed, crashes_often(run))),
        world_(*owned_world_),
        server_(world_.add_host("server")),
        keeper_(world_, server_, keeper_options(run)),
        stage_{.run = run_,
               .world = world_,
               .server = server_,
               .keeper = keeper_,
               .model = Model({.evicts = run.eviction != kv::EvictionPolicy::kNone}),
               .outcome = {}},
        chaos_(world_, {&server_}, judge_, clients_,
               {.crashes = run.crashes,
                .crashes_often = crashes_often(run),
                .pauses = run.pauses,
                .cuts = run.cuts}) {
    server_.on_restart([this](sim::Host&) { start_server(); });
    start_server();
    server_.allow_faults(run_.crashes);
    for (int i = 0; i < run_.clients; ++i) add_client(i);
  }

  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;
  // What lives in the hosts uses everything else here.
  ~Campaign() { owned_world_.reset(); }

  [[nodiscard]] KvOutcome run() {
    if (run_.crashes || run_.pauses || run_.cuts) chaos_.begin();
    const auto done = [this] { return stage_.workers_left == 0 || stage_.is_over(); };
    if (!world_.run_until(done)) stage_.complain("the workers never end");
    chaos_.calm();
    if (!stage_.is_over()) read_all();
    if (!stage_.is_over()) settle_accounts();
    if (!stage_.is_over()) die_once_more();
    stage_.outcome.judged = stage_.model.judged();
    stage_.outcome.crashes = server_.crash_count();
    if (server_.alive()) stage_.outcome.splits += process_->table().stats().splits;
    stage_.outcome.trace_hash = world_.trace_hash();
    return stage_.outcome;
  }

 private:
  void start_server() {
    process_ = &server_.emplace<ServerProcess>(server_, keeper_, stage_.outcome);
    if (!process_->damage().empty()) stage_.complain(process_->damage());
  }

  void add_client(int number) {
    sim::Host& host = world_.add_host(fmt::format("client{}", number));
    clients_.push_back(&host);
    static_cast<void>(host.emplace<fabric::Dispatcher>(host.domain(), host.shard()));
    for (const char* part : {"a", "b"}) {
      Worker& worker = host.emplace<Worker>(
          stage_, host,
          Worker::Options{.name = fmt::format("c{}{}", number, part),
                          .stall_chance = number == 0 ? run_.stall_chance : run_.stall_chance / 20,
                          .mutation = run_.mutation});
      ++stage_.workers_left;
      world_.spawn(host, worker.work());
    }
  }

  // Everybody is silent: what is read now is what was written last.
  void read_all() {
    static_cast<void>(judge_.emplace<fabric::Dispatcher>(judge_.domain(), judge_.shard()));
    Worker& worker = judge_.emplace<Worker>(stage_, judge_, Worker::Options{.name = "judge"});
    stage_.workers_left = 1;
    world_.spawn(judge_, worker.read_all());
    const auto done = [this] { return stage_.workers_left == 0 || stage_.is_over(); };
    if (!world_.run_until(done)) stage_.complain("the last reading never ends");
  }

  // No session, no view: all that is left in the heap are the table's entries.
  void settle_accounts() {
    if (!world_.run_until_idle()) return stage_.complain("the world never rests");
    if (const auto damage = process_->table().validate()) {
      stage_.complain(fmt::format("at the end: {} (at {})", damage->what, damage->at.value));
    }
    process_->heap().reclaim();
    const Heap::Stats& heap = process_->heap().stats();
    const kv::Table::Stats& table = process_->table().stats();
    if (heap.buffers_live != table.entries || heap.bytes_retired != 0) {
      stage_.complain(fmt::format("at the end the heap has {} buffers and {} retired bytes for {} entries",
                                  heap.buffers_live, heap.bytes_retired, table.entries));
    }
  }

  // What a recovery finds is what was there: nothing is lost, nothing was leaked.
  void die_once_more() {
    const Heap::Stats heap = process_->heap().stats();
    const kv::Table::Stats table = process_->table().stats();
    world_.crash(server_);
    world_.restart(server_);
    if (stage_.is_over()) return;
    const Heap::Stats& heap_after = process_->heap().stats();
    if (process_->table().stats().entries != table.entries || heap_after.bytes_live != heap.bytes_live ||
        process_->table().stats().overflow_lines != table.overflow_lines) {
      stage_.complain(fmt::format("{} entries and {} bytes became {} and {} in the last recovery",
                                  table.entries, heap.bytes_live, process_->table().stats().entries,
                                  heap_after.bytes_live));
    }
  }

  const KvRun run_;
  std::optional<sim::World> owned_world_;
  sim::World& world_;
  sim::Host& server_;
  sim::Host& judge_ = world_.add_host("judge");
  Keeper keeper_;
  Stage stage_;
  ServerProcess* process_ = nullptr;
  std::vector<sim::Host*> clients_;
  Chaos chaos_;
};

}  // namespace

void KvOutcome::add(const KvOutcome& other) {
  judged += other.judged;
  direct += other.direct;
  stalled += other.stalled;
  overtaken += other.overtaken;
  views += other.views;
  views_over_crash += other.views_over_crash;
  listed += other.listed;
  splits += other.splits;
  shared += other.shared;
  batches += other.batches;
  batches_refused += other.batches_refused;
  batches_unknown += other.batches_unknown;
  lines_linked += other.lines_linked;
  lines_unlinked += other.lines_unlinked;
  crowded += other.crowded;
  crashes += other.crashes;
  reconnects += other.reconnects;
  regions += other.regions;
  expired += other.expired;
  evicted += other.evicted;
  spared += other.spared;
  no_space += other.no_space;
  unknown += other.unknown;
  pulled += other.pulled;
  unpulled += other.unpulled;
}

KvOutcome run_kv(const KvRun& run) {
  Campaign campaign(run);
  return campaign.run();
}

}  // namespace refract::campaign
