// SPDX-License-Identifier: Apache-2.0
// Clients that are killed behind the prepare of a transaction over several shards: when its keys are free.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/load/entry.h"
#include "bench/sides/private_node.h"

#include "refract/base/testing/processes/process.h"
#include "refract/client/client.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/shm/domain.h"
#include "refract/kv/calls/transaction_calls.h"
#include "refract/memory/host/descriptor.h"
#include "refract/node/observe/watcher.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"

namespace refract::bench::bar_killed_clients {
namespace {

constexpr uint64_t kKills = 40;  // In a turn.
constexpr uint64_t kPatience_ns = 10 * kSecond_ns;

// A session with the first shard.
class FirstShard {
 public:
  // Null: the node refuses it.
  [[nodiscard]] static std::unique_ptr<FirstShard> connect(const std::string& path) {
    auto domain = fabric::shm::ClientDomain::create();
    if (!domain) return nullptr;
    const Reported<fabric::Channel*> channel = (*domain)->connect(path);
    if (!channel) return nullptr;
    std::unique_ptr<FirstShard> first(new FirstShard(std::move(*domain), **channel));
    const auto is_open = [&] { return first->session_.state() == rpc::Session::State::kOpen; };
    if (!first->shard_.run_until(is_open, now_ns() + kPatience_ns)) return nullptr;
    return first;
  }
  // A key of another shard is refused as such.
  [[nodiscard]] Code prepare(std::string_view key) {
    const uint64_t deadline_ns = shard_.refresh_now() + kPatience_ns;
    const Result<kv::TransactionName> name = block_on(shard_, calls_.begin(deadline_ns));
    if (!name) return name.code();
    std::vector<kv::RpcBatchWrite> writes{{.key = std::as_bytes(std::span(key)),
                                           .kind = kv::WriteKind::kPut,
                                           .value = std::as_bytes(std::span(key))}};
    kv::RpcBatch batch{.conditions = {}, .writes = writes};
    const kv::TransactionCalls::Terms terms{.name = *name, .begun_ns = 0, .deadline_ns = deadline_ns};
    return block_on(shard_, calls_.prepare(batch, terms)).code();
  }
  // Parts that hold keys.
  [[nodiscard]] Reported<uint64_t> parts() {
    const auto state = observe::Watcher(session_, shard_, kPatience_ns).state();
    if (!state) return report(state.error());
    for (const auto& [counter, count] : state->counters) {
      if (counter == "transactions.parts") return count;
    }
    return report(Code::kUnsupported, "the node does not count its parts");
  }

 private:
  FirstShard(std::unique_ptr<fabric::shm::ClientDomain> domain, fabric::Channel& channel)
      : domain_(std::move(domain)), session_(channel, shard_), dispatcher_(*domain_, shard_) {}

  std::unique_ptr<fabric::shm::ClientDomain> domain_;
  runtime::Shard shard_{system_clock()};
  rpc::Session session_;
  fabric::Dispatcher dispatcher_;
  kv::TransactionCalls calls_{session_, shard_};
};

// Prepares a key, says so, and stands still.
class Holder {
 public:
  [[nodiscard]] static Reported<Holder> start(const std::string& path, std::string_view key) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return report(Code::kUnavailable, "there is no pipe");
    const Descriptor said(ends[0]);
    const Descriptor says(ends[1]);
    Holder holder;
    holder.process_ = test::Process::run([&] {
      const std::unique_ptr<FirstShard> first = FirstShard::connect(path);
      const char code = first == nullptr ? '-' : first->prepare(key) == Code::kOk ? '+' : '!';
      if (write(says.get(), &code, 1) != 1) return 1;
      for (;;) pause();
    });
    char code = 0;
    if (read(said.get(), &code, 1) == 1 && code == '+') return holder;
    return report(Code::kUnavailable, "a client could not prepare a transaction");
  }
  void kill() const { process_.signal(SIGKILL); }

 private:
  test::Process process_;
};

struct Scene {
  PrivateNode node;
  std::unique_ptr<FirstShard> watched;
  Client client;
  std::string key;  // Of the first shard.
};

Reported<Scene> make_scene(const BarRun& run) {
  Reported<PrivateNode> node = PrivateNode::start({.program = run.options.node_program,
                                                   .memory_limit_bytes = 512 * kMiB,
                                                   .is_bound = false,
                                                   .shards = 2});
  if (!node) return report(node.error());
  auto client = Client::connect(node->socket_path());
  if (!client) return report(client.error());
  std::unique_ptr<FirstShard> first = FirstShard::connect(node->socket_path());
  if (first == nullptr) return report(Code::kUnavailable, "the node refuses a client");
  for (uint64_t i = 0; i < 1'000; ++i) {
    const std::string key = fmt::format("held {}", i);
    const Code code = first->prepare(key);
    if (code == Code::kWrongShard) continue;
    if (code != Code::kOk) return report(code, "a transaction could not be prepared");
    // It goes with its session.
    first = FirstShard::connect(node->socket_path());
    if (first == nullptr) break;
    return Scene{std::move(*node), std::move(first), std::move(*client), key};
  }
  return report(Code::kUnavailable, "no key of the first shard was found");
}

// Of so many kills; milliseconds from each to the end of `await`.
template <typename Await>
Reported<std::vector<double>> times_of(const BarRun& run, const Scene& scene, Await&& await) {
  std::vector<double> times;
  const uint64_t kills = run.options.judged ? kKills : 2;
  for (uint64_t i = 0; i < kills; ++i) {
    Reported<Holder> holder = Holder::start(scene.node.socket_path(), scene.key);
    if (!holder) return report(holder.error());
    const uint64_t begun_ns = now_ns();
    holder->kill();
    if (const Reported<> is_free = await(); !is_free) return report(is_free.error());
    times.push_back(static_cast<double>(now_ns() - begun_ns) * 1e-6);
  }
  std::ranges::sort(times);
  return times;
}

Reported<Turn> longest_of(const Reported<std::vector<double>>& times) {
  if (!times) return report(times.error());
  const size_t at = (times->size() * 99 + 99) / 100 - 1;
  return Turn{(*times)[at],
              {{"median", (*times)[times->size() / 2], "ms"}, {"longest", times->back(), "ms"}}};
}

Reported<Outcome> measure_free(BarRun& run) {
  Reported<Scene> scene = make_scene(run);
  if (!scene) return report(scene.error());
  return in_turns(
      run,
      fmt::format("{} kills a turn, one after the other; a node of two shards, asked again and again "
                  "how many parts hold keys, which demands none",
                  kKills),
      [&](uint64_t) {
        return longest_of(times_of(run, *scene, [&]() -> Reported<> {
          for (;;) {
            const Reported<uint64_t> parts = scene->watched->parts();
            if (!parts) return report(parts.error());
            if (*parts == 0) return {};
          }
        }));
      });
}

Reported<Outcome> measure_writer(BarRun& run) {
  Reported<Scene> scene = make_scene(run);
  if (!scene) return report(scene.error());
  return in_turns(
      run,
      fmt::format("{} kills a turn, one after the other; a put of the held key is sent at that moment",
                  kKills),
      [&](uint64_t) {
        return longest_of(times_of(run, *scene, [&]() -> Reported<> {
          const Result<uint64_t> put = scene->client.put(scene->key, "1");
          if (put) return {};
          return report(put.code(), "the held key could not be written");
        }));
      });
}

const BarRows kRows = {
    {"txn-killed-free", "p99 until keys of a client that is killed behind its prepare are free",
     "at most 50 ms", Sense::kAtMost, 50, "ms", measure_free},
    {"txn-killed-put", "p99 of a put that waits for such a key", "at most 20 ms", Sense::kAtMost, 20, "ms",
     measure_writer},
};

}  // namespace
}  // namespace refract::bench::bar_killed_clients
