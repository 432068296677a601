// SPDX-License-Identifier: Apache-2.0
// Lists and notices, as a client gets them: that a page is bounded, that what is there comes, that a
// subscriber misses nothing, and is told where it does. Over loopback.
#include "refract/object/owner/notices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/object/testing/test_object_service.h"

namespace refract::object {
namespace {

using test::Answer;
using test::body_of;
using test::create_body;
using test::entries_of;
using test::fill_body;
using test::id_body;
using test::put_body;
using test::Served;
using wire::Method;
using wire::NoticeKind;

struct Told {
  uint64_t next = 0;
  bool is_lost = false;
  std::vector<std::pair<NoticeKind, std::string>> notices;
};

Told ask(Served& served, const Served::Peer& peer, uint64_t cursor, uint64_t timeout_ns = 0) {
  const Answer answer = served.call(
      peer, Method::kNotices, body_of(wire::NoticesRequest{.cursor = cursor, .timeout_ns = timeout_ns}));
  EXPECT_EQ(answer.code, Code::kOk);
  const auto reply = answer.as<wire::NoticesReply>();
  Told told{.next = reply.next, .is_lost = reply.is_lost != 0, .notices = {}};
  for (const auto& [notice, id] : entries_of<wire::NoticesReply, wire::Notice>(answer)) {
    told.notices.emplace_back(notice.kind, id);
  }
  return told;
}

// What a program makes of notices; each must follow on what it knows.
class Subscriber {
 public:
  void take(const Told& told) {
    if (told.is_lost) {
      known_.clear();
      ++replays_;
    }
    for (const auto& [kind, id] : told.notices) {
      if (kind == NoticeKind::kDeleted) {
        EXPECT_EQ(known_.erase(id), 1U) << "deleted without having been there: " << id;
      } else {
        EXPECT_TRUE(known_.insert(id).second) << "there twice: " << id;
      }
    }
    cursor_ = told.next;
  }
  [[nodiscard]] uint64_t cursor() const { return cursor_; }
  [[nodiscard]] const std::set<std::string>& known() const { return known_; }
  [[nodiscard]] int replays() const { return replays_; }

 private:
  uint64_t cursor_ = 0;
  int replays_ = 0;
  std::set<std::string> known_;
};

class ObjectNotices : public testing::Test {
 protected:
  void put(std::string_view id, uint64_t claim = 1) {
    ASSERT_EQ(served.call(peer, Method::kPut, put_body(id, claim, "body", "m")).code, Code::kOk);
  }
  void erase(std::string_view id) {
    ASSERT_EQ(served.call(peer, Method::kDelete, id_body(id, 0)).code, Code::kOk);
  }
  std::set<std::string> list_all() {
    std::set<std::string> ids;
    uint64_t cursor = 0;
    do {
      const Answer answer = served.call(peer, Method::kList, body_of(wire::ListRequest{cursor}));
      EXPECT_EQ(answer.code, Code::kOk);
      for (const auto& [object, id] : entries_of<wire::ListReply, wire::ListedObject>(answer)) ids.insert(id);
      cursor = answer.as<wire::ListReply>().next;
    } while (cursor != 0);
    return ids;
  }

 public:
  Served served{{.notices = 100}};
  Served::Peer peer = served.connect();
};

TEST_F(ObjectNotices, come_in_the_order_of_what_happened) {
  Told told = ask(served, peer, 0);
  EXPECT_FALSE(told.is_lost);
  EXPECT_TRUE(told.notices.empty());
  ASSERT_NE(told.next, 0U);
  put("a");
  put("b");
  erase("a");
  put("a", 2);
  ASSERT_EQ(served.call(peer, Method::kEvict, body_of(wire::EvictRequest{1})).code, Code::kOk);
  const Told again = ask(served, peer, told.next);
  const std::vector<std::pair<NoticeKind, std::string>> wanted = {{NoticeKind::kSealed, "a"},
                                                                  {NoticeKind::kSealed, "b"},
                                                                  {NoticeKind::kDeleted, "a"},
                                                                  {NoticeKind::kSealed, "a"}};
  ASSERT_EQ(again.notices.size(), 5U);
  EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), again.notices.begin()));
  EXPECT_EQ(again.notices.back().first, NoticeKind::kDeleted) << "evicted";
  EXPECT_EQ(ask(served, peer, told.next).notices, again.notices)
      << "an answer that was lost is asked for again";
  EXPECT_TRUE(ask(served, peer, again.next).notices.empty());
}

TEST_F(ObjectNotices, say_what_the_object_is) {
  const uint64_t cursor = ask(served, peer, 0).next;
  put("apple", 9);
  const Answer answer =
      served.call(peer, Method::kNotices, body_of(wire::NoticesRequest{.cursor = cursor, .timeout_ns = 0}));
  const auto notices = entries_of<wire::NoticesReply, wire::Notice>(answer);
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].first.birth, birth_of(test::as_bytes("apple"), 9));
  EXPECT_EQ(notices[0].first.body_bytes, 4U);
  EXPECT_EQ(notices[0].first.metadata_bytes, 1U);
}

TEST_F(ObjectNotices, are_waited_for) {
  const uint64_t cursor = ask(served, peer, 0).next;
  const Served::Peer other = served.connect();
  const uint64_t from_ns = served.shard.now_ns();
  const Told none = ask(served, other, cursor, kSecond_ns);
  EXPECT_EQ(served.shard.now_ns(), from_ns + kSecond_ns);
  EXPECT_TRUE(none.notices.empty());
  EXPECT_EQ(none.next, cursor);
  const uint64_t waits = served.start_call(
      other, Method::kNotices, body_of(wire::NoticesRequest{.cursor = cursor, .timeout_ns = wire::kForever}));
  EXPECT_EQ(served.shard.next_timer_ns(), kForever_ns);
  put("a");
  EXPECT_EQ(served.finish(other, waits).as<wire::NoticesReply>().count, 1U);
  EXPECT_EQ(served.shard.now_ns(), from_ns + kSecond_ns);
}

TEST_F(ObjectNotices, begin_with_all_that_is_sealed) {
  for (int i = 0; i < 50; ++i) put("id" + std::to_string(i));
  ASSERT_EQ(served.call(peer, Method::kCreate, create_body("open", 1, {})).code, Code::kOk);
  std::set<std::string> ids;
  uint64_t cursor = 0;
  do {
    const Told told = ask(served, peer, cursor);
    cursor = told.next;
    if (told.notices.empty()) break;
    for (const auto& [kind, id] : told.notices) {
      EXPECT_EQ(kind, NoticeKind::kReplayed);
      EXPECT_TRUE(ids.insert(id).second);
    }
  } while (true);
  EXPECT_EQ(ids.size(), 50U);
  EXPECT_FALSE(ids.contains("open"));
  EXPECT_EQ(served.owner->service->counts().replays, 1U);
}

TEST_F(ObjectNotices, a_subscriber_that_falls_behind_is_told) {
  uint64_t cursor = ask(served, peer, 0).next;
  for (int i = 0; i < 100; ++i) put("id" + std::to_string(i));
  EXPECT_FALSE(ask(served, peer, cursor).is_lost) << "all are kept";
  put("one too many");
  const Told told = ask(served, peer, cursor);
  EXPECT_TRUE(told.is_lost);
  EXPECT_EQ(told.notices.front().first, NoticeKind::kReplayed);
  EXPECT_EQ(served.owner->service->counts().lost, 1U);
  for (const uint64_t unknown : {uint64_t{1}, UINT64_MAX, told.next ^ (uint64_t{1} << 60)}) {
    EXPECT_TRUE(ask(served, peer, unknown).is_lost) << unknown;
  }
}

TEST_F(ObjectNotices, a_cursor_of_the_owner_before_is_lost) {
  put("a");
  const uint64_t cursor = ask(served, peer, 0).next;
  peer.reset();
  served.stop();
  served.start();
  peer = served.connect();
  const Told told = ask(served, peer, cursor);
  EXPECT_TRUE(told.is_lost);
  ASSERT_EQ(told.notices.size(), 1U);
  EXPECT_EQ(told.notices[0].second, "a");
}

TEST_F(ObjectNotices, a_page_of_a_replay_is_given_once) {
  for (int i = 0; i < 60; ++i) put(std::string(100, 'x') + std::to_string(i));
  const Told first = ask(served, peer, 0);
  const Told second = ask(served, peer, first.next);
  ASSERT_FALSE(second.notices.empty());
  EXPECT_FALSE(second.is_lost);
  EXPECT_TRUE(ask(served, peer, first.next).is_lost) << "it was handed out";
  const Served::Peer other = served.connect();
  const Told begun = ask(served, other, 0);
  EXPECT_TRUE(ask(served, peer, begun.next).is_lost) << "it is another session's";
}

// Whatever comes and goes while pages are asked for, the subscriber knows at the end what is there, and was
// never told anything that does not follow on what it knew.
TEST_F(ObjectNotices, replay_and_ring_together_miss_nothing_and_say_nothing_twice) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Prng prng(seed);
    Served world({.link = {.depth = 64, .message_bytes_max = 1024}, .notices = 40 + prng.below(200)});
    const Served::Peer by = world.connect();
    std::set<std::string> there;
    uint64_t claim = 1;
    const auto change = [&] {
      const std::string id = "id" + std::to_string(prng.below(150));
      if (there.contains(id)) {
        ASSERT_EQ(world.call(by, Method::kDelete, id_body(id, 0)).code, Code::kOk);
        there.erase(id);
      } else {
        ASSERT_EQ(world.call(by, Method::kPut, put_body(id, ++claim, "x")).code, Code::kOk);
        there.insert(id);
      }
    };
    for (int i = 0; i < 120; ++i) change();
    Subscriber subscriber;
    for (int page = 0; page < 60; ++page) {
      subscriber.take(ask(world, by, subscriber.cursor()));
      const uint64_t changes = prng.below(page % 20 == 19 ? 100 : 8);
      for (uint64_t i = 0; i < changes; ++i) change();
    }
    for (Told told{.next = 0, .is_lost = true, .notices = {}}; told.is_lost || !told.notices.empty();) {
      told = ask(world, by, subscriber.cursor());
      subscriber.take(told);
    }
    // A page may be empty in the middle of a replay of a table that has been emptied.
    for (int i = 0; i < 5; ++i) subscriber.take(ask(world, by, subscriber.cursor()));
    ASSERT_EQ(subscriber.known(), there) << "seed " << seed;
  }
}

TEST_F(ObjectNotices, a_session_has_so_many_replays) {
  for (int i = 0; i < 60; ++i) put(std::string(100, 'x') + std::to_string(i));
  std::vector<uint64_t> cursors;
  for (size_t i = 0; i <= Notices::kReplaysPerSession; ++i) cursors.push_back(ask(served, peer, 0).next);
  EXPECT_FALSE(ask(served, peer, cursors.back()).is_lost);
  EXPECT_FALSE(ask(served, peer, cursors[1]).is_lost);
  EXPECT_TRUE(ask(served, peer, cursors[0]).is_lost) << "the oldest made place";
}

// --- Lists ---

TEST_F(ObjectNotices, list_has_what_is_there) {
  put("apple", 9);
  ASSERT_EQ(served.call(peer, Method::kKeep, id_body("apple", 0, 1)).code, Code::kOk);
  served.owner->readers.pin(served.owner->store.find(test::as_bytes("apple"))->object);
  ASSERT_EQ(served.call(peer, Method::kCreate, create_body("open", 1, {.body = 77})).code, Code::kOk);
  std::map<std::string, wire::ListedObject> listed;
  uint64_t cursor = 0;
  do {
    const Answer answer = served.call(peer, Method::kList, body_of(wire::ListRequest{cursor}));
    for (const auto& [object, id] : entries_of<wire::ListReply, wire::ListedObject>(answer))
      listed[id] = object;
    cursor = answer.as<wire::ListReply>().next;
  } while (cursor != 0);
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed["apple"].birth, birth_of(test::as_bytes("apple"), 9));
  EXPECT_EQ(listed["apple"].body_bytes, 4U);
  EXPECT_EQ(listed["apple"].metadata_bytes, 1U);
  EXPECT_EQ(listed["apple"].flags, ObjectRecord::kKept);
  EXPECT_EQ(listed["apple"].holders, 1U);
  EXPECT_EQ(listed["apple"].is_sealed, 1U);
  EXPECT_EQ(listed["open"].is_sealed, 0U);
  EXPECT_EQ(listed["open"].body_bytes, 77U);
}

TEST(ObjectLists, pages_are_bounded_by_the_message_and_have_all) {
  for (const uint32_t message_bytes : {576U, 1024U, 4096U}) {
    Served served({.link = {.depth = 64, .message_bytes_max = message_bytes}});
    const Served::Peer peer = served.connect();
    std::set<std::string> wanted;
    for (int i = 0; i < 300; ++i) {
      const std::string id = std::string(i % 3 == 0 ? 240 : 10, 'i') + std::to_string(i);
      ASSERT_EQ(served.call(peer, Method::kPut, put_body(id, 1, "")).code, Code::kOk);
      wanted.insert(id);
    }
    std::set<std::string> ids;
    uint64_t cursor = 0;
    int pages = 0;
    do {
      const Answer answer = served.call(peer, Method::kList, body_of(wire::ListRequest{cursor}));
      ASSERT_EQ(answer.code, Code::kOk);
      for (const auto& [object, id] : entries_of<wire::ListReply, wire::ListedObject>(answer)) {
        EXPECT_TRUE(ids.insert(id).second) << "nothing moves, so nothing comes twice";
      }
      const uint64_t next = answer.as<wire::ListReply>().next;
      ASSERT_NE(next, cursor);
      cursor = next;
      ++pages;
    } while (cursor != 0);
    EXPECT_EQ(ids, wanted) << message_bytes;
    EXPECT_GT(pages, 5);
  }
}

TEST_F(ObjectNotices, list_of_a_cursor_that_was_made_up_ends) {
  for (int i = 0; i < 100; ++i) put("id" + std::to_string(i));
  Prng prng(3);
  for (int i = 0; i < 300; ++i) {
    const uint64_t cursor = prng.next() >> (i % 3 == 0 ? 12 : 0);
    const Code code = served.call(peer, Method::kList, body_of(wire::ListRequest{cursor})).code;
    EXPECT_TRUE(code == Code::kOk || code == Code::kInvalidated) << text(code);
  }
  EXPECT_EQ(served.call(peer, Method::kList, body_of(wire::ListRequest{UINT64_MAX})).code,
            Code::kInvalidated);
  EXPECT_EQ(list_all().size(), 100U);
}

}  // namespace
}  // namespace refract::object
