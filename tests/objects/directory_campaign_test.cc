// SPDX-License-Identifier: Apache-2.0
// Nodes that share their objects, under everything that the simulator can do to them, seed after seed:
// servers killed, memories lost, links cut, hosts stopped, lists that change node by node. Puts, gets and
// deletes by way of all nodes are judged as those of one register for each id: of two puts of one id one
// succeeds, a get returns what was put and was not deleted, and says that there is none only if there is
// none. An object of which two copies were counted outlives the loss of any one memory.
//
// REFRACT_SEED=S replays one seed, REFRACT_SEEDS=N has as many as wanted. Rules that are broken on purpose
// are the model's matter (tests/models).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/objects/kept_copies.h"

#include "refract/base/testing/linearizability/checker.h"
#include "refract/base/testing/linearizability/history.h"
#include "refract/base/testing/linearizability/picture.h"
#include "refract/object/testing/rank_bodies.h"
#include "refract/object/testing/test_cluster.h"

namespace refract::campaign {
namespace {

using linearizability::Kind;
using linearizability::Operation;
using linearizability::Outcome;
using object::test::SimClient;
using object::test::SimMember;

struct RunOptions {
  uint64_t seed = 1;
  bool is_in_redis = false;  // The directory.
};

// For all runs, one after the other.
object::test::RedisProcess& redis() {
  static object::test::RedisProcess process;
  return process;
}
// So that streams end by silence within a run.
constexpr uint64_t kSilentAfter_ns = 8 * kMillisecond_ns;

struct RunOutcome {
  std::string wrong;
  uint64_t trace_hash = 0;
  uint64_t puts = 0;
  uint64_t gets = 0;
  uint64_t misses = 0;
  uint64_t ranks = 0;
  uint64_t deletes = 0;
  uint64_t partial_deletes = 0;
  uint64_t away = 0;
  uint64_t pulls = 0;
  uint64_t asked_all = 0;
  uint64_t from_several = 0;
  uint64_t givers_left = 0;
  uint64_t reads = 0;
  uint64_t kills = 0;
  uint64_t losses = 0;
  uint64_t lists = 0;
  uint64_t cuts = 0;
  uint64_t redis_losses = 0;
  uint64_t redis_cuts = 0;
  uint64_t promises = 0;
  uint64_t outlived = 0;

  void add(const RunOutcome& other) {
    puts += other.puts;
    gets += other.gets;
    misses += other.misses;
    ranks += other.ranks;
    deletes += other.deletes;
    partial_deletes += other.partial_deletes;
    away += other.away;
    pulls += other.pulls;
    asked_all += other.asked_all;
    from_several += other.from_several;
    givers_left += other.givers_left;
    reads += other.reads;
    kills += other.kills;
    losses += other.losses;
    lists += other.lists;
    cuts += other.cuts;
    redis_losses += other.redis_losses;
    redis_cuts += other.redis_cuts;
    promises += other.promises;
    outlived += other.outlived;
  }
  [[nodiscard]] std::string text() const {
    return fmt::format(
        "{} puts, {} gets, {} misses, {} ranks, {} deletes, {} that missed a node, {} answers that a node is "
        "away, {} "
        "pulls, {} of them from several, {} holders left, {} READs, {} times all were asked, {} kills, {} "
        "memories lost, {} lists, {} cuts, {} times two copies were counted, {} objects that outlived a "
        "memory, {} losses of Redis, {} cuts from it",
        puts, gets, misses, ranks, deletes, partial_deletes, away, pulls, from_several, givers_left, reads,
        asked_all, kills, losses, lists, cuts, promises, outlived, redis_losses, redis_cuts);
  }
};

sim::WorldOptions network(uint64_t seed) {
  sim::WorldOptions options{.seed = seed, .message_bytes_max = 8 * 1024, .short_post_chance = 0.01};
  options.one_sided_bytes_min = 512;
  options.link.break_ns = 4 * kMillisecond_ns;
  options.steps_max = 400'000'000;
  return options;
}

class DirectoryRun {
 public:
  explicit DirectoryRun(const RunOptions& options)
      : world_(network(options.seed)), is_in_redis_(options.is_in_redis) {
    if (is_in_redis_) REFRACT_CHECK(redis().ask({"FLUSHALL"}).text == "OK");
    const bool has_four = options.seed % 3 == 0;
    for (const char name : has_four ? std::string("abcd") : std::string("abc")) names_.push_back({name});
    const cluster::MemberList list = make_list();
    // A long value comes by several messages or READs, from two holders where there are so many.
    const SimMember::Options small{.redis = is_in_redis_ ? &redis() : nullptr,
                                   .silent_after_ns = kSilentAfter_ns,
                                   .transfers = {.piece_bytes = 300,
                                                 .message_bytes = 400,
                                                 .stall_ns = 2 * kMillisecond_ns,
                                                 .stall_alone_ns = 8 * kMillisecond_ns}};
    for (const std::string& name : names_) {
      nodes_.push_back(std::make_unique<SimMember>(world_, name, list, small));
    }
    for (size_t i = 0; i < names_.size() * 2; ++i) {
      workers_.emplace_back().client =
          std::make_unique<SimClient>(world_, fmt::format("client {}", i), names_[i % names_.size()]);
      workers_.back().number = recorder_.client(fmt::format("client {} of {}", i, names_[i % names_.size()]));
    }
    for (size_t i = 0; i < kIds; ++i) new_id(i);
  }

  [[nodiscard]] RunOutcome run() {
    (void)world_.run_for(50 * kMillisecond_ns);
    const uint64_t until_ns = world_.now_ns() + kRun_ns;
    while (world_.now_ns() < until_ns && outcome_.wrong.empty()) {
      for (Worker& worker : workers_) work(worker);
      (void)world_.run_for(50 * kMicrosecond_ns + world_.prng().below(400 * kMicrosecond_ns));
      chaos();
    }
    calm();
    if (outcome_.wrong.empty()) judge();
    outcome_.trace_hash = world_.trace_hash();
    return outcome_;
  }

 private:
  static constexpr size_t kIds = 6;
  static constexpr uint64_t kRun_ns = kSecond_ns;
  static constexpr uint64_t kPatience_ns = 200 * kSecond_ns;

  // An id as long as it may be judged: a delete that missed a node, or a memory that is lost, ends it.
  struct Id {
    std::string name;
    uint32_t key = 0;
    std::vector<size_t> operations;  // Under way: they tell nothing if the id ends before they do.
  };
  struct Worker {
    std::unique_ptr<SimClient> client;
    uint32_t number = 0;
    uint64_t call = 0;  // 0: none is under way.
    object::wire::Method method{};
    size_t operation = 0;
    size_t id = 0;
    std::string name = {};  // Of the id when it was begun.
    uint64_t begun = 0;     // kCopies: KeptCopies::begin().
  };

  [[nodiscard]] bool chance(double of) { return world_.prng().chance(of); }
  [[nodiscard]] cluster::MemberList make_list() {
    cluster::MemberList list{.version = ++version_, .members = {}};
    for (size_t i = 0; i < names_.size(); ++i) {
      const auto port = static_cast<uint16_t>(7400 + i);
      list.members.push_back({.name = names_[i], .host = "127.0.0.1", .port = port});
    }
    return list;
  }
  void new_id(size_t at) {
    if (ids_.size() <= at) ids_.resize(at + 1);
    Id& id = ids_[at];
    // What was not answered by then may have happened or not, and deletes on some nodes.
    for (const size_t operation : id.operations) {
      Operation& one = recorder_.operation(operation);
      one.outcome = one.kind == Kind::kPut ? Outcome::kUnknown : Outcome::kRefused;
      if (one.kind == Kind::kErase) forget_from(one.began, id.key);
    }
    id.name = fmt::format("id{}", ++last_id_);
    id.key = recorder_.key(id.name);
    id.operations.clear();
  }

  // From a delete's call on, of which it is not known that it has reached all, nodes may differ.
  void forget_from(uint64_t began, uint32_t key) {
    for (size_t i = 0; i < recorder_.history().operations.size(); ++i) {
      Operation& one = recorder_.operation(i);
      if (one.key != key || one.ended <= began || one.outcome == Outcome::kRefused) continue;
      one.outcome = one.is_write() && one.began < began ? Outcome::kUnknown : Outcome::kRefused;
    }
  }

  // --- Clients ---

  void work(Worker& worker) {
    if (worker.call != 0) {
      if (worker.client->is_done(worker.call)) finish(worker);
      return;
    }
    if (!worker.client->is_open()) return worker.client->try_connect();
    if (chance(0.3)) return;
    worker.id = world_.prng().below(kIds);
    Id& id = ids_[worker.id];
    worker.name = id.name;
    if (chance(0.1)) return wish(worker);
    Operation call{.client = worker.number, .key = id.key};
    std::string body;
    const uint64_t choice = world_.prng().below(10);
    // Some are never deleted: their copies are to outlive memories.
    if (choice < 5 || (choice >= 8 && worker.id % 2 == 1)) {
      worker.method = object::wire::Method::kFetch;
      call.kind = Kind::kGet;
      const uint64_t wait_ns = chance(0.2) ? world_.prng().below(5 * kMillisecond_ns) : 0;
      body = object::test::await_body(id.name, wait_ns);
      // Where nodes are ranked, "no node has it" is a get's answer, too.
      if (chance(0.1)) {
        worker.method = object::wire::Method::kRank;
        body = object::test::rank_body({id.name}, 10 * kMillisecond_ns);
      }
    } else if (choice < 8) {
      worker.method = object::wire::Method::kPut;
      call.kind = Kind::kPut;
      call.if_absent = true;
      call.value = ++last_value_;
      body = object::test::put_body(id.name, world_.prng().next(), value_text(call.value));
    } else {
      worker.method = object::wire::Method::kDelete;
      call.kind = Kind::kErase;
      body = object::test::id_body(id.name, 0);
      kept_.given_up(id.name);
    }
    worker.call = worker.client->try_start(worker.method, body);
    if (worker.call == 0) return;
    worker.operation = recorder_.begin(call, world_.now_ns());
    id.operations.push_back(worker.operation);
  }

  // Seldom one copy: then two are promised no more.
  void wish(Worker& worker) {
    const auto wanted = static_cast<uint8_t>(chance(0.05) ? 1 : 2);
    if (wanted < 2) kept_.given_up(worker.name);
    worker.method = object::wire::Method::kCopies;
    worker.begun = kept_.begin();
    worker.call =
        worker.client->try_start(worker.method, copies_body(worker.name, wanted, 20 * kMillisecond_ns));
  }
  [[nodiscard]] static std::string copies_body(const std::string& id, uint8_t wanted, uint64_t timeout_ns) {
    return object::test::body_of(object::wire::CopiesCall{.birth = 0,
                                                          .timeout_ns = timeout_ns,
                                                          .id_bytes = object::test::short_of(id.size()),
                                                          .wanted = wanted,
                                                          .reserved = {}},
                                 id);
  }

  // Long ones do not fit a message, so that they are read piece by piece.
  [[nodiscard]] static std::string value_text(uint64_t value) {
    const std::string number = std::to_string(value);
    return number + std::string(value % 3 == 0 ? 1500 : 10, static_cast<char>('a' + value % 26));
  }
  [[nodiscard]] static uint64_t value_of(const std::string& text) {
    const uint64_t value = std::strtoull(text.c_str(), nullptr, 10);
    return text == value_text(value) ? value : 0;
  }

  void finish(Worker& worker) {
    const object::test::Answer answer = worker.client->finish(std::exchange(worker.call, 0));
    if (worker.method == object::wire::Method::kCopies) {
      if (answer.code != Code::kOk) return;
      return kept_.counted(worker.name, answer.as<object::wire::CopiesAnswer>().counted, worker.begun);
    }
    Id& id = ids_[worker.id];
    // The id has ended meanwhile.
    if (id.name != worker.name) return;
    std::erase(id.operations, worker.operation);
    linearizability::Recorder::Return result{.now_ns = world_.now_ns()};
    outcome_.away += answer.code == Code::kAway ? 1 : 0;
    switch (recorder_.operation(worker.operation).kind) {
      case Kind::kGet:
        worker.method == object::wire::Method::kRank ? ranked(answer, result) : got(answer, result);
        break;
      case Kind::kPut:
        result.outcome = put_outcome(answer.code);
        outcome_.puts += result.outcome == Outcome::kDone ? 1 : 0;
        break;
      case Kind::kErase:
        if (!erased(worker, answer, result)) return;
        break;
    }
    recorder_.end(worker.operation, result);
  }

  void ranked(const object::test::Answer& answer, linearizability::Recorder::Return& result) {
    const object::test::Ranked ranked = object::test::ranked_of(answer);
    if (ranked.code != Code::kOk) return;
    ++outcome_.ranks;
    if (ranked.codes.size() != 1 || ranked.nodes.empty()) outcome_.wrong = "a rank without an id or a node";
    if (ranked.codes.front() != Code::kNotFound) return;
    result.outcome = Outcome::kAbsent;
    ++outcome_.misses;
  }
  void got(const object::test::Answer& answer, linearizability::Recorder::Return& result) {
    if (answer.code == Code::kNotFound) {
      result.outcome = Outcome::kAbsent;
      ++outcome_.misses;
    } else if (answer.code == Code::kOk) {
      result.value = value_of(SimClient::body_in(answer));
      result.outcome = Outcome::kDone;
      ++outcome_.gets;
      if (result.value == 0) outcome_.wrong = "a get returned bytes that were never put";
    }
  }
  // kExists may be said of what is being made, and then tells nothing.
  [[nodiscard]] static Outcome put_outcome(Code code) {
    switch (code) {
      case Code::kOk:
        return Outcome::kDone;
      case Code::kIndeterminate:
        return Outcome::kUnknown;
      default:
        return Outcome::kRefused;
    }
  }
  // False: the id has ended.
  [[nodiscard]] bool erased(const Worker& worker, const object::test::Answer& answer,
                            linearizability::Recorder::Return& result) {
    if (answer.code == Code::kNotFound) {
      result.outcome = Outcome::kAbsent;
      return true;
    }
    const bool is_whole = answer.bytes.size() == sizeof(object::wire::DeleteReply);
    if (answer.code == Code::kOk && is_whole) {
      result.outcome = Outcome::kDone;
      ++outcome_.deletes;
      return true;
    }
    if (std::getenv("REFRACT_SEED") != nullptr) {
      events_.push_back(fmt::format("{:.3f} us: delete {} by client {}: {}, {} bytes",
                                    static_cast<double>(world_.now_ns()) / 1e3, worker.name, worker.number,
                                    text(answer.code), answer.bytes.size()));
    }
    // Nothing was done.
    if (answer.code == Code::kUnavailable || answer.code == Code::kAway) return true;
    ++outcome_.partial_deletes;
    recorder_.end(worker.operation, result);
    const uint64_t began = recorder_.operation(worker.operation).began;
    forget_from(began, ids_[worker.id].key);
    // Those that were away drop it when they are back.
    if (answer.code == Code::kOk && !has_put_since(ids_[worker.id], began)) gone_.push_back(worker.name);
    new_id(worker.id);
    return false;
  }

  [[nodiscard]] bool has_put_since(const Id& id, uint64_t began) const {
    return std::ranges::any_of(recorder_.history().operations, [&](const Operation& one) {
      return one.key == id.key && one.kind == Kind::kPut && one.ended > began;
    });
  }

  // --- What happens to the nodes ---

  void chaos() {
    const size_t at = world_.prng().below(nodes_.size());
    SimMember& node = *nodes_[at];
    if (node.process == nullptr) {
      if (chance(0.02)) start(node), note("start", at);
    } else if (node.host.paused()) {
      if (chance(0.05)) world_.resume(node.host), note("resume", at);
    } else if (chance(0.004)) {
      count(node);
      node.crash();
      note("kill", at);
      ++outcome_.kills;
    } else if (chance(0.001)) {
      lose(node);
      note("lose", at);
    } else if (chance(0.003)) {
      world_.pause(node.host);
      note("pause", at);
    }
    if (chance(0.004)) cut();
    if (chance(0.02)) heal();
    if (is_in_redis_) trouble_redis(node, at);
    if (chance(0.002)) list_ = make_list(), ++outcome_.lists;
    // An operator comes to one node after the other.
    if (list_ && chance(0.05)) follow(node);
  }
  [[nodiscard]] static size_t claims_at(const SimMember& node) {
    return node.process->owner.directory->home().count_claims();
  }
  void count(const SimMember& node) {
    const object::Directory::Counts counts = node.counts();
    outcome_.pulls += counts.pulls;
    outcome_.asked_all += counts.asked_all;
    outcome_.from_several += counts.pulls_from_several;
    outcome_.givers_left += counts.givers_left;
    outcome_.reads += counts.transfer_reads;
  }
  void start(SimMember& node) { node.restart(); }
  // What was on it alone is gone.
  void lose(SimMember& node) {
    count(node);
    node.crash(true);
    ++outcome_.losses;
    kept_.memory_lost();
    // A delete that did not reach all is forgotten with its home's memory.
    gone_.clear();
    for (size_t i = 0; i < kIds; ++i) new_id(i);
  }
  // It forgets all, is started again, or is out of reach of one node.
  void trouble_redis(const SimMember& node, size_t at) {
    const bool forgets = chance(0.002);
    if (forgets || chance(0.0003)) {
      if (!forgets) {
        redis().kill();
        redis().start();
      }
      REFRACT_CHECK(redis().ask({"FLUSHALL"}).text == "OK");
      ++outcome_.redis_losses;
      note(forgets ? "redis forgets" : "redis restarts", at);
    }
    if (node.process == nullptr || !chance(0.006)) return;
    const bool is_cut = chance(0.4);
    node.process->line->cut(is_cut);
    outcome_.redis_cuts += is_cut ? 1 : 0;
    note(is_cut ? "cut from redis" : "with redis", at);
  }
  void cut() {
    const size_t one = world_.prng().below(nodes_.size());
    const size_t other = world_.prng().below(nodes_.size());
    if (one == other) return;
    world_.cut(nodes_[one]->host, nodes_[other]->host);
    cuts_.emplace_back(one, other);
    note("cut", one);
    note("   from", other);
    ++outcome_.cuts;
  }
  void heal() {
    if (cuts_.empty()) return;
    const auto [one, other] = cuts_.front();
    cuts_.erase(cuts_.begin());
    const bool is_cut_again = std::ranges::any_of(cuts_, [&](const auto& pair) {
      return pair == std::pair(one, other) || pair == std::pair(other, one);
    });
    if (!is_cut_again) world_.heal(nodes_[one]->host, nodes_[other]->host);
    note("heal", one);
    note("   with", other);
  }
  void follow(SimMember& node) {
    if (node.host.paused() || node.version() >= list_->version) return;
    node.follow(*list_);
  }

  // --- The end ---

  // All is well again: what was agreed upon holds everywhere, and nothing is left over.
  void calm() {
    while (!cuts_.empty()) heal();
    for (const auto& node : nodes_) {
      if (node->process == nullptr) start(*node);
      if (node->host.paused()) world_.resume(node->host);
      if (list_) follow(*node);
      if (is_in_redis_) node->process->line->cut(false);
    }
    const size_t streams = nodes_.size() - (is_in_redis_ ? 0 : 1);
    const uint64_t until_ns = world_.now_ns() + kPatience_ns;
    bool is_calm = false;
    while (!is_calm && world_.now_ns() < until_ns) {
      (void)world_.run_for(100 * kMillisecond_ns);
      for (Worker& worker : workers_) {
        if (worker.call != 0 && worker.client->is_done(worker.call)) finish(worker);
      }
      is_calm = std::ranges::all_of(nodes_, [&](const auto& node) {
        const object::Directory::Counts counts = node->counts();
        return counts.is_complete && counts.streams == streams && counts.tombstones == 0 &&
               counts.home.tombstones == 0 && counts.home.lingering == 0 && claims_at(*node) == 0;
      });
    }
    for (const auto& node : nodes_) {
      const object::Directory::Counts counts = node->counts();
      count(*node);
      if (!is_calm) {
        outcome_.wrong += fmt::format(
            "a node is not calm: complete {}, streams {}, tombstones {} and {}, lingering {}, claims {}; ",
            counts.is_complete, counts.streams, counts.tombstones, counts.home.tombstones,
            counts.home.lingering, claims_at(*node));
      }
      if (!node->process->owner.is_sound()) outcome_.wrong = "a table contradicts itself";
    }
    if (outcome_.wrong.empty()) compare();
  }
  // All nodes say the same of each id, and that is judged with the rest.
  void compare() {
    outcome_.promises = kept_.promises();
    outcome_.outlived = kept_.outlived();
    for (const std::string& id : kept_.ids()) {
      Worker& worker = workers_[world_.prng().below(workers_.size())];
      worker.client->connect();
      const auto answer =
          worker.client->call(object::wire::Method::kCopies, copies_body(id, 2, 20 * kSecond_ns));
      const bool is_kept = answer.code == Code::kOk && answer.as<object::wire::CopiesAnswer>().counted >= 2;
      if (!is_kept) outcome_.wrong = fmt::format("{} had two copies, and is lost: {}", id, text(answer.code));
    }
    for (const std::string& id : gone_) {
      for (Worker& worker : workers_) {
        worker.client->connect();
        const std::string got = worker.client->get(id);
        if (got == "not_found") continue;
        outcome_.wrong = fmt::format("{} was deleted, and is there: {:.20}", id, got);
        if (std::getenv("REFRACT_SEED") != nullptr) {
          std::printf("%s at %s: %.20s\n", id.c_str(), linearizability::to_text({}).c_str(), got.c_str());
          show(recorder_.key(id));
        }
      }
    }
    for (size_t i = 0; i < kIds; ++i) {
      for (Worker& worker : workers_) {
        worker.client->connect();
        const size_t operation = recorder_.begin(
            {.client = worker.number, .key = ids_[i].key, .kind = Kind::kGet}, world_.now_ns());
        linearizability::Recorder::Return result{.now_ns = world_.now_ns()};
        const auto answer =
            worker.client->call(object::wire::Method::kFetch, object::test::await_body(ids_[i].name));
        got(answer, result);
        recorder_.end(operation, result);
        if (result.outcome == Outcome::kRefused) {
          outcome_.wrong = fmt::format("a get says {} though all nodes are there", text(answer.code));
        }
      }
    }
  }
  // What was said of an id, for a person.
  void show(uint32_t key) const {
    const linearizability::History& history = recorder_.history();
    for (const Operation& one : history.operations) {
      if (one.key != key) continue;
      std::printf("%9.3f to %9.3f us, %s: %s\n", static_cast<double>(one.began_ns) / 1e3,
                  one.ended_ns == linearizability::kNever ? -1 : static_cast<double>(one.ended_ns) / 1e3,
                  history.clients[one.client].c_str(), linearizability::to_text(one).c_str());
    }
    for (const std::string& event : events_) std::printf("%s\n", event.c_str());
  }
  void note(std::string_view what, size_t node) {
    if (std::getenv("REFRACT_SEED") == nullptr) return;
    events_.push_back(
        fmt::format("{:.3f} us: {} {}", static_cast<double>(world_.now_ns()) / 1e3, what, names_[node]));
  }
  // While a delete is under way some nodes have the object still, and others may have the next one already.
  void forget_gets_beside_deletes() {
    const size_t count = recorder_.history().operations.size();
    for (size_t i = 0; i < count; ++i) {
      const Operation erase = recorder_.operation(i);
      if (erase.kind != Kind::kErase || !erase.changes()) continue;
      for (size_t k = 0; k < count; ++k) {
        Operation& one = recorder_.operation(k);
        const bool is_beside = one.key == erase.key && one.began < erase.ended && one.ended > erase.began;
        if (is_beside && one.kind == Kind::kGet) one.outcome = Outcome::kRefused;
        // Both may be told that they have deleted it.
        const bool is_twin = is_beside && k > i && one.kind == Kind::kErase && one.outcome == Outcome::kDone;
        if (is_twin) one.outcome = Outcome::kUnknown;
      }
    }
  }
  void judge() {
    forget_gets_beside_deletes();
    const linearizability::Judgement judgement = linearizability::check(recorder_.history());
    if (judgement.violation) {
      if (std::getenv("REFRACT_SEED") != nullptr) show(judgement.violation->key);
      outcome_.wrong = fmt::format("{}\n{}", judgement.violation->sentence,
                                   linearizability::draw_text(recorder_.history(), *judgement.violation));
    }
  }

  sim::World world_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<SimMember>> nodes_;
  std::vector<Worker> workers_;
  std::vector<Id> ids_;
  linearizability::Recorder recorder_;
  KeptCopies kept_;
  std::vector<std::string> gone_;  // Ids whose delete missed some nodes.
  std::vector<std::string> events_;
  std::vector<std::pair<size_t, size_t>> cuts_;
  std::optional<cluster::MemberList> list_;
  uint64_t version_ = 0;
  uint64_t last_id_ = 0;
  uint64_t last_value_ = 0;
  bool is_in_redis_;
  RunOutcome outcome_;
};

uint64_t seeds() {
  const char* const wanted = std::getenv("REFRACT_SEEDS");
  return wanted == nullptr ? REFRACT_CAMPAIGN_SEEDS : std::strtoull(wanted, nullptr, 10);
}

RunOutcome run_all(bool is_in_redis, uint64_t count) {
  const char* const only = std::getenv("REFRACT_SEED");
  const uint64_t first = only == nullptr ? 1 : std::strtoull(only, nullptr, 10);
  const uint64_t last = only == nullptr ? count : first;
  RunOutcome all;
  for (uint64_t seed = first; seed <= last; ++seed) {
    const RunOutcome outcome = DirectoryRun({.seed = seed, .is_in_redis = is_in_redis}).run();
    EXPECT_EQ(outcome.wrong, "") << "replay it with REFRACT_SEED=" << seed;
    all.add(outcome);
    if (!outcome.wrong.empty()) break;
  }
  testing::Test::RecordProperty("what_happened", all.text());
  if (only != nullptr) std::printf("%s\n", all.text().c_str());
  return all;
}

// Redis takes real time: a few seeds.
TEST(DirectoryCampaign, in_redis_one_id_is_one_object_and_what_is_deleted_stays_away) {
  const RunOutcome all = run_all(true, std::max<uint64_t>(4, seeds() / 10));
  SCOPED_TRACE(all.text());
  EXPECT_GT(all.puts, 20U);
  EXPECT_GT(all.gets, 20U);
  EXPECT_GT(all.promises, 20U);
}

TEST(DirectoryCampaign, one_id_is_one_object_and_what_is_deleted_stays_away) {
  const RunOutcome all = run_all(false, seeds());
  SCOPED_TRACE(all.text());
  if (seeds() < REFRACT_FULL_SEEDS) return;
  EXPECT_GT(all.puts, 1'000U);
  EXPECT_GT(all.gets, 2'000U);
  EXPECT_GT(all.misses, 500U);
  EXPECT_GT(all.ranks, 200U);
  EXPECT_GT(all.deletes, 200U);
  EXPECT_GT(all.partial_deletes, 20U);
  EXPECT_GT(all.away, 100U);
  EXPECT_GT(all.pulls, 500U);
  EXPECT_GT(all.asked_all, 20U);
  EXPECT_GT(all.from_several, 20U);
  EXPECT_GT(all.givers_left, 20U);
  EXPECT_GT(all.reads, 500U);
  EXPECT_GT(all.kills, 50U);
  EXPECT_GT(all.losses, 10U);
  EXPECT_GT(all.lists, 10U);
  EXPECT_GT(all.cuts, 50U);
  EXPECT_GT(all.promises, 300U);
  EXPECT_GT(all.outlived, 10U);
}

TEST(DirectoryCampaign, a_seed_gives_the_same_run_again) {
  const RunOutcome one = DirectoryRun({.seed = 4}).run();
  const RunOutcome two = DirectoryRun({.seed = 4}).run();
  EXPECT_EQ(one.trace_hash, two.trace_hash);
  EXPECT_EQ(one.text(), two.text());
}

}  // namespace
}  // namespace refract::campaign
