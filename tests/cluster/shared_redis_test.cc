// SPDX-License-Identifier: Apache-2.0
// Three nodes whose directory is in a Redis: under a load of all of them it is killed and comes back empty,
// is stopped, and forgets all; servers are killed beside it. What nodes hold is not lost, and what
// was removed does not come back.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "tests/cluster/shared_load.h"
#include "tests/cluster/shared_nodes.h"
#include "tests/cluster/shared_steps.h"

#include "refract/base/units.h"
#include "refract/object/testing/redis_process.h"

namespace refract::test {
namespace {

using object::test::free_port;
using object::test::RedisProcess;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kPassword = "what only this Redis asks for";

class RedisDirectory : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(nodes_.trouble_to_agree(), ""); }

  std::vector<std::string> flags() {
    return {"--objects-directory", fmt::format("redis://127.0.0.1:{}", redis_.port()),
            "--objects-directory-secret-file", write_secret(folder_, "redis", kPassword)};
  }
  void expect_good_end() {
    load_.stop();
    EXPECT_EQ(nodes_.trouble_to_agree(), "");
    if (load_.trouble().empty()) load_.judge_the_end({0, 1, 2});
    EXPECT_EQ(load_.trouble(), "") << load_.counts_text();
    EXPECT_GT(load_.counts().made, 0U);
    EXPECT_GT(load_.counts().found, 0U);
    EXPECT_GT(load_.counts().removed, 0U);
    RecordProperty("load", load_.counts_text());
  }

  TemporaryFolder folder_;
  RedisProcess redis_{free_port(), std::string(kPassword)};
  SharedNodes nodes_{flags()};
  SharedLoad load_{nodes_};
};

TEST_F(RedisDirectory, may_be_killed_stopped_emptied_and_restarted_under_load) {
  load_.start();
  load_.go_on(200);
  for (int i = 0; i < 3 && load_.trouble().empty(); ++i) {
    redis_.kill();
    sleep_ms(20 * static_cast<uint64_t>(i));
    redis_.start();
    load_.go_on(60);
  }
  // For less and for more than a stream may be silent.
  for (const uint64_t pause_ms : {uint64_t{500}, uint64_t{5'500}}) {
    redis_.stop();
    sleep_ms(pause_ms);
    redis_.go_on();
    load_.go_on(60);
  }
  for (int i = 0; i < 3 && load_.trouble().empty(); ++i) {
    EXPECT_EQ(redis_.ask({"FLUSHALL"}).text, "OK");
    const pid_t server = nodes_.node(static_cast<size_t>(i)).server();
    send_signal(server, SIGKILL);
    ASSERT_GT(nodes_.node(static_cast<size_t>(i)).next_server(server), 0);
    load_.go_on(60);
  }
  load_.go_on(200);
  expect_good_end();
  for (size_t i = 0; i < SharedNodes::kNodes; ++i) {
    EXPECT_THAT(nodes_.node(i).errors(), Not(HasSubstr(kPassword)));
  }
}

TEST_F(RedisDirectory, counts_copies_that_are_kept_and_they_outlive_it_and_a_server) {
  ObjectClient a = nodes_.open(0);
  ObjectClient b = nodes_.open(1);
  ASSERT_TRUE(a.objects.put("kept", std::string(100'000, 'x'), "",
                            {.copies = 2, .copies_timeout_ms = kPatience_ns / kMillisecond_ns}));
  EXPECT_EQ(a.objects.copies_made(), 2U);
  const auto three = b.objects.set_copies("kept", 3, kPatience_ns / kMillisecond_ns);
  ASSERT_TRUE(three) << b.objects.trouble().to_string();
  EXPECT_EQ(three->copies, 3U);
  redis_.kill();
  const pid_t server = nodes_.node(0).server();
  send_signal(server, SIGKILL);
  ASSERT_GT(nodes_.node(0).next_server(server), 0);
  redis_.start();
  EXPECT_EQ(nodes_.trouble_to_agree(), "");
  EXPECT_TRUE(becomes_true([&] {
    const auto places = b.objects.where("kept");
    return places && places->copies == 3 && places->copies_wanted == 3;
  }));
  const auto none = b.objects.set_copies("kept", 0);
  ASSERT_TRUE(none);
  EXPECT_EQ(none->copies, 0U);
}

TEST_F(RedisDirectory, may_be_killed_or_stopped_in_each_step) {
  SharedSteps steps(
      nodes_, {.hit = [&](StepBlow blow) { blow == StepBlow::kStopped ? redis_.stop() : redis_.kill(); },
               .mend = [&](StepBlow blow) { blow == StepBlow::kStopped ? redis_.go_on() : redis_.start(); }});
  for (const SharedStep step :
       {SharedStep::kCreate, SharedStep::kSeal, SharedStep::kPull, SharedStep::kBroadcast}) {
    for (const StepBlow blow : {StepBlow::kStopped, StepBlow::kKilled}) {
      const StepTrouble trouble{.step = step, .victim = StepVictim::kRedis, .blow = blow};
      ASSERT_EQ(steps.run(trouble), "") << text_of(trouble) << "\n" << steps.told();
    }
  }
  RecordProperty("told", steps.told());
  EXPECT_GT(steps.met(), 2U) << "too few calls were under way";
}

// Nothing is granted and nothing is denied without it; what is here is had all the same.
TEST_F(RedisDirectory, is_named_where_it_is_away) {
  ObjectClient a = nodes_.open(0);
  ASSERT_TRUE(a.objects.put("here", "bytes"));
  redis_.kill();
  EXPECT_EQ(code_when(a.objects, "elsewhere", Code::kAway), Code::kAway);
  EXPECT_THAT(a.objects.trouble().to_string(), HasSubstr(fmt::format("redis://127.0.0.1:{}", redis_.port())));
  EXPECT_EQ(a.objects.put("another", "bytes").code(), Code::kAway);
  EXPECT_TRUE(a.objects.get("here"));
  const auto given = a.objects.new_id();
  ASSERT_TRUE(given);
  const std::string& id = *given;
  EXPECT_TRUE(a.objects.put(id, "bytes")) << "an id that this node gave out needs no claim";
  redis_.start();
  EXPECT_EQ(nodes_.trouble_to_agree(), "");
  ObjectClient b = nodes_.open(1);
  EXPECT_TRUE(b.objects.get("here"));
  EXPECT_TRUE(b.objects.get(id));
  EXPECT_EQ(b.objects.put("here", "others").code(), Code::kExists);
  EXPECT_THAT(nodes_.node(0).errors(),
              HasSubstr(fmt::format("the directory in redis://127.0.0.1:{}", redis_.port())));
}

}  // namespace
}  // namespace refract::test
