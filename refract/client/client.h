// SPDX-License-Identifier: Apache-2.0
// refract::Client: a program's handle on a Refract node, on this host or on another.
//
//   auto client = refract::Client::connect();  // Or a path, or "refract://host:port".
//   if (!client) return complain(client.error().to_string());
//   (void)client->put("greeting", "hello");
//   const auto value = client->get("greeting");  // Result<std::string>
//
// On the node's host gets, views, scans and exists read the node's memory directly, mapped here read-only: no
// message, and no help of the server, which may be stopped or dead. Elsewhere, and for all writes, a call is
// one message each way. Every call blocks until it is done, at most for the timeout.
//
// What may come back, beside each call's own codes: kIndeterminate (the server ended, or the connection
// broke, while it had this write; look before repeating it, or give it an identity: PutOptions::request),
// kUnavailable (no server, or no node, within the timeout; nothing was changed), kDeadlineExceeded (likewise,
// it did not answer), kOverloaded (the server refuses more of this client until the timeout),
// kInvalidArgument and kTooLarge (keys have 1 to 65,535 bytes, values up to 512 MiB), kForked (this handle
// belongs to the parent process).
//
// When the server dies and is started again, the client continues by itself; when the whole node has ended,
// the next call connects again. A direct get notices that a node was killed after 256 further gets at the
// latest, until when it shows the state that the node died with. Of a node with several shards, each answers
// for its own keys: one that is dead or stopped delays nothing else.
//
// Threads: any number may use one Client at once. Each has connections of its own, made by its first call and
// ended with the thread, so that no call waits for another's. Making, moving and destroying a Client is for
// one thread, while no other is in a call. After a fork the child's handle fails, and the child makes its
// own.
//
// Memory: get and put take none after a thread's first calls but what the caller's string needs. Nothing
// throws; a process that runs out of memory ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/api.h"
#include "refract/base/report.h"
#include "refract/base/result.h"
#include "refract/client/reservation.h"
#include "refract/client/transactions/batch.h"
#include "refract/client/transactions/transaction.h"
#include "refract/client/types.h"

namespace refract {

class Objects;
class Reader;

namespace client {
class AsyncCalls;
class ClientState;
class Connection;
}  // namespace client

// A value as it was when view() returned: later writes do not touch it. A value of up to kOwnBytes is copied
// into the view. A longer one is not copied where the node's memory is mapped here: it is held there by one
// of the thread's 255 pins, as long as the view lives. Elsewhere the view owns a copy. May outlive the
// Client, and be moved to and destroyed by any thread.
class REFRACT_API View {
 public:
  static constexpr size_t kOwnBytes = 64;

  // Of nothing. Not defaulted: then the bytes would be set to 0 before a value is copied over them.
  View() noexcept : held_by_(nullptr) {}
  View(View&& other) noexcept;
  View& operator=(View&& other) noexcept;
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View() {
    if (held_by_ != nullptr) let_go();
  }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {at_ == nullptr ? own_.data() : at_, size_};
  }
  [[nodiscard]] std::string_view text() const noexcept { return Bytes(bytes()).text(); }
  [[nodiscard]] uint64_t version() const noexcept { return version_; }
  // Whether the bytes are in this process's own memory.
  [[nodiscard]] bool is_copy() const noexcept { return held_by_ == nullptr; }

 private:
  friend class client::AsyncCalls;
  void let_go() noexcept;

  client::Connection* held_by_;  // Whose pin holds the bytes. Null: they are the view's own.
  int pin_ = -1;
  const std::byte* at_ = nullptr;  // Null: own_.
  uint64_t size_ = 0;
  uint64_t version_ = 0;
  std::unique_ptr<std::byte[]> copy_;
  std::array<std::byte, kOwnBytes> own_;
};

class REFRACT_API Client {
 public:
  // `address` is empty for the default socket of this user, or one of
  //   /run/refract/node.sock, shm:PATH, refract:///PATH    a node of this host, met at that socket
  //   tcp:HOST:PORT, verbs:HOST:PORT                       over TCP only; by RDMA only
  //   refract://HOST:PORT?transport=auto|shm|verbs|tcp&path=direct|chain|rpc&secret_file=PATH&device=NAME
  // "auto" takes shared memory where the node is on this host, else RDMA where both ends have it, else TCP;
  // route() says which, and why not the others. A transport that is named is taken, or connecting fails.
  [[nodiscard]] static Reported<Client> connect(std::string_view address = {},
                                                const ClientOptions& options = {});
  Client(Client&& other) noexcept;
  Client& operator=(Client&& other) noexcept;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  [[nodiscard]] Result<std::string> get(Bytes key);
  // Into a string whose memory is used again.
  [[nodiscard]] Result<Got> get(Bytes key, std::string& value);
  // kTooLarge: the value is longer than `value` (exists() says how long).
  [[nodiscard]] Result<Got> get_into(Bytes key, std::span<std::byte> value);
  // Says that gets of this key follow, so that the memory they need is fetched meanwhile: of keys in a row
  // each is best announced kAnnouncedAhead gets ahead. Never waits, and is never wrong; of no effect where
  // this thread does not read the node's memory directly.
  void announce(Bytes key) noexcept;
  static constexpr size_t kAnnouncedAhead = 8;
  // kOverloaded: all pins of this thread are in use.
  [[nodiscard]] Result<View> view(Bytes key);
  // kNotFound, or what is there.
  [[nodiscard]] Result<Got> exists(Bytes key);
  // The same by loads alone, which never waits. kInvalidated, kCorrupt: loads do not settle it, as where the
  // memory is not mapped here, or this thread has no connection yet; ask the other.
  [[nodiscard]] Result<View> view_at_once(Bytes key);
  [[nodiscard]] Result<Got> exists_at_once(Bytes key);
  // Shorter reads for the calling thread alone: reader.h. kForked.
  [[nodiscard]] Result<Reader> reader();

  // What the node has of objects: objects.h. kUnsupported: it has none, and says how to start it so.
  [[nodiscard]] Reported<Objects> objects();

  // The new version. kNoSpace: the node's memory limit is reached, nothing was changed.
  [[nodiscard]] Result<uint64_t> put(Bytes key, Bytes value, const PutOptions& options = {});
  // Memory in which a value is built, and from which put() takes it without a copy on this side. Of
  // thousands of bytes or more: what fits a message (some 30 KB) is copied all the same. kTooLarge, kNoSpace.
  [[nodiscard]] Result<Reservation> reserve(uint64_t bytes);
  // As the other; the value must not change meanwhile, and may afterwards.
  [[nodiscard]] Result<uint64_t> put(Bytes key, const Reservation& value, const PutOptions& options = {});
  // The version that was erased; `if_version` 0: any. With a version it draws an identity by itself, too.
  [[nodiscard]] Result<uint64_t> erase(Bytes key, uint64_t if_version = 0, const RequestId& request = {});
  // An identity for one write of this thread; repeat that write with the same one. kForked.
  [[nodiscard]] Result<RequestId> new_request();

  // All changes of the batch at one moment, or none: batch.h. A condition's code, kInvalidArgument,
  // kTooLarge (also where the node has a log, and the writes have more than a quarter of its ring: 4 MiB);
  // failed() says which, of several any. Keys of one shard take one round trip, of several shards two.
  // kConflict: other transactions were in the way until the timeout. kUnsupported: its keys are of several
  // shards, and a `request` is given; or of several nodes, which share no secret (where kv.copies is 1, keys
  // with one {tag} share a shard). `request`: as of put(), and drawn by itself otherwise.
  [[nodiscard]] Result<> commit(Batch& batch, const RequestId& request = {});
  // Runs the body, then makes what it has written, at one moment at which all that it has read stands; else
  // the body runs again: transaction.h. Strictly serialisable, together with all other gets, puts and erases.
  // The body's own error, if its reads were valid together: then nothing is changed. kConflict: other writers
  // were quicker until the timeout; likewise. kUnsupported, kTooLarge: as of commit().
  [[nodiscard]] Result<> transaction(const std::function<Result<>(Transaction&)>& body,
                                     const TransactionOptions& options = {});
  // The same of a body that writes nothing: what it has read when it returns kOk stood together. Where memory
  // is read directly and all keys are there, no message is sent.
  [[nodiscard]] Result<> read_only(const std::function<Result<>(Transaction&)>& body,
                                   const TransactionOptions& options = {});

  // The keys from `cursor` on, some `keys_min` of them or fewer. Begin with 0, go on with `next`. An entry
  // that is there throughout a scan comes at least once, also across growth and restarts; one may come twice.
  [[nodiscard]] Result<ScanPage> scan(uint64_t cursor, size_t keys_min = 128);

  // Many at once, each with its own outcome, in no particular order.
  void multi_get(std::span<GetItem> items);
  [[nodiscard]] std::vector<Result<std::string>> multi_get(std::span<const std::string_view> keys);
  // The same into buffers of the caller's: read where the memory is mapped here, and received over a network,
  // without a copy between.
  void multi_get_into(std::span<GetIntoItem> items);
  void multi_put(std::span<PutItem> items);
  void multi_exists(std::span<ExistsItem> items);
  // How many of the keys are there, counted from the first on to the first that is not. Of one that cannot
  // be told its code.
  [[nodiscard]] Result<size_t> prefix_exists(std::span<const Bytes> keys);

  // Erases all entries, of all shards and nodes; objects stay. Returns how many. It is not one moment: what
  // was there when it began is gone when it ends, what is written meanwhile may go or stay, and of a
  // transaction beside it a part may stay. While it gets on it may take longer than the timeout. Another code
  // than kOk: some may be gone. kIndeterminate: they are, but the log may not have it.
  [[nodiscard]] Result<uint64_t> clear();

  [[nodiscard]] Result<NodeStat> stat();
  [[nodiscard]] Result<Pong> ping();
  // The nodes that this one belongs together with, itself among them. With kv.copies 1 they share out the
  // keys, and with one secret they share their objects.
  // kUnsupported: it was told of no others (cluster.nodes), or is of an older release.
  [[nodiscard]] Result<ClusterMembers> members();

  // These speak of the calling thread's connections; the first call makes them.
  [[nodiscard]] Route route() const;
  // The route in a few lines for people.
  [[nodiscard]] std::string why() const;
  // Why the node could not be reached when a call of this thread last failed so; of transactions and batches
  // also why they are kUnsupported, and both limits of what was kTooLarge.
  [[nodiscard]] Report trouble() const;
  [[nodiscard]] ClientCounters counters() const noexcept;

 private:
  friend class client::ClientState;
  friend class Transaction;
  [[nodiscard]] Result<> validate(const txn::Changes& changes, uint64_t deadline_ns);
  [[nodiscard]] Result<> commit(const txn::Changes& changes, txn::Effort& effort);
  [[nodiscard]] Result<> run_transaction(const std::function<Result<>(Transaction&)>& body,
                                         const TransactionOptions& options, bool is_read_only);
  explicit Client(client::ClientState* state) noexcept : state_(state) {}
  client::ClientState* state_;  // Null: moved from.
};

}  // namespace refract
