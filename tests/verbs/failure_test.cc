// SPDX-License-Identifier: Apache-2.0
// Links and devices that go away under channels, and come back.
#include <sys/stat.h>

#include <string>

#include "tests/verbs/failure_fixture.h"

namespace refract::fabric::verbs {
namespace {

bool has_device(const std::string& name) {
  return ::access(("/sys/class/infiniband/" + name).c_str(), F_OK) == 0;
}

TEST_F(VerbsFailure, a_link_that_goes_down_ends_what_needs_it_and_is_used_again_when_it_is_up) {
  run("ip link set veth0 down");
  ASSERT_TRUE(settle([this] { return victim_.losses() > 0; })) << "not noticed";
  ASSERT_FALSE(victim_.failures().empty());
  for (const Code code : victim_.failures()) EXPECT_EQ(code, Code::kUnavailable);
  EXPECT_GE(victim_.domain().counters().device_events, 1u) << "the port's event";
  bystander_goes_on();
  // Until the link is up again, a caller that wants a channel is told why there is none.
  ASSERT_TRUE(is_refused(victim_));
  EXPECT_EQ(victim_.refused(), Code::kUnavailable);
  EXPECT_TRUE(says(victim_.domain().last_refusal(), "refract doctor"))
      << victim_.domain().last_refusal().to_string();
  run("ip link set veth0 up && bash /run/verbs-vm/network-script again veth0");
  EXPECT_TRUE(is_back(victim_)) << victim_.domain().last_refusal().to_string();
  bystander_goes_on();
}

// Taking a Soft-RoCE device away waits until its last user has closed it, so it must be let go; and
// the domain must find the one that takes its place, under the same name.
TEST_F(VerbsFailure, a_device_that_is_taken_away_is_let_go_and_used_again_when_it_is_back) {
  const std::string device = victim_.domain().device().device;
  run("rdma link delete " + device + " &");
  ASSERT_TRUE(settle([&] { return victim_.has_ended() && !has_device(device); })) << "it is held on to";
  for (const Code code : victim_.failures()) EXPECT_EQ(code, Code::kUnavailable);
  EXPECT_TRUE(says(victim_.domain().last_refusal(), device)) << victim_.domain().last_refusal().to_string();
  bystander_goes_on();
  ASSERT_TRUE(is_refused(victim_));
  EXPECT_TRUE(says(victim_.domain().last_refusal(), "refract doctor"))
      << victim_.domain().last_refusal().to_string();
  run("rdma link add " + device + " type rxe netdev veth0");
  EXPECT_TRUE(is_back(victim_)) << victim_.domain().last_refusal().to_string();
  bystander_goes_on();
}

// A serving end with another device, and its caller, beside those that lose theirs.
class VerbsServerFailure : public VerbsFailure {
 protected:
  void SetUp() override {
    VerbsFailure::SetUp();
    ASSERT_TRUE(calm_.connect() && settle([this] { return calm_.good() > 0; }));
  }
  void turn() override {
    VerbsFailure::turn();
    other_.turn();
    calm_.turn();
  }
  void the_others_go_on() {
    const uint64_t before = calm_.good();
    EXPECT_TRUE(settle([&] { return calm_.good() > before + kSomeReads; }));
    EXPECT_EQ(calm_.losses(), 0u);
    EXPECT_TRUE(calm_.failures().empty());
    EXPECT_EQ(calm_.wrong(), 0u);
  }

  Serving other_{wish_on("veth0")};
  Caller calm_{other_, wish_on("veth0")};
};

// The regions of a server are registered again, under the same keys of ours and other ones of the device.
TEST_F(VerbsServerFailure, a_server_whose_device_is_taken_away_serves_again_when_it_is_back) {
  const std::string device = serving_.domain().device().device;
  run("rdma link delete " + device + " &");
  ASSERT_TRUE(settle([&] { return !has_device(device); })) << "it is held on to";
  the_others_go_on();
  ASSERT_TRUE(is_refused(victim_));
  EXPECT_TRUE(says(victim_.domain().last_refusal(), device)) << victim_.domain().last_refusal().to_string();
  run("rdma link add " + device + " type rxe netdev veth1");
  EXPECT_TRUE(is_back(victim_)) << victim_.domain().last_refusal().to_string();
  EXPECT_TRUE(is_back(bystander_)) << bystander_.domain().last_refusal().to_string();
  EXPECT_EQ(serving_.domain().counters().registrations, 2u);
  the_others_go_on();
}

}  // namespace
}  // namespace refract::fabric::verbs
