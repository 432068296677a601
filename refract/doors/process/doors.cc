// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/process/doors.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/log.h"
#include "refract/base/units.h"
#include "refract/client/async_client.h"
#include "refract/doors/net/sockets.h"
#include "refract/doors/redis/changing.h"
#include "refract/doors/redis/facts.h"
#include "refract/doors/redis/handlers.h"
#include "refract/fabric/shm/descriptors.h"
#include "refract/node/doors/birth.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/shard_thread.h"

namespace refract::doors {
namespace {

constexpr uint64_t kConnectAgain_ns = 50 * kMillisecond_ns;
// What is under way when the process is to end may end, and be replied to.
constexpr uint64_t kEnding_ns = 500 * kMillisecond_ns;
constexpr size_t kBirthBytesMax = size_t{64} * 1024;

// Each connection may have 64 writes under way that take two of them at times.
constexpr size_t kOperationsMax = size_t{64} * 1024;
// Not for connections: the node's memory and sockets, logs.
constexpr size_t kDescriptorsKept = 128;

struct Start {
  node::DoorsBirth birth;
  std::vector<Descriptor> listeners;
};

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

size_t lines_max() {
  rlimit limit{};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur > 2 * kDescriptorsKept ? limit.rlim_cur - kDescriptorsKept : kDescriptorsKept;
}

Reported<Start> ask(int link) {
  const std::array<std::byte, 1> word{};
  if (!fabric::shm::send_message(link, word)) {
    return report(Code::kInvalidArgument,
                  "refract-doors is started by refractd (--doors-listen), and not by hand");
  }
  pollfd readable{.fd = link, .events = POLLIN, .revents = 0};
  (void)::poll(&readable, 1, -1);
  std::vector<std::byte> text(kBirthBytesMax);
  Start start;
  start.listeners.resize(fabric::shm::kDescriptorsMax);
  const auto received = fabric::shm::receive_message(link, text, start.listeners);
  using Outcome = fabric::shm::ReceivedMessage::Outcome;
  if (received.outcome != Outcome::kMessage || received.truncated) {
    return report(Code::kUnavailable, "the keeper has not said where to listen");
  }
  start.listeners.resize(received.descriptor_count);
  auto birth = node::doors_birth_from({reinterpret_cast<const char*>(text.data()), received.bytes});
  if (!birth) return report(std::move(birth).error());
  start.birth = std::move(*birth);
  return start;
}

// One thread of the doors.
class Worker {
 public:
  // `place`: its own among all threads.
  Worker(const Start& start, redis::Common& common, size_t place) noexcept
      : start_(start), common_(common), place_(place) {}

  [[nodiscard]] int run() {
    std::unique_ptr<AsyncClient> client;
    redis::Store store{.client = nullptr,
                       .shard = shard_,
                       .facts = common_.facts,
                       .loading = common_.loading,
                       .counts = common_.counts.of(place_),
                       .common = common_,
                       .place = place_};
    std::vector<int> listeners;
    listeners.reserve(start_.listeners.size());
    for (const Descriptor& listener : start_.listeners) listeners.push_back(listener.get());
    auto sockets = Sockets::create(shard_, store, listeners, common_.facts.lines_max);
    if (!sockets) {
      log_error("{}", sockets.error().to_line());
      runtime::end_process(1);
    }
    // Those that come before are told that the node is loading.
    client = connect();
    store.client = client.get();
    if (client != nullptr) {
      shard_.spawn(redis::learn_store_time(store));
      (*sockets)->node_has_come();
      shard_.run();
    }
    (*sockets)->finish();
    (void)shard_.run_until([&] { return (*sockets)->count() == 0; }, shard_.refresh_now() + kEnding_ns);
    // What still waits for a server: the process ends without its end.
    const bool waits = store.node_look.is_under_way || (client != nullptr && !store.knows_time);
    if ((*sockets)->count() != 0 || waits) runtime::end_process(0);
    // Others that use the store, such as those that watch, go before it.
    shard_.drop_tasks();
    return 0;
  }
  // Any thread.
  void stop() noexcept {
    is_stopping_ = true;
    shard_.stop();
  }

 private:
  // Null: it is to stop. The node may have no server for a moment.
  [[nodiscard]] std::unique_ptr<AsyncClient> connect() {
    while (!is_stopping_) {
      auto client = runtime::block_on(
          shard_, AsyncClient::connect(shard_, start_.birth.node, {.timeout_ns = redis::kDoorTimeout_ns}));
      if (client) return std::move(*client);
      if (!common_.loading.is_so()) log_warn("the doors do not reach the node: {}", client.error().to_line());
      (void)shard_.run_until([] { return false; }, shard_.refresh_now() + kConnectAgain_ns);
    }
    return nullptr;
  }

  const Start& start_;
  redis::Common& common_;
  size_t place_;
  runtime::Shard shard_{system_clock(), {.ops_max = kOperationsMax}};
  std::atomic<bool> is_stopping_ = false;
};

// Until SIGTERM, or the end of the keeper, which also says when the node serves.
void await_end(int signals, int link, redis::Loading& loading) {
  for (;;) {
    std::array<pollfd, 2> watched = {
        {{.fd = signals, .events = POLLIN, .revents = 0}, {.fd = link, .events = POLLIN, .revents = 0}}};
    if (::poll(watched.data(), watched.size(), -1) <= 0) continue;
    std::array<std::byte, 1> word{};
    const bool is_of_keeper = watched[0].revents == 0 && ::recv(link, word.data(), word.size(), MSG_PEEK) > 0;
    if (!is_of_keeper) return;
    loading.end();
    (void)::recv(link, word.data(), word.size(), 0);
  }
}

}  // namespace

int run_doors(int keeper_link) {
  // A process of the same user must not read a password or take a socket out of this one. The keeper says
  // nothing before.
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_NAME, "refract-doors");
  raise_file_limit();
  (void)std::signal(SIGPIPE, SIG_IGN);
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&ending, signal);
  // Before there is another thread, which would have it.
  sigprocmask(SIG_BLOCK, &ending, nullptr);
  const Descriptor signals(signalfd(-1, &ending, SFD_CLOEXEC));
  auto start = ask(keeper_link);
  if (!start) {
    log_error("{}", start.error().to_line());
    return 1;
  }
  const node::DoorsBirth& birth = start->birth;
  redis::Common common({.password = birth.password,
                        .node = birth.node,
                        .tcp_port = birth.tcp_port,
                        .begun_ns = system_clock().now_ns(),
                        .threads = birth.threads,
                        .memory_limit_bytes = birth.memory_limit_bytes,
                        .eviction = birth.eviction,
                        .durability = birth.durability,
                        .folder = birth.folder,
                        .lines_max = lines_max()},
                       birth.is_loading, keeper_link);
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::unique_ptr<runtime::ShardThread>> threads;
  for (uint32_t i = 0; i < birth.threads; ++i) {
    workers.push_back(std::make_unique<Worker>(*start, common, i));
    auto thread = runtime::ShardThread::start({.name = "doors", .on_end = [](int) {}},
                                              [worker = workers.back().get()] { return worker->run(); });
    if (!thread) {
      log_error("{}", thread.error().to_line());
      runtime::end_process(1);
    }
    threads.push_back(std::move(*thread));
  }
  await_end(signals.get(), keeper_link, common.loading);
  for (const auto& worker : workers) worker->stop();
  threads.clear();
  return 0;
}

}  // namespace refract::doors
