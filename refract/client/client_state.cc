// SPDX-License-Identifier: Apache-2.0
#include "refract/client/client_state.h"

#include <algorithm>
#include <utility>

#include "refract/base/units.h"
#include "refract/client/address.h"

namespace refract::client {

namespace {

constexpr int kGrowthWaits = 6;  // Together about 60 ms.
constexpr uint64_t kPause_ns = kMillisecond_ns;

}  // namespace

ClientState::ClientState(std::string path, const ClientOptions& options)
    : shard_(system_clock()), path_(std::move(path)), options_(options) {}

Reported<Client> ClientState::connect(std::string_view address, const ClientOptions& options) {
  auto path = socket_path_of(address);
  if (!path) return report(path.error());
  // Before there is a Client it is this function's; the destructor is release()'s alone.
  auto* state = new ClientState(std::move(*path), options);
  if (!state->establish(state->shard_.refresh_now() + options.timeout_ns)) {
    Report why = state->trouble_;
    state->release();
    return report(std::move(why));
  }
  return Client(state);
}

void ClientState::release() noexcept {
  // A child leaves everything as it is: ending it would say goodbye in its parent's name.
  if (--owners_ == 0 && !guard_.is_child()) delete this;
}

bool ClientState::establish(uint64_t deadline_ns) {
  auto begun = Connection::begin(shard_, path_, options_);
  if (!begun) {
    trouble_ = begun.error();
    return false;
  }
  Connection& fresh = **begun;
  (void)shard_.run_until([&] { return fresh.state() != Connection::State::kConnecting; }, deadline_ns);
  if (fresh.state() == Connection::State::kConnecting || fresh.state() == Connection::State::kEnded) {
    trouble_ = fresh.trouble();
    return false;
  }
  if (connection_ != nullptr) {
    messages_before_ += connection_->messages_sent();
    losses_before_ += connection_->server_losses();
    ended_.push_back(std::move(connection_));
  }
  connection_ = std::move(*begun);
  ++connections_;
  bury();
  return true;
}

void ClientState::bury() noexcept {
  std::erase_if(ended_, [](const auto& connection) { return connection->users == 0; });
}

void ClientState::look_at_node() noexcept {
  connection_->look_at_keeper();
  (void)shard_.poll_once();
}

bool ClientState::await_growth(int waits) {
  if (connection_->refresh()) return true;
  if (waits >= kGrowthWaits) return false;
  (void)shard_.run_until([] { return false; }, shard_.refresh_now() + (kPause_ns << waits));
  return true;
}

bool ClientState::await_server(Patience& patience) {
  const uint64_t now = shard_.refresh_now();
  if (patience.deadline_ns == 0) patience.deadline_ns = now + options_.timeout_ns;
  if (now >= patience.deadline_ns) {
    trouble_ = connection_->trouble();
    return false;
  }
  if (connection_->state() == Connection::State::kUp && patience.waits++ > 0) {
    // It is there and says that it is not: do not ask in a circle.
    (void)shard_.run_until([] { return false; }, std::min(patience.deadline_ns, now + kPause_ns));
  }
  (void)shard_.run_until(
      [this] {
        return connection_->state() != Connection::State::kNoServer || connection_->has_server_given_up();
      },
      patience.deadline_ns);
  if (connection_->state() == Connection::State::kEnded) {
    return patience.losses++ == 0 && establish(patience.deadline_ns);
  }
  if (connection_->state() == Connection::State::kUp) return true;
  trouble_ = connection_->trouble();
  return false;
}

void ClientState::note(Code code) {
  if (code == Code::kDeadlineExceeded || code == Code::kIndeterminate) [[unlikely]]
    trouble_ = connection_->trouble();
}

Result<View> ClientState::view(Bytes key) {
  Connection::Reader::Pinned pinned;
  const Code code = read(
      [&](Connection::Reader& reader) {
        pinned = reader.pin(key, reader.hash(key));
        return pinned.found.code;
      },
      [&](kv::RpcClient&, uint64_t) {
        return connection_->reader() != nullptr ? Code::kInvalidated : Code::kUnsupported;
      });
  if (code != Code::kOk) return fail(code);
  View view;
  view.state_ = this;
  view.held_by_ = connection_.get();
  view.pin_ = pinned.pin;
  view.bytes_ = {connection_->at(pinned.value), pinned.found.value_bytes};
  view.version_ = pinned.found.version;
  ++connection_->users;
  ++owners_;
  return view;
}

void ClientState::give_back(View& view) noexcept {
  // The page of pins is shared: a child would let go of what its parent holds.
  if (!guard_.is_child()) {
    auto* connection = static_cast<Connection*>(view.held_by_);
    connection->unpin(view.pin_);
    --connection->users;
    if (connection != connection_.get()) bury();
  }
  release();
}

Route ClientState::route() const {
  Route route;
  connection_->fill(route);
  return route;
}

ClientCounters ClientState::counters() const noexcept {
  return {.direct_reads = direct_reads_,
          .messages_sent = messages_before_ + connection_->messages_sent(),
          .rereads = rereads_,
          .server_losses = losses_before_ + connection_->server_losses(),
          .connections = connections_};
}

}  // namespace refract::client
