// SPDX-License-Identifier: Apache-2.0
// The path to a node elsewhere, step by step, as refract doctor --peer shows it: name, connection, handshake;
// then each transport by itself, with what it carries; and which one a client would take, by the client's own
// discovery.
//
// Where figures are wanted it stores one value of 1 MiB under a key of its own for each transport that leads
// there, which it erases, and which expires by itself within a minute. Else it changes nothing.
//
// Blocking: each step at most for the options' timeout. Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/base/units.h"
#include "refract/client/types.h"
#include "refract/node/doctor/doctor.h"

namespace refract::node {

// What refractd's own examples listen on; there is no port that a node takes by default.
inline constexpr uint16_t kPeerPort = 7400;

struct PeerInputs {
  std::string place;  // HOST or HOST:PORT, an IPv6 address with a port in brackets.
  ClientOptions options;
  bool takes_figures = true;
  uint64_t each_ns = 200 * kMillisecond_ns;  // Of each figure.
  std::function<void(std::string_view step)> on_step = {};
};

// "host:port", with brackets where they are needed. kInvalidArgument: it is no place.
[[nodiscard]] Reported<std::string> peer_address(std::string_view place);

// In this order, and no further than the first step that fails: "peer name", "peer connection", "peer
// handshake"; then "peer shm", "peer verbs", "peer tcp" and "verdict", whose sentence begins with the name of
// the transport that is taken. A transport that could lead there and does not is a warning.
[[nodiscard]] std::vector<Finding> examine_peer(const PeerInputs& inputs);

}  // namespace refract::node
