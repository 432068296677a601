// SPDX-License-Identifier: Apache-2.0
// The measuring end of `refract-bench fabric`: one channel to a serving end, and every operation of the
// contract timed over it, one by one or many in flight.
//
// The manner is perftest's. A READ, an atomic and a WRITE are timed until their completion has been polled:
// a whole round trip. Messages, and WRITEs that both ends make into each other's memory and look for there
// (kPut), go back and forth, and half of the time is one transfer. Both ends poll; an operation's time is
// from one end of an iteration to the next, the loop included.
//
// Threads: one, which is the domain's shard. Control path outside the timed loops.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "bench/fabric/fabric_ends.h"
#include "bench/fabric/fabric_orders.h"
#include "bench/measure/anonymous_memory.h"
#include "bench/measure/measure.h"

#include "refract/base/report.h"
#include "refract/node/doctor/timed_end.h"

namespace refract::bench {

enum class Shape : uint8_t { kRead, kWrite, kPut, kCompareSwap, kFetchAdd, kSend };
inline constexpr std::array kShapes = {Shape::kRead,        Shape::kWrite,    Shape::kPut,
                                       Shape::kCompareSwap, Shape::kFetchAdd, Shape::kSend};
[[nodiscard]] std::string_view text(Shape shape) noexcept;
// Atomics have 8 bytes.
[[nodiscard]] bool has_sizes(Shape shape) noexcept;
// One transfer of a ping-pong counts as half of a round trip.
[[nodiscard]] bool is_ping_pong(Shape shape) noexcept;
// Whether many in flight mean anything: a ping-pong has one.
[[nodiscard]] bool has_bandwidth(Shape shape) noexcept;

struct Timing {
  double median_ns = 0;
  double p99_ns = 0;
  double min_ns = 0;
  double mean_ns = 0;
  uint64_t count = 0;
};

struct Flow {
  double per_second = 0;
  double bytes_per_second = 0;
};

class FabricClient : private node::TimedEnd<FabricClient, FabricAnswer, 65'536> {
 public:
  // Returns when the channel is open and the other end has told its key. kUnsupported: as the row says.
  [[nodiscard]] static Reported<std::unique_ptr<FabricClient>> connect(const FabricRow& row,
                                                                       const std::string& address,
                                                                       const Timer& timer);
  FabricClient(const FabricClient&) = delete;
  FabricClient& operator=(const FabricClient&) = delete;
  ~FabricClient() = default;

  [[nodiscard]] size_t message_bytes_max() const noexcept {
    return channel_->capabilities().message_bytes_max;
  }
  [[nodiscard]] size_t depth_max() const noexcept { return channel_->capabilities().depth; }

  // `bytes` is a multiple of 8, at most kFabricBytesMax; of kSend at most message_bytes_max().
  struct Case {
    Shape shape = Shape::kRead;
    size_t bytes = 8;
  };
  // One in flight, for so long, after a tenth of it that is not recorded; at least 20 times.
  [[nodiscard]] Reported<Timing> latency(const Case& which, double seconds);
  // As many in flight as stated, or as the channel takes. REQUIRES: has_bandwidth(which.shape).
  [[nodiscard]] Reported<Flow> bandwidth(const Case& which, size_t depth, double seconds);
  // Whether one READ sees what one WRITE wrote, and an atomic what the one before it left.
  [[nodiscard]] Reported<> verify();
  // The other end sleeps from now on, so that a core is free for others.
  [[nodiscard]] Reported<> rest();

 private:
  friend class node::TimedEnd<FabricClient, FabricAnswer, 65'536>;

  FabricClient(ClientEnd end, AnonymousMemory memory, const Timer& timer) noexcept
      : TimedEnd(*end.domain, kPatience_ns),
        memory_(std::move(memory)),
        end_(std::move(end)),
        timer_(timer),
        samples_(kSamplesMax) {}

  static constexpr size_t kSamplesMax = 200'000;
  static constexpr size_t kBatch = 64;
  static constexpr uint64_t kPatience_ns = 10 * kSecond_ns;

  // The other end is a thread or a process of its own.
  void turn_far() const noexcept {}

  [[nodiscard]] Reported<> open(const std::string& address);
  [[nodiscard]] Reported<FabricAnswer> ask(const FabricOrder& order);
  [[nodiscard]] fabric::Request request_of(const Case& which) const noexcept;
  // Once, there and back.
  [[nodiscard]] bool once(const Case& which, fabric::Request& request) noexcept;
  [[nodiscard]] bool put_once(fabric::Request& request) noexcept;
  [[nodiscard]] Reported<> prepare(const Case& which);
  [[nodiscard]] Reported<Flow> stream(const Case& which, double seconds);
  [[nodiscard]] std::unexpected<Report> broken() const;
  [[nodiscard]] std::byte* local() const noexcept { return memory_.data() + FabricLayout::kLocal; }

  AnonymousMemory memory_;  // Outlives the domains, with which it is registered.
  ClientEnd end_;
  Timer timer_;
  Samples samples_;
  RemoteKey own_key_;
  RemoteKey peer_key_;
  uint64_t sequence_ = 1;
};

}  // namespace refract::bench
