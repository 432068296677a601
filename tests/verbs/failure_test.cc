// SPDX-License-Identifier: Apache-2.0
// Links and devices that go away under channels, and come back.
//
// Method: one serving end and two callers that read without pause, one over the cable between the machine's
// two devices and one, the bystander, within the device of the serving end. What is done to the first may end
// its requests and its channel, each with the right error; it must come back; and the bystander must not be
// told of anything, but read on throughout.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "tests/verbs/caller.h"
#include "tests/verbs/two_ends.h"

namespace refract::fabric::verbs {
namespace {

constexpr std::chrono::seconds kPatience{40};
// So many READs of the bystander, while something is broken, are enough to say that it goes on.
constexpr uint64_t kSomeReads = 20;

void run(const std::string& command) {
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

bool says(const Report& report, std::string_view words) {
  return report.to_string().find(words) != std::string::npos;
}

class VerbsFailure : public testing::Test {
 protected:
  void SetUp() override {
    if (::access("/sys/class/net/veth0", F_OK) != 0) GTEST_SKIP() << "the devices are not joined by a cable";
    ASSERT_TRUE(victim_.connect() && bystander_.connect());
    ASSERT_TRUE(settle([this] { return victim_.good() > 0 && bystander_.good() > 0; })) << "they do not open";
  }
  void TearDown() override {
    EXPECT_EQ(victim_.wrong(), 0u);
    EXPECT_EQ(bystander_.wrong(), 0u);
  }

  void turn() {
    victim_.turn();
    bystander_.turn();
    serving_.turn();
  }
  [[nodiscard]] bool settle(const std::function<bool()>& done) {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      turn();
    }
    return true;
  }
  // As a client does whose channel has ended: it connects again, until that is possible.
  [[nodiscard]] bool is_back(Caller& caller) {
    const uint64_t before = caller.good();
    return settle([&] {
      (void)caller.connect();
      return caller.good() > before + kSomeReads;
    });
  }
  void bystander_goes_on() {
    const uint64_t before = bystander_.good();
    EXPECT_TRUE(settle([&] { return bystander_.good() > before + kSomeReads; }));
    EXPECT_EQ(bystander_.losses(), 0u);
    EXPECT_TRUE(bystander_.failures().empty());
  }

  Serving serving_{wish_for(/*is_server=*/true)};
  Caller victim_{serving_, wish_for(/*is_server=*/false)};
  Caller bystander_{serving_, wish_for(/*is_server=*/true)};
};

TEST_F(VerbsFailure, a_link_that_goes_down_ends_what_needs_it_and_is_used_again_when_it_is_up) {
  run("ip link set veth0 down");
  ASSERT_TRUE(settle([this] { return victim_.losses() > 0; })) << "nobody noticed";
  ASSERT_FALSE(victim_.failures().empty());
  for (const Code code : victim_.failures()) EXPECT_EQ(code, Code::kUnavailable);
  EXPECT_GE(victim_.domain().counters().device_events, 1u) << "the port's event";
  bystander_goes_on();
  // Until the link is up again, whoever wants a channel is told why there is none.
  ASSERT_TRUE(settle([this] {
    (void)victim_.connect();
    return victim_.refused() != Code::kOk;
  }));
  EXPECT_EQ(victim_.refused(), Code::kUnavailable);
  EXPECT_TRUE(says(victim_.domain().last_refusal(), "refract doctor"))
      << victim_.domain().last_refusal().to_string();
  run("ip link set veth0 up && bash /run/verbs-vm/network-script again veth0");
  EXPECT_TRUE(is_back(victim_)) << victim_.domain().last_refusal().to_string();
  bystander_goes_on();
}

}  // namespace
}  // namespace refract::fabric::verbs
