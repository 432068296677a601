// SPDX-License-Identifier: Apache-2.0
// Calls that a member has no right to, or that come too late: each is refused with the code that
// docs/formats/directory.md says, and changes nothing.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "refract/object/testing/test_directory.h"

namespace refract::object::directory_hostile_test {
namespace {

using test::change_body;
using test::changes_body;
using test::hello_body;
using test::named_body;
using test::ToldNode;
using wire::ChangeKind;
using Method = wire::DirectoryMethod;

constexpr uint64_t kVersion = test::kListVersion;

class HostileMemberTest : public testing::Test {
 protected:
  // Returns the number of the stream that may begin.
  uint64_t hello(const ToldNode::Peer& peer, std::string_view name = "b") {
    const test::Answer answer = node.call(peer, Method::kHello, hello_body(node, name));
    EXPECT_EQ(answer.code, Code::kOk);
    return answer.as<wire::HelloReply>().stream;
  }
  Code page(const ToldNode::Peer& peer, const test::PageOf& of,
            const std::vector<std::string>& changes = {}) {
    return node.call(peer, Method::kChanges, changes_body(of, changes)).code;
  }
  Code report(const ToldNode::Peer& peer, uint64_t stream, const std::vector<std::string>& changes = {}) {
    return page(peer, {.stream = stream, .is_report = true, .is_last = true}, changes);
  }
  Code named(const ToldNode::Peer& peer, Method method, std::string_view its_id, uint64_t birth) {
    return node.call(peer, method, named_body(kVersion, its_id, birth)).code;
  }
  [[nodiscard]] Code look_up(const ToldNode::Peer& peer, uint64_t version = kVersion) {
    return node.call(peer, Method::kLookUp, test::look_up_body(version, id)).code;
  }
  // What the home has of it: holders, by their index.
  [[nodiscard]] std::vector<MemberIndex> holders(std::string_view of) {
    return node.directory().home().look_up(of).holders;
  }
  void make(std::string_view its_id, uint64_t birth) {
    ObjectStore& store = node.owner().store;
    ASSERT_TRUE(store.create({.id = test::as_bytes(its_id), .birth = birth, .body_bytes = 100}));
    ASSERT_TRUE(store.seal(test::as_bytes(its_id), birth));
  }
  [[nodiscard]] bool has(std::string_view its_id) {
    return node.owner().store.find(test::as_bytes(its_id)).has_value();
  }
  // One of each method, with nothing wrong in it.
  [[nodiscard]] std::vector<std::pair<Method, std::string>> calls() const {
    const std::string body = named_body(kVersion, id, 7);
    return {{Method::kHello, hello_body(node, "b")},
            {Method::kChanges, changes_body({.stream = 1, .is_report = true, .is_last = true}, {})},
            {Method::kLookUp, test::look_up_body(kVersion, id)},
            {Method::kRemove, body},
            {Method::kDrop, body},
            {Method::kForget, body},
            {Method::kAsk, test::ask_body(kVersion, id)},
            {Method::kAppeared, body},
            {Method::kEstimate,
             test::body_of(wire::EstimateRequest{.list_version = kVersion, .count = 0, .reserved = {}})}};
  }

  ToldNode node;
  const std::string id = test::id_homed_at(node, "a");
  const std::string id_of_b = test::id_homed_at(node, "b");
  const std::string id_of_c = test::id_homed_at(node, "c");
};

// A directory whose sessions a test gives their role, beside the node's own.
class RoleTest : public HostileMemberTest {
 protected:
  RoleTest() { node.idler.watch(domain); }
  ~RoleTest() override { directory.answer_through(nullptr); }

  bool are_nodes = false;
  test::ToldPeers peers;
  Directory directory{{.store = node.owner().store,
                       .shard = node.shard,
                       .peers = peers,
                       .growth = node.owner().no_growth,
                       .is_node = [this](rpc::SessionId) { return are_nodes; },
                       .identity = {1, 2}}};
  fabric::LoopbackDomain domain{node.hub, "z", ToldNode::kLink};
  rpc::Server server{directory, node.shard};
  fabric::Dispatcher dispatcher{domain, node.shard, &server};
};

TEST_F(RoleTest, a_session_that_is_no_node_is_refused) {
  directory.answer_through(&server);
  directory.follow(*cluster::Members::create(node.list, "a"));
  const ToldNode::Peer peer = node.connect(node.other_domain, "z");
  for (const auto& [method, body] : calls()) {
    const test::Answer answer = node.call(peer, method, body);
    EXPECT_EQ(answer.code, Code::kAccessDenied) << static_cast<int>(method);
    EXPECT_TRUE(answer.bytes.empty());
    EXPECT_EQ(node.call(peer, method, "").code, Code::kAccessDenied);
  }
  are_nodes = true;
  EXPECT_EQ(node.call(peer, Method::kHello, hello_body(node, "b")).code, Code::kOk);
  // The role is looked at in each call.
  are_nodes = false;
  EXPECT_EQ(look_up(peer), Code::kAccessDenied);
}

TEST_F(RoleTest, a_node_without_a_list_answers_nothing) {
  directory.answer_through(&server);
  are_nodes = true;
  const ToldNode::Peer peer = node.connect(node.other_domain, "z");
  for (const auto& [method, body] : calls()) {
    EXPECT_EQ(node.call(peer, method, body).code, Code::kUnavailable) << static_cast<int>(method);
  }
}

// Orders that no plan gives.
TEST_F(HostileMemberTest, an_order_of_a_broadcast_that_makes_no_sense_is_refused) {
  const ToldNode::Peer peer = node.connect();
  (void)hello(peer);
  const wire::BringRequest good{.list_version = kVersion,
                                .birth = 7,
                                .plan = 3,
                                .timeout_ms = 100,
                                .piece_bytes = 64 * 1024,
                                .id_bytes = test::short_of(id.size()),
                                .forebears = 2,
                                .reserved = {}};
  const auto answer = [&](const wire::BringRequest& request, std::string_view members) {
    return node.call(peer, Method::kBring, test::body_of(request, id + std::string(members))).code;
  };
  EXPECT_EQ(answer(good, "\x01"), Code::kMalformed) << "one is missing";
  EXPECT_EQ(answer(good, std::string_view("\x01\x00", 2)), Code::kInvalidArgument) << "it is itself";
  EXPECT_EQ(answer(good, "\x01\x01"), Code::kInvalidArgument) << "twice";
  EXPECT_EQ(answer(good, "\x01\x07"), Code::kInvalidArgument) << "no member";
  const auto with = [&](auto change) {
    wire::BringRequest request = good;
    change(request);
    return answer(request, "\x01\x02");
  };
  EXPECT_EQ(with([](auto& one) { one.birth = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(with([](auto& one) { one.plan = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(with([](auto& one) { one.piece_bytes = 1; }), Code::kInvalidArgument);
  EXPECT_EQ(with([](auto& one) { one.piece_bytes = 1U << 31; }), Code::kInvalidArgument);
  EXPECT_EQ(with([](auto& one) { one.reserved[4] = 1; }), Code::kMalformed);
  EXPECT_EQ(with([](auto& one) { one.id_bytes = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(with([](auto& one) { one.forebears = 9; }), Code::kMalformed);
  EXPECT_EQ(with([](auto&) {}), Code::kUnavailable) << "its home has not heard from all";
}

TEST_F(HostileMemberTest, nothing_but_hello_comes_first) {
  const ToldNode::Peer peer = node.connect();
  for (const auto& [method, body] : calls()) {
    if (method == Method::kHello) continue;
    EXPECT_EQ(node.call(peer, method, body).code, Code::kVersionMismatch) << static_cast<int>(method);
    EXPECT_EQ(node.call(peer, method, body.substr(0, 7)).code, Code::kMalformed);
  }
  (void)hello(peer);
  EXPECT_EQ(look_up(peer), Code::kOk);
  EXPECT_EQ(node.call(peer, 0x60c, named_body(kVersion, id, 7)).code, Code::kUnsupported);
}

TEST_F(HostileMemberTest, a_member_of_another_list_is_refused_and_told_which_one_it_is) {
  const ToldNode::Peer peer = node.connect();
  (void)hello(peer);
  const std::vector<std::pair<size_t, Code>> cases = {
      {offsetof(wire::HelloRequest, list_version), Code::kVersionMismatch},
      {offsetof(wire::HelloRequest, list_digest), Code::kVersionMismatch},
      {sizeof(wire::HelloRequest), Code::kNotFound}};
  for (const auto& [at, code] : cases) {
    std::string body = hello_body(node, "b");
    body[at] = static_cast<char>(body[at] ^ 0x10);
    const test::Answer answer = node.call(peer, Method::kHello, body);
    EXPECT_EQ(answer.code, code) << at;
    EXPECT_EQ(answer.as<wire::HelloReply>().list_version, kVersion);
    EXPECT_EQ(answer.behind<wire::HelloReply>(), "a");
    EXPECT_EQ(look_up(peer), Code::kVersionMismatch) << "what was agreed before is over";
    (void)hello(peer);
    EXPECT_EQ(look_up(peer), Code::kOk);
  }
  EXPECT_EQ(node.call(peer, Method::kHello, hello_body(node, "a")).code, Code::kNotFound) << "its own name";
}

TEST_F(HostileMemberTest, a_hello_with_a_name_of_another_length_is_malformed) {
  const ToldNode::Peer peer = node.connect();
  EXPECT_EQ(node.call(peer, Method::kHello, hello_body(node, "")).code, Code::kMalformed);
  const std::string long_name(cluster::kNameBytesMax + 1, 'b');
  EXPECT_EQ(node.call(peer, Method::kHello, hello_body(node, long_name)).code, Code::kMalformed);
  EXPECT_EQ(node.call(peer, Method::kHello, hello_body(node, "b") + "b").code, Code::kMalformed);
  EXPECT_EQ(node.call(peer, Method::kHello, hello_body(node, "b").substr(0, 40)).code, Code::kMalformed);
}

TEST_F(HostileMemberTest, calls_under_another_version_of_the_list_are_refused) {
  const ToldNode::Peer peer = node.connect();
  const uint64_t stream = hello(peer);
  EXPECT_EQ(look_up(peer, kVersion - 1), Code::kVersionMismatch);
  EXPECT_EQ(look_up(peer, kVersion + 1), Code::kVersionMismatch);
  EXPECT_EQ(page(peer, {.stream = stream, .is_report = true, .is_last = true, .version = kVersion + 1}),
            Code::kVersionMismatch);
  EXPECT_EQ(report(peer, stream), Code::kOk);
  node.follow(kVersion + 1);
  EXPECT_EQ(look_up(peer, kVersion), Code::kVersionMismatch);
  EXPECT_EQ(look_up(peer, kVersion + 1), Code::kVersionMismatch) << "no hello under this list yet";
  (void)hello(peer);
  EXPECT_EQ(look_up(peer, kVersion + 1), Code::kOk);
}

// --- Streams ---

TEST_F(HostileMemberTest, a_stream_begins_with_a_report) {
  const ToldNode::Peer peer = node.connect();
  const uint64_t stream = hello(peer);
  const std::vector<std::string> holds = {change_body(ChangeKind::kHolds, id, 7, 100)};
  EXPECT_EQ(page(peer, {.stream = stream}, holds), Code::kVersionMismatch);
  EXPECT_EQ(report(peer, stream + 1, holds), Code::kVersionMismatch) << "it was not given this number";
  EXPECT_EQ(report(peer, 0, holds), Code::kVersionMismatch);
  EXPECT_TRUE(holders(id).empty());
  EXPECT_EQ(report(peer, stream, holds), Code::kOk);
  EXPECT_EQ(holders(id), std::vector<MemberIndex>{1});
}

TEST_F(HostileMemberTest, a_page_of_an_earlier_stream_is_refused) {
  const ToldNode::Peer first = node.connect();
  const uint64_t one = hello(first);
  ASSERT_EQ(report(first, one), Code::kOk);
  const ToldNode::Peer second = node.connect();
  const uint64_t other = hello(second);
  EXPECT_NE(one, other);
  const std::vector<std::string> holds = {change_body(ChangeKind::kHolds, id, 7, 100)};
  EXPECT_EQ(page(first, {.stream = one}, holds), Code::kOk) << "a hello alone ends nothing";
  ASSERT_EQ(report(second, other), Code::kOk);
  EXPECT_TRUE(holders(id).empty()) << "the second report does not have it";
  EXPECT_EQ(page(first, {.stream = one}, holds), Code::kVersionMismatch);
  EXPECT_EQ(report(first, one, holds), Code::kVersionMismatch) << "it does not begin again";
  EXPECT_TRUE(holders(id).empty());
  // In one session likewise.
  const uint64_t third = hello(second);
  EXPECT_EQ(page(second, {.stream = other}, holds), Code::kVersionMismatch);
  EXPECT_EQ(report(second, third, holds), Code::kOk);
  EXPECT_EQ(holders(id), std::vector<MemberIndex>{1});
}

TEST_F(HostileMemberTest, the_end_of_an_earlier_session_does_not_end_the_stream_of_a_later_one) {
  ToldNode::Peer first = node.connect();
  ASSERT_EQ(report(first, hello(first)), Code::kOk);
  ToldNode::Peer second = node.connect();
  ASSERT_EQ(report(second, hello(second)), Code::kOk);
  EXPECT_FALSE(node.directory().home().unknown()[1]);
  first.reset();
  node.settle();
  EXPECT_FALSE(node.directory().home().unknown()[1]);
  second.reset();
  node.settle();
  EXPECT_TRUE(node.directory().home().unknown()[1]);
}

TEST_F(HostileMemberTest, a_session_that_says_another_name_ends_the_stream_of_the_first) {
  ToldNode::Peer peer = node.connect();
  ASSERT_EQ(report(peer, hello(peer, "b")), Code::kOk);
  ASSERT_EQ(report(peer, hello(peer, "c")), Code::kOk);
  peer.reset();
  node.settle();
  EXPECT_TRUE(node.directory().home().unknown()[1]);
  EXPECT_TRUE(node.directory().home().unknown()[2]);
}

TEST_F(HostileMemberTest, reserved_fields_of_hello_are_0) {
  const ToldNode::Peer peer = node.connect();
  std::string body = hello_body(node, "b");
  body[offsetof(wire::HelloRequest, reserved)] = 1;
  EXPECT_EQ(node.call(peer, Method::kHello, body).code, Code::kMalformed);
}

// Its tasks stay in the session until they see that it has closed.
TEST_F(HostileMemberTest, a_node_may_end_when_a_session_has_just_closed) {
  for (int i = 0; i < 20; ++i) {
    ToldNode ending;
    for (int tries = 0; tries < 3; ++tries) {
      ending.reach();
      ending.settle();
      ending.lose();
    }
    EXPECT_EQ(ending.peers.session(), nullptr);
  }
}

TEST_F(HostileMemberTest, a_page_that_makes_no_sense_changes_nothing) {
  const ToldNode::Peer peer = node.connect();
  const uint64_t stream = hello(peer);
  ASSERT_EQ(report(peer, stream), Code::kOk);
  const std::string sound = change_body(ChangeKind::kHolds, id, 7, 100);
  const std::string good = changes_body({.stream = stream}, {sound, sound});
  const size_t entry = sizeof(wire::ChangesRequest) + sound.size();
  const auto with = [&](size_t at, char byte) {
    std::string body = good;
    body[at] = byte;
    return body;
  };
  const std::vector<std::string> cases = {
      good.substr(0, good.size() - 1),
      good + "x",
      good.substr(0, sizeof(wire::ChangesRequest)),
      good.substr(0, sizeof(wire::ChangesRequest) - 1),
      with(offsetof(wire::ChangesRequest, count), 1),
      with(offsetof(wire::ChangesRequest, count), 3),
      with(offsetof(wire::ChangesRequest, count) + 3, 0x7f),
      with(offsetof(wire::ChangesRequest, is_report), 2),
      with(offsetof(wire::ChangesRequest, is_last), 1),
      with(offsetof(wire::ChangesRequest, reserved), 1),
      with(entry + offsetof(wire::Change, kind), 0),
      with(entry + offsetof(wire::Change, kind), 9),
      with(entry + offsetof(wire::Change, copies), kCopiesMax + 1),
      with(entry + offsetof(wire::Change, reserved), 1),
      with(entry + offsetof(wire::Change, birth), 0),
      with(entry + offsetof(wire::Change, metadata_bytes) + 3, 0x7f),
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(node.call(peer, Method::kChanges, cases[i]).code, Code::kMalformed) << i;
  }
  EXPECT_EQ(node.call(peer, Method::kChanges, with(entry + offsetof(wire::Change, id_bytes), 0)).code,
            Code::kInvalidArgument);
  EXPECT_TRUE(holders(id).empty());
  EXPECT_EQ(node.call(peer, Method::kChanges, good).code, Code::kOk);
}

// --- Homes ---

TEST_F(HostileMemberTest, an_id_whose_home_is_another_node_is_refused) {
  const ToldNode::Peer peer = node.connect();
  const uint64_t stream = hello(peer);
  for (const std::string& other : {id_of_b, id_of_c}) {
    const std::vector<std::string> both = {change_body(ChangeKind::kHolds, id, 7, 100),
                                           change_body(ChangeKind::kHolds, other, 8, 100)};
    EXPECT_EQ(report(peer, stream, both), Code::kInvalidArgument);
    EXPECT_TRUE(holders(id).empty()) << "nothing of the page was done";
    EXPECT_EQ(node.call(peer, Method::kLookUp, test::look_up_body(kVersion, other)).code,
              Code::kInvalidArgument);
    make(other, 8);
    EXPECT_EQ(named(peer, Method::kRemove, other, 8), Code::kInvalidArgument);
    EXPECT_TRUE(has(other));
    // Of what it has, it tells members all the same.
    EXPECT_EQ(node.call(peer, Method::kAsk, test::ask_body(kVersion, other)).as<wire::AskReply>().birth, 8U);
  }
}

TEST_F(HostileMemberTest, only_the_home_of_an_id_says_what_becomes_of_it) {
  const ToldNode::Peer peer = node.connect();
  (void)hello(peer);
  ObjectStore& store = node.owner().store;
  for (const std::string& other : {id, id_of_c}) {
    make(other, 8);
    EXPECT_EQ(named(peer, Method::kDrop, other, 8), Code::kAccessDenied);
    EXPECT_TRUE(has(other));
    EXPECT_FALSE(store.has_tombstone(test::as_bytes(other), 8));
    ASSERT_EQ(store.add_tombstone(test::as_bytes(other), 9), Code::kOk);
    EXPECT_EQ(named(peer, Method::kForget, other, 9), Code::kAccessDenied);
    EXPECT_TRUE(store.has_tombstone(test::as_bytes(other), 9));
    EXPECT_EQ(named(peer, Method::kAppeared, other, 8), Code::kAccessDenied);
  }
  make(id_of_b, 8);
  for (const Method method : {Method::kDrop, Method::kForget, Method::kAppeared}) {
    EXPECT_EQ(named(peer, method, id_of_b, 0), Code::kInvalidArgument);
    EXPECT_EQ(named(peer, method, "", 8), Code::kInvalidArgument);
    EXPECT_EQ(node.call(peer, method, named_body(kVersion, id_of_b, 8) + "x").code, Code::kMalformed);
  }
  EXPECT_EQ(named(peer, Method::kDrop, id_of_b, 7), Code::kOk) << "another birth, which it refuses now";
  EXPECT_TRUE(has(id_of_b));
  EXPECT_EQ(named(peer, Method::kDrop, id_of_b, 8), Code::kOk);
  EXPECT_FALSE(has(id_of_b));
  EXPECT_TRUE(store.has_tombstone(test::as_bytes(id_of_b), 8));
  EXPECT_EQ(named(peer, Method::kForget, id_of_b, 8), Code::kOk);
  EXPECT_FALSE(store.has_tombstone(test::as_bytes(id_of_b), 8));
}

}  // namespace
}  // namespace refract::object::directory_hostile_test
