// SPDX-License-Identifier: Apache-2.0
// Client processes under load, and a ledger of what was acknowledged to them, which outlives them.
//
// Each client has keys of its own, and keeps for each the last acknowledged state and the one that is on its
// way; so a later reader, also after a client was killed, knows what may be in the node. One further key
// is a counter that all of them raise by conditional puts.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "refract/client/client.h"

namespace refract::test {

inline constexpr int kLoadClientsMax = 8;
inline constexpr int kLoadKeys = 48;
inline constexpr uint64_t kNothingPending = UINT64_MAX;
inline constexpr const char* kCounterKey = "counter";

struct Ledger {
  // Numbers of sealed values; 0: no entry.
  struct Entry {
    std::atomic<uint64_t> settled;
    std::atomic<uint64_t> pending;
  };
  struct Of {
    Entry entries[kLoadKeys];
    std::atomic<uint64_t> operations;
    std::atomic<uint64_t> indeterminate;
    std::atomic<uint64_t> server_losses;
    std::atomic<uint64_t> raised;        // Acknowledged.
    std::atomic<uint64_t> maybe_raised;  // Sent, and never answered.
  };
  Of clients[kLoadClientsMax];
  std::atomic<bool> stop;
};

// Memory that children share with the test that made it.
class SharedLedger {
 public:
  SharedLedger();
  SharedLedger(const SharedLedger&) = delete;
  SharedLedger& operator=(const SharedLedger&) = delete;
  ~SharedLedger();
  [[nodiscard]] Ledger& operator*() const noexcept { return *ledger_; }
  [[nodiscard]] Ledger* operator->() const noexcept { return ledger_; }
  [[nodiscard]] uint64_t operations() const;

 private:
  Ledger* ledger_;
};

struct LoadOptions {
  int client = 0;
  uint64_t large_bytes = 1'500'000;
  bool may_fill_up = false;  // kNoSpace is no failure.
  bool node_may_end =
      false;              // Another one comes in its place, with what was acknowledged: calls wait for it.
  uint64_t pause_ns = 0;  // Behind each operation.
};
// Until ledger.stop. 0: everything it saw was as acknowledged; else it has said to stderr what was not.
[[nodiscard]] int run_load(const std::string& address, Ledger& ledger, const LoadOptions& options);

// Puts again while the outcome is not known, as it is when the server just ended.
[[nodiscard]] bool put_in_the_end(Client& client, const std::string& key, const std::string& value);

// Nothing, or which keys of a client are not as the ledger says. REQUIRES: that client has stopped.
[[nodiscard]] std::string differences_of(Client& client, const Ledger& ledger, int of);
// Likewise for the first so many clients and the counter. REQUIRES: all have stopped.
[[nodiscard]] std::string differences(Client& client, const Ledger& ledger, int clients);

// What was under way when a client was killed becomes what is there, so that another may continue in its
// name.
void settle_pending(Client& client, Ledger& ledger, int of);

// Erases every entry and waits until their memory is given back. Nothing, or what is still taken that no
// entry explains.
[[nodiscard]] std::string leak_after_erasing_all(Client& client);

}  // namespace refract::test
