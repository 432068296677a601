// SPDX-License-Identifier: Apache-2.0
// Programs that make, read and remove objects under load, and a ledger of what was acknowledged to them,
// which outlives them. Each has ids of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "tests/objects/object_node.h"

namespace refract::test {

inline constexpr int kObjectMakersMax = 4;
inline constexpr int kObjectIds = 24;
inline constexpr uint64_t kLoadBodyBytesMax = 3'000'000;

struct ObjectLedger {
  struct Of {
    std::atomic<uint64_t> sealed[kObjectIds];  // The number in its body; 0: there is no object.
    std::atomic<uint64_t> operations;
  };
  Of makers[kObjectMakersMax];
  std::atomic<bool> stop;
};

// Memory that children share with the test that made it.
class SharedObjectLedger {
 public:
  SharedObjectLedger();
  SharedObjectLedger(const SharedObjectLedger&) = delete;
  SharedObjectLedger& operator=(const SharedObjectLedger&) = delete;
  ~SharedObjectLedger();
  [[nodiscard]] ObjectLedger& operator*() const noexcept { return *ledger_; }
  [[nodiscard]] ObjectLedger* operator->() const noexcept { return ledger_; }
  [[nodiscard]] uint64_t operations() const;

 private:
  ObjectLedger* ledger_;
};

// Until ledger.stop. 0: everything it saw was as acknowledged; else it has said to stderr what was not.
[[nodiscard]] int run_object_load(const Node& node, const ObjectShape& shape, ObjectLedger& ledger,
                                  int maker);

// Nothing, or which objects of a maker are not as the ledger says. REQUIRES: it has stopped.
[[nodiscard]] std::string differences_of(Objects& objects, const ObjectLedger& ledger, int maker);

}  // namespace refract::test
