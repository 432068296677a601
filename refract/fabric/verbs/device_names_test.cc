// SPDX-License-Identifier: Apache-2.0
// Devices are known by name without a library, and a caller that asks for one that is not there is told which
// are.
#include "refract/fabric/verbs/device_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "refract/memory/testing/fake_system.h"

namespace refract::fabric::verbs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(DeviceNames, are_those_that_the_kernel_has_in_order) {
  const test::FakeSystem system;
  EXPECT_THAT(device_names(system.root()), IsEmpty());
  system.write("sys/class/infiniband/rxe1/fw_ver", "1\n");
  system.write("sys/class/infiniband/mlx5_0/fw_ver", "1\n");
  EXPECT_THAT(device_names(system.root()), ElementsAre("mlx5_0", "rxe1"));
}

TEST(DeviceNames, a_wrong_one_is_refused_with_those_there_are) {
  const std::vector<std::string> names = {"mlx5_0", "mlx5_1"};
  EXPECT_TRUE(check_device_name("mlx5_1", names));
  const auto wrong = check_device_name("mlx5_2", names);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::kUnsupported);
  EXPECT_THAT(wrong.error().what, HasSubstr("'mlx5_2'"));
  EXPECT_THAT(wrong.error().next, HasSubstr("mlx5_0, mlx5_1"));
  const auto nowhere = check_device_name("mlx5_2", {});
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().next, HasSubstr("no RDMA device"));
}

TEST(DeviceNames, what_cannot_be_one_is_known) {
  for (const char* const good : {"mlx5_0", "auto", "none", "rxe-7"})
    EXPECT_TRUE(is_device_name(good)) << good;
  for (const char* const bad : {"", "a/b", "two words"}) EXPECT_FALSE(is_device_name(bad)) << bad;
}

}  // namespace
}  // namespace refract::fabric::verbs
