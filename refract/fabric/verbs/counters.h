// SPDX-License-Identifier: Apache-2.0
// What a domain of the verbs provider has asked of its device, and how it went.
#pragma once

#include <cstdint>

namespace refract::fabric::verbs {

struct DomainCounters {
  uint64_t work_requests = 0;  // Of the send queues.
  uint64_t doorbells = 0;      // Calls of ibv_post_send: one for each channel and turn that has something.
  uint64_t signalled = 0;      // Work requests that ask for a completion.
  uint64_t completions = 0;    // Of send queues, failed ones included.
  uint64_t receives = 0;       // Messages received, those that only return credits included.
  uint64_t reads = 0;          // Work requests by kind.
  uint64_t writes = 0;
  uint64_t atomics = 0;
  uint64_t sends = 0;
  uint64_t inline_sends = 0;    // Of sends and writes.
  uint64_t credit_returns = 0;  // Of sends: they carry no message.
  uint64_t fences = 0;

  uint64_t registrations = 0;  // Calls of ibv_reg_mr for regions.
  uint64_t questions = 0;      // Asked of peers: which device keys a region has.
  uint64_t opened = 0;
  uint64_t closed = 0;
  uint64_t refused_locally = 0;  // One-sided requests that the peer's answer did not cover.

  // What ended queue pairs.
  uint64_t remote_access_errors = 0;  // The device refused a key that was revoked meanwhile.
  uint64_t retries_exceeded = 0;      // The path or the peer is gone.
  uint64_t other_errors = 0;
  uint64_t overrun_peers = 0;   // Cut: sent more than their credits.
  uint64_t malformed = 0;       // Cut: said what makes no sense.
  uint64_t greetings_lost = 0;  // Introductions without a message through the queue pairs at their end.
  uint64_t unknown_tokens = 0;  // Turned down: came by librdmacm without an introduction.
  uint64_t device_events = 0;   // Asynchronous: ports, queues, the device itself.
};

}  // namespace refract::fabric::verbs
