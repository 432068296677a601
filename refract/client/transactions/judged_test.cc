// SPDX-License-Identifier: Apache-2.0
// Transactions, batches and plain operations of several clients, by several ways, beside a server that is
// killed: what each was told is judged. There must be one order that explains it all and respects real time.
//
// What contradicts is told transaction by transaction.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/testing/serialisability/checker.h"
#include "refract/base/testing/serialisability/history.h"
#include "refract/base/units.h"
#include "refract/client/testing/test_node.h"

namespace refract {
namespace {

using serialisability::Found;
using serialisability::Operation;
using serialisability::Outcome;
using serialisability::Want;
using OpKind = serialisability::Kind;
using test::TestNode;

constexpr uint64_t kKeys = 5;
constexpr int kEach = 700;
constexpr int kUnreachableMax = 20'000;  // Then the node does not come again.

Outcome outcome_of(Code code) {
  if (code == Code::kOk) return Outcome::kCommitted;
  return code == Code::kIndeterminate ? Outcome::kUnknown : Outcome::kRefused;
}

// One thread of operations, and what it was told.
class Judged {
 public:
  Judged(Client client, const std::string& name, uint64_t seed)
      : client_(std::move(client)), prng_(seed), next_value_(static_cast<int64_t>(seed) * 1'000'000) {
    me_ = recorder.client(name);
  }

  void run() {
    for (int done = 0; done < kEach && unreachable_ < kUnreachableMax;) {
      began_ = recorder.begin(me_, system_clock().now_ns());
      const uint64_t chance = prng_.below(10);
      if (chance < 3) {
        transact();
      } else if (chance < 5) {
        read_only();
      } else if (chance < 7) {
        batch();
      } else {
        plain();
      }
      done += is_reached_ ? 1 : 0;
    }
  }
  serialisability::Recorder recorder;
  uint64_t committed = 0;
  uint64_t unknown = 0;

 private:
  // Of these values are put and erased, to those after them is added.
  [[nodiscard]] std::string some_key() { return "k" + std::to_string(prng_.below(kKeys)); }
  [[nodiscard]] std::string some_number() { return "n" + std::to_string(prng_.below(2)); }

  void end(Code code) {
    const Outcome outcome = outcome_of(code);
    for (const Operation& one : operations_) recorder.add(began_, one);
    recorder.end(began_, {.outcome = outcome, .is_validated = false, .now_ns = system_clock().now_ns()});
    committed += outcome == Outcome::kCommitted ? 1 : 0;
    unknown += outcome == Outcome::kUnknown ? 1 : 0;
    operations_.clear();
    // Nothing has happened; the node comes again.
    is_reached_ = code != Code::kUnavailable;
    if (is_reached_) return;
    ++unreachable_;
    const timespec pause = {.tv_sec = 0, .tv_nsec = 1'000'000};
    nanosleep(&pause, nullptr);
  }
  Operation& note(OpKind kind, const std::string& key) {
    operations_.push_back({.kind = kind, .key = recorder.key(key)});
    return operations_.back();
  }
  static void tell(Operation& get, const Result<Got>& got, const std::string& value) {
    get.found = got ? Found::kPresent : Found::kAbsent;
    if (!got) return;
    get.found_version = got->version;
    get.found_value = std::stoll(value);
  }

  [[nodiscard]] Result<> read(Transaction& t, const std::string& key) {
    GetItem item{.key = key};
    t.multi_get({&item, 1});
    if (!item.result && item.result.code() != Code::kNotFound) return fail(item.result.error());
    tell(note(OpKind::kGet, key), item.result, item.value);
    return {};
  }

  void transact() {
    const Result<> done = client_.transaction([&](Transaction& t) -> Result<> {
      operations_.clear();
      const uint64_t count = 1 + prng_.below(4);
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t chance = prng_.below(10);
        const std::string key = chance < 8 ? some_key() : some_number();
        Result<> step;
        if (chance < 4) {
          step = read(t, key);
        } else if (chance < 7) {
          note(OpKind::kPut, key).value = ++next_value_;
          step = t.put(key, std::to_string(next_value_));
        } else if (chance < 8) {
          note(OpKind::kErase, key);
          step = t.erase(key);
        } else {
          note(OpKind::kAdd, key).amount = 3;
          step = t.add(key, 3);
        }
        if (!step) return step;
      }
      return {};
    });
    end(done.code());
  }

  void read_only() {
    const Result<> done = client_.read_only([&](Transaction& t) -> Result<> {
      operations_.clear();
      for (const std::string& key : {some_key(), some_key(), some_number()}) {
        if (const Result<> step = read(t, key); !step) return step;
      }
      return {};
    });
    end(done.code());
  }

  void batch() {
    Batch batch;
    const std::string key = some_key();
    const std::string other = "k" + std::to_string(kKeys + prng_.below(2));
    const std::string number = some_number();
    batch.put(key, std::to_string(++next_value_));
    note(OpKind::kPut, key).value = next_value_;
    batch.put(other, std::to_string(++next_value_));
    note(OpKind::kPut, other).value = next_value_;
    batch.add(number, 1);
    note(OpKind::kAdd, number).amount = 1;
    const Result<> done = client_.commit(batch);
    for (size_t i = 0; done && i < 3; ++i) operations_[i].version = batch.version(i);
    if (done && batch.version(2) != 0) operations_[2].value = batch.sum(2);
    end(done.code());
  }

  void plain() {
    const std::string key = some_key();
    const uint64_t chance = prng_.below(10);
    if (chance < 5) {
      std::string value;
      const Result<Got> got = client_.get(key, value);
      if (got || got.code() == Code::kNotFound) tell(note(OpKind::kGet, key), got, value);
      return end(got.code() == Code::kNotFound ? Code::kOk : got.code());
    }
    if (chance < 8) {
      Operation& put = note(OpKind::kPut, key);
      put.value = ++next_value_;
      const Result<uint64_t> version = client_.put(key, std::to_string(next_value_));
      put.version = version.value_or(0);
      return end(version.code());
    }
    Operation& erase = note(OpKind::kErase, key);
    const Result<uint64_t> version = client_.erase(key);
    if (version) erase.found = Found::kPresent;
    if (version) erase.found_version = *version;
    if (version.code() == Code::kNotFound) erase.found = Found::kAbsent;
    end(version.code() == Code::kNotFound ? Code::kOk : version.code());
  }

  Client client_;
  Prng prng_;
  int64_t next_value_;
  uint32_t me_ = 0;
  size_t began_ = 0;
  bool is_reached_ = true;
  int unreachable_ = 0;
  std::vector<Operation> operations_;
};

void judge(const std::vector<std::unique_ptr<Judged>>& all, uint64_t& committed) {
  std::vector<serialisability::History> histories;
  for (const auto& one : all) {
    histories.push_back(one->recorder.history());
    committed += one->committed;
  }
  const serialisability::History history = serialisability::merge(histories);
  const serialisability::Judgement judgement = serialisability::check(history);
  if (judgement.is_good()) return;
  ADD_FAILURE() << judgement.anomaly->name << ": " << judgement.anomaly->sentence;
  for (const size_t index : judgement.anomaly->involved) {
    const serialisability::Transaction& one = history.transactions[index];
    ADD_FAILURE() << history.clients[one.client] << " " << one.began_ns << " to " << one.ended_ns << ": "
                  << to_text(history, one);
  }
}

// What all were told, by several ways, beside kills.
class JudgedTransactions : public testing::Test {
 protected:
  void join(const std::string& name, const std::string& address, Paths paths) {
    const uint64_t seed = all_.size() + 1;
    all_.push_back(std::make_unique<Judged>(
        TestNode::connect_to(address, {.timeout_ns = 20 * kSecond_ns, .paths = paths}), name, seed));
  }
  // By this thread: a node ends with the thread that started it.
  void judge_beside(int kills_max, uint64_t pause_ns, const std::function<void()>& kill_once) {
    std::atomic<int> running = 0;
    std::vector<std::thread> threads;
    for (const auto& one : all_) {
      ++running;
      threads.emplace_back([&] {
        one->run();
        --running;
      });
    }
    // So many, or on a machine with other things to do no operation would ever get through.
    for (int kills = 0; kills < kills_max && running > 0; ++kills) {
      const timespec pause = {.tv_sec = 0, .tv_nsec = static_cast<int64_t>(pause_ns)};
      nanosleep(&pause, nullptr);
      kill_once();
    }
    for (std::thread& thread : threads) thread.join();
    uint64_t committed = 0;
    judge(all_, committed);
    EXPECT_GT(committed, all_.size() * kEach / 2);
  }

 private:
  std::vector<std::unique_ptr<Judged>> all_;
};

class JudgedShards : public JudgedTransactions, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, JudgedShards, testing::Values(1, 3), testing::PrintToStringParamName());

TEST_P(JudgedShards, are_strictly_serialisable_while_the_server_is_killed) {
  TestNode node({"--memory-limit", "384MiB", "--restart-backoff", "0ns", "--listen-address", "127.0.0.1:0",
                 "--server-shards", std::to_string(GetParam())});
  join("direct", node.socket(), Paths::kAuto);
  join("another", node.socket(), Paths::kAuto);
  join("calls", node.socket(), Paths::kRpc);
  join("tcp", "tcp:" + node.tcp(), Paths::kAuto);
  Client client = node.connect();
  judge_beside(25, 15 * kMillisecond_ns, [&] {
    (void)client.ping();
    kill(test::server_of(client), SIGKILL);
  });
}

class JudgedLogs : public JudgedTransactions,
                   public testing::WithParamInterface<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(All, JudgedLogs,
                         testing::Combine(testing::Values("everysec", "always"), testing::Values(1, 3)),
                         [](const auto& of) {
                           return std::string(std::get<0>(of.param)) + "_" +
                                  std::to_string(std::get<1>(of.param));
                         });

// The server alone, whose successor asks memory and log; now and then all processes, whose memory comes back
// from snapshots and logs, of all shards.
TEST_P(JudgedLogs, are_strictly_serialisable_while_the_server_or_everything_is_killed) {
  const test::TemporaryFolder folder;
  const auto [durability, shards] = GetParam();
  TestNode node({"--memory-limit", shards == 1 ? "128MiB" : "384MiB", "--restart-backoff", "0ns",
                 "--data-durability", durability, "--data-folder", folder.path(), "--server-shards",
                 std::to_string(shards), "--data-snapshot-every", "100ms"});
  join("direct", node.socket(), Paths::kAuto);
  join("another", node.socket(), Paths::kAuto);
  join("calls", node.socket(), Paths::kRpc);
  int kills = 0;
  judge_beside(15, 15 * kMillisecond_ns, [&] {
    if (++kills % 3 == 0) {
      node.kill_everything();
      node.start();
      return;
    }
    Client client = node.connect();
    (void)client.ping();
    kill(test::server_of(client), SIGKILL);
  });
}

}  // namespace
}  // namespace refract
