// SPDX-License-Identifier: Apache-2.0
// refract::Transaction: what the body of Client::transaction() reads and writes by.
//
// The body may run several times, and what it reads may be of different moments: then its commit is refused,
// and it runs again. So it has no effects but those of its transaction, and it checks what it computes with
// (an index read from one key may not fit what another says) or asks validate() first. An error that it
// returns counts only if its reads were valid together; else it runs again. No lock is held while it runs.
// Where writers overtake a body that has written nothing four times, what it has read is read again while the
// node holds it, for a moment, and the body runs on that.
//
//   const refract::Result<> moved = client.transaction([&](refract::Transaction& t) -> refract::Result<> {
//     const auto from = t.get("alice");
//     if (!from) return fail(from.error());
//     if (std::stoll(*from) < 10) return fail(refract::Code::kInvalidArgument);
//     if (const auto taken = t.add("alice", -10); !taken) return taken;
//     return t.add("bob", 10);
//   });
//
// A transaction has copies of what it writes. Reads and writes together: at most 4,096, and 16 MiB of keys
// and values (kTooLarge). Scans inside are not offered: read an index that you keep.
//
// kIndeterminate: the answer to the commit was lost, and could not be learnt; all of it has happened, or
// nothing. Keys of one shard: the commit has an identity, by which the node is asked again. Where the server
// was killed meanwhile its memory must prove what happened: by an entry that this transaction made, or by one
// that it read and writes, which stands; writers that came since may have taken the proof away. Keys of
// several shards: it has a number, and is indeterminate only where its home, the shard that decides, is out
// of reach until the timeout, or for a minute.
//
// Threads: that of the body.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "refract/base/api.h"
#include "refract/base/result.h"
#include "refract/client/types.h"

namespace refract {

class Client;
class AsyncClient;
namespace client {
class AsyncCalls;
}
namespace txn {
class Changes;
struct Effort;
}  // namespace txn

struct TransactionOptions {
  // Of all attempts together; then kConflict. Calls of the body have the client's own timeout. Where the body
  // alone has taken so long, its commit is tried all the same: each has half of the time at least.
  uint64_t timeout_ns = 5'000'000'000;
};

class REFRACT_API Transaction {
 public:
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction() = default;

  // What the transaction itself has written, else what is there. kNotFound. kConflict: it was read before,
  // and has changed since: return it.
  [[nodiscard]] Result<std::string> get(Bytes key);
  void multi_get(std::span<GetItem> items);
  [[nodiscard]] Result<bool> exists(Bytes key);

  [[nodiscard]] Result<> put(Bytes key, Bytes value, uint64_t ttl_ns = 0);
  [[nodiscard]] Result<> erase(Bytes key);
  // As Batch::add(): of a key that was not read the node adds, and nothing is read.
  [[nodiscard]] Result<> add(Bytes key, int64_t addend);

  // Whether all that was read stood together at one moment since. kConflict: it did not.
  [[nodiscard]] Result<> validate();

 private:
  friend class Client;
  Transaction(Client& client, txn::Changes& changes, bool is_read_only) noexcept
      : client_(client), changes_(changes), is_read_only_(is_read_only) {}

  Client& client_;
  txn::Changes& changes_;
  bool is_read_only_;
};

}  // namespace refract
