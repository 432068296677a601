// SPDX-License-Identifier: Apache-2.0
#include "refract/client/client_state.h"

#include <algorithm>
#include <utility>

namespace refract::client {

namespace {

uint64_t next_id() noexcept {
  static std::atomic<uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void add(ClientCounters& sum, const ClientCounters& part) noexcept {
  sum.direct_reads += part.direct_reads;
  sum.messages_sent += part.messages_sent;
  sum.rereads += part.rereads;
  sum.server_losses += part.server_losses;
  sum.connections += part.connections;
}

// Says, also after the thread's objects have been destroyed, that they have.
constinit thread_local bool t_thread_has_ended = false;

}  // namespace

// What a thread has of all Clients, so that it goes with the thread.
class ClientState::ThreadEntries {
 public:
  ThreadEntries() = default;
  ThreadEntries(const ThreadEntries&) = delete;
  ThreadEntries& operator=(const ThreadEntries&) = delete;
  ~ThreadEntries() {
    latest_ = {};
    t_thread_has_ended = true;
    for (const Entry& entry : entries_) {
      // A child has only copies of what its parent continues to use.
      if (entry.client->guard_.is_child()) continue;
      entry.client->thread_ended(entry.state);
      entry.client->release();
    }
  }

  [[nodiscard]] ThreadState* find(const ClientState* client) const noexcept {
    for (const Entry& entry : entries_) {
      if (entry.client == client) return entry.state;
    }
    return nullptr;
  }
  void add(ClientState& client, ThreadState* state) {
    forget_ended();
    client.refer();
    entries_.push_back({.client = &client, .state = state});
  }

 private:
  void forget_ended() noexcept {
    std::erase_if(entries_, [](const Entry& entry) {
      if (entry.client->guard_.is_child() || !entry.client->ended_.load(std::memory_order_acquire))
        return false;
      entry.client->release();
      return true;
    });
  }

  std::vector<Entry> entries_;
};

constinit thread_local ClientState::Latest ClientState::latest_;
thread_local ClientState::ThreadEntries ClientState::entries_;

ClientState::ClientState(std::unique_ptr<const Settings> settings)
    : id_(next_id()), settings_(std::move(settings)) {}

Reported<Client> ClientState::connect(std::string_view address, const ClientOptions& options) {
  auto settings = Settings::make(address, options);
  if (!settings) return report(std::move(settings).error());
  // Before there is a Client it is this function's.
  auto* client = new ClientState(std::move(*settings));
  auto state = std::make_unique<ThreadState>(*client->settings_);
  const uint64_t deadline_ns = state->shard().refresh_now() + options.timeout_ns;
  if (!state->has_reached(state->peers().establish(deadline_ns))) {
    Report why = state->peers().trouble();
    state.reset();
    client->end();
    return report(std::move(why));
  }
  client->spare_ = std::move(state);
  return Client(client);
}

ThreadState* ClientState::mine() {
  if (has_mine_at_once()) [[likely]]
    return latest_.state;
  if (guard_.is_child()) return nullptr;
  ThreadState* state = t_thread_has_ended ? nullptr : entries_.find(this);
  if (state == nullptr) state = make_mine();
  latest_ = {.client_id = id_, .state = state};
  return state;
}

ThreadState* ClientState::make_mine() {
  std::unique_ptr<ThreadState> made;
  {
    const std::scoped_lock lock(mutex_);
    made = std::move(spare_);
  }
  if (made == nullptr) made = std::make_unique<ThreadState>(*settings_);
  ThreadState* state = made.get();
  {
    const std::scoped_lock lock(mutex_);
    threads_.push_back(std::move(made));
  }
  // Calls of a thread that is ending, from destructors of static objects, leave a state until the Client
  // ends.
  if (!t_thread_has_ended) entries_.add(*this, state);
  return state;
}

void ClientState::thread_ended(const ThreadState* state) noexcept {
  std::unique_ptr<ThreadState> taken;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find(threads_, state, &std::unique_ptr<ThreadState>::get);
    if (found == threads_.end()) return;
    taken = std::move(*found);
    threads_.erase(found);
    add(ended_counters_, taken->tally());
  }
  // Outside of the lock: it hangs up on nodes and unmaps their memory.
  taken.reset();
}

void ClientState::end() noexcept {
  // A child leaves everything as it is: ending it would say goodbye in its parent's name.
  if (guard_.is_child()) return;
  if (has_mine_at_once()) latest_ = {};
  std::vector<std::unique_ptr<ThreadState>> taken;
  {
    const std::scoped_lock lock(mutex_);
    taken = std::move(threads_);
    threads_.clear();
    taken.push_back(std::move(spare_));
    ended_.store(true, std::memory_order_release);
  }
  taken.clear();
  shelf_->close();
  release();
}

void ClientState::release() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void ClientState::take_back(SharedBufferHold memory) noexcept {
  shelf_->put_back(std::move(memory));
  release();
}

ClientCounters ClientState::counters() const noexcept {
  const std::scoped_lock lock(mutex_);
  ClientCounters sum = ended_counters_;
  for (const auto& state : threads_) add(sum, state->tally());
  if (spare_ != nullptr) add(sum, spare_->tally());
  return sum;
}

}  // namespace refract::client
