// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/chains/chain_server.h"

#include <string>

#include "refract/base/check.h"
#include "refract/kv/layout/chain_region.h"

namespace refract::kv {
namespace {

// The space's own number among the regions of its executor.
constexpr uint16_t kRegion = 0;

constexpr prism::ChainRights kReadOnly{prism::ChainRights::kRead};

}  // namespace

ChainServer::ChainServer(const Parts& parts)
    : heap_(parts.heap),
      upkeep_(parts.upkeep),
      sizes_(parts.writer, parts.heap),
      buffers_(parts.writer, parts.heap, sizes_, parts.table, parts.upkeep),
      guard_(parts.table, parts.writer, buffers_),
      service_(executor_, parts.shard, parts.service) {
  service_.set_reply_gate(this);
  prism::snic::Guard* const guard = parts.guard != nullptr ? parts.guard : &guard_;
  REFRACT_CHECK(executor_
                    .add_region({.id = kRegion,
                                 .writer = &parts.writer,
                                 .start = {0},
                                 .bytes = heap_.end(),
                                 .buffers = &buffers_,
                                 .guard = guard})
                    .has_value());
  REFRACT_CHECK(service_
                    .offer({.store = std::string(kChainStoreName),
                            .region = kRegion,
                            .rights = parts.may_write ? kChainWriteRights : kReadOnly,
                            .root = kRootAt.value})
                    .has_value());
}

bool ChainServer::keeps_reply(const rpc::Responder& to, std::span<const std::byte> reply) noexcept {
  if (guard_.installed_count() == answered_installs_) return false;
  answered_installs_ = guard_.installed_count();
  return upkeep_ != nullptr && upkeep_->keeps_reply(to, reply);
}

void ChainServer::on_memory_added() noexcept {
  REFRACT_CHECK(executor_.grow(kRegion, heap_.end()).has_value());
}

}  // namespace refract::kv
