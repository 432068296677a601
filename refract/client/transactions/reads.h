// SPDX-License-Identifier: Apache-2.0
// Reads of many keys by a transaction, and how its commit is told, for the blocking and the coroutine form.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "refract/base/report.h"
#include "refract/base/result.h"
#include "refract/client/types.h"
#include "refract/txn/attempts.h"
#include "refract/txn/changes.h"

namespace refract::client {

class Peers;

// Those that the transaction has not written itself.
[[nodiscard]] std::vector<GetItem> to_ask(const txn::Changes& changes, std::span<const GetItem> items);
// What was found of these, in the same order, and what the transaction has written itself.
void take_reads(txn::Changes& changes, std::span<GetItem> asked, std::span<GetItem> items);

// What the body has read, before it runs again.
[[nodiscard]] std::vector<std::string> keys_read(const txn::Changes& changes);
// Notes these as the only reads, and keeps what was found. False: some were not told, or it is too much.
[[nodiscard]] bool take_known(txn::Changes& changes, std::span<GetItem> items, txn::Changes::Known& known);

// What a transaction or batch may have at most.
[[nodiscard]] Report too_large();

// Whether no look at what was read takes a message, but for what a reader cannot settle.
[[nodiscard]] bool are_read_directly(const Peers& peers, const txn::Changes& changes);

// Only conditions say these: a write of what is not there is none.
[[nodiscard]] inline Result<> as_conflict(Result<> result) {
  return txn::Attempts::is_conflict(result.code()) ? fail(Code::kConflict) : result;
}

}  // namespace refract::client
