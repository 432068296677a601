// SPDX-License-Identifier: Apache-2.0
// Which direct reads a node that evicts is told of. Who reads compares the number of its reads with due() and
// calls note() when it has come; that is all the common read pays.
//
// Threads: used by one thread.
#pragma once

#include <cstdint>
#include <span>

#include "refract/client/paths/connection.h"
#include "refract/memory/uses.h"

namespace refract::client {

class UseNotes {
 public:
  [[nodiscard]] uint64_t due() const noexcept { return due_; }

  // This key is about to be read by the connection's reader, or has been: read number `reads`.
  void note(Connection& connection, const Connection::Key& key, uint64_t reads) noexcept {
    const uint64_t wanted = connection.reads_per_use();
    if (wanted != reads_per_use_) {
      reads_per_use_ = wanted;
      sampler_.start(wanted, reads);
    } else if (wanted != 0) {
      connection.write_use(key);
      sampler_.taken(reads);
    }
    due_ = wanted != 0 ? sampler_.due() : reads + kReadsPerLook;
  }

 private:
  // Whether the node, or the next one, evicts by now.
  static constexpr uint64_t kReadsPerLook = 256;

  UseSampler sampler_;
  uint64_t reads_per_use_ = 0;
  uint64_t due_ = 0;
};

}  // namespace refract::client
