// SPDX-License-Identifier: Apache-2.0
// Limits that the system sets to a program or to the node, met while objects are made and got: each is an
// error that says what binds, the process continues, and nothing of what is there is lost.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/objects/object_node.h"
#include "tests/process/limited_cgroup.h"
#include "tests/process/load.h"
#include "tests/process/sealed.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

// Reports the first expectation that does not hold, of a process that is not the test's own.
class Steps {
 public:
  void expect(bool is_right, const std::string& what) {
    if (is_right || failed_) return;
    failed_ = true;
    (void)std::fprintf(stderr, "not so: %s\n", what.c_str());
  }
  [[nodiscard]] int outcome() const noexcept { return failed_ ? 1 : 0; }

 private:
  bool failed_ = false;
};

Code make_filled(Objects& objects, std::string_view id, uint64_t bytes) {
  auto made = objects.create(id, bytes);
  if (!made) return made.code();
  std::memset(made->body().data(), 7, bytes);
  return made->seal().code();
}

// What a program is told while the limit holds, and that all is as before once it does not.
struct Limited {
  std::function<void()> set;
  std::function<void()> lift;
  std::string_view word;  // Of the sentence.
};
void expect_refused_then_taken(Objects& objects, const Limited& limit, Steps& steps) {
  limit.set();
  const Code refused = make_filled(objects, "refused", 40 * kMiB);
  const std::string trouble = objects.trouble().to_string();
  steps.expect(refused != Code::kOk, "a create beyond the limit is refused");
  steps.expect(trouble.find(limit.word) != std::string::npos, std::string(limit.word) + " is in: " + trouble);
  steps.expect(put_sealed(objects, "small", 5, 1'000).has_value(), "what fits a message needs nothing");
  const auto there = objects.get("there");
  steps.expect(there && number_of(*there) == 9, "what is there is got");
  limit.lift();
  const Code taken = make_filled(objects, "refused", 40 * kMiB);
  steps.expect(taken == Code::kOk, "it is made when it can be: " + objects.trouble().to_string());
  steps.expect(objects.remove("refused").has_value() && objects.remove("small").has_value(),
               "both are there");
}

void set_limit(int what, rlim_t value) {
  rlimit limit{};
  (void)::getrlimit(static_cast<__rlimit_resource>(what), &limit);
  limit.rlim_cur = std::min(value, limit.rlim_max);
  (void)::setrlimit(static_cast<__rlimit_resource>(what), &limit);
}

class LimitedObjects : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(node_.is_up()) << node_.errors();
    opened_.emplace(open_objects(node_));
    ASSERT_TRUE(put_sealed(opened_->objects, "there", 9, 30 * kMiB));
  }
  // In a process of its own, which must come to its end.
  void expect_of_a_program(const std::function<void(Objects&, Steps&)>& body) {
    Process program = Process::run([&] {
      ObjectClient opened = open_objects(node_);
      Steps steps;
      body(opened.objects, steps);
      return steps.outcome();
    });
    EXPECT_EQ(program.wait(), 0);
    EXPECT_EQ(leak_after_removing_all(opened_->objects), "");
  }

  Node node_{with_objects("256MiB")};
  std::optional<ObjectClient> opened_;
};

TEST_F(LimitedObjects, of_a_program_without_a_free_descriptor) {
  expect_of_a_program([](Objects& objects, Steps& steps) {
    std::vector<int> taken;
    const Limited limit{.set =
                            [&] {
                              for (int one = 0; one >= 0;) {
                                one = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
                                if (one >= 0) taken.push_back(one);
                              }
                            },
                        .lift = [&] { std::ranges::for_each(taken, ::close); },
                        .word = "ulimit -n"};
    set_limit(RLIMIT_NOFILE, 200);
    expect_refused_then_taken(objects, limit, steps);
  });
}

// A memfd that grows beyond that ends its process by a signal.
TEST_F(LimitedObjects, of_a_program_with_a_largest_file) {
  expect_of_a_program([](Objects& objects, Steps& steps) {
    expect_refused_then_taken(objects,
                              {.set = [] { set_limit(RLIMIT_FSIZE, 8 * kMiB); },
                               .lift = [] { set_limit(RLIMIT_FSIZE, RLIM_INFINITY); },
                               .word = "the largest file that this process may make"},
                              steps);
    set_limit(RLIMIT_FSIZE, 64 * kKiB);
    steps.expect(objects.create("shorter", kMiB).code() == Code::kNoSpace, "likewise of a short one");
    set_limit(RLIMIT_FSIZE, RLIM_INFINITY);
  });
}

// Where the kernel would end a process, which takes more than its cgroup has.
TEST_F(LimitedObjects, of_a_program_in_a_small_cgroup) {
  const LimitedCgroup cgroup(60 * kMiB);
  if (cgroup.path().empty()) GTEST_SKIP() << "no memory cgroup may be made here";
  ASSERT_TRUE(put_sealed(opened_->objects, "larger than the cgroup", 4, 90 * kMiB));
  const ObjectDigest digest = opened_->objects.digest("larger than the cgroup").value();
  expect_of_a_program([&](Objects& objects, Steps& steps) {
    cgroup.join();
    steps.expect(make_filled(objects, "refused", 90 * kMiB) == Code::kNoSpace, "a create is no_space");
    const std::string trouble = objects.trouble().to_string();
    steps.expect(trouble.find("refract-test-") != std::string::npos, "the cgroup is named in: " + trouble);
    ObjectClient far = open_objects(node_, {.is_tcp = true});
    steps.expect(far.objects.get("larger than the cgroup").code() == Code::kNoSpace, "so is a copy");
    const std::string far_trouble = far.objects.trouble().to_string();
    steps.expect(far_trouble.find("refract-test-") != std::string::npos, "it is named in: " + far_trouble);
    const auto held = objects.get("larger than the cgroup");
    steps.expect(held && !held->is_copy() && held->digest() == digest,
                 "the one copy of the host costs its reader nothing");
    steps.expect(make_filled(objects, "fits", 20 * kMiB) == Code::kOk, "what fits is made");
  });
}

// The server gets a descriptor with each memory that a program fills.
TEST_F(LimitedObjects, of_a_server_without_a_free_descriptor) {
  Objects& objects = opened_->objects;
  // So that the node need not grow, for which its server gets descriptors as well, and ends without them.
  ASSERT_TRUE(put_sealed(objects, "first", 1, 200 * kMiB) && objects.remove("first"));
  const pid_t server = node_.server();
  rlimit before{};
  ASSERT_EQ(::prlimit(server, RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit none{.rlim_cur = 3, .rlim_max = before.rlim_max};
  ASSERT_EQ(::prlimit(server, RLIMIT_NOFILE, &none, nullptr), 0);
  auto made = objects.create("large", 40 * kMiB);
  ASSERT_TRUE(made) << objects.trouble().to_string();
  std::memset(made->body().data(), 7, 40 * kMiB);
  EXPECT_EQ(made->seal().code(), Code::kOverloaded);
  EXPECT_NE(objects.trouble().to_string().find("open files"), std::string::npos)
      << objects.trouble().to_string();
  EXPECT_EQ(put_sealed(objects, "whole", 1, 50 * kMiB).code(), Code::kOverloaded);
  EXPECT_NE(objects.trouble().to_string().find("open files"), std::string::npos)
      << objects.trouble().to_string();
  const auto there = objects.get("there");
  ASSERT_TRUE(there);
  EXPECT_EQ(number_of(*there), 9U);
  EXPECT_TRUE(put_sealed(objects, "small", 5, 1'000)) << "what fits a message needs none";
  ASSERT_EQ(::prlimit(server, RLIMIT_NOFILE, &before, nullptr), 0);
  const auto sealed = made->seal();
  ASSERT_TRUE(sealed) << objects.trouble().to_string();
  EXPECT_TRUE(std::ranges::all_of(sealed->body(), [](std::byte byte) { return byte == std::byte{7}; }));
  EXPECT_EQ(objects.stat().value().objects, 3U);
  EXPECT_EQ(node_.server(), server);
}

// The node's own: it does not grow beyond what its cgroup has, which a neighbour has taken.
TEST(LimitedNode, in_a_small_cgroup_has_no_space_says_why_and_loses_nothing) {
  const LimitedCgroup cgroup(260 * kMiB);
  if (cgroup.path().empty()) GTEST_SKIP() << "no memory cgroup may be made here";
  NodeOptions options = with_objects("240MiB");
  options.before = [&] { cgroup.join(); };
  Node node(options);
  ASSERT_TRUE(node.is_up()) << node.errors();
  const pid_t server = node.server();
  const SharedLedger shared;
  Process neighbour = Process::run([&]() -> int {
    cgroup.join();
    std::string taken(120 * kMiB, 'n');
    shared->clients[0].operations.store(taken.size());
    for (;;) sleep_ms(taken.size());
  });
  ASSERT_TRUE(becomes_true([&] { return shared.operations() > 0; }));
  ObjectClient opened = open_objects(node);
  std::vector<Object> held;
  Code code = Code::kOk;
  for (uint64_t i = 0; i < 24 && code == Code::kOk; ++i) {
    const std::string id = "object" + std::to_string(i);
    code = opened.objects.put(id, sealed_value(id, i, 10 * kMiB), {}, {.room_timeout_ms = 0}).code();
    if (code != Code::kOk) break;
    auto one = opened.objects.get(id);
    ASSERT_TRUE(one);
    held.push_back(std::move(*one));
  }
  EXPECT_EQ(code, Code::kNoSpace) << text(code);
  EXPECT_GT(held.size(), 0U);
  EXPECT_NE(node.errors().find("refract-test-"), std::string::npos) << node.errors();
  for (uint64_t i = 0; i < held.size(); ++i) EXPECT_EQ(number_of(held[i]), i);
  EXPECT_EQ(node.server(), server) << "a server was killed because memory was short";
  held.clear();
  neighbour.kill_now();
  const std::string later = sealed_value("later", 99, 100 * kMiB);
  EXPECT_TRUE(becomes_true(
      [&] { return opened.objects.put("later", later, {}, {.room_timeout_ms = 0}).has_value(); }));
  EXPECT_EQ(leak_after_removing_all(opened.objects), "");
  EXPECT_EQ(node.stop(), 0);
}

}  // namespace
}  // namespace refract::test
