// SPDX-License-Identifier: Apache-2.0
// The doctor sees the devices that are there. What it says about devices that are not well is shown beside
// it, on devices made up for that.
#include "refract/node/doctor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace refract::test {
namespace {

TEST(DoctorMachine, the_doctor_names_the_devices_the_path_and_what_a_small_mtu_costs) {
  const std::vector<node::Finding> findings = node::examine({.memory_limit_bytes = 1 << 20});
  const auto find = [&findings](std::string_view name) {
    const auto found = std::ranges::find(findings, name, &node::Finding::name);
    return found == findings.end() ? node::Finding{} : *found;
  };
  EXPECT_NE(find("rdma").found.find("rxe0"), std::string::npos) << find("rdma").found;
  EXPECT_NE(find("rdma path").found.find("10.77.0.1, RoCE v2 IPv4"), std::string::npos);
  EXPECT_EQ(find("rdma memory").health, node::Health::kOk) << find("rdma memory").found;
  const char* const mtu = std::getenv("REFRACT_VERBS_MTU");
  const bool is_small = mtu != nullptr && std::string(mtu) == "1024";
  EXPECT_EQ(find("rdma port").health, is_small ? node::Health::kWarn : node::Health::kOk);
  EXPECT_EQ(find("rdma port").mend.empty(), !is_small);
}

}  // namespace
}  // namespace refract::test
