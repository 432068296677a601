// SPDX-License-Identifier: Apache-2.0
// What a client does when its server or its node goes, and what it holds meanwhile.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/client/client.h"
#include "refract/client/testing/test_node.h"

namespace refract {
namespace {

using test::becomes_true;
using test::server_of;
using test::TestNode;
using test::value_of;

constexpr uint64_t kPatience_ns = 60 * kSecond_ns;

// Many times, many at once.
void overwrite(Client& client, std::string_view key, size_t bytes, uint64_t times) {
  std::vector<std::string> values(100);
  for (uint64_t done = 0; done < times; done += values.size()) {
    std::vector<PutItem> items;
    for (std::string& value : values) {
      value = value_of(done + items.size(), bytes);
      items.push_back({.key = key, .value = value});
    }
    client.multi_put(items);
    for (const PutItem& item : items) ASSERT_TRUE(item.result.has_value()) << text(item.result.code());
  }
}

TEST(ClientViews, a_view_keeps_its_bytes_while_the_entry_is_overwritten_and_erased) {
  const TestNode node;
  Client client = node.connect();
  for (const size_t bytes : std::initializer_list<size_t>{1, 64, 5'000, 200'000}) {
    const std::string value = value_of(1, bytes);
    ASSERT_TRUE(client.put("viewed", value).has_value());
    const auto view = client.view("viewed");
    ASSERT_TRUE(view.has_value());
    EXPECT_EQ(view->version(), client.exists("viewed")->version);
    // More than the heap keeps back, so that everything that may be reused is.
    overwrite(client, "viewed", bytes, 600);
    ASSERT_TRUE(client.erase("viewed").has_value());
    EXPECT_EQ(view->text(), value);
  }
}

TEST(ClientViews, views_are_bounded_and_a_released_one_makes_room) {
  const TestNode node;
  Client client = node.connect();
  ASSERT_TRUE(client.put("key", value_of(1, View::kOwnBytes + 1)).has_value());
  ASSERT_TRUE(client.put("short", value_of(2, View::kOwnBytes)).has_value());
  std::vector<View> views;
  for (int i = 0; i < 255; ++i) {
    auto view = client.view("key");
    ASSERT_TRUE(view.has_value()) << i;
    EXPECT_FALSE(view->is_copy());
    views.push_back(std::move(*view));
  }
  EXPECT_EQ(client.view("key").code(), Code::kOverloaded);
  // A short value needs no pin, with an expiry neither.
  ASSERT_TRUE(client.view("short").has_value());
  ASSERT_TRUE(client.put("expiring", "short", {.ttl_ns = 3'600'000'000'000}).has_value());
  EXPECT_EQ(client.view("expiring").value().text(), "short");
  views.pop_back();
  EXPECT_TRUE(client.view("key").has_value());
  EXPECT_EQ(client.view("none").code(), Code::kNotFound);
}

TEST(ClientViews, a_view_is_moved_with_its_bytes) {
  const TestNode node;
  Client client = node.connect();
  View kept;
  EXPECT_EQ(kept.text(), "");
  for (const size_t bytes : std::initializer_list<size_t>{0, 1, 63, 64, 65, 5'000}) {
    ASSERT_TRUE(client.put("key", value_of(bytes, bytes)).has_value());
    auto view = client.view("key");
    ASSERT_TRUE(view.has_value());
    EXPECT_EQ(view->is_copy(), bytes <= View::kOwnBytes);
    View moved(std::move(*view));
    EXPECT_EQ(view->text(), "");
    EXPECT_EQ(moved.text(), value_of(bytes, bytes));
    kept = std::move(moved);
    EXPECT_EQ(kept.text(), value_of(bytes, bytes));
    EXPECT_EQ(kept.version(), client.exists("key").value().version);
  }
}

TEST(ClientViews, a_view_outlives_its_client_and_its_node) {
  TestNode node;
  const std::string value = value_of(1, 200);
  std::vector<View> views;
  {
    Client client = node.connect();
    ASSERT_TRUE(client.put("key", value).has_value());
    views.push_back(test::needed(client.view("key")));
  }
  EXPECT_EQ(views[0].text(), value);
  Client client = node.connect();
  views.push_back(test::needed(client.view("key")));
  node.end(SIGKILL);
  EXPECT_TRUE(becomes_true([&] { return client.get("key").code() == Code::kUnavailable; }));
  EXPECT_EQ(views[0].text(), value);
  EXPECT_EQ(views[1].text(), value);
  node.start();
  EXPECT_TRUE(client.put("key", "new").has_value());
  EXPECT_EQ(views[1].text(), value);
}

TEST(ClientGrowth, a_client_follows_a_node_that_grows_beyond_what_it_mapped) {
  const TestNode node({"--memory-initial", "16MiB"});
  Client early = node.connect();
  const uint64_t mapped = early.route().mapped_bytes;
  Client writer = node.connect();
  const std::string value = value_of(7, 64'000);
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(writer.put("grow/" + std::to_string(i), value).has_value()) << i;
  }
  for (int i = 0; i < 1'000; ++i) {
    const auto got = early.get("grow/" + std::to_string(i));
    ASSERT_TRUE(got.has_value()) << i << " " << text(got.code());
    ASSERT_EQ(*got, value);
  }
  EXPECT_GT(early.route().mapped_bytes, mapped);
  EXPECT_EQ(early.counters().messages_sent, 0U);
}

TEST(ClientGrowth, a_value_that_can_never_fit_does_not_keep_the_node_from_growing) {
  const TestNode node({"--memory-initial", "16MiB"});
  Client client = node.connect();
  const std::string huge(300U << 20, 'h');
  for (uint64_t number = 0; number < 60; ++number) {
    if (number % 20 == 0) {
      EXPECT_EQ(client.put("huge", huge).code(), Code::kNoSpace);
    }
    const auto put = client.put("key" + std::to_string(number), value_of(number, 1'000'000));
    ASSERT_TRUE(put.has_value()) << number << " " << text(put.code());
  }
}

TEST(ClientServer, a_stopped_server_still_answers_reads_of_old_and_new_clients) {
  const TestNode node;
  Client client = node.connect({.timeout_ns = 300 * kMillisecond_ns});
  ASSERT_TRUE(client.put("key", "value").has_value());
  const pid_t server = server_of(client);
  ASSERT_EQ(::kill(server, SIGSTOP), 0);
  Client late = node.connect();
  EXPECT_EQ(client.get("key").value(), "value");
  EXPECT_EQ(late.get("key").value(), "value");
  // Sent, but its outcome is unknown.
  EXPECT_EQ(client.put("key", "other").code(), Code::kIndeterminate);
  EXPECT_FALSE(client.trouble().what.empty());
  ASSERT_EQ(::kill(server, SIGCONT), 0);
  EXPECT_TRUE(late.put("key", "third").has_value());
  EXPECT_TRUE(becomes_true([&] { return client.put("mine", "fourth").has_value(); }));
}

TEST(ClientServer, every_acknowledged_put_survives_kill_9_and_the_client_goes_on) {
  const TestNode node({"--restart-backoff", "0ns"});
  Client client = node.connect({.timeout_ns = kPatience_ns});
  std::vector<uint64_t> acknowledged;
  std::atomic<bool> done = false;
  std::thread killer([&] {
    Client watcher = node.connect();
    for (int kill = 0; kill < 5; ++kill) {
      const uint64_t incarnation = watcher.route().incarnation;
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      (void)::kill(server_of(watcher), SIGKILL);
      EXPECT_TRUE(becomes_true(
          [&] { return watcher.ping().has_value() && watcher.route().incarnation > incarnation; }));
    }
    done = true;
  });
  for (uint64_t i = 0; !done; ++i) {
    const auto put = client.put("kill/" + std::to_string(i % 50'000), value_of(i, 40));
    if (put) {
      acknowledged.resize(std::max(acknowledged.size(), size_t{i % 50'000 + 1}));
      acknowledged[i % 50'000] = i + 1;
    } else {
      EXPECT_EQ(put.code(), Code::kIndeterminate);
      if (i % 50'000 < acknowledged.size()) acknowledged[i % 50'000] = 0;
    }
  }
  killer.join();
  EXPECT_GE(client.counters().server_losses, 1U);
  EXPECT_EQ(client.counters().connections, 1U);
  for (size_t i = 0; i < acknowledged.size(); ++i) {
    if (acknowledged[i] == 0) continue;
    const auto got = client.get("kill/" + std::to_string(i));
    ASSERT_TRUE(got.has_value()) << i;
    EXPECT_EQ(*got, value_of(acknowledged[i] - 1, 40));
  }
}

// Each put changes the version that the next one asks for: were one executed twice, or answered untruthfully,
// the chain would break.
TEST(ClientServer, a_chain_of_conditional_puts_survives_kill_9_without_a_gap) {
  for (const bool is_tcp : {false, true}) {
    const TestNode node({"--restart-backoff", "0ns", "--listen-address", "127.0.0.1:0"});
    Client client =
        TestNode::connect_to(is_tcp ? "tcp:" + node.tcp() : node.socket(), {.timeout_ns = kPatience_ns});
    Client watcher = node.connect({.timeout_ns = kPatience_ns});
    auto version = client.put("chain", "0", {.if_absent = true});
    ASSERT_TRUE(version.has_value());
    std::atomic<bool> done = false;
    std::thread killer([&] {
      for (int kill = 0; kill < 4; ++kill) {
        std::this_thread::sleep_for(std::chrono::milliseconds(40));
        const uint64_t incarnation = watcher.route().incarnation;
        (void)::kill(server_of(watcher), SIGKILL);
        EXPECT_TRUE(becomes_true(
            [&] { return watcher.ping().has_value() && watcher.route().incarnation > incarnation; }));
      }
      done = true;
    });
    int unknown = 0;
    uint64_t links = 0;
    for (; !done; ++links) {
      const auto next = client.put("chain", std::to_string(links), {.if_version = *version});
      if (next.code() == Code::kIndeterminate) {
        // Unknown, and that is the truth: the entry tells which of the two it was.
        ++unknown;
        version = client.exists("chain")->version;
        continue;
      }
      ASSERT_TRUE(next.has_value()) << text(next.code()) << " at " << links;
      EXPECT_GT(*next, *version);
      version = next;
      EXPECT_EQ(client.exists("chain")->version, *version);
    }
    killer.join();
    // While the entry still tells, the outcome is known.
    EXPECT_EQ(unknown, 0) << "of " << links;
  }
}

TEST(ClientRequests, a_put_that_the_program_repeats_is_executed_once) {
  const TestNode node;
  Client client = node.connect();
  Client other = node.connect();
  const RequestId request = test::needed(client.new_request());
  EXPECT_NE(request.client, 0U);
  EXPECT_GT(test::needed(client.new_request()).sequence, request.sequence);
  const auto first = client.put("once", "1", {.if_absent = true, .request = request});
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(client.put("once", "1", {.if_absent = true, .request = request}).value(), *first);
  RequestId before = request;
  before.sent_before = true;
  EXPECT_EQ(other.put("once", "1", {.if_absent = true, .request = before}).value(), *first);
  EXPECT_EQ(client.put("once", "1", {.if_absent = true}).code(), Code::kExists);
  const RequestId erasing = test::needed(client.new_request());
  EXPECT_EQ(client.erase("once", 0, erasing).value(), *first);
  EXPECT_EQ(client.erase("once", 0, erasing).value(), *first);
  EXPECT_EQ(client.erase("once").code(), Code::kNotFound);
}

TEST(ClientRequests, an_unconditional_put_in_doubt_is_settled_by_repeating_it_with_its_identity) {
  const TestNode node;
  Client client = node.connect({.timeout_ns = 300 * kMillisecond_ns});
  ASSERT_TRUE(client.put("key", "0").has_value());
  const pid_t server = server_of(client);
  const RequestId request = test::needed(client.new_request());
  ASSERT_EQ(::kill(server, SIGSTOP), 0);
  EXPECT_EQ(client.put("key", "1", {.request = request}).code(), Code::kIndeterminate);
  ASSERT_EQ(::kill(server, SIGCONT), 0);
  Result<uint64_t> settled = fail(Code::kIndeterminate);
  ASSERT_TRUE(becomes_true([&] {
    settled = client.put("key", "1", {.request = request});
    return settled.has_value();
  }));
  EXPECT_EQ(client.exists("key").value().version, *settled);
  EXPECT_EQ(client.put("key", "1", {.request = request}).value(), *settled);
}

TEST(ClientServer, reads_go_on_and_a_put_waits_while_there_is_no_server) {
  const TestNode node({"--restart-backoff", "700ms"});
  Client client = node.connect({.timeout_ns = kPatience_ns});
  ASSERT_TRUE(client.put("key", "value").has_value());
  // Each restart comes later than the one before, so that one pause is long enough to be met.
  ASSERT_TRUE(becomes_true([&] {
    const Route route = client.route();
    if (route.server == "serving") (void)::kill(server_of(client), SIGKILL);
    return route.server == "restarting";
  }));
  EXPECT_EQ(client.get("key").value(), "value");
  const auto put = client.put("key", "after");
  EXPECT_TRUE(put.has_value()) << text(put.code());
  EXPECT_EQ(client.get("key").value(), "after");
  EXPECT_EQ(client.counters().connections, 1U);
}

TEST(ClientServer, a_server_that_was_given_up_refuses_writes_at_once_and_reads_go_on) {
  const TestNode node({"--restart-limit", "1"});
  Client client = node.connect({.timeout_ns = kPatience_ns});
  ASSERT_TRUE(client.put("key", "value").has_value());
  ASSERT_TRUE(becomes_true([&] {
    const Route route = client.route();
    if (route.server == "serving") (void)::kill(server_of(client), SIGKILL);
    return route.server == "given up";
  }));
  EXPECT_EQ(client.put("key", "other").code(), Code::kUnavailable);
  EXPECT_NE(client.trouble().what.find("given up"), std::string::npos);
  EXPECT_EQ(client.get("key").value(), "value");
  EXPECT_EQ(node.connect().get("key").value(), "value");
}

TEST(ClientNode, when_the_node_is_killed_calls_fail_and_the_next_node_is_found) {
  TestNode node;
  Client client = node.connect();
  ASSERT_TRUE(client.put("key", "value").has_value());
  node.end(SIGKILL);
  Code code = Code::kOk;
  int reads = 0;
  for (; reads <= 256 && code == Code::kOk; ++reads) code = client.get("key").code();
  EXPECT_EQ(code, Code::kUnavailable);
  EXPECT_EQ(client.put("key", "value").code(), Code::kUnavailable);
  EXPECT_NE(client.trouble().what.find(node.socket()), std::string::npos);
  node.start();
  EXPECT_EQ(client.get("key").code(), Code::kNotFound);
  EXPECT_TRUE(client.put("key", "new").has_value());
  EXPECT_EQ(client.get("key").value(), "new");
  EXPECT_EQ(client.counters().connections, 2U);
}

// What a write ends with whose node is killed while its server, which stands still, has it. Later for each
// try, for a machine that is slow to send it.
template <typename Write>
Code outcome_in_a_killed_node(const std::string& flag, Write write) {
  Code code = Code::kOk;
  for (uint64_t pause_ms = 100; pause_ms <= 3'200 && code != Code::kIndeterminate; pause_ms *= 2) {
    TestNode node(flag.empty() ? std::vector<std::string>{}
                               : std::vector{std::string("--listen-address"), flag});
    const ClientOptions options{.timeout_ns = 500 * kMillisecond_ns + 2 * pause_ms * kMillisecond_ns};
    Client client = flag.empty() ? node.connect(options) : TestNode::connect_to("tcp:" + node.tcp(), options);
    const auto version = client.put("key", "value");
    if (!version || ::kill(server_of(node.connect()), SIGSTOP) != 0) return version.code();
    const std::jthread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
      node.end(SIGKILL);
    });
    code = write(client, *version);
  }
  return code;
}

// Its own repetition finds no node, but it may have been executed: that nothing was changed would be untrue.
TEST(ClientNode, a_write_that_the_node_had_when_it_was_killed_stays_in_doubt) {
  for (const std::string flag : {"", "127.0.0.1:0"}) {
    SCOPED_TRACE(flag);
    EXPECT_EQ(outcome_in_a_killed_node(flag,
                                       [](Client& client, uint64_t version) {
                                         return client.put("key", "next", {.if_version = version}).code();
                                       }),
              Code::kIndeterminate);
    EXPECT_EQ(
        outcome_in_a_killed_node(flag,
                                 [](Client& client, uint64_t version) {
                                   std::array<PutItem, 1> items{PutItem{
                                       .key = "key", .value = "next", .options = {.if_version = version}}};
                                   client.multi_put(items);
                                   return items[0].result.code();
                                 }),
        Code::kIndeterminate);
    EXPECT_EQ(outcome_in_a_killed_node(
                  flag, [](Client& client, uint64_t version) { return client.erase("key", version).code(); }),
              Code::kIndeterminate);
  }
}

TEST(ClientNode, a_node_that_stops_in_good_order_is_noticed_at_once) {
  TestNode node;
  Client client = node.connect();
  ASSERT_TRUE(client.put("key", "value").has_value());
  node.end(SIGTERM);
  EXPECT_EQ(client.get("key").code(), Code::kUnavailable);
}

TEST(ClientFork, a_childs_handle_fails_and_the_parents_goes_on) {
  const TestNode node;
  Client client = node.connect();
  ASSERT_TRUE(client.put("key", value_of(3, 500)).has_value());
  const auto view = client.view("key");
  ASSERT_TRUE(view.has_value());
  test::Process child = test::Process::run([&] {
    int wrong = 0;
    wrong += client.get("key").code() != Code::kForked;
    wrong += client.put("key", "child").code() != Code::kForked;
    wrong += client.scan(0).code() != Code::kForked;
    wrong += client.ping().code() != Code::kForked;
    wrong += client.members().code() != Code::kForked;
    {
      // Ending what was inherited must not end it for the parent.
      const Client ended = std::move(client);
      auto* inherited = const_cast<View*>(&*view);
      const View released = std::move(*inherited);
    }
    auto own = Client::connect(node.socket());
    wrong += !own || own->get("key").code() != Code::kOk;
    return wrong;
  });
  EXPECT_EQ(child.wait(), 0);
  overwrite(client, "key", 500, 3'000);
  EXPECT_EQ(view->text(), value_of(3, 500));
  EXPECT_TRUE(client.ping().has_value());
  EXPECT_EQ(client.counters().connections, 1U);
}

}  // namespace
}  // namespace refract
