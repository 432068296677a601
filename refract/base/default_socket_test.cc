// SPDX-License-Identifier: Apache-2.0
#include "refract/base/default_socket.h"

#include <gtest/gtest.h>

namespace refract {
namespace {

TEST(DefaultSocket, runtime_folder_comes_first) {
  EXPECT_EQ(default_socket_path("/run/user/1000", 1000), "/run/user/1000/refract/node.sock");
  EXPECT_EQ(default_socket_path("/run/user/0", 0), "/run/user/0/refract/node.sock");
}

TEST(DefaultSocket, without_a_runtime_folder_the_user_decides) {
  EXPECT_EQ(default_socket_path(nullptr, 0), "/run/refract/node.sock");
  EXPECT_EQ(default_socket_path(nullptr, 1000), "/tmp/refract-1000/node.sock");
}

TEST(DefaultSocket, relative_runtime_folder_is_ignored) {
  EXPECT_EQ(default_socket_path("run", 7), "/tmp/refract-7/node.sock");
  EXPECT_EQ(default_socket_path("", 7), "/tmp/refract-7/node.sock");
}

}  // namespace
}  // namespace refract
