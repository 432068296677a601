// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <span>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"
#include "bench/load/open_addressing.h"
#include "bench/load/zipf.h"
#include "bench/measure/instruction_count.h"
#include "bench/measure/machine.h"

#include "refract/base/units.h"
#include "refract/client/reader.h"

namespace refract::bench::bar_get_throughput {
namespace {

constexpr double kSkew = 0.99;
constexpr uint64_t kHotKeys = 1000;
constexpr size_t kBatch = 16;
constexpr size_t kLongBatch = 256;

// Entries in the order in which they are asked for. Drawn beforehand: a Zipf law costs more than a get.
using Sequence = std::vector<uint32_t>;

Sequence sequence_of(uint64_t entries, uint64_t operations, double skew, uint64_t seed) {
  KeyPicker picker(entries, skew, seed);
  Sequence sequence(operations);
  for (uint32_t& index : sequence) index = static_cast<uint32_t>(picker.next());
  return sequence;
}

// Both stores of a turn: entries[i] is asked for, and found as it was put.
class Sides {
 public:
  Sides(Client& client, const OpenAddressing& table)
      : client_(client), table_(table), keys_(kLongBatch), items_(kLongBatch), values_(kBatch) {
    for (GetItem& item : items_) item.value.reserve(sizeof(Value));
  }

  [[nodiscard]] Reported<double> get(const Sequence& sequence) {
    return timed(sequence, [&](size_t i) {
      Value value = {};
      const Key key = Key::of(sequence[i]);
      return client_.get_into(key.text(), value.writable_bytes()).has_value() && value.is_of(sequence[i]);
    });
  }
  [[nodiscard]] Reported<double> get_inline(const Sequence& sequence) {
    Result<Reader> reader = client_.reader();
    if (!reader) return failed("reader", reader.error().code);
    return timed(sequence, [&](size_t i) {
      Value value = {};
      const Key key = Key::of(sequence[i]);
      return reader->get_into(key.text(), value.writable_bytes()).has_value() && value.is_of(sequence[i]);
    });
  }
  [[nodiscard]] Reported<double> get_announced(const Sequence& sequence) {
    return timed(sequence, [&](size_t i) {
      const size_t ahead = i + Client::kAnnouncedAhead;
      if (ahead < sequence.size()) client_.announce(Key::of(sequence[ahead]).text());
      Value value = {};
      const Key key = Key::of(sequence[i]);
      return client_.get_into(key.text(), value.writable_bytes()).has_value() && value.is_of(sequence[i]);
    });
  }
  [[nodiscard]] Reported<double> look_up(const Sequence& sequence) {
    return timed(sequence, [&](size_t i) {
      Value value = {};
      return table_.get(Key::of(sequence[i]), value) && value.is_of(sequence[i]);
    });
  }

  // In calls of kSize.
  template <size_t kSize>
  [[nodiscard]] Reported<double> multi_get(const Sequence& sequence) {
    return timed_by_batch<kSize>(sequence, [&](std::span<const uint32_t> batch) {
      for (size_t i = 0; i < kSize; ++i) {
        keys_[i] = Key::of(batch[i]);
        items_[i].key = keys_[i].text();
      }
      client_.multi_get(std::span(items_).first(kSize));
      uint64_t right = 0;
      for (size_t i = 0; i < kSize; ++i) {
        uint64_t last = 0;
        if (items_[i].value.size() != sizeof(Value)) continue;
        std::memcpy(&last, items_[i].value.data() + sizeof(Value) - sizeof(last), sizeof(last));
        right += uint64_t{items_[i].result.has_value() && last == Value::of(batch[i]).words[7]};
      }
      return right;
    });
  }
  [[nodiscard]] Reported<double> look_up_many(const Sequence& sequence) {
    return timed_by_batch<kBatch>(sequence, [&](std::span<const uint32_t> batch) {
      for (size_t i = 0; i < kBatch; ++i) {
        keys_[i] = Key::of(batch[i]);
        table_.prefetch(keys_[i]);
      }
      uint64_t right = 0;
      for (size_t i = 0; i < kBatch; ++i) {
        right += uint64_t{table_.get(keys_[i], values_[i]) && values_[i].is_of(batch[i])};
      }
      return right;
    });
  }

 private:
  static Reported<double> rate(uint64_t operations, uint64_t right, uint64_t duration_ns) {
    if (right != operations) {
      return report(Code::kCorrupt, fmt::format("{} of {} gets found nothing or the wrong value",
                                                operations - right, operations));
    }
    return static_cast<double>(operations) * 1e3 / static_cast<double>(duration_ns);
  }
  template <typename Get>
  static Reported<double> timed(const Sequence& sequence, Get get) {
    uint64_t right = 0;
    const uint64_t start_ns = now_ns();
    for (size_t i = 0; i < sequence.size(); ++i) right += uint64_t{get(i)};
    return rate(sequence.size(), right, now_ns() - start_ns);
  }
  template <size_t kSize, typename Get>
  static Reported<double> timed_by_batch(const Sequence& sequence, Get get) {
    const uint64_t operations = sequence.size() / kSize * kSize;
    uint64_t right = 0;
    const uint64_t start_ns = now_ns();
    for (size_t i = 0; i < operations; i += kSize) right += get(std::span(sequence).subspan(i, kSize));
    return rate(operations, right, now_ns() - start_ns);
  }

  Client& client_;
  const OpenAddressing& table_;
  std::vector<Key> keys_;
  std::vector<GetItem> items_;
  std::vector<Value> values_;
};

using Measure = Reported<double> (Sides::*)(const Sequence&);

struct Contest {
  uint64_t entries = 0;
  double skew = 0;
  Measure ours = nullptr;
  Measure theirs = nullptr;
};

std::string note_of(const Contest& contest, const OpenAddressing& table) {
  const bool is_large = meminfo("ShmemHugePages") > 0;
  return fmt::format("{} entries, {}; node on {} pages, table of {} slots on transparent huge pages",
                     contest.entries, contest.skew > 0 ? fmt::format("zipf {}", contest.skew) : "uniform",
                     is_large ? "2 MiB" : "4 KiB", table.slot_count());
}

// Of one operation on one hot key, the loop included; 0 where processes may not be traced, or the operation
// is a call of more than kBatch keys.
double instructions_of_one(const PrivateNode& node, const OpenAddressing& table, Measure measure) {
  struct Caller {
    Client client;
    Sides sides;
    Caller(Client&& own, const OpenAddressing& table) : client(std::move(own)), sides(client, table) {}
  };
  const auto instructions = instructions_of([&]() -> Operations {
    Reported<Client> client = connect_to(node);
    if (!client) return [](unsigned) { return false; };
    const auto caller = std::make_shared<Caller>(std::move(*client), table);
    return [caller, measure](unsigned count) {
      return (caller->sides.*measure)(Sequence(count * kBatch)).has_value();
    };
  });
  // None of a long call was made: what was counted is the loop.
  const double each = static_cast<double>(instructions.value_or(0)) / kBatch;
  return each < 10 ? 0 : each;
}

Reported<Outcome> measure(BarRun& run, const Contest& contest) {
  Reported<LoadedNode> loaded = start_loaded_node(run, contest.entries);
  if (!loaded) return report(loaded.error());
  Reported<OpenAddressing> table = OpenAddressing::create(contest.entries);
  if (!table) return report(table.error());
  for (uint64_t i = 0; i < contest.entries; ++i) table->put(Key::of(i), Value::of(i));
  Sides sides(loaded->client, *table);

  const std::string note = note_of(contest, *table);
  Reported<Outcome> outcome = in_turns(run, note, [&](uint64_t turn) -> Reported<Turn> {
    const Sequence sequence = sequence_of(contest.entries, run.options.operations, contest.skew, turn + 1);
    return ratio_of({.ours = {"get", (sides.*contest.ours)(sequence)},
                     .theirs = {"table", (sides.*contest.theirs)(sequence)},
                     .unit = "M/s"});
  });
  if (!outcome || contest.entries != run.options.entries || contest.skew > 0) return outcome;
  for (const auto& [name, side] : {std::pair{"get", contest.ours}, std::pair{"table", contest.theirs}}) {
    const double instructions = instructions_of_one(loaded->node, *table, side);
    if (instructions > 0) outcome->details.push_back({name, instructions, "instructions"});
  }
  return outcome;
}

Reported<Outcome> measure_gets(BarRun& run, uint64_t entries, double skew, Measure ours = &Sides::get) {
  return measure(run, {.entries = entries, .skew = skew, .ours = ours, .theirs = &Sides::look_up});
}

Reported<Outcome> measure_batches(BarRun& run, uint64_t entries, double skew, Measure ours) {
  return measure(run, {.entries = entries, .skew = skew, .ours = ours, .theirs = &Sides::look_up_many});
}

Reported<Outcome> measure_hot_get(BarRun& run) {
  Reported<LoadedNode> loaded = start_loaded_node(run, std::min(kHotKeys, run.options.entries));
  if (!loaded) return report(loaded.error());
  return in_turns(
      run, fmt::format("{} keys, one get after the other", kHotKeys), [&](uint64_t turn) -> Reported<Turn> {
        const Reported<double> rate =
            get_rate(loaded->client, std::min(kHotKeys, run.options.entries), run.options.operations, turn);
        if (!rate) return report(rate.error());
        return Turn{1e3 / *rate};
      });
}

const BarRows kRows = {
    {"get-inline", "get by a thread's reader on shm, throughput / in-process table", "at least 0.32",
     Sense::kAtLeast, 0.32, "x",
     [](BarRun& run) { return measure_gets(run, run.options.entries, 0, &Sides::get_inline); }},
    {"get-inline-many", "the same, 10 million entries", "at least 0.34", Sense::kAtLeast, 0.34, "x",
     [](BarRun& run) { return measure_gets(run, run.options.many_entries, 0, &Sides::get_inline); }},
    {"get-inline-zipf", "the same, zipf 0.99", "at least 0.35", Sense::kAtLeast, 0.35, "x",
     [](BarRun& run) { return measure_gets(run, run.options.entries, kSkew, &Sides::get_inline); }},
    {"get-throughput", "get on shm, throughput / in-process table", "at least 0.29", Sense::kAtLeast, 0.29,
     "x", [](BarRun& run) { return measure_gets(run, run.options.entries, 0); }},
    {"get-throughput-many", "the same, 10 million entries", "at least 0.31", Sense::kAtLeast, 0.31, "x",
     [](BarRun& run) { return measure_gets(run, run.options.many_entries, 0); }},
    {"get-throughput-zipf", "the same, zipf 0.99", "at least 0.32", Sense::kAtLeast, 0.32, "x",
     [](BarRun& run) { return measure_gets(run, run.options.entries, kSkew); }},
    {"multi-get", "multi_get of 16 on shm / in-process table, prefetched", "at least 0.95", Sense::kAtLeast,
     0.95, "x",
     [](BarRun& run) { return measure_batches(run, run.options.entries, 0, &Sides::multi_get<kBatch>); }},
    {"multi-get-many", "the same, 10 million entries", "at least 1.08", Sense::kAtLeast, 1.08, "x",
     [](BarRun& run) {
       return measure_batches(run, run.options.many_entries, 0, &Sides::multi_get<kBatch>);
     }},
    {"multi-get-zipf", "the same, zipf 0.99", "at least 0.93", Sense::kAtLeast, 0.93, "x",
     [](BarRun& run) { return measure_batches(run, run.options.entries, kSkew, &Sides::multi_get<kBatch>); }},
    {"multi-get-long", "multi_get of 256 on shm / in-process table, prefetched", "at least 1.00",
     Sense::kAtLeast, 1, "x",
     [](BarRun& run) { return measure_batches(run, run.options.entries, 0, &Sides::multi_get<kLongBatch>); }},
    {"get-announced", "announced gets on shm / in-process table, prefetched", "at least 1.00",
     Sense::kAtLeast, 1, "x",
     [](BarRun& run) { return measure_batches(run, run.options.entries, 0, &Sides::get_announced); }},
    {"get-hot", "get on shm of one of 1000 keys", "under 40 ns", Sense::kAtMost, 40, "ns", measure_hot_get},
};

}  // namespace
}  // namespace refract::bench::bar_get_throughput
