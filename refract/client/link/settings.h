// SPDX-License-Identifier: Apache-2.0
// What a client was told when it was made, in the form in which all its connections use it. Never changed
// afterwards, so that threads share it.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "refract/base/report.h"
#include "refract/client/link/address.h"
#include "refract/client/link/known_nodes.h"
#include "refract/client/link/transport.h"
#include "refract/client/link/unresolved_writes.h"
#include "refract/client/types.h"
#include "refract/fabric/tcp/secret.h"
#include "refract/memory/copy_team.h"

namespace refract::client {

struct Settings {
  Target target;
  ClientOptions options;
  std::optional<fabric::tcp::Secret> secret;
  std::string rdma_device;  // fabric::verbs::kAnyDevice, kNoDevice, or the name of one that is there.
  std::unique_ptr<UnresolvedWrites> unresolved_writes =
      std::make_unique<UnresolvedWrites>();                                  // Has a lock of its own.
  std::unique_ptr<KnownNodes> known_nodes = std::make_unique<KnownNodes>();  // Likewise.
  std::unique_ptr<CopyTeam> copies;                                          // Likewise.

  // Control path: parses the address; where it leads to a host, reads the secret's file and looks for the
  // RDMA device, if any is named. kUnsupported: this host has no such device.
  [[nodiscard]] static Reported<std::unique_ptr<const Settings>> make(std::string_view address,
                                                                      const ClientOptions& options);

  [[nodiscard]] TransportRequest request_to(std::string address) const;
  // Whether this host can speak RDMA as far as the kernel knows, and may: a look into /sys, before anything
  // is opened for it.
  [[nodiscard]] Reported<> rdma_is_possible() const;
};

}  // namespace refract::client
