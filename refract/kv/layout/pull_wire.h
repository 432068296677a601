// SPDX-License-Identifier: Apache-2.0
// The call by which a client puts a value that the owner READs from the client's memory.
// docs/formats/kv-rpc.md has its body beside the others'.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/kv/layout/wire.h"

namespace refract::kv::wire {

// kPutPulled: PutPulledRequest | Identity, where flagged | key. Answered like kPut, once the value is
// published or will not be: from then on the owner READs nothing more. Only over channels whose READs do
// without the client's CPU; over others kUnsupported. kAccessDenied: a READ was refused. kDeadlineExceeded:
// `timeout_ns` was over. After either of them nothing was changed.
struct PutPulledRequest {
  KeyRef key;  // value_bytes is not 0.
  uint64_t if_version;
  uint64_t ttl_ns;
  uint64_t address;      // RemotePointer::bits, of the value's first byte in the client's memory.
  uint64_t address_key;  // RemoteKey::bits
  uint64_t timeout_ns;   // From the moment the owner sees this request: no READ is begun after it.
};
static_assert(sizeof(PutPulledRequest) == 48 && offsetof(PutPulledRequest, address) == 24 &&
              offsetof(PutPulledRequest, timeout_ns) == 40);
// Its front is a PutRequest.
static_assert(offsetof(PutPulledRequest, key) == offsetof(PutRequest, key) &&
              offsetof(PutPulledRequest, if_version) == offsetof(PutRequest, if_version) &&
              offsetof(PutPulledRequest, ttl_ns) == offsetof(PutRequest, ttl_ns));

}  // namespace refract::kv::wire
