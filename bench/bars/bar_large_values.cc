// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstring>
#include <span>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"

#include "refract/base/units.h"

namespace refract::bench::bar_large_values {
namespace {

constexpr uint64_t kValues = 16;
constexpr uint64_t kValueBytes = 4 * kMiB;
constexpr int kWalks = 4;

// What a turn of one side walks through: from values of this process, or into them.
class Walk {
 public:
  Walk(uint64_t values, uint64_t value_bytes)
      : values_(values), value_bytes_(value_bytes), from_(values * value_bytes), to_(values * value_bytes) {
    for (size_t i = 0; i < from_.size(); ++i) from_[i] = static_cast<std::byte>(i * 131 + i / 4096);
  }

  // Bytes a second, in GB/s. `copy(number, from, to)` says whether it went well.
  template <typename Copy>
  [[nodiscard]] Reported<double> rate(Copy copy) {
    const uint64_t start_ns = now_ns();
    for (int walk = 0; walk < kWalks; ++walk) {
      for (uint64_t i = 0; i < values_; ++i) {
        if (const Code code = copy(i, value(from_, i), value(to_, i)); code != Code::kOk) {
          return failed("a large value's turn", code);
        }
      }
    }
    const auto bytes = static_cast<double>(kWalks * values_ * value_bytes_);
    return bytes / static_cast<double>(now_ns() - start_ns);
  }
  // The same, of values that are built in `built`, which takes no part in the time: one for each walk, or
  // one for each value, which leaves the other side idle meanwhile.
  template <typename Take>
  [[nodiscard]] Reported<double> rate_of_built(std::span<std::byte> built, bool each, Take take) {
    uint64_t taken_ns = 0;
    for (int walk = 0; walk < kWalks; ++walk) {
      for (uint64_t i = 0; i < values_; ++i) {
        const std::span<std::byte> from = value(from_, each ? i : static_cast<uint64_t>(walk));
        if (each || i == 0) std::memcpy(built.data(), from.data(), from.size());
        const uint64_t start_ns = now_ns();
        if (const Code code = take(i, value(to_, i)); code != Code::kOk) {
          return failed("a large value's turn", code);
        }
        taken_ns += now_ns() - start_ns;
      }
    }
    return static_cast<double>(kWalks * values_ * value_bytes_) / static_cast<double>(taken_ns);
  }
  [[nodiscard]] Reported<double> copied() {
    return rate([](uint64_t, std::span<std::byte> from, std::span<std::byte> to) {
      std::memcpy(to.data(), from.data(), to.size());
      keep(to);
      return Code::kOk;
    });
  }
  [[nodiscard]] bool is_copied() const noexcept { return from_ == to_; }

 private:
  [[nodiscard]] std::span<std::byte> value(std::vector<std::byte>& of, uint64_t i) const noexcept {
    return std::span(of).subspan(i * value_bytes_, value_bytes_);
  }

  uint64_t values_;
  uint64_t value_bytes_;
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

enum class Way : uint8_t { kPut, kGet };

Reported<Outcome> measure(BarRun& run, Way way) {
  const uint64_t value_bytes = run.options.judged ? kValueBytes : 512 * kKiB;
  // Replaced values are free again one round of reclamation later.
  Reported<PrivateNode> node = start_node(run, 8 * kValues * value_bytes / 200, "memfd:");
  if (!node) return report(node.error());
  Reported<Client> client = connect_to(*node);
  if (!client) return report(client.error());
  Walk walk(kValues, value_bytes);
  const auto put = [&](uint64_t i, std::span<std::byte> from, std::span<std::byte>) {
    return client->put(fmt::format("value-{}", i), Bytes(from)).code();
  };
  const auto get = [&](uint64_t i, std::span<std::byte>, std::span<std::byte> to) {
    return client->get_into(fmt::format("value-{}", i), to).code();
  };
  if (const Reported<double> loaded = walk.rate(put); !loaded) return report(loaded.error());

  const auto ours = [&]() -> Reported<double> {
    const Reported<double> rate = way == Way::kPut ? walk.rate(put) : walk.rate(get);
    if (way == Way::kGet && !walk.is_copied()) return report(Code::kCorrupt, "a get brought other bytes");
    return rate;
  };
  return in_turns(run,
                  fmt::format("{} values of {} KiB, one after the other, all memory touched before", kValues,
                              value_bytes / kKiB),
                  [&](uint64_t) {
                    return ratio_of({.ours = {way == Way::kPut ? "put" : "get", ours()},
                                     .theirs = {"memcpy", walk.copied()},
                                     .unit = "GB/s"});
                  });
}

Reported<Outcome> measure_put_built(BarRun& run) {
  const uint64_t value_bytes = run.options.judged ? kValueBytes : 512 * kKiB;
  Reported<PrivateNode> node = start_node(run, 8 * kValues * value_bytes / 200, "memfd:");
  if (!node) return report(node.error());
  Reported<Client> client = connect_to(*node);
  if (!client) return report(client.error());
  Result<Reservation> built = client->reserve(value_bytes);
  if (!built) return failed("a reservation", built.error().code);
  Walk walk(kValues, value_bytes);
  std::vector<std::byte> apart(value_bytes);
  const auto put = [&](uint64_t i, std::span<std::byte>) {
    return client->put(fmt::format("value-{}", i), *built).code();
  };
  const auto copy = [&](uint64_t, std::span<std::byte> to) {
    std::memcpy(to.data(), apart.data(), to.size());
    keep(to);
    return Code::kOk;
  };

  return in_turns(run,
                  fmt::format("{} keys, one after the other, a value of {} KiB built once for each walk",
                              kValues, value_bytes / kKiB),
                  [&](uint64_t) -> Reported<Turn> {
                    const Reported<double> own = walk.rate_of_built(built->bytes(), false, put);
                    const Reported<double> own_each = walk.rate_of_built(built->bytes(), true, put);
                    Reported<Turn> found =
                        ratio_of({.ours = {"put", own}, .theirs = {"memcpy", walk.copied()}, .unit = "GB/s"});
                    const Reported<double> warm = walk.rate_of_built(apart, false, copy);
                    if (!found) return found;
                    if (!own_each) return report(own_each.error());
                    if (!warm) return report(warm.error());
                    found->details.push_back({"put where each is built for itself", *own_each, "GB/s"});
                    found->details.push_back({"memcpy of what was just built", *warm, "GB/s"});
                    return found;
                  });
}

const BarRows kRows = {
    {"put-large", "put of 4 MiB on shm / memcpy, same walk", "at least 0.80", Sense::kAtLeast, 0.8, "x",
     [](BarRun& run) { return measure(run, Way::kPut); }},
    {"put-built", "put of 4 MiB that was built in a reservation / memcpy, same walk", "at least 1.80",
     Sense::kAtLeast, 1.8, "x", measure_put_built},
    {"get-large", "get of 4 MiB on shm, copied / memcpy, same walk", "at least 0.95", Sense::kAtLeast, 0.95,
     "x", [](BarRun& run) { return measure(run, Way::kGet); }},
};

}  // namespace
}  // namespace refract::bench::bar_large_values
