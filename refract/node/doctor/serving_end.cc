// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doctor/serving_end.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/fabric/tcp/listen.h"
#include "refract/fabric/tcp/reception.h"
#include "refract/fabric/verbs/domain.h"
#include "refract/runtime/shard.h"

namespace refract::node {
namespace {

namespace shm = fabric::shm;
namespace tcp = fabric::tcp;
namespace verbs = fabric::verbs;

constexpr Rights kAllRights = {.read = true, .write = true, .atomic = true};

Reported<shm::Mapping> memory_of(const Reported<Descriptor>& file, size_t bytes) {
  if (!file) return report(file.error());
  auto memory = shm::map_shared(file->get(), bytes, /*writable=*/true);
  if (memory) std::memset(memory->data(), 0, bytes);
  return memory;
}

class ShmEnd final : public ServingEnd {
 public:
  [[nodiscard]] Reported<> open(const std::string& path, size_t bytes) {
    auto side = ShmSide::open(path);
    if (!side) return report(side.error());
    side_ = std::move(*side);
    if (auto offered = offer_region(bytes); !offered) return offered;
    side_->domain().start_serving();
    return {};
  }
  [[nodiscard]] fabric::Domain& domain() noexcept override { return side_->domain(); }
  [[nodiscard]] const std::string& address() const noexcept override { return side_->path(); }
  [[nodiscard]] std::byte* memory() noexcept override { return memory_.data(); }
  [[nodiscard]] RemoteKey key() const noexcept override { return key_; }
  void let_in() noexcept override { side_->meeting().poll(); }

 private:
  Reported<> offer_region(size_t bytes) {
    const auto file = shm::make_memory("refract-end", bytes);
    auto memory = memory_of(file, bytes);
    if (!memory) return report(memory.error());
    memory_ = std::move(*memory);
    if (auto sealed = shm::finish_seals(file->get(), /*forbid_new_writers=*/true); !sealed) return sealed;
    const auto read_only = shm::read_only_descriptor(file->get());
    if (!read_only) return report(read_only.error());
    if (auto offered = side_->meeting().offer_region(
            {.region = kRegion, .base = 0, .bytes = bytes, .read_fd = read_only->get(), .key = key_});
        !offered) {
      return offered;
    }
    return side_->domain().serve_region(
        {.region = kRegion, .base = memory_.data(), .bytes = bytes, .rights = kAllRights}, key_);
  }

  shm::Mapping memory_;
  RemoteKey key_{std::max<uint64_t>(secure_random_u64(), 1)};
  std::unique_ptr<ShmSide> side_;
};

class TcpEnd : public ServingEnd {
 public:
  [[nodiscard]] Reported<> open(const std::string& address, size_t bytes) {
    if (auto listens = listen(address); !listens) return listens;
    return register_memory(bytes);
  }
  [[nodiscard]] fabric::Domain& domain() noexcept override { return *domain_; }
  [[nodiscard]] const std::string& address() const noexcept override { return address_; }
  [[nodiscard]] std::byte* memory() noexcept override { return memory_.data(); }
  [[nodiscard]] RemoteKey key() const noexcept override { return key_; }
  // Looks at all its sockets, which its poll does only now and then.
  void let_in() noexcept override { (void)reception_->prepare_sleep(); }

 protected:
  // Lets clients in, and serves nothing yet.
  [[nodiscard]] Reported<> listen(const std::string& address) {
    auto socket = tcp::listen(address);
    if (!socket) return report(socket.error());
    socket_ = std::move(*socket);
    auto bound = tcp::bound_address(socket_.get());
    if (!bound) return report(bound.error());
    address_ = std::move(*bound);
    auto domain = tcp::ServerDomain::create();
    if (!domain) return report(domain.error());
    domain_ = std::move(*domain);
    row_ = domain_.get();
    const auto facts = [identity = secure_random_u64()](uint32_t) {
      return tcp::NodeFacts{.identity = {identity, 1}, .incarnation = 1, .boot_id = {}, .socket_path = {}};
    };
    auto reception =
        tcp::Reception::create(shard_, {.listen_fd = socket_.get(), .shards = {&row_, 1}, .facts = facts});
    if (!reception) return report(reception.error());
    reception_ = std::move(*reception);
    return {};
  }
  // Of the domain that this end has when it is open.
  [[nodiscard]] Reported<> register_memory(size_t bytes) {
    auto memory = end_memory(bytes);
    if (!memory) return report(memory.error());
    memory_ = std::move(*memory);
    const auto key = domain().register_region(
        {.region = kRegion, .base = memory_.data(), .bytes = bytes, .rights = kAllRights});
    if (!key) return report(key.error());
    key_ = *key;
    return {};
  }
  [[nodiscard]] tcp::ServerDomain& sockets() noexcept { return *domain_; }

 private:
  shm::Mapping memory_;
  runtime::Shard shard_{system_clock()};  // The reception needs one; it is not run.
  Descriptor socket_;
  std::string address_;
  RemoteKey key_;
  std::unique_ptr<tcp::ServerDomain> domain_;
  tcp::ServerDomain* row_ = nullptr;
  std::unique_ptr<tcp::Reception> reception_;
};

class VerbsEnd final : public TcpEnd {
 public:
  [[nodiscard]] Reported<> open(const std::string& address, size_t bytes, const verbs::Options& options) {
    if (auto listens = listen(address); !listens) return listens;
    auto domain = verbs::ServerDomain::create(sockets(), options);
    if (!domain) return report(domain.error());
    verbs_ = std::move(*domain);
    return register_memory(bytes);
  }
  [[nodiscard]] fabric::Domain& domain() noexcept override { return *verbs_; }

 private:
  std::unique_ptr<verbs::ServerDomain> verbs_;
};

template <typename End, typename... How>
Reported<std::unique_ptr<ServingEnd>> opened(const How&... how) {
  auto end = std::make_unique<End>();
  if (auto is_open = end->open(how...); !is_open) return report(is_open.error());
  return end;
}

template <typename Client>
Reported<ClientEnd> client_of(Reported<std::unique_ptr<Client>> domain,
                              std::unique_ptr<fabric::Domain> introducer = nullptr) {
  if (!domain) return report(domain.error());
  const Report* last_refusal = &(*domain)->last_refusal();
  return ClientEnd{
      .introducer = std::move(introducer), .domain = std::move(*domain), .last_refusal = last_refusal};
}

}  // namespace

Reported<std::unique_ptr<ShmSide>> ShmSide::open(const std::string& path) {
  std::unique_ptr<ShmSide> side(new ShmSide);
  shm::MeetingOptions options;
  options.path = path;
  options.space_bytes_max = kGiB;
  options.on_attach = [side = side.get()](const shm::Attachment& attachment) {
    // A client that cannot be adopted finds the channel closed.
    (void)side->domain_->adopt(attachment);
  };
  options.on_detach = [side = side.get()](uint64_t id) { side->domain_->drop(id); };
  auto meeting = shm::Meeting::open(std::move(options));
  if (!meeting) return report(meeting.error());
  side->meeting_ = std::move(*meeting);
  side->meeting_->begin_incarnation();
  auto domain = shm::ServerDomain::create({.node_page = &side->meeting_->node_page()});
  if (!domain) return report(domain.error());
  side->domain_ = std::move(*domain);
  return side;
}

Reported<std::unique_ptr<ServingEnd>> ServingEnd::over_shm(const std::string& path, size_t bytes) {
  return opened<ShmEnd>(path, bytes);
}

Reported<std::unique_ptr<ServingEnd>> ServingEnd::over_tcp(const std::string& address, size_t bytes) {
  return opened<TcpEnd>(address, bytes);
}

Reported<std::unique_ptr<ServingEnd>> ServingEnd::over_verbs(const std::string& address, size_t bytes,
                                                             const verbs::DeviceWish& device,
                                                             uint32_t channels_max) {
  return opened<VerbsEnd>(address, bytes, verbs::Options{.device = device, .channels_max = channels_max});
}

Reported<ClientEnd> shm_client() {
  return client_of(shm::ClientDomain::create());
}

Reported<ClientEnd> tcp_client() {
  return client_of(tcp::ClientDomain::create());
}

Reported<ClientEnd> verbs_client(const verbs::DeviceWish& device, uint32_t channels_max) {
  auto introducer = tcp::ClientDomain::create();
  if (!introducer) return report(introducer.error());
  auto domain = verbs::ClientDomain::create(**introducer, {.device = device, .channels_max = channels_max});
  return client_of(std::move(domain), std::move(*introducer));
}

Reported<shm::Mapping> end_memory(size_t bytes) {
  return memory_of(shm::make_memory("refract-end", bytes), bytes);
}

}  // namespace refract::node
