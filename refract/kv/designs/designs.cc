// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/designs/designs.h"

#include <algorithm>
#include <array>

#include "refract/kv/designs/pilaf/client.h"
#include "refract/kv/designs/pilaf/server.h"
#include "refract/kv/designs/prism/client.h"
#include "refract/kv/designs/prism/server.h"

namespace refract::kv::designs {

namespace {

constexpr std::array kDesigns = {
    Design{.name = "pilaf",
           .paper = "Mitchell, Geng, Li: Using One-Sided RDMA Reads to Build a Fast, CPU-Efficient Key-Value "
                    "Store. USENIX ATC 2013",
           .memory_bytes = pilaf::memory_bytes,
           .make_server = pilaf::make_server,
           .make_client = pilaf::make_client},
    Design{.name = "prism",
           .paper = "Burke et al.: PRISM: Rethinking the RDMA Interface for Distributed Systems. SOSP 2021",
           .memory_bytes = prism_kv::memory_bytes,
           .make_server = prism_kv::make_server,
           .make_client = prism_kv::make_client},
};

}  // namespace

std::span<const Design> all() noexcept {
  return kDesigns;
}

const Design* find(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kDesigns, name, &Design::name);
  return found == kDesigns.end() ? nullptr : &*found;
}

}  // namespace refract::kv::designs
