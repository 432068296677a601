// SPDX-License-Identifier: Apache-2.0
#include "refract/node/server.h"

#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "refract/base/log.h"
#include "refract/base/units.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/shm/domain.h"
#include "refract/kv/pin_sources.h"
#include "refract/kv/service.h"
#include "refract/kv/table.h"
#include "refract/memory/heap.h"
#include "refract/rpc/server.h"
#include "refract/runtime/shard.h"

namespace refract::node {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitDamaged = 3;

// Everything a server is made of, in the order in which it must go: the first made goes last.
class Server final : public runtime::Poller, public kv::GrowthSource {
 public:
  explicit Server(ServerBirth birth)
      : birth_(std::move(birth)),
        shard_(system_clock(), {.spin_ns = birth_.config.server_spin_ns}),
        writer_(birth_.space.addresses().base()) {}

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() override { shard_.remove(*this); }

  [[nodiscard]] int run() {
    if (const int code = open(); code != 0) return code;
    fabric::shm::publish_server_state(birth_.meeting.node_page(), fabric::shm::ServerState::kServing);
    if (!birth_.link.send({.kind = LinkKind::kServing})) return kExitFailed;
    shard_.run();
    return 0;
  }

  size_t poll() noexcept override {
    // The link is rarely used: a look costs a system call, so it is made only after the shard was woken by it
    // or now and then while the shard is busy.
    if (++polls_ % kPollsPerLook != 0) return 0;
    return read_link();
  }
  [[nodiscard]] bool prepare_sleep() noexcept override { return read_link() == 0; }
  [[nodiscard]] std::string_view name() const noexcept override { return "keeper link"; }

  [[nodiscard]] bool can_grow() const noexcept override {
    return shard_.now_ns() >= refused_until_ns_ && heap_->end() < birth_.space.bytes_max();
  }
  void want(uint64_t bytes) noexcept override {
    if (asked_) return;
    asked_ = true;
    if (!birth_.link.send({.kind = LinkKind::kWant, .bytes = bytes})) shard_.stop();
  }

 private:
  static constexpr uint64_t kPollsPerLook = 1024;
  // After a refusal the node counts as full for so long: an administrator may have given it room meanwhile.
  static constexpr uint64_t kRefused_ns = 5 * kSecond_ns;

  [[nodiscard]] int open() {
    auto domain = fabric::shm::ServerDomain::create({.node_page = &birth_.meeting.node_page()});
    if (!domain) return fail_with(domain.error());
    domain_ = std::move(*domain);
    for (const fabric::shm::Attachment& attachment : birth_.meeting.attachments()) adopt(attachment);
    pins_.add(domain_->pins());
    pins_.add(session_pins_);
    heap_ = std::make_unique<Heap>(writer_, pins_);
    for (const StoreSpace::Held& held : birth_.space.regions()) {
      heap_->add({held.region.base()}, held.region.bytes());
      serve(held.region.id(), held.region.base(), held.region.bytes(), held.key);
    }
    birth_.meeting.abandon_in_child();
    table_ = std::make_unique<kv::Table>(writer_, *heap_, shard_.clock());
    if (const int code = recover(); code != 0) return code;
    service_ = std::make_unique<kv::TableService>(
        kv::TableService::Parts{.table = *table_,
                                .heap = *heap_,
                                .writer = writer_,
                                .pins = session_pins_,
                                .growth = *this,
                                .shard = shard_,
                                .sweep_round_ns = birth_.config.ttl_sweep_ns});
    rpc_ = std::make_unique<rpc::Server>(*service_, shard_,
                                         rpc::ServerOptions{.sessions_max = birth_.config.clients_max});
    service_->answer_through(rpc_.get());
    dispatcher_ = std::make_unique<fabric::Dispatcher>(*domain_, shard_, rpc_.get());
    shard_.add(*this);
    if (!shard_.watch(birth_.link.descriptor())) {
      return fail_with({Code::kSystem, "cannot watch the keeper's link: " + errno_text(errno), ""});
    }
    return 0;
  }

  [[nodiscard]] int recover() {
    const uint64_t begun_ns = shard_.clock().now_ns();
    if (const Result<> recovered = table_->recover(); !recovered) {
      if (const auto damage = table_->validate()) {
        log_error("{}", damage->what);
        (void)birth_.link.send({.kind = LinkKind::kDamaged, .base = damage->at.value});
      } else {
        (void)birth_.link.send({.kind = LinkKind::kDamaged});
      }
      return kExitDamaged;
    }
    const uint64_t took_ns = shard_.clock().now_ns() - begun_ns;
    if (table_->stats().entries > 0) {
      log_info("{} entries found in {} ms", table_->stats().entries, took_ns / kMillisecond_ns);
    }
    return 0;
  }

  static int fail_with(const Report& report) {
    log_error("{}", report.what);
    if (!report.next.empty()) log_error("{}", report.next);
    return kExitFailed;
  }

  void adopt(const fabric::shm::Attachment& attachment) {
    if (auto adopted = domain_->adopt(attachment); !adopted) {
      log_warn("client {} is not served: {}", attachment.id, adopted.error().what);
    }
  }

  void serve(uint16_t region, uint64_t base, uint64_t bytes, RemoteKey key) {
    const auto served = domain_->serve_region(
        {.region = region, .base = writer_.base() + base, .bytes = bytes, .rights = {.read = true}}, key);
    if (!served) log_warn("region {} has no one-sided requests: {}", region, served.error().what);
  }

  size_t read_link() {
    bool ended = false;
    size_t count = 0;
    while (auto received = birth_.link.receive(ended)) {
      ++count;
      take(*received);
    }
    if (ended) shard_.stop();
    return count;
  }

  void take(const LinkEnd::Received& received) {
    const LinkMessage& message = received.message;
    switch (message.kind) {
      case LinkKind::kAttach:
        adopt({.id = message.id,
               .memory_fd = received.descriptors[0].get(),
               .doorbell_fd = received.descriptors[1].get()});
        break;
      case LinkKind::kDetach:
        domain_->drop(message.id);
        break;
      case LinkKind::kMapRegion:
        map(message, received.descriptors[0].get());
        break;
      case LinkKind::kRegionReady:
        heap_->add({message.base}, message.bytes);
        serve(static_cast<uint16_t>(message.region), message.base, message.bytes, RemoteKey{message.key});
        asked_ = false;
        service_->on_memory_added();
        break;
      case LinkKind::kRefused:
        refused_until_ns_ = shard_.refresh_now() + kRefused_ns;
        asked_ = false;
        service_->on_growth_refused();
        break;
      default:
        break;
    }
  }

  void map(const LinkMessage& message, int descriptor) {
    const auto mapped = birth_.space.addresses().map({.descriptor = descriptor,
                                                      .file_offset = 0,
                                                      .at = message.base,
                                                      .bytes = message.bytes,
                                                      .writable = true});
    if (!mapped) {
      // The next server inherits the keeper's mapping instead.
      log_error("{}", mapped.error().what);
      shard_.stop();
      return;
    }
    if (!birth_.link.send({.kind = LinkKind::kMapped, .region = message.region})) shard_.stop();
  }

  ServerBirth birth_;
  runtime::Shard shard_;
  Writer writer_;
  kv::SessionPins session_pins_;
  kv::PinSources pins_;
  std::unique_ptr<fabric::shm::ServerDomain> domain_;
  std::unique_ptr<Heap> heap_;
  std::unique_ptr<kv::Table> table_;
  std::unique_ptr<kv::TableService> service_;
  std::unique_ptr<rpc::Server> rpc_;
  std::unique_ptr<fabric::Dispatcher> dispatcher_;
  uint64_t polls_ = 0;
  bool asked_ = false;
  uint64_t refused_until_ns_ = 0;
};

void settle_in(const ServerBirth& birth) {
  // Die with the keeper: without it nobody could attach, and the memory would have two owners after a new
  // start.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != birth.keeper) _exit(kExitFailed);
  prctl(PR_SET_NAME, "refractd");
  prctl(PR_SET_DUMPABLE, 0);
  // Ctrl-C reaches the whole group; the keeper decides when the server ends.
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  signal(SIGTERM, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  if (birth.config.server_cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(birth.config.server_cpu), &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
      log_warn("cannot run on CPU {} alone: {}", birth.config.server_cpu, errno_text(errno));
    }
  }
}

}  // namespace

int run_server(ServerBirth birth) {
  settle_in(birth);
  // Never destroyed: the process ends with _exit, and everything it leaves is what a crash would leave.
  auto* server = new Server(std::move(birth));
  return server->run();
}

}  // namespace refract::node
