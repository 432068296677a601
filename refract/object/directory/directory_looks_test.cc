// SPDX-License-Identifier: Apache-2.0
// What a member says to a home whose answers come late: look-ups do not overtake its stream, and an answer to
// a release counts for that release alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "refract/object/testing/test_directory.h"

namespace refract::object::directory_looks_test {
namespace {

using test::ToldNode;
using wire::ChangeKind;
using Method = wire::DirectoryMethod;

// The node a and its home b, which answers pages of its stream at once or when the test says so.
class LateHomeTest : public testing::Test {
 protected:
  static constexpr uint64_t kBirth = 7;
  static constexpr CopiesWord kWord = CopiesWord::of(1, 2);

  LateHomeTest() {
    node.says = [this](uint16_t method, std::string_view body) { return say(method, body); };
    begin_stream();
  }
  void begin_stream() {
    node.reach();
    REFRACT_CHECK(node.run_until([&] { return node.directory().counts().streams == 1; }));
    node.settle();
  }
  std::optional<ToldNode::Said> say(uint16_t method, std::string_view body) {
    methods.push_back(method);
    switch (static_cast<Method>(method)) {
      case Method::kHello:
        return ToldNode::Said(Code::kOk, test::body_of(wire::HelloReply{.list_version = node.list.version,
                                                                        .stream = ++streams,
                                                                        .name_bytes = 1,
                                                                        .reserved = {}},
                                                       "b"));
      case Method::kChanges:
        note_page(body);
        if (is_late) return std::nullopt;
        return codes(std::vector<Code>(page.size(), Code::kOk));
      case Method::kLookUp:
        looked_up.emplace(body.substr(sizeof(wire::LookUpRequest)));
        return ToldNode::Said(Code::kOk, found);
      default:
        return ToldNode::Said(Code::kUnavailable, "");
    }
  }
  void note_page(std::string_view body) {
    page.clear();
    body.remove_prefix(sizeof(wire::ChangesRequest));
    while (!body.empty()) {
      wire::Change change{};
      std::memcpy(&change, body.data(), sizeof(change));
      page.emplace_back(change.kind, body.substr(sizeof(change), change.id_bytes));
      body.remove_prefix(sizeof(change) + change.id_bytes);
    }
  }
  [[nodiscard]] static ToldNode::Said codes(const std::vector<Code>& codes) {
    std::string body;
    for (const Code code : codes) body += test::body_of(static_cast<uint16_t>(code));
    return {Code::kOk, body};
  }
  // An object of this node.
  void make(const std::string& id, CopiesWord word = {}) {
    ObjectStore& store = node.owner().store;
    REFRACT_CHECK(store.create({.id = test::as_bytes(id), .birth = kBirth, .body_bytes = 100}).has_value());
    REFRACT_CHECK(store.seal(test::as_bytes(id), kBirth, word).has_value());
    node.settle();
  }
  void evict(const std::string& id) {
    REFRACT_CHECK(node.owner().store.erase(test::as_bytes(id), kBirth).has_value());
    node.settle();
  }
  // By a client, which waits for it.
  void get(const std::string& id) {
    const std::string body = test::await_body(id, 100 * kSecond_ns);
    REFRACT_CHECK(client->start({.method = static_cast<uint16_t>(wire::Method::kFetch),
                                 .head = test::as_bytes(body)}) != 0);
    node.pass(50 * kMillisecond_ns);
  }
  // The node has no room for something.
  void release() {
    node.pass(200 * kMillisecond_ns);
    node.directory().release(1);
    node.settle();
  }
  // The home's order for it.
  [[nodiscard]] Code bind(const ToldNode::Peer& home, CopiesWord word = kWord) {
    const wire::BindRequest request{.list_version = node.list.version,
                                    .birth = kBirth,
                                    .word = word.bits,
                                    .id_bytes = test::short_of(one.size()),
                                    .may_pull = 0,
                                    .reserved = 0};
    return node.call(home, Method::kBind, test::body_of(request, one)).code;
  }
  [[nodiscard]] ToldNode::Peer connect_home() {
    ToldNode::Peer home = node.connect();
    REFRACT_CHECK(node.call(home, Method::kHello, test::hello_body(node, "b")).code == Code::kOk);
    return home;
  }
  [[nodiscard]] bool is_bound() {
    const Result<Object> object = node.owner().store.find(test::as_bytes(one));
    REFRACT_CHECK(object.has_value());
    return object->copies.is_bound();
  }

  using Ids = std::set<std::string>;
  using Page = std::vector<std::pair<ChangeKind, std::string>>;
  ToldNode node;
  const std::string one = test::id_homed_at(node, "b", 0);
  const std::string other = test::id_homed_at(node, "b", 1);
  bool is_late = false;
  uint64_t streams = 0;
  Page page;  // The last one that the home was sent.
  Ids looked_up;
  std::string found = test::body_of(wire::LookUpReply{});  // The answer to look-ups.
  std::vector<uint16_t> methods;                           // Of calls to the home.
  ToldNode::Peer client = node.connect();
};

// --- Look-ups ---

// Else the home would take the word that it is gone for that of the copy which the look-up has announced.
TEST_F(LateHomeTest, a_look_up_waits_until_what_was_said_of_its_id_is_answered) {
  make(one);
  is_late = true;
  evict(one);
  ASSERT_EQ(page, (Page{{ChangeKind::kGone, one}}));
  get(one);
  EXPECT_TRUE(looked_up.empty());
  get(other);
  EXPECT_EQ(looked_up, Ids{other}) << "of this one nothing is unsaid";
  node.answer_late(codes({Code::kOk}));
  node.pass(kMillisecond_ns);
  EXPECT_EQ(looked_up, (Ids{one, other}));
}

TEST_F(LateHomeTest, a_look_up_waits_for_what_is_still_to_be_sent_behind_another_page) {
  make(one);
  is_late = true;
  make(other);
  evict(one);
  ASSERT_EQ(page, (Page{{ChangeKind::kHolds, other}}));
  get(one);
  node.answer_late(codes({Code::kOk}));
  node.pass(kMillisecond_ns);
  ASSERT_EQ(page, (Page{{ChangeKind::kGone, one}}));
  EXPECT_TRUE(looked_up.empty());
  node.answer_late(codes({Code::kOk}));
  node.pass(kMillisecond_ns);
  EXPECT_EQ(looked_up, Ids{one});
}

// What happens during a report is said in its pages; what the first of these has no room for waits.
TEST_F(LateHomeTest, a_look_up_waits_for_what_a_long_report_is_still_to_say) {
  make(one);
  for (int number = 2; number < 150; ++number) make(test::id_homed_at(node, "b", number));
  is_late = true;
  node.lose();
  begin_stream();
  for (int number = 150; number < 300; ++number) make(test::id_homed_at(node, "b", number));
  evict(one);
  // The second page has the rest of what was there, and the first changes.
  node.answer_late(codes(std::vector<Code>(page.size(), Code::kOk)));
  ASSERT_FALSE(page.empty());
  ASSERT_NE(page.back(), std::pair(ChangeKind::kGone, one));
  get(one);
  EXPECT_TRUE(looked_up.empty());
  is_late = false;
  node.answer_late(codes(std::vector<Code>(page.size(), Code::kOk)));
  node.pass(kMillisecond_ns);
  EXPECT_EQ(looked_up, Ids{one});
}

// The home forgets at the end of a report which copies come, but for what the report names: pulls, and no
// look-ups before them.
TEST_F(LateHomeTest, a_pull_that_another_stream_has_overtaken_asks_the_home_again) {
  ObjectStore& store = node.owner().store;
  constexpr uint64_t kBytes = 1'500'000;
  ASSERT_TRUE(store.create({.id = test::as_bytes("kept"), .birth = kBirth, .body_bytes = kBytes}));
  ASSERT_TRUE(store.seal(test::as_bytes("kept"), kBirth));
  ASSERT_EQ(store.keep(test::as_bytes("kept"), true), Code::kOk);
  found = test::body_of(wire::LookUpReply{.birth = kBirth,
                                          .body_bytes = kBytes,
                                          .metadata_bytes = 0,
                                          .holders = 1,
                                          .doubtful = 0,
                                          .wanted = 0,
                                          .counted = 0},
                        std::string(1, '\1'));
  get(one);
  ASSERT_EQ(looked_up, Ids{one});
  // It waits for room, and the stream ends and begins again.
  is_late = true;
  make(other);
  is_late = false;
  node.answer_late({Code::kVersionMismatch, ""});
  node.pass(300 * kMillisecond_ns);
  ASSERT_EQ(streams, 2U);
  methods.clear();
  ASSERT_EQ(store.keep(test::as_bytes("kept"), false), Code::kOk);
  node.pass(100 * kMillisecond_ns);
  const auto first = std::ranges::find_if(methods, [](uint16_t method) {
    return method == static_cast<uint16_t>(wire::Method::kFetch) ||
           method == static_cast<uint16_t>(Method::kLookUp);
  });
  ASSERT_NE(first, methods.end());
  EXPECT_EQ(*first, static_cast<uint16_t>(Method::kLookUp));
}

// --- Releases ---

TEST_F(LateHomeTest, a_yes_to_a_release_lets_the_copy_go) {
  make(one, kWord);
  release();
  EXPECT_EQ(page, (Page{{ChangeKind::kReleases, one}}));
  EXPECT_FALSE(is_bound());
  EXPECT_EQ(node.directory().counts().released, 1U);
}

TEST_F(LateHomeTest, a_yes_to_a_release_that_an_order_has_cancelled_is_ignored) {
  const ToldNode::Peer home = connect_home();
  make(one, kWord);
  is_late = true;
  release();
  ASSERT_EQ(page, (Page{{ChangeKind::kReleases, one}}));
  // The word that it has already: the home counts on it again.
  ASSERT_EQ(bind(home), Code::kOk);
  node.answer_late(codes({Code::kOk}));
  EXPECT_TRUE(is_bound());
  EXPECT_EQ(page, (Page{{ChangeKind::kHolds, one}}));
  EXPECT_EQ(node.directory().counts().released, 0U);
}

TEST_F(LateHomeTest, a_yes_to_an_earlier_release_does_not_answer_a_later_one) {
  const ToldNode::Peer home = connect_home();
  make(one, kWord);
  is_late = true;
  release();
  ASSERT_EQ(bind(home), Code::kOk);
  release();
  node.answer_late(codes({Code::kOk}));
  EXPECT_TRUE(is_bound());
  ASSERT_EQ(page, (Page{{ChangeKind::kHolds, one}, {ChangeKind::kReleases, one}}));
  node.answer_late(codes({Code::kOk, Code::kUnavailable}));
  EXPECT_TRUE(is_bound());
  release();
  ASSERT_EQ(page, (Page{{ChangeKind::kReleases, one}}));
  node.answer_late(codes({Code::kOk}));
  EXPECT_FALSE(is_bound()) << "its own";
}

TEST_F(LateHomeTest, the_end_of_a_stream_cancels_its_releases) {
  make(one, kWord);
  is_late = true;
  release();
  node.lose();
  is_late = false;
  begin_stream();
  EXPECT_TRUE(is_bound());
  // Under way no more: it is asked again.
  release();
  EXPECT_EQ(page, (Page{{ChangeKind::kReleases, one}}));
  EXPECT_FALSE(is_bound());
}

// The session stands, and the answer comes.
TEST_F(LateHomeTest, a_yes_under_another_list_is_ignored) {
  make(one, kWord);
  is_late = true;
  release();
  ASSERT_EQ(page, (Page{{ChangeKind::kReleases, one}}));
  is_late = false;
  node.follow(node.list.version + 1);
  REFRACT_CHECK(node.run_until([&] { return node.directory().counts().streams == 1; }));
  node.answer_late(codes({Code::kOk}));
  EXPECT_TRUE(is_bound());
  release();
  EXPECT_FALSE(is_bound());
}

}  // namespace
}  // namespace refract::object::directory_looks_test
