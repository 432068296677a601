// SPDX-License-Identifier: Apache-2.0
#include "bench/fabric/fabric_ends.h"

#include <algorithm>
#include <array>
#include <utility>

#include "bench/measure/anonymous_memory.h"
#include "bench/sides/shm_side.h"

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/fabric/shm/descriptors.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/fabric/tcp/listen.h"
#include "refract/fabric/tcp/reception.h"
#include "refract/fabric/verbs/domain.h"
#include "refract/runtime/shard.h"

namespace refract::bench {
namespace {

constexpr Rights kAllRights = {.read = true, .write = true, .atomic = true};

// A node's side without a keeper. The region is offered, as a node offers its own, so a client maps it and
// reads it without asking.
class ShmEnd final : public ServingEnd {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<ServingEnd>> open(const std::string& path) {
    auto side = ShmSide::open(path);
    if (!side) return report(side.error());
    std::unique_ptr<ShmEnd> end(new ShmEnd(std::move(*side)));
    if (const Reported<> offered = end->offer_region(); !offered) return report(offered.error());
    end->side_->domain().start_serving();
    return std::unique_ptr<ServingEnd>(std::move(end));
  }
  [[nodiscard]] fabric::Domain& domain() noexcept override { return side_->domain(); }
  [[nodiscard]] const std::string& address() const noexcept override { return side_->path(); }
  [[nodiscard]] std::byte* memory() noexcept override { return memory_.data(); }
  [[nodiscard]] RemoteKey key() const noexcept override { return key_; }
  void let_in() noexcept override { side_->meeting().poll(); }

 private:
  explicit ShmEnd(std::unique_ptr<ShmSide> side) noexcept : side_(std::move(side)) {}

  Reported<> offer_region() {
    auto file = fabric::shm::make_memory("refract-bench", FabricLayout::kBytes);
    if (!file) return report(file.error());
    auto memory = fabric::shm::map_shared(file->get(), FabricLayout::kBytes, /*writable=*/true);
    if (!memory) return report(memory.error());
    memory_ = std::move(*memory);
    if (const Reported<> sealed = fabric::shm::finish_seals(file->get(), /*forbid_new_writers=*/true);
        !sealed) {
      return sealed;
    }
    const auto read_only = fabric::shm::read_only_descriptor(file->get());
    if (!read_only) return report(read_only.error());
    if (const Reported<> offered = side_->meeting().offer_region({.region = kFabricRegion,
                                                                  .base = 0,
                                                                  .bytes = FabricLayout::kBytes,
                                                                  .read_fd = read_only->get(),
                                                                  .key = key_});
        !offered) {
      return offered;
    }
    return side_->domain().serve_region({.region = kFabricRegion,
                                         .base = memory_.data(),
                                         .bytes = FabricLayout::kBytes,
                                         .rights = kAllRights},
                                        key_);
  }

  fabric::shm::Mapping memory_;
  RemoteKey key_{std::max<uint64_t>(secure_random_u64(), 1)};
  std::unique_ptr<ShmSide> side_;
};

class TcpEnd : public ServingEnd {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<ServingEnd>> open(const std::string& address) {
    Reported<std::unique_ptr<TcpEnd>> end = listen<TcpEnd>(address);
    if (!end) return report(end.error());
    if (const Reported<> registered = (*end)->register_memory(); !registered) {
      return report(registered.error());
    }
    return std::unique_ptr<ServingEnd>(std::move(*end));
  }
  [[nodiscard]] fabric::Domain& domain() noexcept override { return *domain_; }
  [[nodiscard]] const std::string& address() const noexcept override { return address_; }
  [[nodiscard]] std::byte* memory() noexcept override { return memory_.data(); }
  [[nodiscard]] RemoteKey key() const noexcept override { return key_; }
  // Looks at all its sockets, which its poll does only now and then.
  void let_in() noexcept override { static_cast<void>(reception_->prepare_sleep()); }

 protected:
  explicit TcpEnd(AnonymousMemory memory) noexcept : memory_(std::move(memory)) {}

  // Lets clients in, and serves nothing yet.
  template <typename End>
  [[nodiscard]] static Reported<std::unique_ptr<End>> listen(const std::string& address) {
    Reported<AnonymousMemory> memory = AnonymousMemory::create(FabricLayout::kBytes, Pages::kSmall);
    if (!memory) return report(memory.error());
    std::unique_ptr<End> end(new End(std::move(*memory)));
    Reported<Descriptor> socket = fabric::tcp::listen(address);
    if (!socket) return report(socket.error());
    end->socket_ = std::move(*socket);
    Reported<std::string> bound = fabric::tcp::bound_address(end->socket_.get());
    if (!bound) return report(bound.error());
    end->address_ = std::move(*bound);
    auto domain = fabric::tcp::ServerDomain::create();
    if (!domain) return report(domain.error());
    end->domain_ = std::move(*domain);
    end->row_ = end->domain_.get();
    fabric::tcp::NodeFacts facts;
    facts.identity = {1, 1};
    facts.incarnation = 1;
    auto reception = fabric::tcp::Reception::create(
        end->shard_, {.listen_fd = end->socket_.get(), .shards = {&end->row_, 1}, .facts = [facts](uint32_t) {
                        return facts;
                      }});
    if (!reception) return report(reception.error());
    end->reception_ = std::move(*reception);
    return end;
  }

  // Of whatever domain this end has in the end.
  Reported<> register_memory() {
    const Reported<RemoteKey> key = domain().register_region({.region = kFabricRegion,
                                                              .base = memory_.data(),
                                                              .bytes = FabricLayout::kBytes,
                                                              .rights = kAllRights});
    if (!key) return report(key.error());
    key_ = *key;
    return {};
  }
  [[nodiscard]] fabric::tcp::ServerDomain& sockets() noexcept { return *domain_; }

 private:
  AnonymousMemory memory_;
  runtime::Shard shard_{system_clock()};  // The reception wants one; nothing runs it.
  Descriptor socket_;
  std::string address_;
  RemoteKey key_;
  std::unique_ptr<fabric::tcp::ServerDomain> domain_;
  fabric::tcp::ServerDomain* row_ = nullptr;
  std::unique_ptr<fabric::tcp::Reception> reception_;
};

// Introduced by sockets, as a node's is.
class VerbsEnd final : public TcpEnd {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<ServingEnd>> open(const std::string& address) {
    Reported<std::unique_ptr<VerbsEnd>> end = listen<VerbsEnd>(address);
    if (!end) return report(end.error());
    auto domain = fabric::verbs::ServerDomain::create((*end)->sockets());
    if (!domain) return report(domain.error());
    (*end)->verbs_ = std::move(*domain);
    if (const Reported<> registered = (*end)->register_memory(); !registered) {
      return report(registered.error());
    }
    return std::unique_ptr<ServingEnd>(std::move(*end));
  }
  [[nodiscard]] fabric::Domain& domain() noexcept override { return *verbs_; }

 private:
  friend class TcpEnd;
  using TcpEnd::TcpEnd;

  std::unique_ptr<fabric::verbs::ServerDomain> verbs_;
};

template <typename Client>
Reported<ClientEnd> open_client() {
  auto domain = Client::create();
  if (!domain) return report(domain.error());
  return ClientEnd{.introducer = nullptr, .domain = std::move(*domain)};
}

Reported<ClientEnd> open_verbs_client() {
  Reported<ClientEnd> end = open_client<fabric::tcp::ClientDomain>();
  if (!end) return report(end.error());
  end->introducer = std::move(end->domain);
  auto domain = fabric::verbs::ClientDomain::create(*end->introducer);
  if (!domain) return report(domain.error());
  end->domain = std::move(*domain);
  return end;
}

constexpr std::array kRows = {
    FabricRow{"shm", "shared memory of this host", true, "", ShmEnd::open,
              open_client<fabric::shm::ClientDomain>},
    FabricRow{"tcp", "sockets", false, "127.0.0.1:0", TcpEnd::open, open_client<fabric::tcp::ClientDomain>},
    FabricRow{"verbs", "an RDMA device, met over sockets", false, "127.0.0.1:0", VerbsEnd::open,
              open_verbs_client},
};

}  // namespace

std::span<const FabricRow> fabric_rows() noexcept {
  return kRows;
}

Reported<const FabricRow*> fabric_row(std::string_view name) {
  std::string names;
  for (const FabricRow& row : kRows) {
    if (row.name == name) return &row;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return report(Code::kUnsupported, "this program has no provider named " + std::string(name),
                "there are: " + names);
}

}  // namespace refract::bench
