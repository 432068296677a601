// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/rivals.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/campaign/chaos.h"
#include "tests/campaign/durable.h"
#include "tests/campaign/mutated_pulls.h"
#include "tests/campaign/mutated_reads.h"
#include "tests/campaign/repeated_sends.h"
#include "tests/campaign/rival.h"

#include "refract/base/testing/linearizability/checker.h"
#include "refract/base/testing/linearizability/picture.h"
#include "refract/base/units.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/calls/lender.h"

namespace refract::campaign {
namespace {

bool crashes_often(const RivalRun& run) {
  return run.seed % 3 == 0;
}

// Two in two of seven runs, so that they meet every other kind of run.
uint32_t shard_count(const RivalRun& run) {
  return run.seed % 7 < 2 ? 2 : 1;
}

Keeper::Options keeper_options(const RivalRun& run, size_t life) {
  // What comes back from a log is the same node again.
  const bool is_durable = run.durability != Durability::kNone;
  const uint64_t age = is_durable ? 0 : life;
  Prng prng(mix(run.seed ^ mix(age)));
  Keeper::Options options{.seed = mix(run.seed + age), .mutation = run.mutation};
  // Some nodes are full most of the time, some have plenty.
  options.chunks = prng.chance(0.2) ? 9 + prng.below(8) : 30;
  // It is made again so often that it should be small.
  if (is_durable) options.chunks = std::min<uint64_t>(options.chunks, 14);
  options.chunks_max = options.chunks + prng.below(12);
  // A memory that is filled in another order needs a little more.
  if (is_durable && life > 0) options.chunks_max += 6;
  if (run.evicts) {
    options.chunks = 5 + prng.below(3);
    options.chunks_max = options.chunks;
    options.eviction =
        run.seed % 2 == 0 ? kv::EvictionPolicy::kLeastRecentlyUsed : kv::EvictionPolicy::kLeastOftenUsed;
  }
  options.short_stamps = run.seed % 8 == 1;
  options.shard_count = shard_count(run);
  return options;
}

class Campaign {
 public:
  explicit Campaign(const RivalRun& run)
      : run_(run),
        owned_world_(world_options(run.seed, crashes_often(run))),
        world_(*owned_world_),
        shards_(add_shards()),
        stage_{.run = run_,
               .world = world_,
               .nodes = {},
               .recorder = {},
               .outcome = {},
               .logs = {},
               .taken_back = {},
               .refused_by_reading = {}},
        chaos_(world_, shards_, judge_, clients_, chaos_options()) {
    if (run_.seed % 2 == 0) stage_.keys = 150;
    if (stage_.is_durable()) make_logs();
    make_node();
    for (size_t index = 0; index < shards_.size(); ++index) {
      shards_[index]->on_restart([this, index](sim::Host&) { start_server(index); });
      start_server(index);
      shards_[index]->allow_faults(true);
    }
    for (int i = 0; i < run_.clients; ++i) add_client(i);
  }

  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;
  // What lives in the hosts uses everything else here.
  ~Campaign() { owned_world_.reset(); }

  [[nodiscard]] RivalOutcome run() {
    chaos_.begin();
    const auto done = [this] { return stage_.rivals_left == 0 || stage_.is_over(); };
    if (!world_.run_until(done)) stage_.complain("the rivals never end");
    chaos_.calm();
    if (!stage_.is_over()) read_all();
    RivalOutcome& outcome = stage_.outcome;
    for (const sim::Host* shard : shards_) outcome.crashes += shard->crash_count();
    for (const ModelLog& log : stage_.logs) outcome.log.add(log.counts());
    outcome.sharded = shards_.size() > 1 ? 1 : 0;
    outcome.lives = stage_.life();
    for (const sim::Host* client : clients_) outcome.deaths += client->crash_count();
    outcome.operations = stage_.recorder.history().operations.size();
    judge();
    outcome.trace_hash = world_.trace_hash();
    return outcome;
  }

 private:
  [[nodiscard]] Chaos::Options chaos_options() {
    Chaos::Options options{.crashes_often = crashes_often(run_)};
    if (stage_.has_wild_clocks()) options.wall_error_ns = 5 * 3600 * kSecond_ns;
    if (run_.seed % 4 == 2) options.death_chance = 0.5;
    if (run_.seed % 5 == 0) {
      options.rebirth_chance = 0.3;
      options.rebirth = [this] { make_node(); };
    }
    if (run_.durability != Durability::kNone) {
      options.crashes_often = run_.seed % 2 == 0;
      options.rebirth_chance = 0.4;
      options.rebirth = [this] { lose_host(); };
    }
    return options;
  }

  void make_logs() {
    for (sim::Host* shard : shards_) {
      stage_.logs.emplace_back(
          world_, *shard,
          ModelLog::Options{.durability = run_.durability,
                            .mutation = run_.mutation,
                            .moment = [this] { return stage_.recorder.moment(); },
                            .complain = [this](const std::string& wrong) { stage_.complain(wrong); }});
    }
  }

  // The machine is gone with all its memory; what the disk has comes back.
  void lose_host() {
    stage_.reborn = stage_.recorder.moment();
    for (ModelLog& log : stage_.logs) {
      for (ModelLog::Lost& lost : log.host_crashed()) {
        stage_.taken_back.push_back({.lost = std::move(lost), .crashed = stage_.reborn});
      }
    }
    make_node();
  }

  [[nodiscard]] std::vector<sim::Host*> add_shards() {
    std::vector<sim::Host*> shards;
    shards.reserve(shard_count(run_));
    for (uint32_t index = 0; index < shard_count(run_); ++index) {
      shards.push_back(&world_.add_host(RivalStage::shard_name(index)));
    }
    return shards;
  }

  // Keepers with empty memories, in the place of those before, whose memories stay for clients that have
  // mapped them.
  void make_node() {
    Keeper::Options options = keeper_options(run_, stage_.life());
    RivalStage::Node& node = stage_.nodes.emplace_back();
    node.hash_seed = Keeper::hash_seed(options);
    options.evictions = &evictions_;
    for (sim::Host* shard : shards_) {
      options.log = stage_.is_durable() ? &stage_.logs[options.shard_index] : nullptr;
      node.shards.emplace_back(world_, *shard, options);
      ++options.shard_index;
    }
  }

  void start_server(size_t index) {
    Keeper& keeper = stage_.nodes.back().shards[index];
    if (run_.mutation == Mutation::kStampsAnew) keeper.forget_stamps();
    sim::Host& host = *shards_[index];
    const ServerProcess& process = host.emplace<ServerProcess>(host, keeper, tally_);
    if (!process.damage().empty()) stage_.complain(process.damage());
  }

  void add_client(int number) {
    sim::Host& host = world_.add_host(fmt::format("client{}", number));
    clients_.push_back(&host);
    fabric::Domain* domain = &host.domain();
    if (run_.mutation == Mutation::kNoSlotLook) {
      domain = &host.emplace<MutatedReads>(*domain, run_.mutation);
    }
    if (stage_.sends_twice()) {
      domain = &host.emplace<RepeatedSends>(*domain, mix(run_.seed + static_cast<uint64_t>(number)),
                                            stage_.outcome.sent_twice);
    }
    if (run_.mutation == Mutation::kKeepLoans) domain = &host.emplace<KeptLoans>(*domain);
    static_cast<void>(host.emplace<fabric::Dispatcher>(*domain, host.shard()));
    // All values are copied: where they lie by themselves is another place in each run.
    auto& lender = host.emplace<kv::Lender>(*domain);
    for (const char* part : {"a", "b"}) {
      Rival& rival = host.emplace<Rival>(stage_, host,
                                         Rival::Options{.name = fmt::format("c{}{}", number, part),
                                                        .domain = domain,
                                                        .lender = &lender,
                                                        .stall_chance = number == 0 ? 0.01 : 0.001});
      ++stage_.rivals_left;
      world_.spawn(host, rival.work());
    }
  }

  // Everybody is silent: what is read now is what was written last.
  void read_all() {
    static_cast<void>(judge_.emplace<fabric::Dispatcher>(judge_.domain(), judge_.shard()));
    Rival& rival =
        judge_.emplace<Rival>(stage_, judge_, Rival::Options{.name = "judge", .domain = &judge_.domain()});
    stage_.rivals_left = 1;
    world_.spawn(judge_, rival.read_all());
    const auto done = [this] { return stage_.rivals_left == 0 || stage_.is_over(); };
    if (!world_.run_until(done)) stage_.complain("the last reading never ends");
  }

  void judge() {
    // What was given is never given again, whatever was lost.
    std::optional<linearizability::Violation> version_violation;
    if (stage_.is_durable()) {
      version_violation = linearizability::check_versions(stage_.recorder.history(), keys_of(1, 0));
      stage_.outcome.forgotten = forget_what_was_taken_back(stage_);
    }
    const linearizability::History& history = stage_.recorder.history();
    const linearizability::Judgement judgement = linearizability::check(history);
    stage_.outcome.undecided = judgement.undecided.size();
    stage_.outcome.steps = judgement.steps;
    stage_.outcome.excluded_max = judgement.excluded_max;
    std::optional<linearizability::Violation> violation = judgement.violation;
    if (!violation) violation = version_violation;
    for (size_t life = 1; life <= stage_.life() && !violation; ++life) {
      for (uint32_t shard = 0; shard < shards_.size() && !violation; ++shard) {
        violation = linearizability::check_versions(history, keys_of(life, shard));
      }
    }
    if (!violation) return;
    stage_.complain(violation->sentence);
    stage_.outcome.picture = draw_text(history, *violation);
    stage_.outcome.svg = draw_svg(history, *violation);
  }

  // Whose versions are comparable.
  [[nodiscard]] std::vector<bool> keys_of(size_t life, uint32_t shard) const {
    const std::string prefix = stage_.name_of(life, "");
    std::vector<bool> is_one;
    for (const std::string& key : stage_.recorder.history().keys) {
      is_one.push_back(key.starts_with(prefix) && stage_.shard_of(life, key.substr(prefix.size())) == shard);
    }
    return is_one;
  }

  // Of the life that is now: a server belongs to it.
  [[nodiscard]] size_t begin_eviction(const std::string& key, uint64_t version) {
    linearizability::Recorder& recorder = stage_.recorder;
    const size_t record = recorder.begin({.client = recorder.client(RivalStage::kEvictor),
                                          .key = recorder.key(stage_.name_of(stage_.life(), key)),
                                          .kind = linearizability::Kind::kErase,
                                          .if_version = version},
                                         stage_.now_ns());
    // The log was told right before.
    if (stage_.is_durable()) --recorder.operation(record).began;
    ++stage_.outcome.evicted;
    return record;
  }
  void end_eviction(size_t record) {
    linearizability::Recorder& recorder = stage_.recorder;
    recorder.end(record, {.outcome = linearizability::Outcome::kDone,
                          .version = recorder.operation(record).if_version,
                          .now_ns = stage_.now_ns()});
  }

  const RivalRun run_;
  const EvictionNotes evictions_{
      .begin = [this](const std::string& key, uint64_t version) { return begin_eviction(key, version); },
      .end = [this](size_t record) { end_eviction(record); }};
  std::optional<sim::World> owned_world_;
  sim::World& world_;
  std::vector<sim::Host*> shards_;
  sim::Host& judge_ = world_.add_host("judge");
  RivalStage stage_;
  KvOutcome tally_;
  std::vector<sim::Host*> clients_;
  Chaos chaos_;

 public:
  [[nodiscard]] const KvOutcome& tally() const noexcept { return tally_; }
  // Ends all processes, so that the tally is complete.
  void end() { owned_world_.reset(); }
};

}  // namespace

void RivalOutcome::add(const RivalOutcome& other) {
  operations += other.operations;
  direct += other.direct;
  stalled += other.stalled;
  overtaken += other.overtaken;
  unknown += other.unknown;
  repeated += other.repeated;
  repeated_answered += other.repeated_answered;
  mismatches += other.mismatches;
  expiring += other.expiring;
  pulled += other.pulled;
  unpulled += other.unpulled;
  large += other.large;
  listed += other.listed;
  splits += other.splits;
  regions += other.regions;
  crashes += other.crashes;
  lives += other.lives;
  sharded += other.sharded;
  deaths += other.deaths;
  reconnects += other.reconnects;
  no_space += other.no_space;
  evicted += other.evicted;
  sent_twice += other.sent_twice;
  excluded_max = std::max(excluded_max, other.excluded_max);
  chain_gets += other.chain_gets;
  chain_puts += other.chain_puts;
  batches += other.batches;
  chain_conflicts += other.chain_conflicts;
  remote_gets += other.remote_gets;
  remote_calls += other.remote_calls;
  remote_retries += other.remote_retries;
  remote_hits += other.remote_hits;
  remote_stale += other.remote_stale;
  remote_expiring += other.remote_expiring;
  log.add(other.log);
  forgotten += other.forgotten;
  read_only += other.read_only;
  undecided += other.undecided;
  steps += other.steps;
}

RivalOutcome run_rivals(const RivalRun& run) {
  Campaign campaign(run);
  RivalOutcome outcome = campaign.run();
  campaign.end();
  outcome.splits = campaign.tally().splits;
  outcome.regions = campaign.tally().regions;
  outcome.pulled = campaign.tally().pulled;
  outcome.unpulled = campaign.tally().unpulled;
  return outcome;
}

}  // namespace refract::campaign
