// SPDX-License-Identifier: Apache-2.0
// Objects pulled from one node to another on a simulated testbed, each in one of the ways that a published
// system compares: over a socket in small pieces, by messages through buffers that are registered already, or
// by READs of memory that is registered for this one transfer or was registered once.
//
// The transfer is our own (object::ObjectTransfer). What the host does beside it takes the time that the
// suite says: system calls, copies, registering, calls of the host's store.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "bench/suites/suite.h"

namespace refract::bench {

enum class PullDesign : uint8_t {
  kSocket,      // A stream that blocks, written and read in pieces of 4 KiB.
  kSend,        // Copied into the registered buffers of one end and out of those of the other, all that fits.
  kSendPieces,  // The same in the messages of our own provider, several of which are under way.
  kRead,        // READ from memory and into memory that is registered.
  kReadEach,    // READ, and both ends register the object's memory before and release it behind that.
};
// Nothing: it is the name of none.
[[nodiscard]] std::optional<PullDesign> pull_design_of(std::string_view name) noexcept;

// Of one end, where it does not say otherwise; by these names in the suite.
struct PullCosts {
  double socket_piece_us = 0;   // socket-piece: of a stream, 4 KiB or less.
  double socket_trip_us = 0;    // socket-trip: a short message there and back, beside the network.
  double local_trip_us = 0;     // local-trip: a call of the host's store.
  double message_us = 0;        // message: a request is posted to a card, or its completion is taken.
  double copy_KiB_us = 0;       // copy-KiB: to or from a buffer, of which one side is in no cache.
  double register_us = 0;       // register: of memory, however long it is,
  double register_page_us = 0;  // register-page: and for each of its pages.
  double release_us = 0;        // release: of registered memory; likewise
  double release_page_us = 0;   // release-page: for each of its pages.
  double buffer_KiB = 0;        // buffer-KiB: what the registered buffers of kSend hold.
};
// Refuses costs that are missing, unknown or named twice.
[[nodiscard]] Reported<PullCosts> pull_costs_of(const Suite& suite);

}  // namespace refract::bench
