// SPDX-License-Identifier: Apache-2.0
// What a value costs by its size: read, viewed and written over shared memory and over TCP, beside memcpy.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "bench/bars/loaded_node.h"
#include "bench/growth/growth.h"
#include "bench/growth/growth_slice.h"
#include "bench/measure/anonymous_memory.h"
#include "bench/measure/machine.h"
#include "bench/sides/rivals.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr uint64_t kBytesLeast = 16;
constexpr uint64_t kStep = 4;
constexpr uint64_t kSizedKeysMost = 4'096;
constexpr uint64_t kSizedKeysLeast = 4;
constexpr uint64_t kAllBytes = 64 * kMiB;  // Of all values together, where that makes more than the fewest.
constexpr size_t kSizeSamplesMax = 1'000'000;

uint64_t keys_for(uint64_t bytes) {
  return std::clamp(kAllBytes / bytes, kSizedKeysLeast, kSizedKeysMost);
}

class SizesPoint {
 public:
  SizesPoint(const GrowthRun& run, uint64_t bytes)
      : run_(run),
        bytes_(bytes),
        keys_(keys_for(bytes)),
        contents_(sizeof(Key), bytes),
        samples_(kSizeSamplesMax),
        key_(sizeof(Key)),
        value_(bytes) {}

  [[nodiscard]] uint64_t memory_bytes() const;
  [[nodiscard]] Reported<> start();
  [[nodiscard]] Reported<> turn(GrowthPoint& point, uint64_t number);

 private:
  void gets(GrowthPoint& point, Client& client, const char* side, uint64_t number);
  void views(GrowthPoint& point, uint64_t number);
  void puts(GrowthPoint& point, Client& client, const char* side, uint64_t number);
  void copies(GrowthPoint& point, uint64_t number);
  [[nodiscard]] Slice slice(uint64_t number) {
    return {.timer = run_.bars.timer,
            .samples = samples_,
            .entries = keys_,
            .seed = number + 1,
            .seconds = run_.bars.options.slice_seconds};
  }
  [[nodiscard]] Bytes key_of(uint64_t index) {
    contents_.write_key(index, key_.data());
    return Bytes(std::span<const std::byte>(key_));
  }

  const GrowthRun& run_;
  uint64_t bytes_;
  uint64_t keys_;
  Contents contents_;
  Samples samples_;
  std::vector<std::byte> key_;
  std::vector<std::byte> value_;
  std::optional<PrivateNode> node_;
  std::optional<Client> shm_;
  std::optional<Client> tcp_;
  std::optional<AnonymousMemory> source_;  // As many values in a row, for memcpy.
};

uint64_t SizesPoint::memory_bytes() const {
  return memory_bytes_for(keys_, sizeof(Key), bytes_);
}

Reported<> SizesPoint::start() {
  Reported<PrivateNode> node = PrivateNode::start({.program = run_.bars.options.node_program,
                                                   .memory_limit_bytes = memory_bytes(),
                                                   .listen_address = "127.0.0.1"});
  if (!node) return report(node.error());
  node_.emplace(std::move(*node));
  if (const Reported<> filled = fill_node(*node_, contents_, keys_); !filled) return filled;
  Reported<Client> shm = connect_to(*node_);
  if (!shm) return report(shm.error());
  shm_.emplace(std::move(*shm));
  Reported<Client> tcp = Client::connect(node_->tcp_address());
  if (!tcp) return report(tcp.error());
  tcp_.emplace(std::move(*tcp));
  Reported<AnonymousMemory> source = AnonymousMemory::create(keys_ * bytes_, Pages::kSmall);
  if (!source) return report(source.error());
  source_.emplace(std::move(*source));
  for (uint64_t i = 0; i < keys_; ++i) {
    contents_.prepare_value(source_->data() + i * bytes_);
    contents_.make_value(i, source_->data() + i * bytes_);
  }
  contents_.prepare_value(value_.data());
  return {};
}

void SizesPoint::gets(GrowthPoint& point, Client& client, const char* side, uint64_t number) {
  Bytes key;
  uint64_t got_bytes = 0;
  point.add(
      {"get", side, "ns", "memcpy", {}},
      median_ns_of(
          slice(number), fmt::format("get of {} B, {}", bytes_, side),
          [&](uint64_t index) { key = key_of(index); },
          [&] {
            const Result<Got> got = client.get_into(key, value_);
            got_bytes = got ? got->value_bytes : 0;
          },
          // The check spoils what came, so the next answer has to bring its own.
          [&](uint64_t index) { return got_bytes == bytes_ && contents_.take_value(index, value_.data()); }));
}

void SizesPoint::views(GrowthPoint& point, uint64_t number) {
  Bytes key;
  bool is_right = false;
  point.add(
      {"get", "shm, a view", "ns", "memcpy", {}},
      median_ns_of(
          slice(number), fmt::format("view of {} B", bytes_), [&](uint64_t index) { key = key_of(index); },
          [&] {
            const Result<View> view = shm_->view(key);
            is_right = view.has_value() && view->bytes().size() == bytes_ &&
                       view->is_copy() == (bytes_ <= View::kOwnBytes);
          },
          [&](uint64_t) { return is_right; }));
}

void SizesPoint::puts(GrowthPoint& point, Client& client, const char* side, uint64_t number) {
  Bytes key;
  bool is_put = false;
  // What gets spoilt of it; a put then changes its ends alone.
  contents_.prepare_value(value_.data());
  point.add({"put", side, "ns", "memcpy", {}},
            median_ns_of(
                slice(number), fmt::format("put of {} B, {}", bytes_, side),
                [&](uint64_t index) {
                  key = key_of(index);
                  contents_.make_value(index, value_.data());
                },
                [&] { is_put = client.put(key, Bytes(std::span<const std::byte>(value_))).has_value(); },
                [&](uint64_t) { return is_put; }));
}

void SizesPoint::copies(GrowthPoint& point, uint64_t number) {
  const std::byte* from = nullptr;
  const Reported<double> ns = median_ns_of(
      slice(number), "memcpy", [&](uint64_t index) { from = source_->data() + index * bytes_; },
      [&] {
        std::memcpy(value_.data(), from, bytes_);
        keep(value_.data());
      },
      [&](uint64_t index) { return contents_.take_value(index, value_.data()); });
  point.add({"get", "memcpy", "ns", "", {}}, ns);
  point.add({"put", "memcpy", "ns", "", {}}, ns);
}

Reported<> SizesPoint::turn(GrowthPoint& point, uint64_t number) {
  gets(point, *shm_, "shm", number);
  copies(point, number);
  views(point, number);
  gets(point, *tcp_, "tcp", number);
  puts(point, *shm_, "shm", number);
  puts(point, *tcp_, "tcp", number);
  return {};
}

}  // namespace

Reported<GrowthCurve> measure_growth_by_sizes(const GrowthRun& run) {
  GrowthCurve curve = {.axis = GrowthAxis::kSizes, .title = "Bytes of a value: shared memory and TCP"};
  curve.how = fmt::format(
      "Medians of operations timed one by one, one in flight, by one refract::Client of each transport on "
      "core 0; the server on core 1, with its default waiting. {} to {} values of the size, {} MiB of them "
      "where that leaves so many, asked for in random order into one buffer. memcpy copies values that lie "
      "in a row in this process, 4 KiB pages, in the same order. A view of more than 64 B is not copied, and "
      "its bytes are "
      "not read here.",
      kSizedKeysLeast, kSizedKeysMost, kAllBytes / kMiB);
  for (const uint64_t bytes : run.chosen(times(kBytesLeast, run.options.bytes_max, kStep))) {
    GrowthPoint point = {.x = static_cast<double>(bytes)};
    SizesPoint measured(run, bytes);
    if (const uint64_t free_bytes = meminfo("MemAvailable") * kKiB; measured.memory_bytes() > free_bytes) {
      curve.gaps.push_back(fmt::format("values of {} B: a node may need {} MiB, and {} MiB are available",
                                       bytes, measured.memory_bytes() / kMiB, free_bytes / kMiB));
      continue;
    }
    if (const Reported<> started = measured.start(); !started) return report(started.error());
    const Reported<> done = measure_turns(
        run, point, [&](GrowthPoint& figures, uint64_t number) { return measured.turn(figures, number); });
    if (!done) return report(done.error());
    if (run.options.on_point) run.options.on_point(curve.axis, point);
    curve.points.push_back(std::move(point));
  }
  return curve;
}

}  // namespace refract::bench
