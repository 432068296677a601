// SPDX-License-Identifier: Apache-2.0
#include "refract/node/observe/service.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "refract/base/clock.h"
#include "refract/base/object_bytes.h"
#include "refract/base/trace_ring.h"
#include "refract/base/units.h"
#include "refract/kv/layout/many_wire.h"

namespace refract::observe {
namespace {

using kv::wire::take;

constexpr uint64_t kBatchesPerSample = 32;
constexpr size_t kConnectionsPerPage = 128;
// Looking is for a few people at a time; the longest telling is a recording of 2 MiB.
constexpr size_t kTellingsMax = 16;
constexpr size_t kEventsTold = 1'024;

}  // namespace

Service::Service(Parts parts)
    : parts_(std::move(parts)), started_ns_(parts_.shard.clock().now_ns()), trace_(parts_.shard.clock()) {}

// The server, whose service this is, has gone by now, and its tap with it.
Service::~Service() = default;

void Service::answer_through(rpc::Server& server) noexcept {
  server_ = &server;
}

void Service::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  for (const rpc::IncomingCall& call : calls) {
    switch (static_cast<wire::Method>(call.header.method)) {
      case wire::Method::kBegin:
        begin(call.from, call.payload);
        break;
      case wire::Method::kMore:
        more(call.from, call.payload);
        break;
      case wire::Method::kTrace:
        start_trace(call.from, call.payload);
        break;
      case wire::Method::kSnapshot:
        begin_snapshot(call.from, call.payload);
        break;
      default:
        server_->reply(call.from, Code::kUnsupported);
    }
  }
}

void Service::session_closed(rpc::SessionId session) noexcept {
  forget(session);
  if (trace_.owner() != session) return;
  trace_.drop();
  server_->set_reply_tap(nullptr);
}

void Service::forget(rpc::SessionId session) noexcept {
  std::erase_if(tellings_, [&](const Telling& one) { return one.session == session; });
}

Result<std::string> Service::tell(const wire::BeginRequest& request, rpc::SessionId session) {
  switch (static_cast<wire::Topic>(request.topic)) {
    case wire::Topic::kShard:
      return to_json(state());
    case wire::Topic::kConnections:
      return to_json(connections(request.from));
    case wire::Topic::kCalls:
      if (trace_.owner() != session) return fail(Code::kNotFound);
      server_->set_reply_tap(nullptr);
      return trace_.take();
    case wire::Topic::kEvents:
      return trace_text(kEventsTold);
  }
  return fail(Code::kUnsupported);
}

void Service::begin(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::BeginRequest>(body);
  if (!request || !body.empty() || request->reserved != 0) return server_->reply(from, Code::kMalformed);
  forget(from.session);
  const size_t room = server_->payload_bytes_max(from.session);
  if (room <= sizeof(wire::BeginReply)) return server_->reply(from, Code::kTooLarge);
  Result<std::string> told = tell(*request, from.session);
  if (!told) return server_->reply(from, told.code());
  wire::BeginReply reply{.id = 0, .bytes = told->size()};
  const size_t at_once = std::min(told->size(), room - sizeof(reply));
  if (at_once < told->size()) reply.id = next_id_++;
  server_->reply(from, Code::kOk, object_bytes(reply), std::as_bytes(std::span(*told)).first(at_once));
  if (reply.id == 0) return;
  if (tellings_.size() == kTellingsMax) tellings_.pop_front();
  tellings_.push_back({.id = reply.id, .session = from.session, .bytes = std::move(*told)});
}

void Service::more(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::MoreRequest>(body);
  if (!request || !body.empty()) return server_->reply(from, Code::kMalformed);
  const auto found = std::ranges::find_if(
      tellings_, [&](const Telling& one) { return one.id == request->id && one.session == from.session; });
  if (found == tellings_.end()) return server_->reply(from, Code::kInvalidated);
  if (request->offset >= found->bytes.size()) return server_->reply(from, Code::kInvalidArgument);
  const std::span<const std::byte> rest = std::as_bytes(std::span(found->bytes)).subspan(request->offset);
  const size_t now = std::min(rest.size(), server_->payload_bytes_max(from.session));
  server_->reply(from, Code::kOk, {}, rest.first(now));
  if (now == rest.size()) tellings_.erase(found);
}

void Service::start_trace(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::TraceRequest>(body);
  if (!request || !body.empty()) return server_->reply(from, Code::kMalformed);
  if (trace_.is_on() && trace_.owner() != from.session) return server_->reply(from, Code::kInUse);
  const uint64_t records = trace_.start(from.session, request->duration_ns, request->records_max);
  const wire::TraceReply reply{.now_ns = parts_.shard.clock().now_ns(), .records_max = records};
  server_->reply(from, Code::kOk, object_bytes(reply));
  // From here on, so that the answer to this call is not the first thing recorded.
  server_->set_reply_tap(&trace_);
}

void Service::begin_snapshot(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::SnapshotRequest>(body);
  if (!request || !body.empty() || request->reserved != 0) return server_->reply(from, Code::kMalformed);
  if (!parts_.want_snapshot) return server_->reply(from, Code::kUnsupported);
  const wire::SnapshotReply reply{.attempt = parts_.want_snapshot()};
  server_->reply(from, Code::kOk, object_bytes(reply));
}

ShardState Service::state() const {
  const Heap::Stats& heap = parts_.heap.stats();
  PinSet pins;
  parts_.pins.collect(pins);
  ShardState state{.identity = parts_.identity,
                   .incarnation = parts_.incarnation,
                   .shard_index = parts_.shard_index,
                   .shard_count = parts_.shard_count,
                   .process = static_cast<uint64_t>(::getpid()),
                   .now_ns = parts_.shard.clock().now_ns(),
                   .uptime_ns = parts_.shard.clock().now_ns() - started_ns_,
                   .cpu_ns = thread_cpu_ns(),
                   .sleeps = parts_.shard.sleep_count(),
                   .operations = parts_.shard.ops().count(),
                   .connections = server_ == nullptr ? 0 : server_->session_count(),
                   .memory = {.total = heap.bytes_total,
                              .free = heap.bytes_free,
                              .retired = heap.bytes_retired,
                              .largest_free_run = parts_.heap.largest_free_run(),
                              .pins = pins.size()},
                   .entries = {},
                   .batches = times_.batches,
                   .batch_ns = times_.batch_ns,
                   .batch_calls = times_.batch_calls,
                   .methods = {},
                   .data = parts_.data ? parts_.data() : DataState{},
                   .counters = {}};
  parts_.tell_stores(state);
  state.memory.live = heap.bytes_live - std::min(heap.bytes_live, heap.bytes_retired + state.memory.table);
  for (size_t number = 0; number < state.methods.size(); ++number) {
    state.methods[number].service_ns = times_.method_ns[number];
  }
  const AddCounter add = [&](std::string_view name, uint64_t count) {
    state.counters.emplace_back(name, count);
  };
  if (server_ != nullptr) {
    const rpc::Server::Counts& counts = server_->counts();
    add("rpc.calls", counts.calls);
    add("rpc.replies", counts.replies);
    add("rpc.deferred_replies", counts.deferred_replies);
    add("rpc.dropped_replies", counts.dropped_replies);
    add("rpc.closed_malformed", counts.closed_malformed);
    add("rpc.closed_overrun", counts.closed_overrun);
    add("rpc.refused_sessions", counts.refused_sessions);
  }
  if (parts_.add_counters) parts_.add_counters(add);
  return state;
}

void tell_table(const kv::TableStats& table, ShardState& state) {
  state.memory.table = table.overflow_lines * kLineBytes + round_up(table.buckets * kLineBytes, kChunkBytes);
  state.entries = {.count = table.entries,
                   .expiring = table.expiring_entries,
                   .expired = table.expired,
                   .buckets = table.buckets,
                   .overflow_lines = table.overflow_lines,
                   .splits = table.splits};
}

void tell_service(const kv::wire::StatReply& stat, ShardState& state) {
  state.uploads = stat.uploads;
  state.views = stat.views;
  state.waiting_for_memory = stat.waiting_for_memory;
  for (size_t number = 0; number < std::size(stat.ops); ++number) {
    const std::string_view name = kv::wire::name(static_cast<kv::wire::Method>(number));
    state.methods.push_back(
        {.name = std::string(name.empty() ? "other" : name), .calls = stat.ops[number], .service_ns = {}});
  }
}

ConnectionPage Service::connections(uint64_t from) const {
  ConnectionPage page;
  if (server_ == nullptr) return page;
  const uint64_t now_ns = parts_.shard.clock().now_ns();
  const auto since = [now_ns](uint64_t ns) { return now_ns - std::min(ns, now_ns); };
  for (uint64_t place = from; place < server_->session_places(); ++place) {
    if (page.connections.size() == kConnectionsPerPage) {
      page.next = place;
      break;
    }
    const auto session = server_->session_at(place);
    if (!session) continue;
    Peer peer = parts_.peer_of ? parts_.peer_of(*session->channel) : Peer{};
    page.connections.push_back({.place = place,
                                .transport = std::move(peer.transport),
                                .peer = std::move(peer.name),
                                .reason = std::move(peer.reason),
                                .age_ns = since(session->opened_ns),
                                .idle_ns = since(session->active_ns),
                                .calls = session->calls,
                                .received_bytes = session->received_bytes,
                                .sent_bytes = session->sent_bytes,
                                .in_flight = session->unanswered,
                                .waiting_replies = session->waiting_replies});
  }
  return page;
}

void FrontDoor::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  if (observe_.trace().is_on()) [[unlikely]] {
    observe_.trace().batch(calls);
    behind_.handle(calls);
    // The batch may have held the call that ended the recording.
    if (observe_.trace().is_on()) observe_.trace().worked(calls.size());
    return;
  }
  if (is_sampled()) [[unlikely]]
    return handle_and_measure(calls);
  behind_.handle(calls);
}

bool FrontDoor::is_sampled() noexcept {
  return ++observe_.times().batches % kBatchesPerSample == 0 ||
         observe_.shard().now_ns() - observe_.times().sampled_ns >= kMillisecond_ns;
}

void FrontDoor::handle_and_measure(std::span<const rpc::IncomingCall> calls) noexcept {
  const uint64_t begun_ns = observe_.shard().clock().now_ns();
  behind_.handle(calls);
  const uint64_t took_ns = observe_.shard().clock().now_ns() - begun_ns;
  ServiceTimes& times = observe_.times();
  // By the same look that is_sampled() compares with: the clock itself is ahead of it.
  times.sampled_ns = observe_.shard().now_ns();
  times.batch_ns.record(took_ns);
  times.batch_calls.record(calls.size());
  for (const rpc::IncomingCall& call : calls) {
    const auto method =
        static_cast<size_t>(kv::wire::counted_as(static_cast<kv::wire::Method>(call.header.method)));
    times.method_ns[method < times.method_ns.size() ? method : 0].record(took_ns / calls.size());
  }
}

}  // namespace refract::observe
