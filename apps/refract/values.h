// SPDX-License-Identifier: Apache-2.0
// How commands get and put values: as they are or, with --verify, with a checksum that only the two ends know
// of.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "apps/refract/command_line.h"

#include "refract/base/report.h"
#include "refract/client/verified.h"

namespace refract::cli {

class Values {
 public:
  // Both outlive it.
  Values(const Invocation& invocation, Client& client) noexcept
      : client_(client), verifying_(client), is_verifying_(invocation.verify) {}

  [[nodiscard]] Result<Got> get(Bytes key, std::string& value);
  [[nodiscard]] Result<uint64_t> put(Bytes key, Bytes value, const PutOptions& options);
  void multi_get(std::span<GetItem> items);
  void multi_put(std::span<PutItem> items);

  // Whether a get ended so because the value does not verify, while the node is well.
  [[nodiscard]] bool is_unverified(Code code) const noexcept {
    return is_verifying_ && (code == Code::kCorrupt || code == Code::kMalformed);
  }
  // What to tell a person then.
  [[nodiscard]] static Report explain_unverified(std::string_view key, Code code);

 private:
  Client& client_;
  VerifyingClient verifying_;
  bool is_verifying_;
};

}  // namespace refract::cli
