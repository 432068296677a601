// SPDX-License-Identifier: Apache-2.0
// What one client can do to others with keys that all fall into one bucket: how long a node takes to read
// them back from its log, and how long puts of others take beside four clients that use them; both against
// the same with ordinary keys.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "bench/bars/bars.h"
#include "bench/bars/durable_node.h"
#include "bench/bars/loaded_node.h"

#include "refract/base/prng.h"
#include "refract/base/testing/keys_of_hash.h"
#include "refract/base/units.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/shm/domain.h"
#include "refract/memory/space.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"

namespace refract::bench::bar_crowded {
namespace {

constexpr uint64_t kKeys = 40'000;
constexpr uint64_t kFewKeys = 2'000;  // Where nothing is judged.
constexpr int kBits = 24;             // More buckets than so many keys make.
constexpr size_t kClients = 4;
constexpr size_t kManyKeys = 256;  // Of one multi_get or multi_put.
constexpr uint64_t kHonestKeys = 10'000;
constexpr uint64_t kPatience_ns = 120 * kSecond_ns;

// As every client of this host can read it.
Reported<uint64_t> hash_seed_of(const PrivateNode& node) {
  auto domain = fabric::shm::ClientDomain::create();
  if (!domain) return report(domain.error());
  const Reported<fabric::Channel*> channel = (*domain)->connect(node.socket_path());
  if (!channel) return report(channel.error());
  runtime::Shard shard(system_clock());
  const rpc::Session session(**channel, shard);
  const fabric::Dispatcher dispatcher(**domain, shard);
  const bool is_open =
      shard.run_until([&] { return session.state() == rpc::Session::State::kOpen; }, now_ns() + kPatience_ns);
  if (!is_open) return report(Code::kUnavailable, "the node refuses every client");
  return reinterpret_cast<const SpaceHeader*>((*channel)->local_view().base)->hash_seed;
}

uint64_t key_count(const BarRun& run) noexcept {
  return run.options.judged ? kKeys : kFewKeys;
}

// All as long as the crowded ones.
std::vector<std::string> ordinary_keys(uint64_t count) {
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t word = mix(i);
    keys.emplace_back(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  return keys;
}

std::vector<std::string> crowded_keys(uint64_t seed, uint64_t count) {
  const test::KeysOfHash key_of(seed);
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < count; ++i) keys.push_back(key_of.of_bucket(i, 0x123, kBits));
  return keys;
}

Reported<> put_all(Client& client, const std::vector<std::string>& keys) {
  std::vector<PutItem> items;
  for (size_t at = 0; at < keys.size(); at += items.size()) {
    items.clear();
    for (size_t i = at; i < std::min(at + kManyKeys, keys.size()); ++i) {
      items.push_back({.key = keys[i], .value = keys[i]});
    }
    client.multi_put(items);
    for (const PutItem& item : items) {
      if (!item.result) return failed("multi_put", item.result.code());
    }
  }
  return {};
}

// A node with a log, and keys of one kind in it.
struct Logged {
  DurableNode node;
  std::vector<std::string> keys;
};

Reported<Logged> start_logged(const BarRun& run, bool is_crowded) {
  Reported<DurableNode> node = DurableNode::start(run, {.entries = 8 * key_count(run)});
  if (!node) return report(node.error());
  const Reported<uint64_t> seed = hash_seed_of(node->node());
  if (!seed) return report(seed.error());
  const uint64_t count = key_count(run);
  Logged made{.node = std::move(*node),
              .keys = is_crowded ? crowded_keys(*seed, count) : ordinary_keys(count)};
  Reported<Client> client = connect_to(made.node.node());
  if (!client) return report(client.error());
  if (const Reported<> put = put_all(*client, made.keys); !put) return report(put.error());
  made.node.stop();
  return made;
}

Reported<double> start_seconds(Logged& logged, uint64_t index) {
  const std::string& key = logged.keys[index % logged.keys.size()];
  const Reported<double> seconds = logged.node.start_again(key, key);
  logged.node.stop();
  return seconds;
}

// What the four others do, and where.
struct Others {
  std::string address;
  bool gets = false;
};

// Puts the keys, and gets them where they are to be asked for, many at a time, until it is told to stop.
void use_keys(Client& client, const std::vector<std::string>& keys, bool with_gets, uint64_t seed,
              const std::atomic<bool>& is_over, std::atomic<uint64_t>& used) {
  Prng prng(seed);
  std::vector<PutItem> puts(kManyKeys);
  std::vector<GetItem> gets(kManyKeys);
  while (!is_over) {
    for (size_t i = 0; i < kManyKeys; ++i) {
      const std::string& key = keys[prng.below(keys.size())];
      puts[i] = {.key = key, .value = key};
      gets[i].key = keys[prng.below(keys.size())];
    }
    client.multi_put(puts);
    if (with_gets) client.multi_get(gets);
    used += (with_gets ? 2 : 1) * kManyKeys;
  }
}

struct Beside {
  double p99_us = 0;
  double calls_per_us = 0;  // Of the others, keys.
};

// One client's puts, one in flight, while four others use these keys.
Reported<Beside> honest_puts(const BarRun& run, const std::string& socket, const Others& others,
                             const std::vector<std::string>& keys, uint64_t turn) {
  Reported<Client> honest = Client::connect(socket);
  if (!honest) return report(honest.error());
  std::vector<Client> clients;
  for (size_t k = 0; k < kClients; ++k) {
    Reported<Client> client = Client::connect(others.address);
    if (!client) return report(client.error());
    clients.push_back(std::move(*client));
  }
  std::atomic<bool> is_over = false;
  std::atomic<uint64_t> used = 0;
  std::vector<std::thread> threads;
  for (size_t k = 0; k < kClients; ++k) {
    threads.emplace_back(
        [&, k] { use_keys(clients[k], keys, others.gets, turn * kClients + k + 1, is_over, used); });
  }
  std::vector<double> times_us;
  Prng prng(turn + 1);
  const uint64_t begun_ns = now_ns();
  const auto slice_ns = static_cast<uint64_t>(4 * run.options.slice_seconds * 1e9);
  Code code = Code::kOk;
  while (now_ns() - begun_ns < slice_ns && code == Code::kOk) {
    const std::string key = fmt::format("honest {}", prng.below(kHonestKeys));
    const uint64_t put_ns = now_ns();
    code = honest->put(key, key).code();
    times_us.push_back(static_cast<double>(now_ns() - put_ns) * 1e-3);
  }
  const auto passed_us = static_cast<double>(now_ns() - begun_ns) * 1e-3;
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  if (code != Code::kOk) return failed("put beside others", code);
  const size_t rank = times_us.size() * 99 / 100;
  std::ranges::nth_element(times_us, times_us.begin() + static_cast<ptrdiff_t>(rank));
  return Beside{.p99_us = times_us[rank], .calls_per_us = static_cast<double>(used.load()) / passed_us};
}

Reported<Outcome> measure_crowded_restart(BarRun& run) {
  Reported<Logged> ordinary = start_logged(run, false);
  if (!ordinary) return report(ordinary.error());
  Reported<Logged> crowded = start_logged(run, true);
  if (!crowded) return report(crowded.error());
  return in_turns(run, fmt::format("{} keys in the log, no snapshot", key_count(run)),
                  [&](uint64_t turn) {
                    const Reported<double> one = start_seconds(*ordinary, turn * 997);
                    return ratio_of({.ours = {"keys of one bucket", start_seconds(*crowded, turn * 997)},
                                     .theirs = {"ordinary keys", one},
                                     .unit = "ms",
                                     .scale = 1e3});
                  },
                  {.warms_up = false});
}

// Over shm the others put alone: gets of ordinary keys would ask the server for nothing. Over TCP all of them
// are calls, whatever the keys.
Reported<Outcome> measure_beside(BarRun& run, bool over_tcp) {
  const uint64_t count = key_count(run);
  const NodeOptions options{.program = run.options.node_program,
                            .memory_limit_bytes = node_memory_bytes(16 * count),
                            .listen_address = over_tcp ? "127.0.0.1" : ""};
  const Reported<PrivateNode> node = PrivateNode::start(options);
  if (!node) return report(node.error());
  const Reported<uint64_t> seed = hash_seed_of(*node);
  if (!seed) return report(seed.error());
  const std::vector<std::string> ordinary = ordinary_keys(count);
  const std::vector<std::string> crowded = crowded_keys(*seed, count);
  Reported<Client> loader = connect_to(*node);
  if (!loader) return report(loader.error());
  for (const auto* keys : {&ordinary, &crowded}) {
    if (const Reported<> put = put_all(*loader, *keys); !put) return report(put.error());
  }
  const Others others{.address = over_tcp ? node->tcp_address() : node->socket_path(), .gets = over_tcp};
  return in_turns(
      run,
      fmt::format("{} clients over {} {} {} of {} keys at a time; the honest one on shm", kClients,
                  over_tcp ? "TCP" : "shm", over_tcp ? "put and get" : "put", kManyKeys, count),
      [&](uint64_t turn) -> Reported<Turn> {
        const Reported<Beside> one = honest_puts(run, node->socket_path(), others, ordinary, turn);
        if (!one) return report(one.error());
        const Reported<Beside> other = honest_puts(run, node->socket_path(), others, crowded, turn);
        if (!other) return report(other.error());
        return Turn{other->p99_us / one->p99_us,
                    {{"p99, ordinary keys", one->p99_us, "us"},
                     {"p99, keys of one bucket", other->p99_us, "us"},
                     {"others, ordinary keys", one->calls_per_us, "M/s"},
                     {"others, keys of one bucket", other->calls_per_us, "M/s"}}};
      });
}

const BarRows kRows = {
    {"crowded-restart", "start from a log, 40,000 keys of one bucket / ordinary ones", "at most 2.00",
     Sense::kAtMost, 2, "x", measure_crowded_restart},
    {"crowded-put", "put's p99 beside 4 clients with keys of one bucket / ordinary ones", "at most 2.00",
     Sense::kAtMost, 2, "x", [](BarRun& run) { return measure_beside(run, false); }},
    {"crowded-put-tcp", "the same, the four over TCP", "at most 2.00", Sense::kAtMost, 2, "x",
     [](BarRun& run) { return measure_beside(run, true); }},
};

}  // namespace
}  // namespace refract::bench::bar_crowded
