// SPDX-License-Identifier: Apache-2.0
#include "refract/node/observe/watcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "refract/base/object_bytes.h"
#include "refract/base/units.h"
#include "refract/kv/layout/wire.h"

namespace refract::observe {
namespace {

using kv::wire::take;

// A recording of the most records a shard keeps is 2 MiB; more than this is an error or an attack.
constexpr uint64_t kTellingBytesMax = 16 * kMiB;
// A telling is lost when too many people look at once.
constexpr int kAttempts = 5;

std::unexpected<Report> refuse(Code code) {
  if (code == Code::kUnsupported) {
    return report(code, "the node does not tell about itself",
                  "is it of an older version? look at: refractd --version");
  }
  if (code == Code::kInUse) {
    return report(code, "another session is recording what this node does",
                  "try again when they have finished");
  }
  if (code == Code::kIndeterminate || code == Code::kDeadlineExceeded || code == Code::kUnavailable) {
    return report(Code::kDeadlineExceeded, "the server does not answer",
                  "is it stopped, or starting again? look with: refract ping --why");
  }
  return report(code, fmt::format("the node did not tell about itself: {}", info(code).sentence),
                "try again");
}

void append(std::string& text, std::span<const std::byte> bytes) {
  const size_t before = text.size();
  text.resize(before + bytes.size());
  copy_possibly_torn(text.data() + before, bytes.data(), bytes.size());
}

}  // namespace

runtime::OpResult Watcher::call(wire::Method method, std::span<const std::byte> body) {
  return session_.call_and_wait({.method = static_cast<uint16_t>(method), .head = body},
                                shard_.refresh_now() + timeout_ns_);
}

Result<std::string> Watcher::ask_once(wire::Topic topic, uint64_t from) {
  const wire::BeginRequest request{.topic = static_cast<uint32_t>(topic), .reserved = 0, .from = from};
  const runtime::OpResult begun = call(wire::Method::kBegin, object_bytes(request));
  if (begun.code != Code::kOk) return fail(begun.code);
  std::span<const std::byte> body = begun.bytes;
  const auto reply = take<wire::BeginReply>(body);
  if (!reply || reply->bytes > kTellingBytesMax || body.size() > reply->bytes) return fail(Code::kMalformed);
  std::string told;
  append(told, body);
  while (told.size() < reply->bytes) {
    const wire::MoreRequest more{.id = reply->id, .offset = told.size()};
    const runtime::OpResult piece = call(wire::Method::kMore, object_bytes(more));
    if (piece.code != Code::kOk) return fail(piece.code);
    const bool fits = !piece.bytes.empty() && piece.bytes.size() <= reply->bytes - told.size();
    if (!fits) return fail(Code::kMalformed);
    append(told, piece.bytes);
  }
  return told;
}

Reported<std::string> Watcher::ask(wire::Topic topic, uint64_t from) {
  Result<std::string> told = fail(Code::kInvalidated);
  for (int attempt = 0; attempt < kAttempts && told.code() == Code::kInvalidated; ++attempt) {
    told = ask_once(topic, from);
  }
  if (!told) return refuse(told.code());
  return std::move(*told);
}

Reported<ShardState> Watcher::state() {
  const auto told = ask(wire::Topic::kShard);
  if (!told) return report(told.error());
  return shard_state_of(*told);
}

Reported<std::vector<ConnectionState>> Watcher::connections(size_t connections_max) {
  std::vector<ConnectionState> all;
  uint64_t from = 0;
  do {
    const auto told = ask(wire::Topic::kConnections, from);
    if (!told) return report(told.error());
    auto page = connection_page_of(*told);
    if (!page) return report(page.error());
    // A node that goes backwards would keep us here for ever.
    if (page->next != 0 && page->next <= from) return refuse(Code::kMalformed);
    from = page->next;
    std::ranges::move(page->connections, std::back_inserter(all));
  } while (from != 0 && all.size() < connections_max);
  if (all.size() > connections_max) all.resize(connections_max);
  return all;
}

Reported<uint64_t> Watcher::start_trace(uint64_t duration_ns, uint64_t records_max) {
  const wire::TraceRequest request{.duration_ns = duration_ns, .records_max = records_max};
  const runtime::OpResult started = call(wire::Method::kTrace, object_bytes(request));
  if (started.code != Code::kOk) return refuse(started.code);
  std::span<const std::byte> body = started.bytes;
  const auto reply = take<wire::TraceReply>(body);
  if (!reply) return refuse(Code::kMalformed);
  return reply->now_ns;
}

Reported<Recording> Watcher::recording() {
  // Not asked again: the first question empties the recording.
  const Result<std::string> told = ask_once(wire::Topic::kCalls, 0);
  if (!told) return refuse(told.code());
  Recording recording;
  std::span<const std::byte> body = std::as_bytes(std::span(*told));
  const auto header = take<wire::TraceHeader>(body);
  if (!header || body.size() % sizeof(wire::TraceRecord) != 0 ||
      body.size() / sizeof(wire::TraceRecord) != header->records) {
    return refuse(Code::kMalformed);
  }
  recording.header = *header;
  recording.records.resize(header->records);
  if (!body.empty()) std::memcpy(recording.records.data(), body.data(), body.size());
  return recording;
}

Reported<uint64_t> Watcher::want_snapshot() {
  const wire::SnapshotRequest request{.reserved = 0};
  const runtime::OpResult asked = call(wire::Method::kSnapshot, object_bytes(request));
  if (asked.code == Code::kUnsupported) {
    return report(
        asked.code, "the node writes no snapshots",
        "it keeps nothing on disk, or is of an older version: refract stat says which; save what it "
        "holds with refract dump");
  }
  if (asked.code != Code::kOk) return refuse(asked.code);
  std::span<const std::byte> body = asked.bytes;
  const auto reply = take<wire::SnapshotReply>(body);
  if (!reply || reply->attempt == 0) return refuse(Code::kMalformed);
  return reply->attempt;
}

// "NOW" and then lines "-AGE ns thread N: TEXT".
Reported<std::vector<Event>> Watcher::events() {
  const auto told = ask(wire::Topic::kEvents);
  if (!told) return report(told.error());
  std::vector<Event> events;
  uint64_t now_ns = 0;
  const char* at = told->data();
  const char* const end = at + told->size();
  at = std::from_chars(at, end, now_ns).ptr;
  while (at != end) {
    const char* const line_end = std::find(++at, end, '\n');
    const std::string_view line(at, line_end);
    at = line_end;
    uint64_t age_ns = 0;
    if (!line.starts_with('-')) continue;
    const char* const behind = std::from_chars(line.data() + 1, line.data() + line.size(), age_ns).ptr;
    const std::string_view rest(behind, line.data() + line.size());
    constexpr std::string_view kUnit = " ns ";
    if (!rest.starts_with(kUnit)) continue;
    events.push_back(
        {.ns = now_ns - std::min(age_ns, now_ns), .text = std::string(rest.substr(kUnit.size()))});
  }
  return events;
}

}  // namespace refract::observe
