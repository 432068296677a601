// SPDX-License-Identifier: Apache-2.0
// Accounts whose sum stays whatever is killed beside the transfers between them: they lie in all shards of a
// node, so that most transfers have parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/process/load.h"

#include "refract/base/prng.h"
#include "refract/client/client.h"

namespace refract::test::bank {

inline constexpr int kAccounts = 8;
inline constexpr int64_t kStart = 1000;

// All accounts at once, those that are there too.
[[nodiscard]] Result<> open(Client& client);
// Between two of them. kNotFound: one was evicted.
[[nodiscard]] Result<> move(Client& client, Prng& prng);
// Of all at one moment. kNotFound: likewise; others: they could not be read together.
[[nodiscard]] Result<int64_t> sum(Client& client);

// A client process that moves until ledger.stop, and counts what was committed as operations.
[[nodiscard]] int run_mover(const std::string& address, Ledger& ledger, int client);
// Puts entries of the size of accounts, for which a cache has to make room, and counts them.
[[nodiscard]] int run_filler(const std::string& address, Ledger& ledger, int client);

}  // namespace refract::test::bank
