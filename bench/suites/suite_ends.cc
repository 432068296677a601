// SPDX-License-Identifier: Apache-2.0
#include "bench/suites/suite_ends.h"

#include <pthread.h>

#include <ctime>
#include <future>
#include <utility>

#include "bench/measure/beside.h"
#include "bench/measure/measure.h"

#include "refract/base/clock.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/fabric/tcp/listen.h"
#include "refract/fabric/tcp/reception.h"
#include "refract/node/doctor/serving_end.h"

namespace refract::bench {
namespace {

// Where clients get in, and the domain that they then reach.
class Door {
 public:
  Door() = default;
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  virtual ~Door() = default;
  [[nodiscard]] virtual fabric::Domain& domain() noexcept = 0;
  [[nodiscard]] virtual const std::string& address() const noexcept = 0;
};

class ShmDoor final : public Door, public runtime::Poller {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<Door>> open(runtime::Shard& shard) {
    Reported<test::TemporaryFolder> folder = test::TemporaryFolder::make();
    if (!folder) return report(folder.error());
    auto side = node::ShmSide::open(folder->path() + "/node.sock");
    if (!side) return report(side.error());
    (*side)->domain().start_serving();
    std::unique_ptr<ShmDoor> door(new ShmDoor(shard, std::move(*folder), std::move(*side)));
    shard.add(*door);
    door->is_added_ = true;
    if (!shard.watch(door->side_->meeting().epoll_descriptor())) {
      return report(Code::kSystem, "the system has no room for one more descriptor to watch");
    }
    return std::unique_ptr<Door>(std::move(door));
  }
  ShmDoor(const ShmDoor&) = delete;
  ShmDoor& operator=(const ShmDoor&) = delete;
  ~ShmDoor() override {
    if (!is_added_) return;
    shard_.unwatch(side_->meeting().epoll_descriptor());
    shard_.remove(*this);
  }
  [[nodiscard]] fabric::Domain& domain() noexcept override { return side_->domain(); }
  [[nodiscard]] const std::string& address() const noexcept override { return side_->path(); }

  // Attaching is rare: looked for now and then, since each look is a system call.
  size_t poll() noexcept override {
    if (++polls_ % kPollsBetweenLooks == 0) side_->meeting().poll();
    return 0;
  }
  [[nodiscard]] bool prepare_sleep() noexcept override {
    side_->meeting().poll();
    return true;
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "meeting"; }

 private:
  static constexpr uint64_t kPollsBetweenLooks = 4'096;

  ShmDoor(runtime::Shard& shard, test::TemporaryFolder folder, std::unique_ptr<node::ShmSide> side)
      : shard_(shard), folder_(std::move(folder)), side_(std::move(side)) {}

  runtime::Shard& shard_;
  test::TemporaryFolder folder_;
  std::unique_ptr<node::ShmSide> side_;
  bool is_added_ = false;
  uint64_t polls_ = 0;
};

class TcpDoor final : public Door {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<Door>> open(runtime::Shard& shard) {
    std::unique_ptr<TcpDoor> door(new TcpDoor);
    Reported<Descriptor> socket = fabric::tcp::listen("127.0.0.1:0");
    if (!socket) return report(socket.error());
    door->socket_ = std::move(*socket);
    Reported<std::string> address = fabric::tcp::bound_address(door->socket_.get());
    if (!address) return report(address.error());
    door->address_ = std::move(*address);
    auto domain = fabric::tcp::ServerDomain::create();
    if (!domain) return report(domain.error());
    door->domain_ = std::move(*domain);
    door->row_ = door->domain_.get();
    fabric::tcp::NodeFacts facts;
    facts.identity = {1, 1};
    facts.incarnation = 1;
    auto reception = fabric::tcp::Reception::create(shard, {.listen_fd = door->socket_.get(),
                                                            .shards = {&door->row_, 1},
                                                            .facts = [facts](uint32_t) { return facts; }});
    if (!reception) return report(reception.error());
    door->reception_ = std::move(*reception);
    return std::unique_ptr<Door>(std::move(door));
  }
  [[nodiscard]] fabric::Domain& domain() noexcept override { return *domain_; }
  [[nodiscard]] const std::string& address() const noexcept override { return address_; }

 private:
  TcpDoor() = default;

  Descriptor socket_;
  std::string address_;
  std::unique_ptr<fabric::tcp::ServerDomain> domain_;
  fabric::tcp::ServerDomain* row_ = nullptr;
  std::unique_ptr<fabric::tcp::Reception> reception_;
};

}  // namespace

struct RealServer::Thread {
  // What the thread says once: where it serves, or why it does not.
  std::promise<Reported<std::string>> ready;
  runtime::Shard shard;
  clockid_t cpu_clock = {};  // Set before it is ready.
  std::unique_ptr<runtime::ShardThread> thread;

  explicit Thread(const Options& options) : shard(system_clock(), options.shard) {}

  int run(const Options& options, const Serve& serve) {
    // The starting thread may sit on a core of its own.
    if (options.core) {
      pin_to_core(*options.core);
    } else {
      unpin();
    }
    ::pthread_getcpuclockid(::pthread_self(), &cpu_clock);
    Reported<std::unique_ptr<Door>> door =
        options.fabric == SuiteFabric::kShm ? ShmDoor::open(shard) : TcpDoor::open(shard);
    if (!door) {
      ready.set_value(report(door.error()));
      return 0;
    }
    Reported<std::unique_ptr<Served>> served = serve(shard, (*door)->domain());
    if (!served) {
      ready.set_value(report(served.error()));
      return 0;
    }
    ready.set_value((*door)->address());
    shard.run();
    shard.drop_tasks();
    return 0;
  }
};

RealServer::RealServer() = default;

Reported<std::unique_ptr<RealServer>> RealServer::start(const Options& options, Serve serve) {
  std::unique_ptr<RealServer> server(new RealServer);
  server->thread_ = std::make_unique<Thread>(options);
  Thread* inner = server->thread_.get();
  std::future<Reported<std::string>> ready = inner->ready.get_future();
  auto thread = runtime::ShardThread::start(
      {.name = "bench server", .on_end = [](int) {}},
      [inner, options, serve = std::move(serve)] { return inner->run(options, serve); });
  if (!thread) return report(thread.error());
  inner->thread = std::move(*thread);
  Reported<std::string> address = ready.get();
  if (!address) return report(address.error());
  server->address_ = std::move(*address);
  return server;
}

RealServer::~RealServer() {
  if (thread_->thread) thread_->shard.stop();
  thread_->thread.reset();
}

uint64_t RealServer::cpu_ns() const noexcept {
  timespec time = {};
  ::clock_gettime(thread_->cpu_clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * kSecond_ns + static_cast<uint64_t>(time.tv_nsec);
}

Reported<std::unique_ptr<fabric::Domain>> open_client_domain(SuiteFabric fabric) {
  if (fabric == SuiteFabric::kShm) return fabric::shm::ClientDomain::create();
  return fabric::tcp::ClientDomain::create();
}

RealEnds::RealEnds() : shard_(system_clock(), kSuitePolling) {}

Reported<std::unique_ptr<RealEnds>> RealEnds::start(SuiteFabric fabric, RealServer::Serve serve) {
  std::unique_ptr<RealEnds> ends(new RealEnds);
  Reported<std::unique_ptr<fabric::Domain>> domain = open_client_domain(fabric);
  if (!domain) return report(domain.error());
  ends->domain_ = std::move(*domain);
  ends->dispatcher_ = std::make_unique<fabric::Dispatcher>(*ends->domain_, ends->shard_);
  Reported<std::unique_ptr<RealServer>> server = RealServer::start({.fabric = fabric}, std::move(serve));
  if (!server) return report(server.error());
  ends->server_ = std::move(*server);
  return ends;
}

}  // namespace refract::bench
