// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"
#include "bench/load/entry.h"

#include "refract/fabric/conformance/allocation_count.h"

namespace refract::bench::bar_counts {
namespace {

// Counts are the same on every machine and in every run, so a few operations say as much as many.
constexpr uint64_t kOperations = 10'000;
constexpr uint64_t kEntries = 10'000;

Reported<> get_all(Client& client, uint64_t seed) {
  Draw draw(seed, kEntries);
  Value value = {};
  for (uint64_t i = 0; i < kOperations; ++i) {
    const uint64_t index = draw.next();
    const Key key = Key::of(index);
    const auto got = client.get_into(key.text(), value.writable_bytes());
    if (!got) return failed("get", got.error().code);
    if (!value.is_of(index)) return report(Code::kCorrupt, "a get returned another entry's value");
  }
  return {};
}

Reported<> put_all(Client& client, uint64_t seed) {
  Draw draw(seed, kEntries);
  for (uint64_t i = 0; i < kOperations; ++i) {
    const uint64_t index = draw.next();
    const Key key = Key::of(index);
    const Value value = Value::of(index);
    const auto put = client.put(key.text(), value.text());
    if (!put) return failed("put", put.error().code);
  }
  return {};
}

using Round = Reported<> (*)(Client& client, uint64_t seed);

// How many messages an operation of `round` takes to the server; it answers each with one.
Reported<Outcome> messages_of(const BarRun& run, Round round) {
  Reported<LoadedNode> loaded = start_loaded_node(run, kEntries);
  if (!loaded) return report(loaded.error());
  Outcome outcome;
  for (int turn = 0; turn < 2; ++turn) {
    const ClientCounters before = loaded->client.counters();
    if (const Reported<> done = round(loaded->client, static_cast<uint64_t>(turn)); !done) {
      return report(done.error());
    }
    const uint64_t calls = loaded->client.counters().messages_sent - before.messages_sent;
    outcome.samples.push_back(static_cast<double>(calls) / static_cast<double>(kOperations));
  }
  outcome.note = fmt::format("the client's own count, over {} operations", kOperations);
  return outcome;
}

Reported<Outcome> measure_allocations(BarRun& run) {
  Reported<LoadedNode> loaded = start_loaded_node(run, kEntries);
  if (!loaded) return report(loaded.error());
  Outcome outcome;
  double gets = 0;
  double puts = 0;
  for (int turn = 0; turn <= 2; ++turn) {
    const auto seed = static_cast<uint64_t>(turn);
    const uint64_t start = allocation_count();
    if (const Reported<> done = get_all(loaded->client, seed); !done) return report(done.error());
    const uint64_t middle = allocation_count();
    if (const Reported<> done = put_all(loaded->client, seed); !done) return report(done.error());
    const uint64_t end = allocation_count();
    if (turn == 0) continue;  // Warms up.
    gets = static_cast<double>(middle - start) / static_cast<double>(kOperations);
    puts = static_cast<double>(end - middle) / static_cast<double>(kOperations);
    outcome.samples.push_back(std::max(gets, puts));
  }
  outcome.details = {{"get", gets, ""}, {"put", puts, ""}};
  outcome.note =
      fmt::format("operator new of this program and the client in it, over {} of each", kOperations);
  return outcome;
}

const BarRows kRows = {
    {"get-messages", "messages a get", "0", Sense::kAtMost, 0, "",
     [](BarRun& run) { return messages_of(run, get_all); }},
    {"put-messages", "messages a put, each way", "1", Sense::kAtMost, 1, "",
     [](BarRun& run) { return messages_of(run, put_all); }},
    {"allocations", "allocations a get or put, warm", "0", Sense::kAtMost, 0, "", measure_allocations},
};

}  // namespace
}  // namespace refract::bench::bar_counts
