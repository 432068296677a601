// SPDX-License-Identifier: Apache-2.0
// trace: what a node's shards do, and how one operation is done.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "apps/progress/progress.h"
#include "apps/refract/commands.h"
#include "apps/refract/terminal.h"
#include "apps/refract/top/trace_text.h"

#include "refract/base/units.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/layout/routing.h"
#include "refract/memory/store_time.h"

namespace refract::cli {
namespace {

// Above what is asked for: the recording shall not end before we fetch it.
constexpr uint64_t kMargin_ns = 5 * kSecond_ns;
constexpr uint64_t kOneCallRecords = 4'096;

int record_node(const Invocation& invocation) {
  auto link = NodeLink::open(link_options(invocation));
  if (!link) return complain(with_what_to_start(link.error()));
  NodeLink& node = **link;
  for (size_t shard = 0; shard < node.shard_count(); ++shard) {
    const auto started =
        node.watcher(shard).start_trace(invocation.duration_ns + kMargin_ns, invocation.records_max);
    if (!started) return complain(started.error());
  }
  (void)node.shard().run_until([] { return false; }, node.shard().refresh_now() + invocation.duration_ns);
  std::vector<ShardRecording> recordings;
  for (size_t shard = 0; shard < node.shard_count(); ++shard) {
    auto recording = node.watcher(shard).recording();
    if (!recording) return complain(recording.error());
    recordings.push_back({.shard = static_cast<uint32_t>(shard), .recording = std::move(*recording)});
  }
  // All shards are threads of one process, which tells for all.
  const auto events = node.watcher(0).events();
  if (!events) return complain(events.error());
  const std::string text =
      invocation.chrome ? trace_for_viewer(recordings, *events) : trace_lines(recordings, *events);
  return invocation.output.empty() ? write_text(text) : write_file(invocation.output, text);
}

std::string head_text(const Invocation& invocation, const NodeLink& node, std::string_view key) {
  return fmt::format("{} {} of the node at {}, by {}\n\n", invocation.traced, in_quotes(key), node.address(),
                     node.transport());
}

std::string place_text(const NodeLink& node, const std::string& key, uint64_t hash, uint32_t shard) {
  std::string out = fmt::format("{:>9}  hash  {:#018x}, by XXH3 with the node's seed\n", "", hash);
  const kv::KeyRouting routing = node.routing();
  if (routing.shards == 1) return out;
  const std::string by = routing.is_by_slot() ? fmt::format("slot {} of the key", cluster::slot_of(key))
                                              : std::string("bits 16 to 47 of the hash");
  return out + fmt::format("{:>9}  shard {} of {}, by {}\n", "", shard, routing.shards, by);
}

uint64_t hash_of(const NodeLink& node, const std::string& key) {
  return hash_key(std::as_bytes(std::span(key)), node.hash_seed());
}

uint32_t shard_of(const NodeLink& node, const std::string& key, uint64_t hash) {
  return node.routing().shard_of(std::as_bytes(std::span(key)), hash);
}

int trace_direct_get(const Invocation& invocation, NodeLink& node, const std::string& key, uint64_t hash) {
  const auto bytes = std::as_bytes(std::span(key));
  const uint32_t shard = shard_of(node, key, hash);
  const std::span<const std::byte> view = node.memory(shard);
  GetTrace trace;
  trace.hash = hash;
  // Twice: the first read finds the caches cold and the pages unmapped, the second is what a program sees.
  kv::Found found;
  std::string value;
  uint64_t first_ns = 0;
  trace.looks.reserve(4'096);
  TracingMemory memory(view.data(), view.size(), trace.looks);
  const StoreClock clock(system_clock(), time_offset_ns(view.data()));
  kv::DirectReader<TracingMemory> reader(memory, clock);
  const kv::TableView<TracingMemory> table(memory);
  trace.directory = table.directory();
  trace.directory_words = table.directory_words();
  for (int round = 0; round < 2; ++round) {
    trace.looks.clear();
    trace.begun_ns = system_clock().now_ns();
    found = reader.get(bytes, hash, [&](uint64_t wanted) {
      value.resize(wanted);
      return reinterpret_cast<std::byte*>(value.data());
    });
    const uint64_t took_ns = system_clock().now_ns() - trace.begun_ns;
    if (round == 0) first_ns = took_ns;
    if (round == 0) continue;
    std::string out = head_text(invocation, node, key) + place_text(node, key, hash, shard);
    out += look_lines(trace);
    const std::string outcome =
        found.code == Code::kOk
            ? fmt::format("{}, version {}", progress::bytes_text(found.value_bytes), found.version)
            : std::string(info(found.code).sentence);
    out += fmt::format(
        "\n{}\n{} loads of the node's memory, no message, no lock, no help of the server.\n"
        "{} with the caches warm, {} the first time; noting each look costs some 30 ns of it.\n",
        outcome, trace.looks.size(), span_text(took_ns), span_text(first_ns));
    if (const int written = write_text(out); written != kDone) return written;
  }
  return exit_of(found.code);
}

struct Done {
  Code code = Code::kOk;
  uint64_t version = 0;
  uint64_t value_bytes = 0;
  uint64_t begun_ns = 0;
  uint64_t ended_ns = 0;
};

Done run_call(kv::RpcClient& client, const Invocation& invocation, const std::string& key,
              const std::string& value) {
  const auto key_bytes = std::as_bytes(std::span(key));
  Done done{.begun_ns = system_clock().now_ns()};
  const auto take = [&done](const Result<uint64_t>& version) {
    done.code = version.code();
    if (version) done.version = *version;
  };
  if (invocation.traced == "put") {
    take(client.put_and_wait(key_bytes, std::as_bytes(std::span(value))));
  } else if (invocation.traced == "erase") {
    take(client.erase_and_wait(key_bytes));
  } else {
    std::string got_bytes;
    kv::StringSink sink(got_bytes);
    const auto got = client.get_and_wait(key_bytes, sink);
    done.code = got.code();
    if (got) done.version = got->version;
    done.value_bytes = got_bytes.size();
  }
  done.ended_ns = system_clock().now_ns();
  return done;
}

// What the server recorded of our calls, on our clock. Of another host's clock only the middle is guessed.
std::string call_lines(const observe::Recording& recording, const Done& done, bool same_clock) {
  std::vector<observe::wire::TraceRecord> ours;
  uint64_t session = 0;
  for (const auto& record : recording.records) {
    const bool is_observe = record.method >= observe::wire::kMethodsBegin;
    // The call that fetched the recording is ours too.
    if (is_observe && static_cast<observe::wire::TraceKind>(record.kind) == observe::wire::TraceKind::kCall) {
      session = record.session;
    }
  }
  for (const auto& record : recording.records) {
    const auto kind = static_cast<observe::wire::TraceKind>(record.kind);
    const bool is_ours = record.session == session && record.method < observe::wire::kMethodsBegin;
    if (is_ours && (kind == observe::wire::TraceKind::kCall || kind == observe::wire::TraceKind::kReply)) {
      ours.push_back(record);
    }
  }
  uint64_t shift = 0;
  if (!same_clock && !ours.empty()) {
    shift = (done.begun_ns + done.ended_ns) / 2 - (ours.front().ns + ours.back().ns) / 2;
  }
  std::string out = fmt::format("{:>9}  client  begins, and posts the message\n", "0 ns");
  for (const auto& record : ours) {
    const uint64_t since = record.ns + shift - done.begun_ns;
    const std::string name = method_text(record.method);
    if (static_cast<observe::wire::TraceKind>(record.kind) == observe::wire::TraceKind::kCall) {
      out += fmt::format("{:>9}  server  takes {}: {} of payload\n", span_text(since), name,
                         progress::bytes_text(record.bytes));
    } else {
      out += fmt::format("{:>9}  server  answers {}: {}, {} in all\n", span_text(since), name,
                         info(code_from_wire(record.code)).text, progress::bytes_text(record.bytes));
    }
  }
  out += fmt::format("{:>9}  client  has the answer\n", span_text(done.ended_ns - done.begun_ns));
  if (!same_clock)
    out += fmt::format("{:>9}  (the server's clock is another one: its moments are centred)\n", "");
  return out;
}

int trace_call(const Invocation& invocation, NodeLink& node, const std::string& key,
               const std::string& value) {
  const uint64_t hash = hash_of(node, key);
  const uint32_t shard = shard_of(node, key, hash);
  // So that the traced call meets a server that is awake, as those of a busy program do.
  (void)block_on(node.shard(), node.client(shard).ping(1));
  const auto started = node.watcher(shard).start_trace(kMargin_ns, kOneCallRecords);
  if (!started) return complain(started.error());
  const Done done = run_call(node.client(shard), invocation, key, value);
  const auto recording = node.watcher(shard).recording();
  if (!recording) return complain(recording.error());
  std::string out = head_text(invocation, node, key) + place_text(node, key, hash, shard);
  out += call_lines(*recording, done, node.transport() == "shm");
  out += done.code == Code::kOk ? fmt::format("\nversion {}", done.version)
                                : fmt::format("\n{}", info(done.code).sentence);
  if (invocation.traced == "get" && done.code == Code::kOk) {
    out += fmt::format(", {}", progress::bytes_text(done.value_bytes));
  }
  if (const int written = write_text(out + "\n"); written != kDone) return written;
  return exit_of(done.code);
}

}  // namespace

int run_trace(const Invocation& invocation) {
  if (invocation.traced.empty()) return record_node(invocation);
  const auto key = read_key(invocation);
  if (!key) return complain(key.error());
  std::string value;
  if (invocation.traced == "put") {
    auto read = read_source(invocation.value);
    if (!read) return complain(read.error());
    value = std::move(*read);
  }
  auto link = NodeLink::open(link_options(invocation));
  if (!link) return complain(with_what_to_start(link.error()));
  const uint64_t hash = hash_of(**link, *key);
  const bool is_mapped = !(*link)->memory(shard_of(**link, *key, hash)).empty();
  if (invocation.traced == "get" && is_mapped) return trace_direct_get(invocation, **link, *key, hash);
  return trace_call(invocation, **link, *key, value);
}

}  // namespace refract::cli
