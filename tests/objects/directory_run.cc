// SPDX-License-Identifier: Apache-2.0
#include "tests/objects/directory_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "refract/object/testing/broadcast_bodies.h"
#include "refract/object/testing/rank_bodies.h"

namespace refract::campaign {

using linearizability::Kind;
using linearizability::Outcome;
using object::test::Answer;
using object::test::SimClient;
using object::wire::Method;

namespace {

sim::WorldOptions network(uint64_t seed) {
  sim::WorldOptions options{.seed = seed, .message_bytes_max = 8 * 1024, .short_post_chance = 0.01};
  options.one_sided_bytes_min = 512;
  options.link.break_ns = 4 * kMillisecond_ns;
  options.steps_max = 400'000'000;
  return options;
}

std::string copies_body(const std::string& id, uint8_t wanted, uint64_t timeout_ns) {
  return object::test::body_of(object::wire::CopiesCall{.birth = 0,
                                                        .timeout_ns = timeout_ns,
                                                        .id_bytes = object::test::short_of(id.size()),
                                                        .wanted = wanted,
                                                        .reserved = {}},
                               id);
}

// Long ones come piece by piece.
std::string value_text(uint64_t value) {
  const size_t bytes = value % 3 != 0 ? 10 : value % 2 == 0 ? 1500 : 4500;
  return std::to_string(value) + std::string(bytes, static_cast<char>('a' + value % 26));
}
// 0: none was put so.
uint64_t value_of(const std::string& text) {
  const uint64_t value = std::strtoull(text.c_str(), nullptr, 10);
  return text == value_text(value) ? value : 0;
}

// kExists may be said of what is being made, and then tells nothing.
Outcome put_outcome(Code code) {
  switch (code) {
    case Code::kOk:
      return Outcome::kDone;
    case Code::kIndeterminate:
      return Outcome::kUnknown;
    default:
      return Outcome::kRefused;
  }
}

}  // namespace

// Three, four and five nodes; chains, in every fourth run trees of two children.
DirectoryRun::DirectoryRun(const RunOptions& options)
    : waits_for_idle_(options.seed % 8 == 3),
      world_(network(options.seed)),
      nodes_(world_,
             {.count = 3 + options.seed % 3,
              .redis = options.redis,
              .broadcast_degree = options.seed % 4 == 0 ? size_t{2} : size_t{1}},
             outcome_, [this](std::string_view event) { ids_.note(world_.now_ns(), event); }) {
  const std::vector<std::string>& names = nodes_.names();
  for (size_t i = 0; i < names.size() * 2; ++i) {
    const std::string& node = names[i % names.size()];
    workers_.emplace_back().client = std::make_unique<SimClient>(world_, fmt::format("client {}", i), node);
    workers_.back().number = ids_.client(fmt::format("client {} of {}", i, node));
  }
}

RunOutcome DirectoryRun::run() {
  (void)world_.run_for(50 * kMillisecond_ns);
  const uint64_t until_ns = world_.now_ns() + kRun_ns;
  while (world_.now_ns() < until_ns && outcome_.wrong.empty()) {
    for (Worker& worker : workers_) work(worker);
    (void)world_.run_for(50 * kMicrosecond_ns + world_.prng().below(400 * kMicrosecond_ns));
    if (!nodes_.trouble()) continue;
    // What was on it alone is gone, and a delete that did not reach all is forgotten with its home's memory.
    kept_.memory_lost();
    gone_.clear();
    for (size_t i = 0; i < kIds; ++i) ids_.renew(i);
  }
  calm();
  if (outcome_.wrong.empty()) compare();
  if (outcome_.wrong.empty()) outcome_.wrong = ids_.judge();
  outcome_.trace_hash = world_.trace_hash();
  return outcome_;
}

// --- What clients ask ---

void DirectoryRun::work(Worker& worker) {
  if (worker.call != 0) {
    if (worker.client->is_done(worker.call)) finish(worker);
    return;
  }
  if (!worker.client->is_open()) return worker.client->try_connect();
  // Few nodes have what was just made.
  if (std::exchange(worker.has_put, false) && chance(0.5)) return start_broadcast(worker);
  if (chance(0.3)) return;
  worker.id = world_.prng().below(kIds);
  worker.name = ids_.name(worker.id);
  if (chance(0.1)) return wish(worker);
  if (chance(0.07)) return start_broadcast(worker);
  const uint64_t choice = world_.prng().below(10);
  // Some are never deleted: their copies are to outlive memories.
  if (choice < 5 || (choice >= 8 && worker.id % 2 == 1)) return start_get(worker);
  choice < 8 ? start_put(worker) : start_delete(worker);
}

void DirectoryRun::start(Worker& worker, JudgedIds::Operation call, const std::string& body) {
  worker.call = worker.client->try_start(worker.method, body);
  if (worker.call == 0) return;
  call.client = worker.number;
  worker.operation = ids_.begin(worker.id, call, world_.now_ns());
}

// Seldom one copy: then two are promised no more.
void DirectoryRun::wish(Worker& worker) {
  const auto wanted = static_cast<uint8_t>(chance(0.05) ? 1 : 2);
  if (wanted < 2) kept_.given_up(worker.name);
  worker.method = Method::kCopies;
  worker.begun = kept_.begin();
  worker.call =
      worker.client->try_start(worker.method, copies_body(worker.name, wanted, 20 * kMillisecond_ns));
}

// Where nodes are ranked, "no node has it" is a get's answer, too.
void DirectoryRun::start_get(Worker& worker) {
  const uint64_t wait_ns = chance(0.2) ? world_.prng().below(5 * kMillisecond_ns) : 0;
  if (chance(0.1)) {
    worker.method = Method::kRank;
    return start(worker, {.kind = Kind::kGet}, object::test::rank_body({worker.name}, 10 * kMillisecond_ns));
  }
  worker.method = Method::kFetch;
  start(worker, {.kind = Kind::kGet}, object::test::await_body(worker.name, wait_ns));
}

// To all nodes, or to some.
void DirectoryRun::start_broadcast(Worker& worker) {
  if (ids_.name(worker.id) != worker.name) return;
  std::vector<std::string> names;
  if (chance(0.4)) {
    for (const std::string& name : nodes_.names()) {
      if (chance(0.5)) names.push_back(name);
    }
  }
  const uint64_t timeout_ns = kMillisecond_ns + world_.prng().below(20 * kMillisecond_ns);
  worker.method = Method::kBroadcast;
  start(worker, {.kind = Kind::kGet}, object::test::broadcast_body(worker.name, names, timeout_ns));
}

void DirectoryRun::start_put(Worker& worker) {
  const uint64_t value = ++last_value_;
  worker.method = Method::kPut;
  start(worker, {.kind = Kind::kPut, .if_absent = true, .value = value},
        object::test::put_body(worker.name, world_.prng().next(), value_text(value)));
}

void DirectoryRun::start_delete(Worker& worker) {
  worker.method = Method::kDelete;
  kept_.given_up(worker.name);
  start(worker, {.kind = Kind::kErase}, object::test::id_body(worker.name, 0));
}

// --- What they are told ---

void DirectoryRun::finish(Worker& worker) {
  const Answer answer = worker.client->finish(std::exchange(worker.call, 0));
  if (worker.method == Method::kCopies) {
    if (answer.code != Code::kOk) return;
    return kept_.counted(worker.name, answer.as<object::wire::CopiesAnswer>().counted, worker.begun);
  }
  // The id has ended meanwhile.
  if (ids_.name(worker.id) != worker.name) return;
  JudgedIds::Return result{.now_ns = world_.now_ns()};
  outcome_.away += answer.code == Code::kAway ? 1 : 0;
  switch (worker.method) {
    case Method::kRank:
      ranked(answer, result);
      break;
    case Method::kPut:
      result.outcome = put_outcome(answer.code);
      worker.has_put = result.outcome == Outcome::kDone;
      outcome_.puts += worker.has_put ? 1 : 0;
      break;
    case Method::kDelete:
      if (!erased(worker, answer, result)) return;
      break;
    case Method::kBroadcast:
      return finish_broadcast(worker, answer, result);
    default:
      got(answer, result);
  }
  ids_.end(worker.id, worker.operation, result);
}

void DirectoryRun::ranked(const Answer& answer, JudgedIds::Return& result) {
  const object::test::Ranked ranked = object::test::ranked_of(answer);
  if (ranked.code != Code::kOk) return;
  ++outcome_.ranks;
  if (ranked.codes.size() != 1 || ranked.nodes.empty()) outcome_.wrong = "a rank without an id or a node";
  if (ranked.codes.front() != Code::kNotFound) return;
  result.outcome = Outcome::kAbsent;
  ++outcome_.misses;
}

void DirectoryRun::got(const Answer& answer, JudgedIds::Return& result) {
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

// Each node that it tells of has answered a get.
void DirectoryRun::finish_broadcast(const Worker& worker, const Answer& answer, JudgedIds::Return result) {
  if (answer.code == Code::kNotFound) result.outcome = Outcome::kAbsent;
  ids_.end(worker.id, worker.operation, result);
  if (answer.code != Code::kOk) return;
  ++outcome_.broadcasts;
  const object::test::Broadcasted told = object::test::broadcasted_of(answer);
  if (told.nodes.empty()) outcome_.wrong = "a broadcast tells of no node";
  for (const auto& [node, code] : told.nodes) {
    if (code != Code::kOk) continue;
    ++outcome_.brought;
    ids_.tells_also(worker.operation, brought_to(worker, node));
  }
}

// It has the object still, as long as no delete is under way and its memory is not lost.
JudgedIds::Return DirectoryRun::brought_to(const Worker& worker, const std::string& node) {
  JudgedIds::Return result{.outcome = Outcome::kDone, .now_ns = world_.now_ns()};
  object::test::SimMember& member = nodes_.node(node);
  if (member.process == nullptr) return result;
  if (!member.has(worker.name)) {
    if (!ids_.is_deleted_beside(worker.operation)) {
      outcome_.wrong = fmt::format("a broadcast tells that {} has {}, which is not there", node, worker.name);
      ids_.show(worker.name);
    }
    return result;
  }
  result.value = value_of(member.body_of(worker.name));
  if (result.value == 0) outcome_.wrong = "a broadcast brought bytes that were never put";
  return result;
}

bool DirectoryRun::erased(const Worker& worker, const Answer& answer, JudgedIds::Return& result) {
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
  ids_.note(world_.now_ns(), fmt::format("delete {} by client {}: {}, {} bytes", worker.name, worker.number,
                                         text(answer.code), answer.bytes.size()));
  // Nothing was done.
  if (answer.code == Code::kUnavailable || answer.code == Code::kAway) return true;
  ++outcome_.partial_deletes;
  ids_.end(worker.id, worker.operation, result);
  ids_.forget_from(worker.operation);
  // Those that were away drop it when they are back.
  if (answer.code == Code::kOk && !ids_.has_put_since(worker.operation)) gone_.push_back(worker.name);
  ids_.renew(worker.id);
  return false;
}

// --- The end ---

// All is well again: what was agreed upon holds everywhere, and nothing is left over.
void DirectoryRun::calm() {
  nodes_.mend();
  const uint64_t until_ns = world_.now_ns() + kPatience_ns;
  bool is_calm = false;
  while (!is_calm && world_.now_ns() < until_ns) {
    (void)world_.run_for(100 * kMillisecond_ns);
    for (Worker& worker : workers_) {
      if (worker.call != 0 && worker.client->is_done(worker.call)) finish(worker);
    }
    // What is answered later would be taken for the answer to the next call.
    const bool is_answered = std::ranges::all_of(workers_, [](const Worker& one) { return one.call == 0; });
    is_calm = is_answered && nodes_.are_calm();
  }
  if (waits_for_idle_ && is_calm) {
    while (!nodes_.have_let_go() && world_.now_ns() < until_ns) (void)world_.run_for(100 * kMillisecond_ns);
    if (!nodes_.have_let_go()) outcome_.wrong = "a transfer, window or creation is open for ever; ";
  }
  outcome_.wrong += nodes_.sum_up();
}

void DirectoryRun::compare() {
  outcome_.promises = kept_.promises();
  outcome_.outlived = kept_.outlived();
  for (const std::string& id : kept_.ids()) expect_kept(id);
  for (const std::string& id : gone_) expect_gone(id);
  for (size_t i = 0; i < kIds; ++i) {
    for (Worker& worker : workers_) {
      worker.client->connect();
      const size_t operation = ids_.begin(i, {.client = worker.number, .kind = Kind::kGet}, world_.now_ns());
      JudgedIds::Return result{.now_ns = world_.now_ns()};
      const Answer answer = worker.client->call(Method::kFetch, object::test::await_body(ids_.name(i)));
      got(answer, result);
      ids_.end(i, operation, result);
      if (result.outcome == Outcome::kRefused) {
        outcome_.wrong = fmt::format("a get says {} though all nodes are there", text(answer.code));
      }
    }
  }
}

void DirectoryRun::expect_kept(const std::string& id) {
  Worker& worker = workers_[world_.prng().below(workers_.size())];
  worker.client->connect();
  const Answer answer = worker.client->call(Method::kCopies, copies_body(id, 2, 20 * kSecond_ns));
  const bool is_kept = answer.code == Code::kOk && answer.as<object::wire::CopiesAnswer>().counted >= 2;
  if (!is_kept) outcome_.wrong = fmt::format("{} had two copies, and is lost: {}", id, text(answer.code));
}

void DirectoryRun::expect_gone(const std::string& id) {
  for (Worker& worker : workers_) {
    worker.client->connect();
    const std::string got = worker.client->get(id);
    if (got == "not_found") continue;
    outcome_.wrong = fmt::format("{} was deleted, and is there: {:.20}", id, got);
    ids_.show(id);
  }
}

}  // namespace refract::campaign
