// SPDX-License-Identifier: Apache-2.0
// What a shard tells about itself while clients use it: asked over the loopback provider, in virtual time.
#include "refract/node/observe/service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "refract/base/prng.h"
#include "refract/base/trace_ring.h"
#include "refract/kv/testing/test_service.h"
#include "refract/node/observe/watcher.h"
#include "refract/rpc/service_table.h"

namespace refract::observe {
namespace {

using kv::test::bytes_of;
using wire::TraceKind;

class ObserveTest : public testing::Test {
 protected:
  explicit ObserveTest(const fabric::LoopbackOptions& link = {}, bool keeps_data = true)
      : space_({.chunks = 44, .chunks_max = 64, .pins = &pins_.all}),
        idler_(space_.clock()),
        shard_(space_.clock(), {.idler = &idler_}),
        client_domain_(hub_, "client", link),
        server_domain_(hub_, "server", link),
        store_({.table = space_.table(),
                .heap = space_.heap(),
                .writer = space_.writer(),
                .pins = pins_.sessions,
                .growth = growth_,
                .shard = shard_}),
        observe_(
            {.tell_stores =
                 [this](ShardState& state) {
                   tell_table(space_.table().stats(), state);
                   tell_service(store_.stat(), state);
                 },
             .heap = space_.heap(),
             .pins = pins_.all,
             .shard = shard_,
             .identity = {1, 2},
             .incarnation = 3,
             .shard_index = 1,
             .shard_count = 2,
             .peer_of = [](const fabric::Channel&) { return Peer{"loopback", "a test", "the only one"}; },
             .add_counters = [](const AddCounter& add) { add("test.count", 5); },
             .data = [this] { return data_; },
             .want_snapshot = keeps_data ? std::function<uint64_t()>([this] { return ++snapshots_wanted_; })
                                         : std::function<uint64_t()>()}),
        door_(store_, observe_),
        observe_door_(observe_, observe_),
        services_({{0, &door_}, {wire::kMethodsBegin, &observe_door_}}),
        server_(services_, shard_),
        server_dispatcher_(server_domain_, shard_, &server_),
        client_dispatcher_(client_domain_, shard_) {
    store_.answer_through(&server_);
    observe_.answer_through(server_);
    idler_.watch(client_domain_);
    idler_.watch(server_domain_);
  }

  struct Peers {
    std::unique_ptr<rpc::Session> session;
    std::unique_ptr<kv::RpcClient> client;
    std::unique_ptr<Watcher> watcher;
  };
  [[nodiscard]] Peers connect() {
    Peers peer;
    const Reported<fabric::Channel*> channel = client_domain_.connect("server");
    REFRACT_CHECK(channel.has_value());
    peer.session = std::make_unique<rpc::Session>(**channel, shard_);
    const auto open = [&] { return peer.session->state() == rpc::Session::State::kOpen; };
    REFRACT_CHECK(shard_.run_until(open, shard_.refresh_now() + kSecond_ns));
    peer.client = std::make_unique<kv::RpcClient>(*peer.session, shard_);
    peer.watcher = std::make_unique<Watcher>(*peer.session, shard_, kSecond_ns);
    return peer;
  }
  void put(Peers& peer, const std::string& key, const std::string& value) {
    ASSERT_TRUE(peer.client->put_and_wait(bytes_of(key), bytes_of(value)));
  }
  [[nodiscard]] Code call(Peers& peer, uint16_t method, std::span<const std::byte> body) {
    return peer.session->call_and_wait({.method = method, .head = body}, shard_.refresh_now() + kSecond_ns)
        .code;
  }
  template <typename Request>
  [[nodiscard]] Code call(Peers& peer, wire::Method method, const Request& request) {
    return call(peer, static_cast<uint16_t>(method), std::as_bytes(std::span(&request, 1)));
  }

  DataState data_;
  uint64_t snapshots_wanted_ = 0;
  kv::test::Pins pins_;
  kv::test::ManualGrowth growth_;
  kv::test::Space space_;
  kv::test::JumpingIdler idler_;
  runtime::Shard shard_;
  fabric::LoopbackHub hub_;
  fabric::LoopbackDomain client_domain_;
  fabric::LoopbackDomain server_domain_;
  kv::TableService store_;
  Service observe_;
  FrontDoor door_;
  FrontDoor observe_door_;
  rpc::ServiceTable services_;
  rpc::Server server_;
  fabric::Dispatcher server_dispatcher_;
  fabric::Dispatcher client_dispatcher_;
};

class SmallMessages : public ObserveTest {
 protected:
  SmallMessages() : ObserveTest({.message_bytes_max = 640}) {}
};

class WithoutFolder : public ObserveTest {
 protected:
  WithoutFolder() : ObserveTest({}, /*keeps_data=*/false) {}
};

const MethodUse& use_of(const ShardState& state, std::string_view name) {
  const auto found = std::ranges::find(state.methods, name, &MethodUse::name);
  REFRACT_CHECK(found != state.methods.end());
  return *found;
}

TEST_F(ObserveTest, a_shard_tells_what_it_has_done_and_what_its_memory_is_used_for) {
  Peers peer = connect();
  for (int i = 0; i < 100; ++i) {
    put(peer, "key" + std::to_string(i % 50), std::string(1'000, 'v'));
    space_.clock().advance_ns(kMillisecond_ns);
  }
  const auto state = peer.watcher->state();
  ASSERT_TRUE(state) << state.error().to_string();
  EXPECT_EQ(state->identity, (std::array<uint64_t, 2>{1, 2}));
  EXPECT_EQ(state->incarnation, 3u);
  EXPECT_EQ(state->shard_index, 1u);
  EXPECT_EQ(state->shard_count, 2u);
  EXPECT_EQ(state->connections, 1u);
  EXPECT_EQ(state->entries.count, 50u);
  EXPECT_EQ(use_of(*state, "put").calls, 100u);
  EXPECT_EQ(use_of(*state, "get").calls, 0u);
  // Time stood still while the shard worked, but those that came a millisecond after the last were measured.
  EXPECT_GT(use_of(*state, "put").service_ns.count(), 90u);
  EXPECT_GE(state->batches, 100u);
  const MemoryState& memory = state->memory;
  EXPECT_EQ(memory.total, 44u * kChunkBytes);
  EXPECT_GE(memory.live, 50u * 1'000u);
  EXPECT_LT(memory.live, 60u * 1'200u);
  EXPECT_LE(memory.live + memory.retired + memory.table + memory.free, memory.total);
  EXPECT_GT(memory.table, 0u);
  EXPECT_LE(memory.largest_free_run, memory.free);
  EXPECT_NE(std::ranges::find(state->counters, std::pair<std::string, uint64_t>("test.count", 5)),
            state->counters.end());
  const auto calls =
      std::ranges::find(state->counters, "rpc.calls", &std::pair<std::string, uint64_t>::first);
  ASSERT_NE(calls, state->counters.end());
  EXPECT_EQ(calls->second, 101u);
}

TEST_F(ObserveTest, a_snapshot_is_begun_for_who_asks_and_told_of_in_the_state) {
  Peers peer = connect();
  data_ = {.durability = "everysec",
           .backing = "memfd:",
           .folder = "/srv/refract",
           .log = {.state = "running", .unsynced_bytes = 12},
           .snapshots = {.begun = 2, .ended = 1, .file = "/srv/refract/snapshot-000-1"}};
  const auto attempt = peer.watcher->want_snapshot();
  ASSERT_TRUE(attempt) << attempt.error().to_string();
  EXPECT_EQ(*attempt, 1U);
  EXPECT_EQ(peer.watcher->want_snapshot().value(), 2U);
  EXPECT_EQ(snapshots_wanted_, 2U);
  const auto state = peer.watcher->state();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->data.durability, "everysec");
  EXPECT_EQ(state->data.folder, "/srv/refract");
  EXPECT_EQ(state->data.log.unsynced_bytes, 12U);
  EXPECT_EQ(state->data.snapshots.begun, 2U);
  EXPECT_EQ(state->data.snapshots.file, "/srv/refract/snapshot-000-1");
  const wire::SnapshotRequest strange{.reserved = 7};
  EXPECT_EQ(call(peer, wire::Method::kSnapshot, strange), Code::kMalformed);
  const uint64_t longer[2] = {};
  EXPECT_EQ(call(peer, wire::Method::kSnapshot, longer), Code::kMalformed);
  EXPECT_EQ(snapshots_wanted_, 2U) << "calls that make no sense do nothing";
}

TEST_F(WithoutFolder, nobody_gets_a_snapshot_and_the_refusal_says_what_to_do) {
  Peers peer = connect();
  const auto attempt = peer.watcher->want_snapshot();
  ASSERT_FALSE(attempt);
  EXPECT_EQ(attempt.error().code, Code::kUnsupported);
  EXPECT_NE(attempt.error().next.find("refract dump"), std::string::npos) << attempt.error().to_string();
}

TEST_F(ObserveTest, many_calls_in_a_short_time_are_sampled) {
  Peers peer = connect();
  for (int i = 0; i < 3'200; ++i) put(peer, "k", "v");
  const auto state = peer.watcher->state();
  ASSERT_TRUE(state);
  EXPECT_EQ(use_of(*state, "put").calls, 3'200u);
  const uint64_t sampled = use_of(*state, "put").service_ns.count();
  EXPECT_GE(sampled, 90u);
  EXPECT_LE(sampled, 110u);
}

TEST_F(ObserveTest, a_shard_that_has_not_looked_at_the_clock_for_a_while_measures_no_more_than_others) {
  const rpc::IncomingCall call{
      .from = {}, .header = {.id = 1, .method = 1, .code = 0, .bytes = 0}, .payload = {}};
  for (int i = 0; i < 320; ++i) {
    space_.clock().advance_ns(100);
    door_.handle({&call, 1});
  }
  EXPECT_GE(observe_.times().batch_ns.count(), 10u);
  EXPECT_LE(observe_.times().batch_ns.count(), 12u);
}

TEST_F(ObserveTest, connections_are_told_with_who_they_are_and_what_they_do) {
  std::vector<Peers> peers;
  for (int i = 0; i < 300; ++i) peers.push_back(connect());
  space_.clock().advance_ns(5 * kSecond_ns);
  shard_.refresh_now();
  put(peers[7], "k", std::string(100, 'v'));
  peers[3].session->close();
  const auto gone = [&] { return server_.session_count() == 299; };
  ASSERT_TRUE(shard_.run_until(gone, shard_.refresh_now() + kSecond_ns));
  space_.clock().advance_ns(kSecond_ns);
  shard_.refresh_now();
  const auto told = peers[0].watcher->connections(1'000);
  ASSERT_TRUE(told) << told.error().to_string();
  EXPECT_EQ(told->size(), 299u);
  std::map<uint64_t, ConnectionState> by_place;
  for (const ConnectionState& one : *told) by_place[one.place] = one;
  EXPECT_EQ(by_place.size(), 299u);
  EXPECT_FALSE(by_place.contains(3));
  const ConnectionState& seventh = by_place[7];
  EXPECT_EQ(seventh.transport, "loopback");
  EXPECT_EQ(seventh.peer, "a test");
  EXPECT_EQ(seventh.reason, "the only one");
  EXPECT_EQ(seventh.calls, 1u);
  EXPECT_GT(seventh.received_bytes, 100u);
  EXPECT_GT(seventh.sent_bytes, 0u);
  EXPECT_GE(seventh.age_ns, 6 * kSecond_ns);
  EXPECT_EQ(seventh.idle_ns, kSecond_ns);
  EXPECT_EQ(by_place[8].idle_ns, by_place[8].age_ns);
  // The one that asks is busy with it.
  EXPECT_EQ(by_place[0].in_flight, 1u);
  const auto some = peers[0].watcher->connections(10);
  ASSERT_TRUE(some);
  EXPECT_EQ(some->size(), 10u);
}

TEST_F(SmallMessages, what_is_longer_than_a_message_comes_in_pieces) {
  Peers peer = connect();
  for (int i = 0; i < 200; ++i) {
    put(peer, "key" + std::to_string(i), "v");
    space_.clock().advance_ns(kMillisecond_ns);
  }
  std::vector<Peers> others;
  for (int i = 0; i < 20; ++i) others.push_back(connect());
  const auto state = peer.watcher->state();
  ASSERT_TRUE(state) << state.error().to_string();
  EXPECT_EQ(use_of(*state, "put").calls, 200u);
  const auto told = peer.watcher->connections(1'000);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->size(), 21u);
}

TEST_F(SmallMessages, a_telling_that_was_given_up_is_forgotten_and_asked_for_again) {
  Peers peer = connect();
  Peers other = connect();
  const wire::BeginRequest begin{.topic = 1, .reserved = 0, .from = 0};
  ASSERT_EQ(call(peer, wire::Method::kBegin, begin), Code::kOk);
  // That of another session is not told, and a new one replaces it.
  EXPECT_EQ(call(other, wire::Method::kMore, wire::MoreRequest{.id = 1, .offset = 10}), Code::kInvalidated);
  EXPECT_EQ(call(peer, wire::Method::kMore, wire::MoreRequest{.id = 1, .offset = 10}), Code::kOk);
  EXPECT_EQ(call(peer, wire::Method::kMore, wire::MoreRequest{.id = 1, .offset = 1 << 20}),
            Code::kInvalidArgument);
  ASSERT_EQ(call(peer, wire::Method::kBegin, begin), Code::kOk);
  EXPECT_EQ(call(peer, wire::Method::kMore, wire::MoreRequest{.id = 1, .offset = 10}), Code::kInvalidated);
  EXPECT_EQ(call(peer, wire::Method::kMore, wire::MoreRequest{.id = 2, .offset = 10}), Code::kOk);
  // Many at once push the oldest out.
  std::vector<Peers> crowd;
  for (int i = 0; i < 16; ++i) {
    crowd.push_back(connect());
    ASSERT_EQ(call(crowd.back(), wire::Method::kBegin, begin), Code::kOk);
  }
  EXPECT_EQ(call(peer, wire::Method::kMore, wire::MoreRequest{.id = 2, .offset = 10}), Code::kInvalidated);
}

TEST_F(ObserveTest, a_recording_shows_each_call_from_its_arrival_to_its_answer) {
  Peers watching = connect();
  Peers working = connect();
  put(working, "before", "v");
  const auto started = watching.watcher->start_trace(10 * kSecond_ns, 1'000);
  ASSERT_TRUE(started) << started.error().to_string();
  for (int i = 0; i < 3; ++i) {
    put(working, "k" + std::to_string(i), std::string(100, 'v'));
    space_.clock().advance_ns(1'000);
  }
  const auto recording = watching.watcher->recording();
  ASSERT_TRUE(recording) << recording.error().to_string();
  EXPECT_EQ(recording->header.started_ns, *started);
  EXPECT_EQ(recording->header.lost, 0u);
  const uint64_t session = server_.session_at(1)->id.bits;
  int puts = 0;
  for (size_t i = 0; i < recording->records.size(); ++i) {
    const wire::TraceRecord& call = recording->records[i];
    if (static_cast<TraceKind>(call.kind) != TraceKind::kCall || call.session != session) continue;
    ++puts;
    EXPECT_EQ(call.method, static_cast<uint16_t>(kv::wire::Method::kPut));
    EXPECT_GT(call.bytes, 100u);
    const auto reply = std::find_if(recording->records.begin() + static_cast<ptrdiff_t>(i),
                                    recording->records.end(), [&](const wire::TraceRecord& record) {
                                      return static_cast<TraceKind>(record.kind) == TraceKind::kReply &&
                                             record.session == session && record.call == call.call;
                                    });
    ASSERT_NE(reply, recording->records.end());
    EXPECT_EQ(reply->code, 0u);
    EXPECT_GE(reply->ns, call.ns);
    EXPECT_GE(call.ns, *started);
  }
  EXPECT_EQ(puts, 3);
  // It was taken, and nothing is recorded any more.
  EXPECT_FALSE(observe_.trace().is_on());
  EXPECT_EQ(watching.watcher->recording().error().code, Code::kNotFound);
}

TEST_F(ObserveTest, a_full_recording_keeps_the_newest_and_counts_the_lost) {
  Peers peer = connect();
  ASSERT_TRUE(peer.watcher->start_trace(10 * kSecond_ns, 10));
  for (int i = 0; i < 20; ++i) {
    put(peer, "k", "v");
    space_.clock().advance_ns(1);
  }
  const auto recording = peer.watcher->recording();
  ASSERT_TRUE(recording);
  EXPECT_EQ(recording->records.size(), 10u);
  // Four records a put, and two of the question that ends it.
  EXPECT_EQ(recording->header.lost, 20u * 4 + 2 - 10);
  for (size_t i = 1; i < recording->records.size(); ++i) {
    EXPECT_GE(recording->records[i].ns, recording->records[i - 1].ns);
  }
}

TEST_F(ObserveTest, a_recording_ends_by_itself_and_belongs_to_who_started_it) {
  Peers first = connect();
  Peers second = connect();
  ASSERT_TRUE(first.watcher->start_trace(kSecond_ns, 100));
  EXPECT_EQ(second.watcher->start_trace(kSecond_ns, 100).error().code, Code::kInUse);
  EXPECT_EQ(second.watcher->recording().error().code, Code::kNotFound);
  space_.clock().advance_ns(2 * kSecond_ns);
  put(first, "too late", "v");
  EXPECT_FALSE(observe_.trace().is_on());
  ASSERT_TRUE(second.watcher->start_trace(kSecond_ns, UINT64_MAX));
  second.session->close();
  const auto gone = [&] { return server_.session_count() == 1; };
  ASSERT_TRUE(shard_.run_until(gone, shard_.refresh_now() + kSecond_ns));
  EXPECT_FALSE(observe_.trace().is_on());
  put(first, "after", "v");
  EXPECT_TRUE(first.watcher->start_trace(kSecond_ns, 0));
}

TEST_F(ObserveTest, events_are_told_with_their_moments) {
  Peers peer = connect();
  REFRACT_TRACE("something happened {}", 77);
  const auto events = peer.watcher->events();
  ASSERT_TRUE(events) << events.error().to_string();
  ASSERT_FALSE(events->empty());
  const auto found = std::ranges::find_if(
      *events, [](const Event& event) { return event.text.ends_with(": something happened 77"); });
  ASSERT_NE(found, events->end());
  EXPECT_GT(found->ns, 0u);
  EXPECT_LE(found->ns, system_clock().now_ns());
}

TEST_F(ObserveTest, random_bodies_are_answered_and_do_no_harm) {
  Peers peer = connect();
  Prng prng(3);
  int accepted = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::vector<std::byte> body(prng.below(40));
    for (std::byte& byte : body) byte = prng.chance(0.7) ? std::byte{0} : static_cast<std::byte>(prng.next());
    if (!body.empty() && prng.chance(0.5)) body[0] = static_cast<std::byte>(prng.below(5));
    const auto method = static_cast<uint16_t>(wire::kMethodsBegin + prng.below(5));
    const Code code = call(peer, method, body);
    accepted += code == Code::kOk ? 1 : 0;
    ASSERT_NE(code, Code::kIndeterminate);
    ASSERT_NE(code, Code::kUnavailable);
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 3'000);
  put(peer, "k", "v");
}

}  // namespace
}  // namespace refract::observe
