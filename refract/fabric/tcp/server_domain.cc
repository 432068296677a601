// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "refract/base/check.h"
#include "refract/fabric/tcp/connection.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/fabric/tcp/hub.h"

namespace refract::fabric::tcp {
namespace {

class ServerConnection final : public Connection {
 public:
  ServerConnection(Hub& hub, std::string peer, Role role)
      : Connection(hub), peer_(std::move(peer)), role_(role) {}
  [[nodiscard]] bool begin(Descriptor socket) noexcept { return start(std::move(socket)); }
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  [[nodiscard]] Role role() const noexcept { return role_; }

  size_t index = 0;  // In the domain's list.

 private:
  std::string peer_;
  Role role_;
};

}  // namespace

struct ServerDomain::State final : Hub {
  explicit State(const ServerOptions& options) : Hub(/*accepted=*/true, options.output_bytes_max) {}

  std::vector<std::unique_ptr<ServerConnection>> connections;
  std::vector<Connection*> dead;  // Their last completion was given out in the poll before.
  Descriptor bell;
  std::atomic<size_t> connection_count = 0;
  std::mutex newcomers_mutex;
  std::vector<Admitted> newcomers;  // Guarded by newcomers_mutex.

  void take_newcomers();
  void adopt(Admitted admitted);

  void heard(uint64_t word) noexcept override;
  void ended(Connection& connection) noexcept override { dead.push_back(&connection); }
  void destroy_closed() noexcept override;
  [[nodiscard]] bool has_dead() const noexcept override { return !dead.empty(); }
  [[nodiscard]] bool is_opening() const noexcept override { return false; }
};

Reported<std::unique_ptr<ServerDomain>> ServerDomain::create(const ServerOptions& options) {
  auto state = std::make_unique<State>(options);
  if (auto opened = state->open(); !opened) return report(opened.error());
  state->bell = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state->bell || !state->watch(state->bell.get(), Hub::kBell)) {
    return report(Code::kSystem, fmt::format("cannot make an event descriptor: {}", errno_text(errno)),
                  "raise the limit on open files (ulimit -n)");
  }
  return std::unique_ptr<ServerDomain>(new ServerDomain(std::move(state)));
}

ServerDomain::ServerDomain(std::unique_ptr<State> state) noexcept
    : TcpDomain(*state), state_(std::move(state)) {}
ServerDomain::~ServerDomain() = default;

void ServerDomain::hand_over(Admitted admitted) noexcept {
  State& state = *state_;
  state.connection_count.fetch_add(1, std::memory_order_relaxed);
  {
    const std::scoped_lock lock(state.newcomers_mutex);
    state.newcomers.push_back(std::move(admitted));
  }
  const uint64_t one = 1;
  (void)!::write(state.bell.get(), &one, sizeof(one));
}

size_t ServerDomain::connections() const noexcept {
  return state_->connection_count.load(std::memory_order_relaxed);
}

void ServerDomain::State::heard(uint64_t) noexcept {
  uint64_t count = 0;
  (void)!::read(bell.get(), &count, sizeof(count));
  take_newcomers();
}

void ServerDomain::State::take_newcomers() {
  std::vector<Admitted> taken;
  {
    const std::scoped_lock lock(newcomers_mutex);
    taken.swap(newcomers);
  }
  for (Admitted& admitted : taken) adopt(std::move(admitted));
}

void ServerDomain::State::adopt(Admitted admitted) {
  auto made = std::make_unique<ServerConnection>(*this, std::move(admitted.peer), admitted.role);
  make_room_for(connections.size() + 1);
  if (dead.capacity() <= connections.size()) dead.reserve(2 * connections.size() + 1);
  if (!made->begin(std::move(admitted.socket))) {
    // The kernel has no memory to watch it; the client sees its socket closed.
    connection_count.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  made->index = connections.size();
  connections.push_back(std::move(made));
}

void ServerDomain::State::destroy_closed() noexcept {
  for (Connection* each : dead) {
    forget(*each);
    const size_t index = static_cast<ServerConnection*>(each)->index;
    REFRACT_CHECK(index < connections.size() && connections[index].get() == each);
    std::swap(connections[index], connections.back());
    connections[index]->index = index;
    connections.pop_back();
    connection_count.fetch_sub(1, std::memory_order_relaxed);
  }
  dead.clear();
}

std::string ServerDomain::peer_of(const Channel& channel) {
  return static_cast<const ServerConnection&>(channel).peer();
}

Role ServerDomain::role_of(const Channel& channel) noexcept {
  return static_cast<const ServerConnection&>(channel).role();
}

Reported<Channel*> ServerDomain::connect(std::string_view address) {
  return report(Code::kUnsupported, fmt::format("the serving end cannot connect to {}", address),
                "connect with a ClientDomain");
}

}  // namespace refract::fabric::tcp
