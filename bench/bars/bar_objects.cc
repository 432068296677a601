// SPDX-License-Identifier: Apache-2.0
// Objects beside keys: how long a small one takes to make, and any one to get.
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"
#include "bench/bars/object_node.h"
#include "bench/load/entry.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr uint64_t kSmallBytes = 64;
constexpr uint64_t kHotObjects = 1000;
constexpr uint64_t kLargeObjects = 4;

// ns a turn of `step(number)`, which says whether it was right, over numbers below `count`.
template <typename Step>
Reported<double> mean_ns(uint64_t operations, uint64_t count, uint64_t seed, Step step) {
  Draw draw(seed, count);
  uint64_t right = 0;
  const uint64_t start_ns = now_ns();
  for (uint64_t i = 0; i < operations; ++i) right += uint64_t{step(draw.next())};
  const uint64_t taken_ns = now_ns() - start_ns;
  if (right != operations) return report(Code::kCorrupt, "what was got is not what was put");
  return static_cast<double>(taken_ns) / static_cast<double>(operations);
}

// Longer than what a view copies: it is held where it lies, as an object is.
constexpr uint64_t kHeldValueBytes = kKiB;

// Both ends of what is held, which are read each time.
struct Ends {
  std::byte first;
  std::byte last;

  [[nodiscard]] static Ends of(std::span<const std::byte> bytes) noexcept {
    return {bytes.front(), bytes.back()};
  }
  friend bool operator==(const Ends&, const Ends&) = default;
};

// An object that is got, touched at both ends and let go; a key's view, likewise.
Reported<Outcome> measure_get(BarRun& run, uint64_t count, uint64_t body_bytes) {
  const uint64_t entries = count * (1 + kHeldValueBytes / 100);
  Reported<ObjectNode> started = start_object_node(run, entries, count * (body_bytes + 4096));
  if (!started) return report(started.error());
  Client& client = started->client;
  Objects& objects = started->objects;
  if (const Reported<> loaded = load_entries(client, count); !loaded) return report(loaded.error());
  if (const Reported<> put = put_objects(objects, count, body_bytes); !put) return report(put.error());
  std::vector<std::string> ids;
  std::vector<Ends> object_ends;
  std::vector<std::byte> value(kHeldValueBytes);
  fill_body(value, 1);
  for (uint64_t i = 0; i < count; ++i) {
    ids.push_back(object_id(i));
    const Result<Object> object = objects.get(ids.back());
    if (!object || !is_body_of(object->body(), i))
      return report(Code::kCorrupt, "an object is not what was put");
    object_ends.push_back(Ends::of(object->body()));
    if (const auto put = client.put(ids.back(), Bytes(std::span(value))); !put)
      return failed("put", put.error().code);
  }
  const Ends value_ends = Ends::of(value);
  const auto view_of = [&](uint64_t turn, auto key_of, auto ends_of) {
    return mean_ns(run.options.operations, count, turn, [&](uint64_t i) {
      const Result<View> view = client.view(key_of(i));
      return view.has_value() && Ends::of(view->bytes()) == ends_of(i);
    });
  };
  return in_turns(
      run,
      fmt::format("{} objects of {} B, {} keys of {} B, one after the other", count, body_bytes, count,
                  kHeldValueBytes),
      [&](uint64_t turn) -> Reported<Turn> {
        const Reported<double> got = mean_ns(run.options.operations, count, turn, [&](uint64_t i) {
          const Result<Object> object = objects.get(ids[i]);
          return object.has_value() && Ends::of(object->body()) == object_ends[i];
        });
        const Reported<double> held = view_of(
            turn, [&](uint64_t i) { return std::string_view(ids[i]); }, [&](uint64_t) { return value_ends; });
        Reported<Turn> found = ratio_of(
            {.ours = {"get of an object", got}, .theirs = {"view of a key, held", held}, .unit = "ns"});
        if (!found) return found;
        const Reported<double> small = view_of(
            turn, [&](uint64_t i) { return std::string(Key::of(i).text()); },
            [](uint64_t i) {
              const Value entry = Value::of(i);
              return Ends::of(std::as_bytes(std::span(entry.words)));
            });
        if (!small) return report(small.error());
        found->details.push_back({"view of 64 B, copied", *small, "ns"});
        return found;
      });
}

Reported<Outcome> measure_put(BarRun& run) {
  const uint64_t count = std::clamp<uint64_t>(run.options.operations / 100, 50, 20'000);
  Reported<ObjectNode> started = start_object_node(run, count, count * 4096);
  if (!started) return report(started.error());
  if (const Reported<> loaded = load_entries(started->client, count); !loaded) return report(loaded.error());
  std::vector<std::string> ids;
  for (uint64_t i = 0; i < count; ++i) ids.push_back(object_id(i));
  return in_turns(
      run,
      fmt::format("{} new objects, {} keys that are there, in random order, one in flight", count, count),
      [&](uint64_t turn) -> Reported<Turn> {
        uint64_t next = 0;
        const Reported<double> object = mean_ns(count, count, turn, [&](uint64_t) {
          const Value value = Value::of(next);
          return started->objects.put(ids[next++], value.text()).has_value();
        });
        if (const Reported<> removed = remove_objects(started->objects, count); !removed)
          return report(removed.error());
        const Reported<double> key = mean_ns(count, count, turn, [&](uint64_t i) {
          return started->client.put(Key::of(i).text(), Value::of(i).text()).has_value();
        });
        return ratio_of(
            {.ours = {"put of an object", object}, .theirs = {"put of a key", key}, .unit = "ns"});
      });
}

constexpr uint64_t kManyBytes = 4 * kKiB;

Reported<Outcome> measure_put_many(BarRun& run) {
  const uint64_t count = run.options.judged ? 10'000 : 200;
  Reported<ObjectNode> started =
      start_object_node(run, 3 * count * (kManyBytes + 512) / 200, 2 * count * (kManyBytes + 512));
  if (!started) return report(started.error());
  std::vector<std::byte> bodies(count * kManyBytes);
  fill_body(bodies, 1);
  std::vector<std::string> ids;
  for (uint64_t i = 0; i < count; ++i) ids.push_back(object_id(i));
  const auto body = [&](uint64_t i) { return Bytes(std::span(bodies).subspan(i * kManyBytes, kManyBytes)); };

  const auto put_objects_at_once = [&]() -> Reported<double> {
    std::vector<PutObject> puts(count);
    for (uint64_t i = 0; i < count; ++i) puts[i] = {.id = ids[i], .body = body(i)};
    const uint64_t start_ns = now_ns();
    started->objects.put_many(puts);
    const uint64_t taken_ns = now_ns() - start_ns;
    for (const PutObject& put : puts) {
      if (!put.result) return failed("put_many", put.result.code());
    }
    return static_cast<double>(count) * 1e6 / static_cast<double>(taken_ns);
  };
  const auto put_keys_at_once = [&]() -> Reported<double> {
    std::vector<PutItem> puts(count);
    for (uint64_t i = 0; i < count; ++i) {
      puts[i].key = ids[i];
      puts[i].value = body(i);
    }
    const uint64_t start_ns = now_ns();
    started->client.multi_put(puts);
    const uint64_t taken_ns = now_ns() - start_ns;
    for (const PutItem& put : puts) {
      if (!put.result) return failed("multi_put", put.result.error().code);
    }
    return static_cast<double>(count) * 1e6 / static_cast<double>(taken_ns);
  };
  return in_turns(run, fmt::format("{} of {} B in one call", count, kManyBytes),
                  [&](uint64_t) -> Reported<Turn> {
                    const Reported<double> ours = put_objects_at_once();
                    if (!ours) return report(ours.error());
                    if (const Reported<> gone = remove_objects(started->objects, count); !gone)
                      return report(gone.error());
                    return ratio_of({.ours = {"put_many of objects", ours},
                                     .theirs = {"multi_put of keys", put_keys_at_once()},
                                     .unit = "k/s"});
                  });
}

const BarRows kRows = {
    {"object-get", "get, touch and release of an object of 64 B / view of a key, held", "at most 1.50",
     Sense::kAtMost, 1.5, "x", [](BarRun& run) { return measure_get(run, kHotObjects, kSmallBytes); }},
    {"object-get-large", "the same of an object of 64 MiB", "at most 1.50", Sense::kAtMost, 1.5, "x",
     [](BarRun& run) { return measure_get(run, kLargeObjects, (run.options.judged ? 64 : 1) * kMiB); }},
    {"object-put", "put of an object of 64 B / put of a key", "at most 1.50", Sense::kAtMost, 1.5, "x",
     measure_put},
    {"object-put-many", "put_many of 10,000 objects of 4 KiB / multi_put of keys", "at least 0.80",
     Sense::kAtLeast, 0.8, "x", measure_put_many},
};

}  // namespace
}  // namespace refract::bench
