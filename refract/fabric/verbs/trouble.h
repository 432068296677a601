// SPDX-License-Identifier: Apache-2.0
// Why a call of libibverbs failed, for a person: what was to be done, the cause in words, and what mends it.
//
// The library gives an errno value, which means another thing in each call, and ENOMEM most of all: mostly
// that the limit on locked memory is too low. One table knows. Control path.
#pragma once

#include <cstdint>
#include <string>

#include "refract/base/report.h"

namespace refract::fabric::verbs {

enum class Step : uint8_t {
  kListDevices,
  kOpenDevice,
  kAskDevice,
  kProtectionDomain,
  kEventChannel,
  kCompletionQueue,
  kReceiveQueue,
  kPostReceives,
  kQueuePair,
  kReadyToReceive,  // Where the device resolves the path.
  kReadyToSend,
  kRegister,
};

struct Trouble {
  Step step{};
  int error = 0;           // As errno has it; 0 where the call gave none.
  std::string what;        // "rxe0 cannot register 8 MiB": the sentence up to the colon.
  uint64_t pin_bytes = 0;  // What the call would have locked in memory, as far as that is known.
};

// How much memory this process may lock, which is what a registration does to its pages.
struct LockLimit {
  uint64_t bytes = 0;
  uint64_t used_bytes = 0;
  bool is_unbound = false;  // No limit, or a process that may ignore it (CAP_IPC_LOCK).
};
[[nodiscard]] LockLimit lock_limit();

[[nodiscard]] Report explain(const Trouble& trouble, const LockLimit& limit);
[[nodiscard]] inline Report explain(const Trouble& trouble) {
  return explain(trouble, lock_limit());
}

}  // namespace refract::fabric::verbs
