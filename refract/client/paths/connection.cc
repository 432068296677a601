// SPDX-License-Identifier: Apache-2.0
#include "refract/client/paths/connection.h"

#include <fmt/format.h>

#include <utility>

#include "refract/memory/heap.h"
#include "refract/memory/pins.h"
#include "refract/memory/uses.h"

namespace refract::client {

namespace {

// As many as a session has credits: a batch of calls shall keep the server busy while replies travel.
constexpr size_t kPipeline = 64;

}  // namespace

Connection::Connection(runtime::Shard& shard, const TransportRow& row, const TransportRequest& request,
                       Paths paths, std::unique_ptr<Transport> transport)
    : PinningLink(shard, row, request, std::move(transport)),
      timeout_ns_(request.timeout_ns),
      paths_(paths),
      copies_(request.copies),
      lender_(this->transport().domain()),
      rpc_(session(), shard,
           kv::RpcClientOptions{.timeout_ns = timeout_ns_, .pipeline = kPipeline, .lender = &lender_}),
      transactions_(session(), shard),
      numbered_(session()) {
  if (paths != Paths::kChain) return;
  chains_.emplace(rpc_, shard, kv::ChainClientOptions{.timeout_ns = timeout_ns_, .pipeline = kPipeline});
}

Reported<Connection::Owned> Connection::begin(runtime::Shard& shard, const TransportRow& row,
                                              const TransportRequest& request, Paths paths) {
  auto transport = row.begin(request);
  if (!transport) return report(std::move(transport).error());
  Owned connection(new Connection(shard, row, request, paths, std::move(*transport)));
  connection->join_shard();
  return connection;
}

void Connection::come_up() {
  const fabric::Channel::LocalView view = transport().channel().local_view();
  if (paths_ == Paths::kRpc) {
    why_not_direct_ = "the options ask for the server's answers";
    return;
  }
  if (paths_ == Paths::kChain) {
    why_not_direct_ = "the options ask for chains";
    return;
  }
  set_pins(transport().pins());
  if (pins() == nullptr && transport().channel().capabilities().read_bypasses_target_cpu) {
    remote_.emplace(rpc_, shard(), kv::RemoteClientOptions{.timeout_ns = timeout_ns_});
    return;
  }
  if (pins() == nullptr) {
    why_not_direct_ = "the node's memory cannot be mapped over a network";
    return;
  }
  if (view.base == nullptr || view.bytes == 0) {
    why_not_direct_ = "the node offers no memory to read";
    return;
  }
  if (const Result<> header = Heap::check_header({view.base, view.bytes}); !header) {
    why_not_direct_ = fmt::format("the node's memory cannot be read by this client: {}",
                                  info(header.error().code).sentence);
    return;
  }
  memory_.emplace(view.base, view.bytes, pins(), copies_);
  memory_->reach(spaces_);
  reader_ =
      &reader_memory_.emplace(*memory_, store_clock_.emplace(shard().clock(), time_offset_ns(view.base)));
}

runtime::Task<Result<cluster::ToldMembers>> Connection::members(uint64_t deadline_ns) {
  return cluster::ask_members(session(),
                              deadline_ns != 0 ? deadline_ns : shard().refresh_now() + timeout_ns_);
}

void Connection::reach(const kv::MappedSpaces* spaces) noexcept {
  spaces_ = spaces;
  if (memory_) memory_->reach(spaces_);
}

void Connection::note_change() noexcept {
  // The next server may evict where the last one did not.
  reads_per_use_ = reader_ != nullptr ? transport().reads_per_use() : 0;
}

void Connection::end() noexcept {
  reader_ = nullptr;
  reads_per_use_ = 0;
}

void Connection::write_use(const Key& key) noexcept {
  transport().uses()->write(key.hash(reader_->hash_seed()));
}

bool Connection::refresh() noexcept {
  if (state() == State::kEnded || !memory_) return false;
  fabric::Channel& channel = transport().channel();
  (void)channel.refresh_local_view();
  // An answer to an earlier question may have mapped it already.
  const uint64_t bytes = channel.local_view().bytes;
  if (bytes <= memory_->bytes()) return false;
  memory_->set_bytes(bytes);
  return true;
}

void Connection::fill(Route& route) const {
  if (!is_there()) {
    route.reason = route.server = "gone";
    return;
  }
  route.direct = reader_ != nullptr || remote_.has_value();
  route.chain = chains_.has_value();
  route.reason = why_not_direct_;
  if (reader_ != nullptr) route.reason = "the node's memory is mapped here, read-only";
  if (remote_) route.reason = "the device reads the node's memory, where its server takes no part in it";
  ++route.shards_reached;
  transport().fill(route);
}

}  // namespace refract::client
