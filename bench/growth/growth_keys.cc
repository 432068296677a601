// SPDX-License-Identifier: Apache-2.0
// What a get and a put cost by how many keys there are: ours on shared memory, beside a table of this
// process.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "bench/bars/loaded_node.h"
#include "bench/growth/growth.h"
#include "bench/growth/growth_slice.h"
#include "bench/load/open_addressing.h"
#include "bench/measure/machine.h"
#include "bench/measure/pointer_chase.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr uint64_t kKeysLeast = 10'000;
constexpr size_t kAtOnce = 16;
constexpr size_t kSamplesMax = 2'000'000;
constexpr double kShareOfFree = 0.85;  // Of what the system says is available; the rest is for others.

// Two reads that depend on each other, as a get's are, over as much memory as the entries take: what is left
// of a bend when all instructions of ours are taken away.
struct TwoReads {
  PointerChase chase;
  const char* side;
  uint64_t line = 0;
};

class KeysPoint {
 public:
  KeysPoint(const GrowthRun& run, uint64_t keys)
      : run_(run), keys_(keys), samples_(kSamplesMax), gets_(kAtOnce), puts_(kAtOnce) {}

  // A reason, where the point does not fit into memory.
  [[nodiscard]] Reported<std::optional<std::string>> start(GrowthPoint& point);
  [[nodiscard]] Reported<> turn(GrowthPoint& point, uint64_t number);
  // Of what stands after all puts.
  void add_memory(GrowthPoint& point);

 private:
  [[nodiscard]] Reported<> start_references(GrowthPoint& point, uint64_t free_bytes);
  [[nodiscard]] Slice slice(uint64_t number) {
    return {.timer = run_.bars.timer,
            .samples = samples_,
            .entries = keys_,
            .seed = number + 1,
            .seconds = run_.bars.options.slice_seconds};
  }
  void ours(GrowthPoint& point, uint64_t number);
  void ours_at_once(GrowthPoint& point, uint64_t number);
  void tables(GrowthPoint& point, uint64_t number);
  void reads(GrowthPoint& point, TwoReads& two);
  [[nodiscard]] bool get_many(Draw& draw);
  [[nodiscard]] bool put_many(Draw& draw);

  const GrowthRun& run_;
  uint64_t keys_;
  Samples samples_;
  std::vector<GetItem> gets_;
  std::vector<PutItem> puts_;
  std::array<Key, kAtOnce> many_keys_ = {};
  std::array<Value, kAtOnce> many_values_ = {};
  std::array<uint64_t, kAtOnce> many_ = {};
  std::optional<LoadedNode> loaded_;
  std::optional<OpenAddressing> table_;
  std::vector<TwoReads> two_reads_;
};

uint64_t available_bytes() {
  return static_cast<uint64_t>(static_cast<double>(meminfo("MemAvailable")) * 1024 * kShareOfFree);
}

uint64_t table_bytes(uint64_t keys) {
  return std::bit_ceil(keys + keys * 3 / 7) * (sizeof(Key) + sizeof(Value) + 1);
}

Reported<std::optional<std::string>> KeysPoint::start(GrowthPoint& point) {
  const uint64_t free_bytes = available_bytes();
  const uint64_t node_bytes = node_memory_bytes(keys_);
  if (node_bytes > free_bytes) {
    return fmt::format("{} keys: a node may need {} MiB, and {} MiB can be had", keys_, node_bytes / kMiB,
                       free_bytes / kMiB);
  }
  Reported<LoadedNode> loaded = start_loaded_node(run_.bars, keys_);
  if (!loaded) return report(loaded.error());
  loaded_.emplace(std::move(*loaded));
  if (const Reported<> started = start_references(point, free_bytes - node_bytes); !started) {
    return report(started.error());
  }
  return std::optional<std::string>();
}

Reported<> KeysPoint::start_references(GrowthPoint& point, uint64_t free_bytes) {
  if (table_bytes(keys_) > free_bytes) {
    point.note = fmt::format("the table would need {} MiB more than can be had", table_bytes(keys_) / kMiB);
    return {};
  }
  Reported<OpenAddressing> table = OpenAddressing::create(keys_);
  if (!table) return report(table.error());
  for (uint64_t i = 0; i < keys_; ++i) table->put(Key::of(i), Value::of(i));
  table_.emplace(std::move(*table));
  const Result<NodeStat> stat = loaded_->client.stat();
  if (!stat) return failed("stat", stat.error().code);
  const uint64_t footprint = stat->bytes_live;
  if (2 * footprint + table_bytes(keys_) > free_bytes) {
    point.note = "no room for the two reads beside node and table";
    return {};
  }
  for (const auto& [pages, side] : {std::pair(Pages::kSmall, "two reads, 4 KiB pages"),
                                    std::pair(Pages::kTransparent, "two reads, 2 MiB pages")}) {
    Reported<PointerChase> chase = PointerChase::create(footprint, pages);
    if (!chase) return report(chase.error());
    two_reads_.push_back({.chase = std::move(*chase), .side = side});
  }
  return {};
}

void KeysPoint::ours(GrowthPoint& point, uint64_t number) {
  Client& client = loaded_->client;
  Key key = {};
  Value value = {};
  Code code = Code::kOk;
  point.add({"get", "refract", "ns", "table", {}},
            median_ns_of(
                slice(number), "get", [&](uint64_t index) { key = Key::of(index); },
                [&] {
                  code = client.get_into(key.text(), value.writable_bytes()).code();
                  keep(&value);
                },
                [&](uint64_t index) { return code == Code::kOk && value.is_of(index); }));
  point.add({"gets a second", "refract", "/s", "table", {}},
            rate_of(slice(number), "get", 1, [&](Draw& draw) {
              const uint64_t index = draw.next();
              key = Key::of(index);
              return client.get_into(key.text(), value.writable_bytes()).has_value() && value.is_of(index);
            }));
  point.add({"put", "refract", "ns", "table", {}},
            median_ns_of(
                slice(number), "put",
                [&](uint64_t index) {
                  key = Key::of(index);
                  value = Value::of(index);
                },
                [&] { code = client.put(key.text(), value.text()).code(); },
                [&](uint64_t) { return code == Code::kOk; }));
}

bool KeysPoint::get_many(Draw& draw) {
  for (size_t i = 0; i < kAtOnce; ++i) {
    many_[i] = draw.next();
    many_keys_[i] = Key::of(many_[i]);
    gets_[i].key = many_keys_[i].text();
  }
  loaded_->client.multi_get(gets_);
  bool is_right = true;
  for (size_t i = 0; i < kAtOnce; ++i) {
    Value value = {};
    if (!gets_[i].result || gets_[i].value.size() != sizeof(value)) return false;
    std::memcpy(&value, gets_[i].value.data(), sizeof(value));
    is_right = is_right && value.is_of(many_[i]);
  }
  return is_right;
}

bool KeysPoint::put_many(Draw& draw) {
  for (size_t i = 0; i < kAtOnce; ++i) {
    many_[i] = draw.next();
    many_keys_[i] = Key::of(many_[i]);
    many_values_[i] = Value::of(many_[i]);
    puts_[i].key = many_keys_[i].text();
    puts_[i].value = many_values_[i].text();
  }
  loaded_->client.multi_put(puts_);
  return std::ranges::all_of(puts_, [](const PutItem& put) { return put.result.has_value(); });
}

void KeysPoint::ours_at_once(GrowthPoint& point, uint64_t number) {
  point.add({"gets a second", "refract, multi_get of 16", "/s", "table", {}},
            rate_of(slice(number), "multi_get", kAtOnce, [&](Draw& draw) { return get_many(draw); }));
  point.add({"puts a second", "refract, 16 in flight", "/s", "table", {}},
            rate_of(slice(number), "multi_put", kAtOnce, [&](Draw& draw) { return put_many(draw); }));
}

void KeysPoint::tables(GrowthPoint& point, uint64_t number) {
  Key key = {};
  Value value = {};
  bool is_found = false;
  point.add({"get", "table", "ns", "", {}},
            median_ns_of(
                slice(number), "get of the table", [&](uint64_t index) { key = Key::of(index); },
                [&] {
                  is_found = table_->get(key, value);
                  keep(&value);
                },
                [&](uint64_t index) { return is_found && value.is_of(index); }));
  point.add({"gets a second", "table", "/s", "", {}},
            rate_of(slice(number), "get of the table", 1, [&](Draw& draw) {
              const uint64_t index = draw.next();
              return table_->get(Key::of(index), value) && value.is_of(index);
            }));
  point.add({"put", "table", "ns", "", {}},
            median_ns_of(
                slice(number), "put into the table",
                [&](uint64_t index) {
                  key = Key::of(index);
                  value = Value::of(index);
                },
                [&] { table_->put(key, value); }, [](uint64_t) { return true; }));
  point.add({"puts a second", "table", "/s", "", {}},
            rate_of(slice(number), "put into the table", 1, [&](Draw& draw) {
              const uint64_t index = draw.next();
              table_->put(Key::of(index), Value::of(index));
              return true;
            }));
}

void KeysPoint::reads(GrowthPoint& point, TwoReads& two) {
  samples_.clear();
  const uint64_t end_ns = slice(0).end_ns();
  while (now_ns() < end_ns) {
    const uint64_t before = ticks_before();
    two.line = two.chase.next(two.chase.next(two.line));
    keep(two.line);
    samples_.record(ticks_after() - before);
  }
  point.add({"get", two.side, "ns", "", {}}, run_.bars.timer.ns(samples_.quantile_ticks(0.5)));
}

Reported<> KeysPoint::turn(GrowthPoint& point, uint64_t number) {
  ours(point, number);
  ours_at_once(point, number);
  for (TwoReads& two : two_reads_) reads(point, two);
  if (table_) tables(point, number);
  return {};
}

void KeysPoint::add_memory(GrowthPoint& point) {
  const auto keys = static_cast<double>(keys_);
  if (const Result<NodeStat> stat = loaded_->client.stat()) {
    const uint64_t bytes = resident_bytes(loaded_->node, stat->bytes_total);
    point.add({"memory an entry", "refract", "B", "table", {}}, static_cast<double>(bytes) / keys);
  }
  if (table_) {
    point.add({"memory an entry", "table", "B", "", {}}, static_cast<double>(table_bytes(keys_)) / keys);
  }
}

}  // namespace

Reported<GrowthCurve> measure_growth_by_keys(const GrowthRun& run) {
  GrowthCurve curve = {.axis = GrowthAxis::kKeys, .title = "Keys: shared memory, one client"};
  curve.how =
      "16-byte keys with 64-byte values, all in the store, asked for in uniform random order by one client "
      "on core 0; the server on core 1. 'get' and 'put' are medians of operations timed one by one, one in "
      "flight; 16 in flight is a multi_put of 16. The table is open addressing in this process, key and "
      "value inline, on transparent huge pages. Two reads: the second depends on the first, over as much "
      "memory as the store's live bytes. Memory of the node: all that keeper and server have resident, "
      "what it takes at its start included.";
  for (const uint64_t keys : run.places(kKeysLeast, run.options.keys_max)) {
    GrowthPoint point = {.x = static_cast<double>(keys)};
    KeysPoint measured(run, keys);
    const Reported<std::optional<std::string>> lacking = measured.start(point);
    if (!lacking) return report(lacking.error());
    if (*lacking) {
      curve.gaps.push_back(**lacking);
      continue;
    }
    const Reported<> done = measure_turns(
        run, point, [&](GrowthPoint& figures, uint64_t number) { return measured.turn(figures, number); });
    if (!done) return report(done.error());
    measured.add_memory(point);
    if (run.options.on_point) run.options.on_point(curve.axis, point);
    curve.points.push_back(std::move(point));
  }
  return curve;
}

}  // namespace refract::bench
