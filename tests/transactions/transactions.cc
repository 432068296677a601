// SPDX-License-Identifier: Apache-2.0
#include "tests/transactions/transactions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "tests/campaign/chaos.h"
#include "tests/campaign/kv_server.h"
#include "tests/campaign/repeated_sends.h"
#include "tests/transactions/losses.h"
#include "tests/transactions/one_process.h"
#include "tests/transactions/stage.h"
#include "tests/transactions/transactor.h"
#include "tests/transactions/wire_tap.h"
#include "tests/transactions/word_counter.h"

#include "refract/base/testing/serialisability/checker.h"
#include "refract/base/testing/serialisability/picture.h"
#include "refract/base/units.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/owner/parts/home_words.h"

namespace refract::campaign {
namespace {

constexpr double kKilledRecoveries = 0.15;
constexpr uint64_t kLivesOfFull = 3;  // Of a memory that is too small: each is larger.

bool crashes_often(const TransactionRun& run) {
  // What is found by a crash in one place alone.
  const bool is_rare = run.mutation == Mutation::kForgetLastRecord || run.mutation == Mutation::kForgetEarly;
  return run.seed % 3 == 0 || is_rare;
}

uint32_t shard_count(const TransactionRun& run) {
  return run.seed % 2 == 0 ? 2 : 3;
}

}  // namespace

// Each mutation's are those in which it can be seen.
Durability durability_of(const TransactionRun& run) {
  if (run.durability) return *run.durability;
  if (run.is_over_nodes) return Durability::kNone;
  switch (run.mutation) {
    case Mutation::kNone:
      return std::array{Durability::kNone, Durability::kEverySecond, Durability::kAlways}[mix(run.seed) % 3];
    case Mutation::kNoNeeds:
    case Mutation::kNoNeedsOfSettled:
    case Mutation::kCutAlone:
    case Mutation::kForgetLastRecord:
      return Durability::kEverySecond;
    case Mutation::kSettleUnconfirmed:
    case Mutation::kForgetEarly:
    case Mutation::kFillAlone:
    case Mutation::kAnswerUnconfirmed:
      return Durability::kAlways;
    default:
      return Durability::kNone;
  }
}

namespace {

// Of each home, so few that each is used again and again: with logs at once, so that what an earlier
// transaction has left there is met.
uint64_t words_of(const TransactionRun& run) {
  if (!run.has_few_words()) return kv::kDecisionWords;
  switch (durability_of(run)) {
    case Durability::kNone:
      return 112;
    case Durability::kEverySecond:
      return 3;
    case Durability::kAlways:
      return 1;
  }
  return 0;
}

class Campaign {
 public:
  explicit Campaign(const TransactionRun& run)
      : run_(run),
        owned_world_(world_options(run.seed, crashes_often(run))),
        world_(*owned_world_),
        shards_(add_shards()),
        process_(world_, shards_,
                 {.mutation = run.mutation,
                  .words = words_of(run),
                  .complain = [this](const std::string& wrong) { stage_.complain(wrong); }}),
        stage_{.run = run_, .world = world_, .process = process_, .recorder = {}, .outcome = {}, .names = {}},
        chaos_(world_, shards_, judge_, clients_, chaos_options()) {
    // Words are used again soon where there is a log, and a slow disk makes a run long.
    const bool is_slow = durability_of(run_) == Durability::kAlways && run_.mutation == Mutation::kNone;
    stage_.operations_left = run_.has_few_words() && !is_slow ? 3 * run_.operations : run_.operations;
    make_logs();
    make_memories();
    make_node();
    for (int i = 0; i < run_.clients; ++i) add_client(fmt::format("client{}", i), i == 0 ? 0.01 : 0.001);
    add_helper("janitor", &Transactor::demand);
    if (stage_.evicts() || stage_.grows()) add_helper("filler", &Transactor::fill_up);
    if (stage_.expires()) add_helper("watcher", &Transactor::watch);
  }
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;
  // What lives in the hosts uses everything else here.
  ~Campaign() { owned_world_.reset(); }

  [[nodiscard]] TransactionOutcome run() {
    chaos_.begin();
    bring_back_the_dead();
    run_until("the clients never end",
              [this] { return stage_.clients_at_work == 0 && stage_.operations_left == 0; });
    is_calm_ = true;
    chaos_.calm();
    run_until("the node never recovers", [this] { return is_up(); });
    if (!stage_.is_over()) read_all();
    if (!stage_.is_over()) settle_accounts();
    if (!stage_.is_over() && stage_.has_few_words()) count_words();
    if (!stage_.is_over()) die_once_more();
    for (const sim::Host* client : clients_) stage_.outcome.deaths += client->crash_count();
    stage_.outcome.crashes = shards_.front()->crash_count();
    stage_.outcome.transactions = stage_.recorder.history().transactions.size();
    if (node_logs_) {
      stage_.outcome.log = node_logs_->counts();
      stage_.outcome.settled_in_fills = node_logs_->settled_in_fills();
    }
    if (!stage_.is_over()) forget_what_was_taken_back(stage_);
    judge();
    stage_.outcome.trace_hash = world_.trace_hash();
    return stage_.outcome;
  }

 private:
  template <typename Done>
  void run_until(const char* otherwise, const Done& done) {
    if (stage_.is_over()) return;
    if (!world_.run_until([&] { return stage_.is_over() || done(); })) stage_.complain(otherwise);
  }

  [[nodiscard]] std::vector<sim::Host*> add_shards() {
    std::vector<sim::Host*> shards;
    for (uint32_t index = 0; index < shard_count(run_); ++index) {
      shards.push_back(&world_.add_host(TransactionStage::shard_name(index)));
    }
    return shards;
  }

  [[nodiscard]] Chaos::Options chaos_options() {
    Chaos::Options options{.crashes_often = crashes_often(run_)};
    if (stage_.expires()) options.wall_error_ns = 0;
    if (durability_of(run_) == Durability::kNone) return options;
    options.rebirth_chance = run_.has_few_words() ? 0.8 : 0.3;
    options.rebirth = [this] { lose_memory(); };
    return options;
  }

  // Most of all the second shard's, so that another home is far in front of it.
  [[nodiscard]] std::optional<size_t> slow_disk() {
    if (run_.has_few_words()) return 1;
    if (world_.prng().chance(0.5)) return std::nullopt;
    return world_.prng().below(shards_.size());
  }

  void make_logs() {
    const Durability durability = durability_of(run_);
    if (durability == Durability::kNone) return;
    node_logs_.emplace(
        world_, shards_,
        NodeLogs::Options{.durability = durability,
                          .mutation = run_.mutation,
                          .slow_disk = slow_disk(),
                          .complain = [this](const std::string& wrong) { stage_.complain(wrong); }});
    stage_.logs = &*node_logs_;
    process_.log_to(&*node_logs_);
  }

  // Of the host, or of all processes on it.
  void lose_memory() {
    if (stage_.evicts() && process_.life() == kLivesOfFull) return;
    const bool host_dies = world_.prng().chance(run_.has_few_words() ? 0.9 : 0.6);
    ++(host_dies ? stage_.outcome.host_deaths : stage_.outcome.filled);
    process_.lose_memory();
    make_memories();
    std::vector<Keeper*> keepers;
    for (uint32_t shard = 0; shard < shards_.size(); ++shard) keepers.push_back(&process_.keeper(shard));
    node_logs_->fill(keepers, host_dies, judge_.clock());
  }

  void make_memories() {
    Keeper::Options options{.seed = run_.seed, .chunks = 8, .chunks_max = 14, .mutation = run_.mutation};
    options.process = &process_;
    options.evictions = &evictions_;
    if (stage_.evicts()) {
      options.chunks = options.chunks_max = 4;
      options.eviction =
          run_.seed % 2 == 0 ? kv::EvictionPolicy::kLeastRecentlyUsed : kv::EvictionPolicy::kLeastOftenUsed;
    }
    // Filled in another order, other sizes take whole chunks.
    if (process_.life() > 1) {
      options.chunks_max = options.chunks += stage_.evicts() ? 8 * (process_.life() - 1) : 8;
    }
    options.shard_count = static_cast<uint32_t>(shards_.size());
    stage_.hash_seed = Keeper::hash_seed(options);
    for (sim::Host* const shard : shards_) {
      process_.add(keepers_.emplace_back(world_, *shard, options));
      ++options.shard_index;
    }
  }

  void make_node() {
    servers_.resize(shards_.size());
    for (size_t index = 0; index < shards_.size(); ++index) {
      shards_[index]->on_restart([this, index](sim::Host& host) {
        servers_[index] = nullptr;
        world_.spawn(host, start(index, world_.prng().below(30'000)));
      });
      shards_[index]->allow_faults(true);
      world_.spawn(*shards_[index], start(index, 0));
    }
  }

  // In a task, so that it may be killed while it recovers; and some are, behind any store of it.
  [[nodiscard]] runtime::Task<> start(size_t index, uint64_t after_ns) {
    sim::Host& host = *shards_[index];
    if (after_ns != 0) co_await host.shard().sleep_for(after_ns);
    ServerProcess& server =
        host.emplace<ServerProcess>(host, process_.keeper(static_cast<uint32_t>(index)), tally_);
    if (!server.damage().empty()) stage_.complain(server.damage());
    servers_[index] = &server;
    if (after_ns == 0 || is_calm_ || !world_.prng().chance(kKilledRecoveries)) co_return;
    ++stage_.outcome.recoveries_killed;
    world_.crash(host);
  }
  [[nodiscard]] bool is_up() const {
    const auto is_up = [](const sim::Host* shard) { return shard->alive(); };
    return std::ranges::all_of(shards_, is_up) && std::ranges::count(servers_, nullptr) == 0;
  }

  void add_client(const std::string& name, double stall_chance) {
    sim::Host& host = world_.add_host(name);
    clients_.push_back(&host);
    const auto begin = [this, stall_chance](sim::Host& its) {
      fabric::Domain& domain = domain_of(its);
      for (int i = 0; i < 2; ++i) {
        const int number = stage_.clients_made++;
        Transactor& one = its.emplace<Transactor>(stage_, its,
                                                  Transactor::Options{.name = fmt::format("c{}", number),
                                                                      .domain = &domain,
                                                                      .stall_chance = stall_chance,
                                                                      .maps_all = number % 3 != 2});
        world_.spawn(its, one.stay_connected());
        world_.spawn(its, one.work());
      }
    };
    host.on_restart(begin);
    begin(host);
  }

  void add_helper(const char* name, runtime::Task<> (Transactor::*work)()) {
    sim::Host& host = world_.add_host(name);
    static_cast<void>(host.emplace<fabric::Dispatcher>(host.domain(), host.shard()));
    Transactor& one =
        host.emplace<Transactor>(stage_, host, Transactor::Options{.name = name, .domain = &host.domain()});
    world_.spawn(host, one.stay_connected());
    world_.spawn(host, (one.*work)());
  }

  // Its dispatcher stands over it.
  [[nodiscard]] fabric::Domain& domain_of(sim::Host& host) {
    fabric::Domain* domain = &host.domain();
    if (stage_.sends_twice()) {
      domain = &host.emplace<RepeatedSends>(*domain, world_.prng().next(), stage_.outcome.sent_twice);
    }
    domain = &host.emplace<WireTap>(*domain, stage_, host);
    static_cast<void>(host.emplace<fabric::Dispatcher>(*domain, host.shard()));
    return *domain;
  }

  // An eviction is an erasure of the version that went, from its decision until all see it.
  [[nodiscard]] size_t begin_eviction(const std::string& key, uint64_t version) {
    ++stage_.outcome.evicted;
    if (key.starts_with(TransactionStage::kFill)) return SIZE_MAX;
    ++stage_.outcome.evicted_judged;
    serialisability::Recorder& recorder = stage_.recorder;
    const size_t record = recorder.begin(recorder.client(TransactionStage::kEvictor), stage_.now_ns());
    recorder.add(record, {.kind = serialisability::Kind::kErase,
                          .key = recorder.key(key),
                          .found = serialisability::Found::kPresent,
                          .found_version = version});
    return record;
  }
  void end_eviction(size_t record) {
    if (record == SIZE_MAX) return;
    stage_.recorder.end(
        record,
        {.outcome = serialisability::Outcome::kCommitted, .is_validated = false, .now_ns = stage_.now_ns()});
  }

  // Another client, at the same machine.
  void bring_back_the_dead() {
    world_.after(1 + world_.prng().below(400'000), [this] {
      if (is_calm_) return;
      for (sim::Host* const client : clients_) {
        if (!client->alive()) world_.restart(*client);
      }
      bring_back_the_dead();
    });
  }

  // Everybody is silent: what is read now is what was written last.
  void read_all() {
    static_cast<void>(judge_.emplace<fabric::Dispatcher>(judge_.domain(), judge_.shard()));
    Transactor& one = judge_.emplace<Transactor>(
        stage_, judge_, Transactor::Options{.name = "judge", .domain = &judge_.domain()});
    world_.spawn(judge_, one.stay_connected());
    world_.spawn(judge_, one.read_all());
    run_until("the last reading never ends", [this] { return stage_.clients_at_work == 0; });
  }

  // No session, no transaction: nothing is held, and all that is left in the heaps are the tables' entries.
  void settle_accounts() {
    if (!world_.run_until_idle()) return stage_.complain("the world never rests");
    if (process_.parts_counted() != 0) stage_.complain("at the end parts are counted of some words");
    for (size_t index = 0; index < shards_.size(); ++index) {
      ServerProcess& server = *servers_[index];
      if (server.parts().count() != 0) {
        stage_.complain(fmt::format("at the end shard {} has {} parts", index, server.parts().count()));
      }
      if (const auto damage = server.table().validate()) {
        stage_.complain(
            fmt::format("at the end of shard {}: {} (at {})", index, damage->what, damage->at.value));
      }
      server.heap().reclaim();
      const Heap::Stats& heap = server.heap().stats();
      const uint64_t entries = server.table().stats().entries;
      if (heap.buffers_live != entries || heap.bytes_retired != 0) {
        stage_.complain(fmt::format("at the end shard {} has {} buffers and {} retired bytes for {} entries",
                                    index, heap.buffers_live, heap.bytes_retired, entries));
      }
      stage_.outcome.overdue += server.transactions().counts().overdue;
      stage_.outcome.orphaned += server.transactions().counts().orphaned;
    }
  }

  // Those that were committed are kept for a minute; then all can be given.
  void count_words() {
    static_cast<void>(world_.run_for(kv::HomeWords::kKept_ns));
    WordCounter& counter = judge_.emplace<WordCounter>(stage_, judge_);
    for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
      world_.spawn(judge_, counter.count(shard));
      run_until("the words are never counted", [&] { return counter.is_done(); });
      if (counter.words() == words_of(run_)) continue;
      stage_.complain(
          fmt::format("at the end shard {} gives {} words of {}", shard, counter.words(), words_of(run_)));
    }
  }

  // What a recovery finds is what was there: nothing is lost, nothing was leaked.
  void die_once_more() {
    std::vector<uint64_t> entries;
    for (ServerProcess* const server : servers_) entries.push_back(server->table().stats().entries);
    for (sim::Host* const shard : shards_) shard->allow_faults(false);
    world_.crash(*shards_.front());
    for (sim::Host* const shard : shards_) world_.restart(*shard);
    if (!world_.run_until_idle() || !is_up()) return stage_.complain("the node never comes back");
    for (size_t index = 0; index < servers_.size(); ++index) {
      const uint64_t found = servers_[index]->table().stats().entries;
      const uint64_t buffers = servers_[index]->heap().stats().buffers_live;
      if (found == entries[index] && buffers == entries[index]) continue;
      stage_.complain(fmt::format("a last restart found {} entries and {} buffers in shard {} that had {}",
                                  found, buffers, index, entries[index]));
    }
  }

  void judge() {
    const serialisability::History& history = stage_.recorder.history();
    const serialisability::Judgement judgement = serialisability::check(history);
    if (judgement.is_good()) return;
    const serialisability::Anomaly& anomaly = *judgement.anomaly;
    stage_.complain(fmt::format("{}: {}", anomaly.name, anomaly.sentence));
    stage_.outcome.picture = draw_text(history, anomaly);
    stage_.outcome.svg = draw_svg(history, anomaly);
  }

  const TransactionRun run_;
  const EvictionNotes evictions_{
      .begin = [this](const std::string& key, uint64_t version) { return begin_eviction(key, version); },
      .end = [this](size_t record) { end_eviction(record); }};
  std::optional<sim::World> owned_world_;
  sim::World& world_;
  std::vector<sim::Host*> shards_;
  sim::Host& judge_ = world_.add_host("judge");
  KvOutcome tally_;
  OneProcess process_;
  std::optional<NodeLogs> node_logs_;
  std::deque<Keeper> keepers_;  // Of all lives.
  std::vector<ServerProcess*> servers_;
  TransactionStage stage_;
  std::vector<sim::Host*> clients_;
  bool is_calm_ = false;
  Chaos chaos_;

 public:
  [[nodiscard]] const KvOutcome& tally() const noexcept { return tally_; }
  // Ends all processes, so that the tally is complete.
  void end() { owned_world_.reset(); }
};

}  // namespace

void TransactionOutcome::add(const TransactionOutcome& other) {
  transactions += other.transactions;
  committed += other.committed;
  refused += other.refused;
  conflicts += other.conflicts;
  conditions += other.conditions;
  unknown += other.unknown;
  learned += other.learned;
  learned_with_rows += other.learned_with_rows;
  rows += other.rows;
  read_only += other.read_only;
  batches += other.batches;
  plain += other.plain;
  direct += other.direct;
  stalled += other.stalled;
  asked += other.asked;
  remote += other.remote;
  views += other.views;
  listed += other.listed;
  leases += other.leases;
  evicted += other.evicted;
  evicted_judged += other.evicted_judged;
  splits += other.splits;
  words_observed += other.words_observed;
  demands += other.demands;
  deaths += other.deaths;
  crashes += other.crashes;
  recoveries_killed += other.recoveries_killed;
  reopened += other.reopened;
  sent_twice += other.sent_twice;
  late_decisions += other.late_decisions;
  overdue += other.overdue;
  orphaned += other.orphaned;
  filled += other.filled;
  host_deaths += other.host_deaths;
  log.records += other.log.records;
  log.taken_back += other.log.taken_back;
  log.lost += other.log.lost;
  log.cut += other.log.cut;
  log.refused += other.log.refused;
  settled_in_fills += other.settled_in_fills;
  taken_back += other.taken_back;
  unjudged += other.unjudged;
}

TransactionOutcome run_transactions(const TransactionRun& run) {
  Campaign campaign(run);
  TransactionOutcome outcome = campaign.run();
  campaign.end();
  outcome.splits = campaign.tally().splits;
  return outcome;
}

}  // namespace refract::campaign
