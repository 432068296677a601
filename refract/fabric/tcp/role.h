// SPDX-License-Identifier: Apache-2.0
// As what a peer comes to a node. Each role has a secret of its own, and none gives the other's role.
#pragma once

#include <cstdint>

namespace refract::fabric::tcp {

enum class Role : uint32_t {
  kClient = 0,  // Proven by the clients' secret, where the node has one.
  kNode = 1,    // Another node of the cluster. Proven by the cluster's secret, always.
};

}  // namespace refract::fabric::tcp
