// SPDX-License-Identifier: Apache-2.0
// A node and a client that reach each other over TCP and, introduced by it, over the devices of the machine:
// the client on the first of them, the node on the last, so that what they say crosses the cable between.
// The kind of address is REFRACT_VERBS_FAMILY's (ipv4 or ipv6).
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/fabric/tcp/test_node.h"
#include "refract/fabric/verbs/domain.h"
#include "refract/runtime/shard.h"

namespace refract::fabric::verbs {

[[nodiscard]] inline DeviceWish wish_for(bool is_server) {
  const auto devices = list_devices();
  EXPECT_TRUE(devices.has_value()) << devices.error().to_string();
  if (!devices || devices->empty()) return {};
  const DeviceFacts& device = is_server ? devices->back() : devices->front();
  DeviceWish wish{.device = device.name};
  const char* const family = std::getenv("REFRACT_VERBS_FAMILY");
  const bool is_six = family != nullptr && std::string_view(family) == "ipv6";
  const GidFacts* const gid =
      gid_of_kind(device.ports.front(), is_six ? GidKind::kRoce2Ipv6 : GidKind::kRoce2Ipv4);
  EXPECT_NE(gid, nullptr) << device.name << " has no address of the family";
  if (gid != nullptr) wish.gid_index = static_cast<int32_t>(gid->index);
  return wish;
}

class TwoEnds {
 public:
  explicit TwoEnds(const Options& server = {}, const Options& client = {})
      : tcp_client_(test::needed(tcp::ClientDomain::create({}))) {
    start_server(server);
    Options options = client;
    options.device = wish_for(/*is_server=*/false);
    auto made = ClientDomain::create(*tcp_client_, options);
    EXPECT_TRUE(made.has_value()) << made.error().to_string();
    client_ = std::move(*made);
  }
  TwoEnds(const TwoEnds&) = delete;
  TwoEnds& operator=(const TwoEnds&) = delete;
  ~TwoEnds() {
    client_.reset();
    server_.reset();
  }

  void start_server(Options options = {}) {
    options.device = wish_for(/*is_server=*/true);
    auto made = ServerDomain::create(node_.server(), options);
    EXPECT_TRUE(made.has_value()) << made.error().to_string();
    server_ = std::move(*made);
  }
  void kill_server() {
    server_.reset();
    node_.kill_server();
  }
  // As the keeper does after kill_server().
  void restart_server() {
    node_.start_server();
    start_server();
  }

  [[nodiscard]] ClientDomain& client() { return *client_; }
  [[nodiscard]] ServerDomain& server() { return *server_; }
  [[nodiscard]] tcp::TestNode& node() { return node_; }
  // Moves TCP's handshakes.
  void pump() { node_.pump(); }

 private:
  tcp::TestNode node_;
  std::unique_ptr<tcp::ClientDomain> tcp_client_;
  std::unique_ptr<ServerDomain> server_;
  std::unique_ptr<ClientDomain> client_;
};

// No thread sleeps: the handshakes of the other end are this thread's work, too.
class Wakeful final : public runtime::Idler {
 public:
  explicit Wakeful(TwoEnds& ends) noexcept : ends_(ends) {}
  [[nodiscard]] bool idle(uint64_t) noexcept override {
    ends_.pump();
    return true;
  }

 private:
  TwoEnds& ends_;
};

}  // namespace refract::fabric::verbs
