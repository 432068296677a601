// SPDX-License-Identifier: Apache-2.0
// What a client was told when it was made, in the form in which all its connections use it. Never changed
// afterwards, so that threads share it.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "refract/base/report.h"
#include "refract/client/address.h"
#include "refract/client/doubts.h"
#include "refract/client/transport.h"
#include "refract/client/types.h"
#include "refract/fabric/tcp/secret.h"

namespace refract::client {

struct Settings {
  Target target;
  ClientOptions options;
  std::optional<fabric::tcp::Secret> secret;
  std::unique_ptr<Doubts> doubts = std::make_unique<Doubts>();  // Has a lock of its own.

  // Control path: parses the address, and reads the secret's file where the address leads to a host and some
  // file is named.
  [[nodiscard]] static Reported<std::unique_ptr<const Settings>> make(std::string_view address,
                                                                      const ClientOptions& options);

  [[nodiscard]] TransportRequest request_to(std::string address) const {
    return {.address = std::move(address),
            .populate = options.populate,
            .timeout_ns = options.timeout_ns,
            .secret = secret ? &*secret : nullptr};
  }
};

}  // namespace refract::client
