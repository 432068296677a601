// SPDX-License-Identifier: Apache-2.0
// What the network hears from a node that asks for a secret, when it is asked by a client that has none.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>

#include "tests/network/handmade_client.h"
#include "tests/security/neighbour.h"

#include "refract/base/boot_id.h"
#include "refract/fabric/shm/descriptors.h"
#include "refract/fabric/shm/node_page.h"
#include "refract/fabric/tcp/handshake.h"

namespace refract::test {
namespace {

template <typename T>
std::string_view text_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// Everything until the node hangs up, after a Hello and a Proof that proves nothing.
std::string heard_without_secret(const std::string& address) {
  HandmadeClient stranger(address);
  fabric::tcp::Hello hello{.magic = fabric::tcp::kWireMagic,
                           .version = fabric::tcp::kWireVersion,
                           .version_oldest = fabric::tcp::kWireVersionOldest,
                           .shard = 0,
                           .role = 0,
                           .nonce = {}};
  const fabric::tcp::Proof guess{.mac = {std::byte{1}}};
  (void)fabric::tcp::send_handshake(stranger.fd(), fabric::tcp::FrameKind::kHello, hello);
  (void)fabric::tcp::send_handshake(stranger.fd(), fabric::tcp::FrameKind::kProof, guess);
  std::string heard;
  char piece[1024];
  for (ssize_t got = 0; (got = ::recv(stranger.fd(), piece, sizeof(piece), 0)) > 0;) {
    heard.append(piece, static_cast<size_t>(got));
  }
  return heard;
}

TEST(NoSecret, learns_the_version_and_that_there_is_a_secret_and_nothing_else) {
  const TemporaryFolder folder;
  const std::string secret = folder.path() + "/secret";
  ASSERT_TRUE(write_whole(secret, "correct horse battery staple"));
  ASSERT_EQ(::chmod(secret.c_str(), 0600), 0);
  Node node({.arguments = {"--listen-address", "127.0.0.1:0", "--auth-secret-file", secret}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  const std::string heard = heard_without_secret(node.tcp_address());
  EXPECT_EQ(heard.size(),
            2 * fabric::tcp::kHeaderBytes + sizeof(fabric::tcp::Challenge) + sizeof(fabric::tcp::Refused));
  const auto attached = attach(node.socket_path());
  ASSERT_TRUE(attached);
  const auto mapped =
      fabric::shm::map_shared(attached->page.get(), fabric::shm::kNodePageBytes, /*writable=*/false);
  ASSERT_TRUE(mapped);
  const auto& page = *reinterpret_cast<const fabric::shm::NodePage*>(mapped->data());
  EXPECT_EQ(heard.find(text_of(page.identity[0])), std::string::npos);
  EXPECT_EQ(heard.find(text_of(page.identity[1])), std::string::npos);
  EXPECT_EQ(heard.find(text_of(host_boot_id().value())), std::string::npos);
  for (const std::string& word : {node.socket_path(), folder.path(), std::string("battery")}) {
    EXPECT_EQ(heard.find(word), std::string::npos) << word;
  }
}

}  // namespace
}  // namespace refract::test
