// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/loaded_node.h"

#include <fmt/core.h>

#include <algorithm>

#include "bench/load/entry.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr uint64_t kBatch = 256;

}  // namespace

uint64_t node_memory_bytes(uint64_t entries) noexcept {
  // A 16-byte header, key and value, rounded up to a size class, and a bucket's share: about 130 bytes.
  return 64 * kMiB + entries * 200;
}

Reported<PrivateNode> start_node(const BarRun& run, uint64_t entries, const std::string& backing) {
  return PrivateNode::start({.program = run.options.node_program,
                             .memory_limit_bytes = node_memory_bytes(entries),
                             .backing = backing});
}

Reported<Client> connect_to(const PrivateNode& node) {
  // With all page tables filled at once, so that no measurement pays for the first look at a page.
  return Client::connect(node.socket_path(), {.populate = true});
}

Reported<> load_entries(Client& client, uint64_t entries) {
  std::vector<Key> keys(kBatch);
  std::vector<Value> values(kBatch);
  std::vector<PutItem> puts(kBatch);
  for (uint64_t start = 0; start < entries; start += kBatch) {
    const size_t count = std::min(kBatch, entries - start);
    for (size_t i = 0; i < count; ++i) {
      keys[i] = Key::of(start + i);
      values[i] = Value::of(start + i);
      puts[i].key = keys[i].text();
      puts[i].value = values[i].text();
    }
    const std::span<PutItem> batch = std::span(puts).first(count);
    client.multi_put(batch);
    for (const PutItem& put : batch) {
      if (!put.result) return failed("put while loading", put.result.error().code);
    }
  }
  return {};
}

Reported<LoadedNode> start_loaded_node(const BarRun& run, uint64_t entries, const std::string& backing) {
  Reported<PrivateNode> node = start_node(run, entries, backing);
  if (!node) return report(node.error());
  {
    // What loaded the node mapped it piece by piece while it grew; a fresh client maps it as it is now.
    Reported<Client> loader = connect_to(*node);
    if (!loader) return report(loader.error());
    if (const Reported<> done = load_entries(*loader, entries); !done) return report(done.error());
  }
  Reported<Client> client = connect_to(*node);
  if (!client) return report(client.error());
  return LoadedNode{.node = std::move(*node), .client = std::move(*client)};
}

Reported<double> get_median_ns(const BarRun& run, Client& client, uint64_t entries, Samples& samples,
                               uint64_t seed) {
  samples.clear();
  Draw draw(seed, entries);
  Value value = {};
  while (samples.has_room()) {
    const uint64_t index = draw.next();
    const Key key = Key::of(index);
    const uint64_t before = ticks_before();
    const auto got = client.get_into(key.text(), value.writable_bytes());
    keep(&value);
    samples.record(ticks_after() - before);
    if (!got) return failed("get", got.error().code);
    if (!value.is_of(index)) return report(Code::kCorrupt, "a get returned another entry's value");
  }
  return run.timer.ns(samples.quantile_ticks(0.5));
}

Reported<double> get_rate(Client& client, uint64_t entries, uint64_t operations, uint64_t seed) {
  Draw draw(seed, entries);
  uint64_t wrong = 0;
  const uint64_t start_ns = now_ns();
  Value value = {};
  for (uint64_t i = 0; i < operations; ++i) {
    const uint64_t index = draw.next();
    const Key key = Key::of(index);
    wrong += uint64_t{!client.get_into(key.text(), value.writable_bytes()) || !value.is_of(index)};
  }
  const uint64_t duration_ns = now_ns() - start_ns;
  if (wrong != 0) {
    return report(Code::kCorrupt,
                  fmt::format("{} of {} gets found nothing or the wrong value", wrong, operations));
  }
  return static_cast<double>(operations) * 1e3 / static_cast<double>(duration_ns);
}

}  // namespace refract::bench
