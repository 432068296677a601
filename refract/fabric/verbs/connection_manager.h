// SPDX-License-Identifier: Apache-2.0
// What one domain asks of librdmacm: that queue pairs of ours, made on a device that is open already, be
// connected to those of a peer whose port is known.
//
// A connection is known by the number of our queue pair. Nothing here waits: each step is begun, and its
// outcome comes by next(); steps in between are taken there. What names a connection (the token, which the
// peer is) came by another way before, so a request that shows no token we gave out is turned down. Control
// path; used only by the domain's shard.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "refract/fabric/verbs/device.h"
#include "refract/fabric/verbs/queue_pair.h"
#include "refract/fabric/verbs/wire.h"

struct rdma_cm_event;       // NOLINT(readability-identifier-naming)
struct rdma_cm_id;          // NOLINT(readability-identifier-naming)
struct rdma_event_channel;  // NOLINT(readability-identifier-naming)

namespace refract::fabric::verbs {

struct CmLibrary;

// Forgets the connection when it goes, which tells the peer's kernel.
class CmIdentifier {
 public:
  CmIdentifier(const CmLibrary& library, rdma_cm_id* id) noexcept : library_(&library), id_(id) {}
  CmIdentifier(const CmIdentifier&) = delete;
  CmIdentifier& operator=(const CmIdentifier&) = delete;
  CmIdentifier(CmIdentifier&& other) noexcept
      : library_(other.library_), id_(std::exchange(other.id_, nullptr)) {}
  CmIdentifier& operator=(CmIdentifier&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~CmIdentifier();
  [[nodiscard]] rdma_cm_id* get() const noexcept { return id_; }

 private:
  const CmLibrary* library_;
  rdma_cm_id* id_;
};

class ConnectionManager {
 public:
  // kUnsupported: no librdmacm, or a kernel without it; with what mends that.
  [[nodiscard]] static Reported<std::unique_ptr<ConnectionManager>> make(const OpenDevice& device);
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;
  ~ConnectionManager();

  // Readable when next() has something.
  [[nodiscard]] int descriptor() const noexcept;

  // The port at that address of ours; the same one when asked again.
  [[nodiscard]] Reported<uint16_t> listen(const GidFacts& here);

  struct Target {
    QueuePair* pair = nullptr;
    const GidFacts* here = nullptr;
    Introduction peer{};  // Its acceptance.
  };
  [[nodiscard]] Reported<> connect(const Target& target);

  struct Outcome {
    enum class What : uint8_t { kRequest, kConnected, kFailed };
    What what = What::kFailed;
    uint64_t token = 0;                 // kRequest: what it shows, and
    std::optional<CmIdentifier> asker;  // what is to be given to accept(), or dropped.
    uint32_t queue_pair = 0;            // The others: which of ours.
    Report why;                         // kFailed.
  };
  // Never blocks. Nothing: there is no more now.
  [[nodiscard]] std::optional<Outcome> next();

  // From here on the pair receives, and may send.
  [[nodiscard]] Reported<> accept(CmIdentifier asker, QueuePair& pair, const Introduction& peer);
  void reject(CmIdentifier asker) noexcept;

  // Before the queue pair is destroyed, or its number means another one.
  void forget(uint32_t queue_pair) noexcept { connections_.erase(queue_pair); }

 private:
  struct Connection {
    CmIdentifier id;
    QueuePair* pair = nullptr;
    Introduction peer{};
    bool is_connected = false;
  };
  struct Listener {
    CmIdentifier id;
    uint32_t gid_index = 0;
    uint16_t port = 0;
  };
  struct News;

  ConnectionManager(const OpenDevice& device, const CmLibrary& library, rdma_event_channel* events) noexcept;
  [[nodiscard]] std::optional<Outcome> hear(const News& news);
  [[nodiscard]] Reported<bool> advance(Connection& connection, const News& news);
  [[nodiscard]] Reported<> send_request(Connection& connection);
  [[nodiscard]] Reported<> change_states(const Connection& connection, bool is_receiving);
  [[nodiscard]] Reported<> check_device(const rdma_cm_id& id) const;

  const OpenDevice& device_;
  const CmLibrary& library_;
  rdma_event_channel* events_;
  std::vector<Listener> listeners_;
  std::map<uint32_t, Connection> connections_;  // By the number of our queue pair.
};

}  // namespace refract::fabric::verbs
