// SPDX-License-Identifier: Apache-2.0
// A second store in the shard of objects, which keeps nothing: it reaches the other members as a store that
// shares objects does, greets each, and tells what came of it.
#pragma once

#include <cstdint>
#include <memory>

#include "refract/node/hosted/hosted_store.h"

namespace refract::test {

inline constexpr uint16_t kMethodGreet = 0x700;  // A name. Counts where its session is a node's.
// The answer is text: "2 client; a up; b kUnavailable: ...; greeted by a b", the list's version, what the
// caller is, each other member, and who greeted since the server's start. Or "alone": nothing is shared.
inline constexpr uint16_t kMethodTell = 0x701;

[[nodiscard]] std::unique_ptr<node::HostedStore> host_peer_store(const node::HostParts& parts);

}  // namespace refract::test
