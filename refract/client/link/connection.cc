// SPDX-License-Identifier: Apache-2.0
#include "refract/client/link/connection.h"

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
                       Paths paths)
    : shard_(shard),
      row_(row),
      address_(request.address),
      timeout_ns_(request.timeout_ns),
      paths_(paths),
      copies_(request.copies) {}

Reported<Connection::Owned> Connection::begin(runtime::Shard& shard, const TransportRow& row,
                                              const TransportRequest& request, Paths paths) {
  auto transport = row.begin(request);
  if (!transport) return report(std::move(transport).error());
  Owned connection(new Connection(shard, row, request, paths));
  connection->transport_ = std::move(*transport);
  connection->session_ = std::make_unique<rpc::Session>(connection->transport_->channel(), shard);
  connection->lender_.emplace(connection->transport_->domain());
  connection->rpc_.emplace(
      *connection->session_, shard,
      kv::RpcClientOptions{
          .timeout_ns = request.timeout_ns, .pipeline = kPipeline, .lender = &*connection->lender_});
  if (paths == Paths::kChain) {
    connection->chains_.emplace(
        *connection->rpc_, shard,
        kv::ChainClientOptions{.timeout_ns = request.timeout_ns, .pipeline = kPipeline});
  }
  connection->dispatcher_.emplace(connection->transport_->domain(), shard);
  // Polled behind the dispatcher, so that it sees each change in the turn in which it comes.
  shard.add(*connection);
  return connection;
}

void Connection::retire() noexcept {
  if (guard_.is_child()) return;
  watcher_ = nullptr;
  dispatcher_.reset();
  rpc_->retire();
  shard_.remove(*this);
  const auto held = pins_ == nullptr ? int64_t{0} : static_cast<int64_t>(pins_->retire());
  // Those who have let go since then counted below zero.
  if (views_left_.fetch_add(held, std::memory_order_acq_rel) == -held) delete this;
}

void Connection::end_of_a_view() noexcept {
  if (views_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

Connection::State Connection::look() const noexcept {
  switch (session_->state()) {
    case rpc::Session::State::kOpening:
      return State::kConnecting;
    case rpc::Session::State::kOpen:
      return State::kUp;
    case rpc::Session::State::kClosed:
      break;
  }
  return session_->reopens() ? State::kNoServer : State::kEnded;
}

size_t Connection::poll() noexcept {
  const State now = state_ == State::kEnded ? state_ : look();
  if (now != state_) [[unlikely]] {
    change_to(now);
    return 1;
  }
  // No change of state, but those who wait for a server need not wait any longer.
  if (now == State::kNoServer && !waiting_.empty() && has_server_given_up()) wake_waiting();
  return 0;
}

void Connection::change_to(State state) {
  const State before = std::exchange(state_, state);
  if (state == State::kEnded) {
    end();
  } else {
    transport_->opened();
    if (!std::exchange(has_been_up_, true)) come_up();
    // The next server may evict where the last one did not.
    reads_per_use_ = reader_ != nullptr ? transport_->reads_per_use() : 0;
    if (state == State::kUp) incarnation_ = observe_u64(signs_.incarnation);
    if (state == State::kNoServer && before != State::kConnecting) ++server_losses_;
  }
  if (watcher_ != nullptr) watcher_->connection_changed(*this);
  wake_waiting();
}

void Connection::wake_waiting() {
  for (const runtime::Token token : std::exchange(waiting_, {})) {
    (void)shard_.ops().complete(token, {});
  }
}

void Connection::come_up() {
  facts_ = transport_->facts();
  signs_ = transport_->signs();
  const fabric::Channel::LocalView view = transport_->channel().local_view();
  if (paths_ == Paths::kRpc) {
    why_not_direct_ = "the options ask for the server's answers";
    return;
  }
  if (paths_ == Paths::kChain) {
    why_not_direct_ = "the options ask for chains";
    return;
  }
  pins_ = transport_->pins();
  if (pins_ == nullptr && transport_->channel().capabilities().read_bypasses_target_cpu) {
    remote_.emplace(*rpc_, shard_, kv::RemoteClientOptions{.timeout_ns = timeout_ns_});
    return;
  }
  if (pins_ == nullptr) {
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
  memory_.emplace(view.base, view.bytes, pins_, copies_);
  reader_ =
      &reader_memory_.emplace(*memory_, store_clock_.emplace(shard_.clock(), time_offset_ns(view.base)));
}

void Connection::end() {
  reader_ = nullptr;
  reads_per_use_ = 0;
  ended_why_ = transport_->last_refusal();
  if (ended_why_.what.empty()) {
    ended_why_ = {Code::kUnavailable, fmt::format("the connection to the node at {} broke", address_),
                  "try again; if this repeats, look at the node's log"};
  }
  dispatcher_.reset();
}

void Connection::write_use(const Key& key) noexcept {
  transport_->uses()->write(key.hash(reader_->hash_seed()));
}

bool Connection::refresh() noexcept {
  if (state_ == State::kEnded || !memory_) return false;
  fabric::Channel& channel = transport_->channel();
  (void)channel.refresh_local_view();
  // An answer to an earlier question may have mapped it already.
  const uint64_t bytes = channel.local_view().bytes;
  if (bytes <= memory_->bytes()) return false;
  memory_->set_bytes(bytes);
  return true;
}

void Connection::look_around() noexcept {
  if (dispatcher_) transport_->look_around();
}

Report Connection::trouble() const {
  switch (state_) {
    case State::kConnecting:
      return {Code::kDeadlineExceeded, fmt::format("the node at {} does not answer", address_),
              std::string(transport_->advice())};
    case State::kNoServer:
      if (has_server_given_up()) {
        return {Code::kUnavailable,
                fmt::format("the server of the node at {} crashed too often and was given up", address_),
                "reads go on; look at the data with: refract check, and save them with: refract dump"};
      }
      return {Code::kUnavailable,
              fmt::format("the server of the node at {} ended and is not back yet", address_),
              reader_ != nullptr ? "try again; reads go on meanwhile" : "try again"};
    case State::kUp:
      return {Code::kDeadlineExceeded, fmt::format("the server of the node at {} does not answer", address_),
              reader_ != nullptr ? "is it stopped or overloaded? reads go on meanwhile"
                                 : "is it stopped or overloaded?"};
    case State::kEnded:
      break;
  }
  return ended_why_;
}

void Connection::fill(Route& route) const {
  if (!has_been_up_ || state_ == State::kEnded) {
    route.reason = route.server = "gone";
    return;
  }
  route.direct = reader_ != nullptr || remote_.has_value();
  route.chain = chains_.has_value();
  route.reason = why_not_direct_;
  if (reader_ != nullptr) route.reason = "the node's memory is mapped here, read-only";
  if (remote_) route.reason = "the device reads the node's memory, where its server takes no part in it";
  ++route.shards_reached;
  transport_->fill(route);
}

}  // namespace refract::client
