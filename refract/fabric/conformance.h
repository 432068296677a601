// SPDX-License-Identifier: Apache-2.0
// What every provider must do, as one test suite; a provider's test instantiates it with a Fixture of its
// own:
//
//   INSTANTIATE_TEST_SUITE_P(Shm, ChannelConformance, testing::Values(Provider{"shm", make_shm_fixture}),
//                            provider_name);
//
// and links refract_fabric_conformance directly (an object library: `target_link_libraries(fabric_shm_test
// PRIVATE refract_fabric_conformance)`). Where the contract (channel.h) leaves something open, the suite
// decides it:
//
//  - A message may have 0 bytes; one longer than message_bytes_max completes with kTooLarge and the channel
//  stays open.
//  - A request that fails completes also when its token is 0; one that succeeds then stays silent.
//  - READ and WRITE have no upper bound but the region's; a provider splits what it must.
//  - An atomic whose address is not a multiple of 8 completes with kInvalidArgument. All other refusals of a
//  region
//    (key, bounds, rights, revoked, never registered) are kAccessDenied: a peer learns no more.
//  - After revoke_region returns nothing touches the memory; registering the same region again gives another
//  key. A request with a key that was good before may cost the channel a kClosed with value 1 and a kOpened.
//  - Completions of one channel may come in another order than the requests took effect.
//  - A message is delivered after every WRITE posted before it on its channel is visible to the receiver.
//  - Requests posted after close() and before kClosed complete with kUnavailable before kClosed.
//
// Threads: the suite drives both domains from one thread. It counts allocations of that thread in post, poll
// and flush, not in pump.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "refract/fabric/channel.h"

namespace refract::fabric {

// A client's domain and a server's, with whatever lies between them.
class Fixture {
 public:
  Fixture() = default;
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;
  virtual ~Fixture() = default;

  [[nodiscard]] virtual Domain& client() = 0;
  // Accepts without being asked: the first sign of a channel here is its kOpened.
  [[nodiscard]] virtual Domain& server() = 0;
  // Begins one more channel from client() to server().
  [[nodiscard]] virtual Reported<Channel*> connect() = 0;
  // An address in the provider's form that no process listens on.
  [[nodiscard]] virtual std::string unused_address() = 0;

  // Moves what polling the two domains does not move: virtual time, a keeper that introduces the two. Called
  // between polls, very often; must not wait for long.
  virtual void pump() {}

  // Zeroed memory, 4096-byte aligned, that the server may register; lives as long as the fixture.
  [[nodiscard]] virtual std::span<std::byte> memory(size_t bytes);

  // Ends the server as kill -9 would, or cuts it off for ever; server() is not used afterwards. False: this
  // fixture cannot, and the claims about it are skipped.
  [[nodiscard]] virtual bool kill_server() { return false; }

  // Of the claims that are about numbers: how many rounds this machine does in place of `count`.
  [[nodiscard]] virtual uint64_t scale(uint64_t count) const { return count; }

  // How many channels the suite may open at once.
  [[nodiscard]] virtual size_t channels_max() const { return 32; }

 private:
  struct FreeAligned {
    void operator()(std::byte* memory) const noexcept;
  };
  std::vector<std::unique_ptr<std::byte[], FreeAligned>> memory_;
};

struct Provider {
  std::string name;  // Of letters and digits: part of the tests' names.
  std::function<std::unique_ptr<Fixture>()> make;
};

// For gtest, which would print the bytes of the object.
inline void PrintTo(const Provider& provider, std::ostream* out) {
  *out << provider.name;
}

[[nodiscard]] inline std::string provider_name(const testing::TestParamInfo<Provider>& provider) {
  return provider.param.name;
}

// One completion, with its bytes copied out.
struct Event {
  Completion completion;
  std::vector<std::byte> bytes;
};

class Side;

// An end of a channel as a test holds it. The domain destroys a channel once its end has been polled, and not
// only a test ends one: a path of devices that is gone for a second does so, too. What is done with it from
// then on is done with a channel that takes nothing, and is a failure that says so.
class End {
 public:
  End() = default;
  End(Side& side, Channel& channel, uint64_t life) noexcept : side_(&side), channel_(&channel), life_(life) {}

  // To be compared; null: there is none.
  operator const Channel*() const noexcept { return channel_; }  // NOLINT(google-explicit-constructor)
  // REQUIRES: what it returns is not used after the next poll.
  [[nodiscard]] Channel& operator*() const;
  [[nodiscard]] Channel* operator->() const { return &**this; }

 private:
  Side* side_ = nullptr;
  Channel* channel_ = nullptr;
  uint64_t life_ = 0;
};

// One end's domain, everything that came out of it, and the invariants that hold for all that comes out.
class Side {
 public:
  explicit Side(Domain& domain) : domain_(&domain) {}

  // Polls once, at most `span` completions, checks each, keeps those that `keep` wants, and flushes.
  size_t poll(size_t span = 64);
  [[nodiscard]] Domain& domain() noexcept { return *domain_; }
  [[nodiscard]] std::vector<Event>& events() noexcept { return events_; }

  [[nodiscard]] const Event* find(uint64_t token) const;
  [[nodiscard]] const Event* find(Op op, const Channel* channel = nullptr) const;
  [[nodiscard]] size_t count(Op op, const Channel* channel = nullptr) const;
  // Takes the oldest message out of events(); empty pointer: none.
  [[nodiscard]] std::unique_ptr<Event> take_message();

  // Which channels live. poll() tells it; a test that polls the domain without it calls this, too.
  void note(const Completion& completion);
  // How many channels have opened so far, and the last of them, or this one. Null: it has ended.
  [[nodiscard]] uint64_t opened() const noexcept { return opened_; }
  [[nodiscard]] End newest() noexcept;
  [[nodiscard]] End end_of(const Channel* channel) noexcept;
  [[nodiscard]] bool is_alive(const Channel* channel, uint64_t life) const noexcept;
  // A channel was used after its end: the first time is a failure.
  void misses_a_channel();
  [[nodiscard]] bool has_missed_a_channel() const noexcept { return has_missed_a_channel_; }

 private:
  struct Living {
    Channel* channel = nullptr;
    uint64_t life = 0;  // For the next channel may get the same address.
  };

  // Begins its life again: its kOpened and kClosed so far are forgotten.
  void came_back(const Channel* channel);

  Domain* domain_;
  std::vector<Event> events_;
  std::vector<Completion> buffer_ = std::vector<Completion>(256);
  std::vector<Living> living_;
  uint64_t opened_ = 0;
  bool has_missed_a_channel_ = false;
};

class ChannelConformance : public testing::TestWithParam<Provider> {
 protected:
  static constexpr uint16_t kRegion = 7;
  static constexpr size_t kRegionBytes = size_t{256} * 1024;

  void SetUp() override;
  void TearDown() override;

  struct Pair {
    End client;
    End server;
  };
  // Opens a channel and waits for both ends' kOpened. Null ends: a failure has been recorded.
  [[nodiscard]] Pair open();
  // A registered region of kRegionBytes with a recognisable pattern.
  void serve(Rights rights);
  // One turn of both sides.
  void turn();
  // Turns until `done`. False: a channel was used after its end, or it took so long that something must be
  // broken.
  [[nodiscard]] bool settle(const std::function<bool()>& done);
  // Nothing that such a test waits for will come.
  [[nodiscard]] bool has_missed_a_channel() const noexcept {
    return client_->has_missed_a_channel() || server_->has_missed_a_channel();
  }
  // Enough turns that whatever is on its way has arrived.
  void quiet();
  // Posts all, polling both sides while the channel is full. False: it never had room.
  [[nodiscard]] bool post(const End& channel, std::span<const Request> requests);
  // Waits until a channel whose provider brings it back by itself is open again.
  void await_return(const End& channel);
  // Posts one request and waits for its completion, whose token must be the request's.
  [[nodiscard]] Event perform(const End& channel, Request request);
  [[nodiscard]] RemoteSpan at(uint64_t offset) const { return {RemotePointer::at(kRegion, offset), key_}; }
  [[nodiscard]] std::vector<std::byte> region_copy() const { return {region_.begin(), region_.end()}; }

  std::unique_ptr<Fixture> fixture_;
  std::unique_ptr<Side> client_;
  std::unique_ptr<Side> server_;
  std::span<std::byte> region_;
  RemoteKey key_;
  bool server_alive_ = true;
  uint64_t next_token_ = 0x1234'5678'0000'0001;
};

}  // namespace refract::fabric
