// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/top/trace_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "apps/progress/progress.h"
#include "apps/refract/terminal.h"

#include "refract/base/histogram.h"
#include "refract/base/result.h"
#include "refract/documents/json.h"
#include "refract/kv/layout/wire.h"

namespace refract::cli {
namespace {

using observe::wire::TraceKind;
using observe::wire::TraceRecord;

struct TracedCall {
  uint32_t shard = 0;
  size_t order = 0;  // As recorded: calls of a batch were taken at one moment.
  TraceRecord taken{};
  uint64_t batch_calls = 0;
  uint64_t begun_ns = 0;  // When the shard turned to it: the batch's call before it was answered.
  std::optional<TraceRecord> reply;
};

struct TracedBatch {
  uint32_t shard = 0;
  uint64_t begun_ns = 0;
  uint64_t ended_ns = 0;
  uint64_t calls = 0;
};

struct Traced {
  uint64_t started_ns = UINT64_MAX;
  uint64_t ended_ns = 0;
  uint64_t lost = 0;
  std::vector<TracedCall> calls;
  std::vector<TracedBatch> batches;
};

void add(Traced& traced, const ShardRecording& one) {
  traced.started_ns = std::min(traced.started_ns, one.recording.header.started_ns);
  traced.ended_ns = std::max(traced.ended_ns, one.recording.header.ended_ns);
  traced.lost += one.recording.header.lost;
  // Who looks is not what is looked at.
  const auto is_looking = [](const TraceRecord& record) {
    return record.method >= observe::wire::kMethodsBegin;
  };
  // Which calls wait for their reply; an id is used again only when its reply has been given.
  std::map<std::pair<uint64_t, uint64_t>, size_t> waiting;
  uint64_t turned_ns = 0;
  uint64_t batch_calls = 0;
  bool is_open = false;  // The last of the batches is the one that the shard works on.
  for (const TraceRecord& record : one.recording.records) {
    switch (static_cast<TraceKind>(record.kind)) {
      case TraceKind::kBatch:
        turned_ns = record.ns;
        batch_calls = record.call;
        is_open = false;
        break;
      case TraceKind::kCall:
        if (is_looking(record)) break;
        if (!is_open) {
          traced.batches.push_back(
              {.shard = one.shard, .begun_ns = record.ns, .ended_ns = 0, .calls = batch_calls});
        }
        is_open = true;
        waiting[{record.session, record.call}] = traced.calls.size();
        traced.calls.push_back({.shard = one.shard,
                                .order = traced.calls.size(),
                                .taken = record,
                                .batch_calls = batch_calls,
                                .begun_ns = 0,
                                .reply = {}});
        break;
      case TraceKind::kReply: {
        const auto found = waiting.find({record.session, record.call});
        if (found == waiting.end()) break;
        TracedCall& call = traced.calls[found->second];
        call.reply = record;
        call.begun_ns = std::max(call.taken.ns, std::min(turned_ns, record.ns));
        turned_ns = record.ns;
        waiting.erase(found);
        break;
      }
      case TraceKind::kWorked:
        if (is_open) traced.batches.back().ended_ns = record.ns;
        break;
    }
  }
}

Traced put_together(std::span<const ShardRecording> recordings) {
  Traced traced;
  for (const ShardRecording& one : recordings) add(traced, one);
  std::ranges::sort(traced.calls, {},
                    [](const TracedCall& call) { return std::pair(call.taken.ns, call.order); });
  return traced;
}

std::string moment(const Traced& traced, uint64_t ns) {
  const uint64_t since = ns - std::min(ns, traced.started_ns);
  return fmt::format("{:>12.6f} s", static_cast<double>(since) / 1e9);
}

std::string call_line(const Traced& traced, const TracedCall& call) {
  std::string out = fmt::format("{}  shard {}  {:<12} {:>9}", moment(traced, call.taken.ns), call.shard,
                                method_text(call.taken.method), progress::bytes_text(call.taken.bytes));
  if (call.reply) {
    out += fmt::format("  answered in {:>8}  {}, {}", span_text(call.reply->ns - call.taken.ns),
                       info(code_from_wire(call.reply->code)).text, progress::bytes_text(call.reply->bytes));
  } else {
    out += "  not answered while this was recorded";
  }
  return out + fmt::format("  (connection {}, call {:x}, batch of {})\n", call.taken.session & 0xffff'ffff,
                           call.taken.call, call.batch_calls);
}

bool is_within(const Traced& traced, const observe::Event& event) {
  return event.ns >= traced.started_ns && event.ns <= traced.ended_ns;
}

std::string summary(const Traced& traced) {
  std::map<std::string, Histogram> by_method;
  uint64_t unanswered = 0;
  for (const TracedCall& call : traced.calls) {
    unanswered += call.reply ? 0 : 1;
    if (call.reply) by_method[method_text(call.taken.method)].record(call.reply->ns - call.taken.ns);
  }
  std::string out =
      fmt::format("\n{} calls in {} batches within {}", progress::count_text(traced.calls.size()),
                  progress::count_text(traced.batches.size()),
                  span_text(traced.ended_ns - std::min(traced.started_ns, traced.ended_ns)));
  if (unanswered > 0) out += fmt::format(", {} of them not answered yet", unanswered);
  out += "\n";
  for (const auto& [name, answered_in] : by_method) {
    out += fmt::format("  {:<12} {:>9} answered in {} (p50), {} (p99), {} (longest)\n", name,
                       progress::count_text(answered_in.count()), span_text(answered_in.quantile(0.5)),
                       span_text(answered_in.quantile(0.99)), span_text(answered_in.max()));
  }
  if (traced.lost > 0) {
    out += fmt::format("{} older records had to give way: record a shorter time, or more (--records)\n",
                       progress::count_text(traced.lost));
  }
  return out;
}

double microseconds(uint64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

// What the lines before have told about the lines to come.
struct Known {
  std::map<uint64_t, uint64_t> words;
  uint64_t count = 0;
  Offset bucket;
  Offset slot;
  Offset buffer;
};

std::string slot_text(kv::Slot slot) {
  if (!slot) return "free";
  return fmt::format("fingerprint {:#04x}, stamp ...{:04x}, buffer at {:#x}", slot.fingerprint(),
                     (slot.bits >> kv::Slot::kStampShift) & 0xffff, slot.buffer().value);
}

// Of a word that was looked at before.
std::string again_text(const Known& known, const MemoryLook& look, uint64_t before) {
  if (before != look.value) return fmt::format("has changed meanwhile, to {:#x}", look.value);
  if (look.at.value == known.buffer.value) {
    return "the stamp is still the same: what was read under it belongs together";
  }
  if (look.at.value == known.slot.value) {
    return "the slot still names it: it was the entry's value just now";
  }
  return "still the same";
}

std::string word_text(const GetTrace& trace, Known& known, const MemoryLook& look) {
  const auto [seen, is_new] = known.words.insert({look.at.value, look.value});
  if (!is_new) return again_text(known, look, std::exchange(seen->second, look.value));
  if (look.at.value == kv::kBucketCountAt.value) {
    known.count = look.value;
    if (look.value == 0) return "the table has no buckets";
    return fmt::format("the table has {} buckets: the key's is number {}", look.value,
                       kv::bucket_index(trace.hash, look.value));
  }
  if (look.at.value >= trace.directory && look.at.value < trace.directory + trace.directory_words * 8) {
    const uint64_t chunk = (look.at.value - trace.directory) / 8;
    if (known.count > 0) {
      const uint64_t index = kv::bucket_index(trace.hash, known.count);
      known.bucket = {kv::line_at(look.value).value + index % kv::kBucketsPerChunk * kLineBytes};
    }
    return fmt::format("directory: chunk {} of the buckets begins at {:#x}", chunk, look.value);
  }
  const bool is_line = known.bucket && look.at.value / kLineBytes == known.bucket.value / kLineBytes;
  if (is_line && look.at.value % kLineBytes == kv::kOverflowWord * 8) {
    known.bucket = kv::line_at(look.value);
    return look.value == 0 ? "no overflow line: the bucket ends here"
                           : fmt::format("the bucket continues in the line at {:#x}", look.value);
  }
  if (is_line) {
    const kv::Slot slot{look.value};
    known.buffer = slot.buffer();
    known.slot = look.at;
    return fmt::format("slot {}: {}", look.at.value % kLineBytes / 8, slot_text(slot));
  }
  if (look.at.value == known.buffer.value) return fmt::format("the buffer's stamp: {:#x}", look.value);
  if (look.at.value == known.buffer.value + 8) {
    const kv::Lengths lengths = kv::Lengths::from_word(look.value);
    return fmt::format("its lengths: key {}, value {}{}", lengths.key_bytes, lengths.value_bytes,
                       (lengths.flags & kv::Lengths::kExpires) != 0 ? ", and it expires" : "");
  }
  if (look.at.value == known.buffer.value + kv::kExpiryAt) return fmt::format("expires at {} ns", look.value);
  return fmt::format("word {:#x}", look.value);
}

std::string look_text(const GetTrace& trace, Known& known, const MemoryLook& look) {
  switch (look.kind) {
    case MemoryLook::Kind::kWord:
      return word_text(trace, known, look);
    case MemoryLook::Kind::kMatch: {
      known.bucket = look.at;
      std::string slots;
      for (unsigned slot = 0; slot < kv::kSlotsPerBucket; ++slot) {
        if (((look.value >> slot) & 1) != 0) slots += fmt::format("{}{}", slots.empty() ? "" : ", ", slot);
      }
      return fmt::format("bucket: {} has the fingerprint {:#04x}",
                         slots.empty() ? "no slot" : "slot " + slots, look.asked);
    }
    case MemoryLook::Kind::kCompare:
      return look.value != 0 ? "the key is the one asked for" : "another key with the same fingerprint";
    case MemoryLook::Kind::kCopy:
      return "the value is copied";
  }
  return {};
}

}  // namespace

std::string method_text(uint16_t method) {
  const std::string_view store = kv::wire::name(static_cast<kv::wire::Method>(method));
  if (!store.empty()) return std::string(store);
  const std::string_view ours = observe::wire::name(method);
  return ours.empty() ? fmt::format("method {}", method) : std::string(ours);
}

std::string span_text(uint64_t ns) {
  if (ns < 1'000) return fmt::format("{} ns", ns);
  if (ns < 1'000'000) return fmt::format("{:.1f} us", microseconds(ns));
  if (ns < 1'000'000'000) return fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
  return fmt::format("{:.2f} s", static_cast<double>(ns) / 1e9);
}

std::string trace_lines(std::span<const ShardRecording> recordings, std::span<const observe::Event> events) {
  const Traced traced = put_together(recordings);
  std::string out;
  size_t next_event = 0;
  const auto tell_events_until = [&](uint64_t ns) {
    for (; next_event < events.size() && events[next_event].ns < ns; ++next_event) {
      const observe::Event& event = events[next_event];
      if (!is_within(traced, event)) continue;
      out += fmt::format("{}  {}\n", moment(traced, event.ns), printable(event.text));
    }
  };
  for (const TracedCall& call : traced.calls) {
    tell_events_until(call.taken.ns);
    out += call_line(traced, call);
  }
  tell_events_until(UINT64_MAX);
  return out + summary(traced);
}

std::string trace_for_viewer(std::span<const ShardRecording> recordings,
                             std::span<const observe::Event> events) {
  using Json = documents::Value;
  const Traced traced = put_together(recordings);
  const auto at = [&](uint64_t ns) { return microseconds(ns - std::min(ns, traced.started_ns)); };
  Json rows = Json::array();
  for (const ShardRecording& one : recordings) {
    rows.push_back({{"ph", "M"},
                    {"name", "thread_name"},
                    {"pid", 1},
                    {"tid", one.shard},
                    {"args", {{"name", fmt::format("shard {}", one.shard)}}}});
  }
  for (const TracedBatch& batch : traced.batches) {
    if (batch.ended_ns == 0) continue;
    rows.push_back({{"ph", "X"},
                    {"name", fmt::format("batch of {}", batch.calls)},
                    {"cat", "batch"},
                    {"pid", 1},
                    {"tid", batch.shard},
                    {"ts", at(batch.begun_ns)},
                    {"dur", microseconds(batch.ended_ns - batch.begun_ns)}});
  }
  for (const TracedCall& call : traced.calls) {
    if (!call.reply) continue;
    rows.push_back({{"ph", "X"},
                    {"name", method_text(call.taken.method)},
                    {"cat", "call"},
                    {"pid", 1},
                    {"tid", call.shard},
                    {"ts", at(call.begun_ns)},
                    {"dur", microseconds(call.reply->ns - call.begun_ns)},
                    {"args",
                     {{"connection", call.taken.session & 0xffff'ffff},
                      {"call", call.taken.call},
                      {"taken_us", at(call.taken.ns)},
                      {"request_bytes", call.taken.bytes},
                      {"reply_bytes", call.reply->bytes},
                      {"outcome", info(code_from_wire(call.reply->code)).text}}}});
  }
  for (const observe::Event& event : events) {
    if (!is_within(traced, event)) continue;
    rows.push_back({{"ph", "i"},
                    {"name", event.text},
                    {"cat", "event"},
                    {"s", "p"},
                    {"pid", 1},
                    {"tid", 0},
                    {"ts", at(event.ns)}});
  }
  const Json whole = {{"displayTimeUnit", "ns"}, {"traceEvents", rows}};
  return documents::to_json_line(whole) + "\n";
}

std::string look_lines(const GetTrace& trace) {
  Known known;
  std::string out;
  uint64_t before_ns = trace.begun_ns;
  for (const MemoryLook& look : trace.looks) {
    out += fmt::format("{:>9}  load  {:#012x} {:>6} B  {}\n", "+" + span_text(look.ns - before_ns),
                       look.at.value, look.bytes, look_text(trace, known, look));
    before_ns = look.ns;
  }
  return out;
}

}  // namespace refract::cli
