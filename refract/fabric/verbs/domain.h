// SPDX-License-Identifier: Apache-2.0
// The two ends of the RDMA provider: ServerDomain for a server's shard, ClientDomain for a client's. Each is
// built over an introducer, a domain that reaches the same peers without RDMA (in practice the TCP one).
//
// A channel is one reliable queue pair beside one channel of the introducer, which carries the introduction,
// the questions about regions, and the peer's life: what admits, authenticates, reconnects and gives up there
// does so here. One-sided requests are executed by the target's device; its process may be stopped. The
// reasons are docs/design/021-verbs.md, the wire form is docs/formats/verbs.md.
//
// Waiting: one descriptor, and the introducer's. A path that is gone ends a channel within one to four
// seconds, a process that died at once. An introduction ends with a message each way through the queue pairs,
// so a path that never was fails the channel within some seconds; one that was and is gone for ten ends it.
// Threads: as in channel.h. The introducer outlives the domain, which alone polls, flushes and puts it to
// sleep.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "refract/fabric/channel.h"
#include "refract/fabric/verbs/connect_by.h"
#include "refract/fabric/verbs/counters.h"
#include "refract/fabric/verbs/device.h"

namespace refract::fabric::verbs {

class Hub;

struct Options {
  DeviceWish device;
  uint32_t channels_max = 0;     // At once; 0: 256 for a server, 64 for a client. A device may allow fewer.
  uint64_t chunk_bytes_max = 0;  // Of one registration, below what the device allows; 0: that.
  // Of the completion queue. 0: as many as its channels can cause at once, so that it cannot overrun; less is
  // for tests of what becomes of one that does.
  uint32_t completions_max = 0;
  ConnectBy connect_by = ConnectBy::kAuto;
};

// Between which ports a channel lies, for people.
struct PathFacts {
  std::string peer;        // "10.77.0.2"
  uint32_t mtu_bytes = 0;  // The smaller one of both ends'.
};

// What both ends have.
class VerbsDomain : public Domain {
 public:
  ~VerbsDomain() override;

  // register_region with a key that was drawn before, here alone: the introducer does not serve it.
  [[nodiscard]] Reported<> serve_region(const RegionSpec& spec, RemoteKey key);
  void revoke_served(uint16_t region) noexcept;

  [[nodiscard]] const DomainCounters& counters() const noexcept;
  [[nodiscard]] const DeviceChoice& device() const noexcept;
  // The introducer's channel beside one of this domain. Null: it is none of ours (but a channel that was
  // handed on), or has lost its introducer.
  [[nodiscard]] const Channel* introducer_of(const Channel& channel) const noexcept;
  // Of a channel of this domain that has opened.
  [[nodiscard]] PathFacts path_of(const Channel& channel) const;
  // Why the last channel was not made; for a person.
  [[nodiscard]] const Report& last_refusal() const noexcept;
  [[nodiscard]] uint32_t channels_max() const noexcept;

  [[nodiscard]] std::string_view provider() const noexcept override { return "verbs"; }
  [[nodiscard]] size_t poll(std::span<Completion> completions) noexcept override;
  void flush() noexcept override;
  // Over both: the key that the introducer draws is this domain's, too.
  [[nodiscard]] Reported<RemoteKey> register_region(const RegionSpec& spec) override;
  // What the device wrote is not known to us: the count is the introducer's.
  uint64_t revoke_region(uint16_t region) noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void woke() noexcept override;
  [[nodiscard]] std::span<const int> wake_descriptors() const noexcept override;

 protected:
  explicit VerbsDomain(std::unique_ptr<Hub> hub) noexcept;
  [[nodiscard]] Hub& hub() const noexcept { return *hub_; }

 private:
  std::unique_ptr<Hub> hub_;
};

// Peers of the introducer that introduce no queue pair are handed on with the introducer's own channels;
// their kOpened comes with their first message, for only that tells what they are.
class ServerDomain final : public VerbsDomain {
 public:
  // kUnsupported: no library, no device, no active port, with the sentence that says what to do.
  [[nodiscard]] static Reported<std::unique_ptr<ServerDomain>> create(Domain& introducer,
                                                                      const Options& options = {});
  [[nodiscard]] Reported<Channel*> connect(
      std::string_view address) override;  // kUnsupported: use a ClientDomain.

 private:
  using VerbsDomain::VerbsDomain;
};

class ClientDomain final : public VerbsDomain {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<ClientDomain>> create(Domain& introducer,
                                                                      const Options& options = {});
  // An address of the introducer's. A failed kOpened has the introducer's code, or kUnsupported and
  // kOverloaded where the node is there and will not speak RDMA with us: last_refusal() says why.
  [[nodiscard]] Reported<Channel*> connect(std::string_view address) override;

 private:
  using VerbsDomain::VerbsDomain;
};

}  // namespace refract::fabric::verbs
