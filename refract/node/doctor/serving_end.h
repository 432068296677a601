// SPDX-License-Identifier: Apache-2.0
// Both ends of a provider without a node: one that lets clients in and serves a region, and a client's. For
// the doctor's self-test, and for measurements of providers.
//
// Threads: an end and its domain belong to the thread that opened them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "refract/base/report.h"
#include "refract/fabric/channel.h"
#include "refract/fabric/shm/descriptors.h"
#include "refract/fabric/shm/domain.h"
#include "refract/fabric/shm/meeting.h"
#include "refract/fabric/verbs/device.h"

namespace refract::node {

// A socket of shared memory to meet at, and a domain that takes each client that attaches there. The caller
// polls the meeting.
class ShmSide {
 public:
  // On the heap, since the meeting calls it back. The domain does not serve yet.
  [[nodiscard]] static Reported<std::unique_ptr<ShmSide>> open(const std::string& path);
  ShmSide(const ShmSide&) = delete;
  ShmSide& operator=(const ShmSide&) = delete;
  ~ShmSide() = default;

  [[nodiscard]] fabric::shm::Meeting& meeting() noexcept { return *meeting_; }
  [[nodiscard]] const std::string& path() const noexcept { return meeting_->path(); }
  [[nodiscard]] fabric::shm::ServerDomain& domain() noexcept { return *domain_; }

 private:
  ShmSide() = default;

  std::unique_ptr<fabric::shm::Meeting> meeting_;
  std::unique_ptr<fabric::shm::ServerDomain> domain_;
};

class ServingEnd {
 public:
  static constexpr uint16_t kRegion = 1;

  // Each serves so many bytes, with all rights. Shared memory offers them, as a node does, so that a client
  // maps them and reads them without asking.
  [[nodiscard]] static Reported<std::unique_ptr<ServingEnd>> over_shm(const std::string& path, size_t bytes);
  [[nodiscard]] static Reported<std::unique_ptr<ServingEnd>> over_tcp(const std::string& address,
                                                                      size_t bytes);
  // Introduced by sockets, as a node's is. `channels_max`: as in fabric::verbs::Options.
  [[nodiscard]] static Reported<std::unique_ptr<ServingEnd>> over_verbs(
      const std::string& address, size_t bytes, const fabric::verbs::DeviceWish& device = {},
      uint32_t channels_max = 0);

  ServingEnd() = default;
  ServingEnd(const ServingEnd&) = delete;
  ServingEnd& operator=(const ServingEnd&) = delete;
  virtual ~ServingEnd() = default;

  [[nodiscard]] virtual fabric::Domain& domain() noexcept = 0;
  // For a client's domain to connect to.
  [[nodiscard]] virtual const std::string& address() const noexcept = 0;
  // The region's bytes, zeroed at first.
  [[nodiscard]] virtual std::byte* memory() noexcept = 0;
  [[nodiscard]] virtual RemoteKey key() const noexcept = 0;
  // Moves what polling the domain does not: handshakes. A system call or two.
  virtual void let_in() noexcept = 0;
};

// A client's domain, and the one that introduces it to its peers, where it needs one.
struct ClientEnd {
  std::unique_ptr<fabric::Domain> introducer = {};  // May be null.
  std::unique_ptr<fabric::Domain> domain = {};
  const Report* last_refusal = nullptr;  // The domain's.
};
[[nodiscard]] Reported<ClientEnd> shm_client();
[[nodiscard]] Reported<ClientEnd> tcp_client();
[[nodiscard]] Reported<ClientEnd> verbs_client(const fabric::verbs::DeviceWish& device = {},
                                               uint32_t channels_max = 0);

// Memory as a region has it, on small pages, zeroed.
[[nodiscard]] Reported<fabric::shm::Mapping> end_memory(size_t bytes);

}  // namespace refract::node
