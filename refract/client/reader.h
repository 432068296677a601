// SPDX-License-Identifier: Apache-2.0
// The reads of one thread in the fewest instructions: inline in the caller, where the node's memory is mapped
// here and the node has one shard. Elsewhere, and for whatever the short way does not settle, they are the
// reads of the Client.
//
//   Result<Reader> reader = client->reader();
//   std::array<std::byte, 64> value;
//   Result<Got> got = reader->get_into("key", value);
//
// It differs from the Client in one point: a node that stops in good order is noticed within 256 reads, not
// by the next one. Programs that include this need xxhash.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/base/api.h"
#include "refract/base/hash.h"
#include "refract/base/result.h"
#include "refract/client/paths/read_ticket.h"
#include "refract/client/types.h"

namespace refract {

class Client;

namespace client {
class ClientState;
}  // namespace client

// Threads: used only by the thread that asked the Client for it. The Client and the thread outlive it. In a
// child of the process it fails with kForked.
class REFRACT_API Reader {
 public:
  // As Client::get_into.
  [[nodiscard, gnu::always_inline]] Result<Got> get_into(Bytes key, std::span<std::byte> value) {
    const uint64_t left = ticket_->reads();
    if (ticket_->reader != nullptr && client::ReadTicket::is_good(left)) [[likely]] {
      // Of an empty span the address may be null, which leaves the rest to the Client.
      const auto room = [&](uint64_t bytes) noexcept {
        return bytes <= value.size() ? value.data() : nullptr;
      };
      kv::Found found;
      if (ticket_->reader->get(key, hash_key(key, ticket_->hash_seed), room, found)) [[likely]] {
        ticket_->take(left);
        return Got{.version = found.version, .value_bytes = found.value_bytes};
      }
    }
    return get_by_client(key, value);
  }

  // As Client::exists.
  [[nodiscard, gnu::always_inline]] Result<Got> exists(Bytes key) {
    const uint64_t left = ticket_->reads();
    if (ticket_->reader != nullptr && client::ReadTicket::is_good(left)) [[likely]] {
      kv::Found found;
      if (ticket_->reader->look(key, hash_key(key, ticket_->hash_seed), found)) [[likely]] {
        ticket_->take(left);
        return Got{.version = found.version, .value_bytes = found.value_bytes};
      }
    }
    return look_by_client(key);
  }

 private:
  friend class Client;
  Reader(client::ReadTicket& ticket, client::ClientState& state) noexcept
      : ticket_(&ticket), state_(&state) {}

  [[nodiscard]] Result<Got> get_by_client(Bytes key, std::span<std::byte> value);
  [[nodiscard]] Result<Got> look_by_client(Bytes key);

  client::ReadTicket* ticket_;
  client::ClientState* state_;
};

}  // namespace refract
