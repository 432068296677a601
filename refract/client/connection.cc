// SPDX-License-Identifier: Apache-2.0
#include "refract/client/connection.h"

#include <fmt/format.h>

#include <utility>

#include "refract/memory/heap.h"

namespace refract::client {

using fabric::shm::ServerState;

namespace {

// More than the default: a batch of puts shall keep the server busy while replies travel.
constexpr size_t kPipeline = 32;

std::string_view name_of(ServerState state) noexcept {
  switch (state) {
    case ServerState::kStarting:
      return "starting";
    case ServerState::kServing:
      return "serving";
    case ServerState::kRestarting:
      return "restarting";
    case ServerState::kGivenUp:
      return "given up";
    case ServerState::kStopping:
      return "stopping";
  }
  return "unknown";
}

}  // namespace

Connection::Connection(runtime::Shard& shard, std::string path, const ClientOptions& options)
    : shard_(shard), path_(std::move(path)), options_(options) {}

Connection::~Connection() {
  shard_.remove(*this);
}

Reported<std::unique_ptr<Connection>> Connection::begin(runtime::Shard& shard, const std::string& path,
                                                        const ClientOptions& options) {
  auto domain = fabric::shm::ClientDomain::create({.populate = options.populate});
  if (!domain) return report(domain.error());
  auto channel = (*domain)->connect(path);
  if (!channel) return report(channel.error());
  std::unique_ptr<Connection> connection(new Connection(shard, path, options));
  connection->domain_ = std::move(*domain);
  connection->channel_ = *channel;
  connection->session_ = std::make_unique<rpc::Session>(**channel, shard);
  connection->rpc_.emplace(*connection->session_, shard,
                           kv::RpcClientOptions{.timeout_ns = options.timeout_ns, .pipeline = kPipeline});
  connection->dispatcher_.emplace(*connection->domain_, shard);
  // Polled behind the dispatcher, so that it sees each change in the turn in which it comes.
  shard.add(*connection);
  return connection;
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
    if (page_ == nullptr) come_up();
    if (state == State::kUp) incarnation_ = fabric::shm::incarnation(*page_);
    if (state == State::kNoServer && before != State::kConnecting) ++server_losses_;
  }
  wake_waiting();
}

void Connection::wake_waiting() {
  for (const runtime::Token token : std::exchange(waiting_, {})) {
    (void)shard_.ops().complete(token, {});
  }
}

void Connection::come_up() {
  page_ = domain_->node_page(*channel_);
  const fabric::Channel::LocalView view = channel_->local_view();
  if (options_.paths == Paths::kRpc) {
    why_not_direct_ = "the options ask for the server's answers";
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
  memory_.emplace(view.base, view.bytes, &domain_->pins(*channel_));
  reader_ = &reader_memory_.emplace(*memory_, shard_.clock());
}

void Connection::end() {
  reader_ = nullptr;
  ended_why_ = domain_->last_refusal();
  if (ended_why_.what.empty()) {
    ended_why_ = {Code::kUnavailable, fmt::format("the connection to the node at {} broke", path_),
                  "try again; if this repeats, look at the node's log"};
  }
  dispatcher_.reset();
}

bool Connection::refresh() noexcept {
  if (state_ == State::kEnded || !memory_) return false;
  (void)channel_->refresh_local_view();
  // An answer to an earlier question may have mapped it already.
  const uint64_t bytes = channel_->local_view().bytes;
  if (bytes <= memory_->bytes()) return false;
  memory_->set_bytes(bytes);
  return true;
}

std::span<const std::byte> Connection::mapped() const noexcept {
  const fabric::Channel::LocalView view = channel_->local_view();
  return {view.base, view.bytes};
}

void Connection::look_at_keeper() noexcept {
  if (!dispatcher_) return;
  // Going to sleep and waking up at once is how a domain is made to look at its sockets.
  (void)domain_->prepare_sleep();
  domain_->woke();
}

Report Connection::trouble() const {
  switch (state_) {
    case State::kConnecting:
      return {Code::kDeadlineExceeded, fmt::format("the node at {} does not answer", path_),
              "is its keeper stopped? look with: ps -C refractd -o pid,stat,args"};
    case State::kNoServer:
      if (has_server_given_up()) {
        return {Code::kUnavailable,
                fmt::format("the server of the node at {} crashed too often and was given up", path_),
                "reads go on; look at the data with: refract check, and save them with: refract dump"};
      }
      return {Code::kUnavailable,
              fmt::format("the server of the node at {} ended and is not back yet", path_),
              "try again; reads go on meanwhile"};
    case State::kUp:
      return {Code::kDeadlineExceeded, fmt::format("the server of the node at {} does not answer", path_),
              "is it stopped or overloaded? reads go on meanwhile"};
    case State::kEnded:
      break;
  }
  return ended_why_;
}

void Connection::fill(Route& route) const {
  route.transport = "shm";
  route.address = path_;
  route.direct = reader_ != nullptr;
  route.reason = why_not_direct_.empty() ? "the node's memory is mapped here, read-only" : why_not_direct_;
  if (page_ == nullptr || state_ == State::kEnded) {
    route.reason = route.server = "gone";
    return;
  }
  route.server = name_of(fabric::shm::server_state(*page_));
  route.incarnation = fabric::shm::incarnation(*page_);
  route.server_pid = observe_u64(&page_->server_pid);
  route.mapped_bytes = channel_->local_view().bytes;
  route.regions = domain_->regions(*channel_).size();
}

}  // namespace refract::client
