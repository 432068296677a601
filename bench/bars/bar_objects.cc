// SPDX-License-Identifier: Apache-2.0
// Objects beside keys: how long a small one takes to make, and any one to get.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"
#include "bench/bars/object_node.h"
#include "bench/load/entry.h"
#include "bench/measure/instruction_count.h"

#include "refract/base/units.h"

namespace refract::bench::bar_objects {
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
// Whether all sizes are got alike: as many of each.
constexpr std::array kSizesBetween = {kSmallBytes, 4 * kKiB, 256 * kKiB, 4 * kMiB};

// Both ends of what is held, which are read each time.
struct Ends {
  std::byte first;
  std::byte last;

  [[nodiscard]] static Ends of(std::span<const std::byte> bytes) noexcept {
    return {bytes.front(), bytes.back()};
  }
  friend bool operator==(const Ends&, const Ends&) = default;
};

// What is got and viewed: objects and values of one length, told apart by their ends.
struct Held {
  uint64_t bytes = 0;
  std::vector<std::string> ids = {};
  std::vector<Ends> ends = {};
};

struct Numbers {
  uint64_t first = 0;
  uint64_t count = 0;
};
Reported<Held> put_objects(Objects& objects, const Numbers& numbers, uint64_t body_bytes) {
  Held held{.bytes = body_bytes};
  std::vector<std::byte> body(body_bytes);
  for (uint64_t number = numbers.first; number < numbers.first + numbers.count; ++number) {
    fill_body(body, number);
    held.ids.push_back(object_id(number));
    held.ends.push_back(Ends::of(body));
    if (const auto put = objects.put(held.ids.back(), Bytes(std::span(body))); !put)
      return failed("put of an object", put.code());
    if (const Reported<> right = check_object(objects, number, Bytes(std::span(body))); !right)
      return report(right.error());
  }
  return held;
}

Reported<Held> put_values(Client& client, uint64_t count, uint64_t value_bytes) {
  Held held{.bytes = value_bytes};
  std::vector<std::byte> value(value_bytes);
  for (uint64_t number = 0; number < count; ++number) {
    fill_body(value, number);
    held.ids.push_back(fmt::format("value-{}-{}", value_bytes, number));
    held.ends.push_back(Ends::of(value));
    if (const auto put = client.put(held.ids.back(), Bytes(std::span(value))); !put)
      return failed("put", put.error().code);
  }
  return held;
}

// ns to get an object, read both its ends and let it go.
Reported<double> get_ns(Objects& objects, const Held& held, uint64_t operations, uint64_t seed) {
  return mean_ns(operations, held.ids.size(), seed, [&](uint64_t i) {
    const Result<Object> object = objects.get(held.ids[i]);
    return object.has_value() && object->body().size() == held.bytes &&
           Ends::of(object->body()) == held.ends[i];
  });
}

// The same of a key's value.
Reported<double> view_ns(Client& client, const Held& held, uint64_t operations, uint64_t seed) {
  return mean_ns(operations, held.ids.size(), seed, [&](uint64_t i) {
    const Result<View> view = client.view(held.ids[i]);
    return view.has_value() && view->bytes().size() == held.bytes && Ends::of(view->bytes()) == held.ends[i];
  });
}

// Of one object, got, touched and let go; 0 where processes may not be traced.
double instructions_of_get(const PrivateNode& node, const Held& held) {
  struct Caller {
    Client client;
    Objects objects;
  };
  const auto instructions = instructions_of([&]() -> Operations {
    Reported<Client> client = connect_to(node);
    if (!client) return [](unsigned) { return false; };
    Reported<Objects> objects = client->objects();
    if (!objects) return [](unsigned) { return false; };
    const auto caller = std::make_shared<Caller>(*std::move(client), *objects);
    return [caller, &held](unsigned count) { return get_ns(caller->objects, held, count, 1).has_value(); };
  });
  return static_cast<double>(instructions.value_or(0));
}

double instructions_of_view(const PrivateNode& node, const Held& held) {
  const auto instructions = instructions_of([&]() -> Operations {
    Reported<Client> client = connect_to(node);
    if (!client) return [](unsigned) { return false; };
    const auto caller = std::make_shared<Client>(*std::move(client));
    return [caller, &held](unsigned count) { return view_ns(*caller, held, count, 1).has_value(); };
  });
  return static_cast<double>(instructions.value_or(0));
}

// What a get is measured beside, and objects of other lengths.
struct Holdings {
  Held objects;
  Held short_values;
  Held long_values;
  std::vector<Held> others;
};
Reported<Holdings> hold(ObjectNode& node, uint64_t count, uint64_t body_bytes) {
  Reported<Held> objects = put_objects(node.objects, {.first = 0, .count = count}, body_bytes);
  if (!objects) return report(objects.error());
  Reported<Held> short_values = put_values(node.client, count, kSmallBytes);
  if (!short_values) return report(short_values.error());
  Reported<Held> long_values = put_values(node.client, count, kHeldValueBytes);
  if (!long_values) return report(long_values.error());
  Holdings holdings{*std::move(objects), *std::move(short_values), *std::move(long_values), {}};
  for (const uint64_t bytes : kSizesBetween) {
    if (bytes >= body_bytes) continue;
    const Numbers numbers{.first = count * (holdings.others.size() + 1), .count = count};
    Reported<Held> other = put_objects(node.objects, numbers, bytes);
    if (!other) return report(other.error());
    holdings.others.push_back(*std::move(other));
  }
  return holdings;
}

Reported<Turn> turn_of_gets(ObjectNode& node, const Holdings& holdings, uint64_t operations, uint64_t turn) {
  const Reported<double> got = get_ns(node.objects, holdings.objects, operations, turn);
  const Reported<double> viewed = view_ns(node.client, holdings.short_values, operations, turn);
  Reported<Turn> found = ratio_of(
      {.ours = {"get of an object", got}, .theirs = {"view of a key of 64 B", viewed}, .unit = "ns"});
  if (!found) return found;
  const Reported<double> held = view_ns(node.client, holdings.long_values, operations, turn);
  if (!held) return report(held.error());
  found->details.push_back({"view of a key of 1 KiB", *held, "ns"});
  for (const Held& other : holdings.others) {
    const Reported<double> of_other = get_ns(node.objects, other, operations, turn);
    if (!of_other) return report(of_other.error());
    found->details.push_back({fmt::format("get of one of {} B", other.bytes), *of_other, "ns"});
  }
  return found;
}

// An object that is got, touched at both ends and let go; a key's view, likewise.
Reported<Outcome> measure_get(BarRun& run, uint64_t count, uint64_t body_bytes) {
  const uint64_t entries = count * (2 + kHeldValueBytes / 100);
  const uint64_t limit = count * (2 * body_bytes + 4096);
  Reported<ObjectNode> started = start_object_node(run, entries, limit);
  if (!started) return report(started.error());
  const Reported<Holdings> holdings = hold(*started, count, body_bytes);
  if (!holdings) return report(holdings.error());
  Reported<Outcome> outcome = in_turns(
      run,
      fmt::format("{} objects of {} B and as many keys, one after the other; a view of 64 B is a copy, one "
                  "of 1 KiB a pin",
                  count, body_bytes),
      [&](uint64_t turn) { return turn_of_gets(*started, *holdings, run.options.operations, turn); });
  if (!outcome) return outcome;
  for (const auto& [name, instructions] :
       {std::pair{"get of an object", instructions_of_get(started->node, holdings->objects)},
        std::pair{"view of a key of 64 B", instructions_of_view(started->node, holdings->short_values)},
        std::pair{"view of a key of 1 KiB", instructions_of_view(started->node, holdings->long_values)}}) {
    if (instructions > 0) outcome->details.push_back({name, instructions, "instructions"});
  }
  return outcome;
}

// Of gets, by the client's own count. Puts, which take messages, show that it counts those of objects.
Reported<Outcome> measure_messages(BarRun& run) {
  Reported<ObjectNode> started = start_object_node(run, kHotObjects, kHotObjects * 4096);
  if (!started) return report(started.error());
  const auto sent = [&] { return static_cast<double>(started->client.counters().messages_sent); };
  const double before = sent();
  const Reported<Held> held = put_objects(started->objects, {.first = 0, .count = kHotObjects}, kSmallBytes);
  if (!held) return report(held.error());
  const double put = (sent() - before) / static_cast<double>(kHotObjects);
  if (put < 1) return report(Code::kCorrupt, "puts of objects took no message, or were not counted");
  Outcome outcome;
  constexpr uint64_t kGets = 10'000;
  for (uint64_t turn = 0; turn < 2; ++turn) {
    const double start = sent();
    const Reported<double> got = get_ns(started->objects, *held, kGets, turn);
    if (!got) return report(got.error());
    // A get that waits for nothing leaves the count to the next call that may wait; this one reads, too.
    if (!started->objects.contains(held->ids[0])) return report(Code::kCorrupt, "an object is gone");
    outcome.samples.push_back((sent() - start) / static_cast<double>(kGets));
  }
  outcome.details = {{"put", put, "messages"}};
  outcome.note = fmt::format("the client's own count, over {} gets of objects", kGets);
  return outcome;
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
        if (!object) return report(object.error());
        for (uint64_t i = 0; i < count; ++i) {
          if (const Reported<> right = check_object(started->objects, i, Value::of(i).text()); !right)
            return report(right.error());
        }
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
                    for (uint64_t i = 0; i < count; ++i) {
                      if (const Reported<> right = check_object(started->objects, i, body(i)); !right)
                        return report(right.error());
                    }
                    if (const Reported<> gone = remove_objects(started->objects, count); !gone)
                      return report(gone.error());
                    return ratio_of({.ours = {"put_many of objects", ours},
                                     .theirs = {"multi_put of keys", put_keys_at_once()},
                                     .unit = "k/s"});
                  });
}

const BarRows kRows = {
    {"object-get", "get, touch and release of an object of 64 B / view of a key of 64 B", "at most 1.50",
     Sense::kAtMost, 1.5, "x", [](BarRun& run) { return measure_get(run, kHotObjects, kSmallBytes); }},
    {"object-get-large", "the same of an object of 64 MiB", "at most 1.50", Sense::kAtMost, 1.5, "x",
     [](BarRun& run) { return measure_get(run, kLargeObjects, (run.options.judged ? 64 : 1) * kMiB); }},
    {"object-get-messages", "messages a get of an object", "0", Sense::kAtMost, 0, "", measure_messages},
    {"object-put", "put of an object of 64 B / put of a key", "at most 1.50", Sense::kAtMost, 1.5, "x",
     measure_put},
    {"object-put-many", "put_many of 10,000 objects of 4 KiB / multi_put of keys", "at least 0.80",
     Sense::kAtLeast, 0.8, "x", measure_put_many},
};

}  // namespace
}  // namespace refract::bench::bar_objects
