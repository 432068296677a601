// SPDX-License-Identifier: Apache-2.0
#include "bench/kv_load.h"

#include <fmt/core.h>
#include <x86intrin.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "bench/entry.h"
#include "bench/loaded_node.h"
#include "bench/machine.h"
#include "bench/measure.h"
#include "bench/private_node.h"
#include "bench/zipf.h"

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/client/client.h"

namespace refract::bench {
namespace {

// Waits for a moment: asleep while it is far, so that the other side has the core, then looking at the clock.
void wait_until(uint64_t moment_ns) {
  while (true) {
    const uint64_t now = now_ns();
    if (now >= moment_ns) return;
    if (moment_ns - now > 200 * kMicrosecond_ns) sleep_ns(moment_ns - now - 100 * kMicrosecond_ns);
    _mm_pause();
  }
}

// One group of operations after the other, and what came out.
class Driver {
 public:
  Driver(const KvLoad& load, Client& client)
      : load_(load),
        client_(client),
        picker_(load.keys, load.skew, 1),
        coin_(2),
        value_(load.value_bytes, 'v'),
        target_(load.value_bytes),
        keys_(load.depth) {}

  // Every key once, so that gets find something.
  [[nodiscard]] Reported<> fill() {
    for (uint64_t start = 0; start < load_.keys; start += kFillBatch) {
      const uint64_t end = std::min(load_.keys, start + kFillBatch);
      keys_.clear();
      for (uint64_t i = start; i < end; ++i) keys_.push_back(Key::of(i));
      if (const Reported<> done = put_group(); !done) return done;
    }
    keys_.resize(load_.depth);
    return {};
  }

  [[nodiscard]] Reported<> run() {
    const uint64_t start_ns = now_ns();
    const uint64_t end_ns = start_ns + static_cast<uint64_t>(load_.seconds * 1e9);
    const double gap_ns =
        load_.rate == 0 ? 0 : 1e9 * static_cast<double>(load_.depth) / static_cast<double>(load_.rate);
    uint64_t finished_ns = start_ns;
    for (uint64_t group = 0; finished_ns < end_ns; ++group) {
      if (load_.operations != 0 && result_.operations >= load_.operations) break;
      // Under a rate, an answer that comes late makes all that were due meanwhile late too, and they say so.
      uint64_t due_ns = now_ns();
      if (load_.rate != 0) {
        due_ns = start_ns + static_cast<uint64_t>(gap_ns * static_cast<double>(group));
        wait_until(due_ns);
      }
      for (Key& key : keys_) key = Key::of(picker_.next());
      const bool puts = load_.mix == Mix::kPut || (load_.mix == Mix::kMixed && coin_.chance(0.5));
      const Reported<> done = puts ? put_group() : get_group();
      if (!done) return done;
      finished_ns = now_ns();
      result_.latency_ns.record(finished_ns - due_ns);
      result_.operations += load_.depth;
    }
    result_.seconds = static_cast<double>(finished_ns - start_ns) * 1e-9;
    return {};
  }

  [[nodiscard]] const KvLoadResult& result() const noexcept { return result_; }

 private:
  static constexpr uint64_t kFillBatch = 256;

  [[nodiscard]] Reported<> put_group() {
    if (keys_.size() == 1) {
      const auto put = client_.put(keys_[0].text(), value_);
      return put ? Reported<>() : Reported<>(failed("put", put.error().code));
    }
    puts_.resize(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) {
      puts_[i].key = keys_[i].text();
      puts_[i].value = value_;
    }
    client_.multi_put(puts_);
    for (const PutItem& put : puts_) {
      if (!put.result) return failed("put", put.result.error().code);
    }
    return {};
  }

  [[nodiscard]] Reported<> get_group() {
    if (keys_.size() == 1) {
      const auto got = client_.get_into(keys_[0].text(), target_);
      return count(got.code());
    }
    gets_.resize(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) gets_[i].key = keys_[i].text();
    client_.multi_get(std::span(gets_));
    for (const GetItem& get : gets_) {
      if (const Reported<> counted = count(get.result.code()); !counted) return counted;
    }
    return {};
  }

  [[nodiscard]] Reported<> count(Code code) {
    if (code == Code::kOk) return {};
    if (code == Code::kTooLarge) {
      return report(
          code, fmt::format("the node holds larger values than {} bytes under these keys", load_.value_bytes),
          "give their size with --value-bytes");
    }
    if (code != Code::kNotFound) return failed("get", code);
    ++result_.missing;
    return {};
  }

  const KvLoad& load_;
  Client& client_;
  KeyPicker picker_;
  Prng coin_;
  std::string value_;
  std::vector<std::byte> target_;
  std::vector<Key> keys_;
  std::vector<GetItem> gets_;
  std::vector<PutItem> puts_;
  KvLoadResult result_;
};

std::string_view text(Mix mix) {
  return mix == Mix::kGet ? "get" : mix == Mix::kPut ? "put" : "mixed";
}

}  // namespace

Reported<KvLoadResult> run_kv_load(const KvLoad& load) {
  std::optional<PrivateNode> node;
  std::string socket_path = load.socket_path;
  if (socket_path.empty()) {
    const uint64_t bytes = 64 * kMiB + load.keys * (load.value_bytes * 13 / 10 + 160);
    Reported<PrivateNode> started =
        PrivateNode::start({.program = load.node_program, .memory_limit_bytes = bytes});
    if (!started) return report(started.error());
    node.emplace(std::move(*started));
    socket_path = node->socket_path();
    pin_to_core(0);
  }
  Reported<Client> client = Client::connect(socket_path, {.populate = true});
  if (!client) return report(client.error());
  Driver driver(load, *client);
  // Somebody else's node is not filled: gets show what it holds.
  if (node) {
    if (const Reported<> filled = driver.fill(); !filled) return report(filled.error());
  }
  if (const Reported<> ran = driver.run(); !ran) return report(ran.error());
  return driver.result();
}

std::string lines_of(const KvLoad& load, const KvLoadResult& result) {
  const Histogram& latency = result.latency_ns;
  const auto us = [&](double share) { return static_cast<double>(latency.quantile(share)) * 1e-3; };
  return fmt::format(
      "{} of {} keys{}, values of {} B, {} at a time{}\n"
      "{} operations in {:.2f} s: {:.3f} M/s{}\n"
      "latency of {}, us: p50 {:.2f}  p90 {:.2f}  p99 {:.2f}  p99.9 {:.2f}  max {:.2f}\n",
      text(load.mix), load.keys, load.skew > 0 ? fmt::format(" by Zipf {}", load.skew) : "", load.value_bytes,
      load.depth,
      load.rate > 0 ? fmt::format(", {} due a second, latency from when each was due", load.rate)
                    : ", as fast as possible, latency from the call",
      result.operations, result.seconds, static_cast<double>(result.operations) * 1e-6 / result.seconds,
      result.missing > 0 ? fmt::format("; {} found nothing", result.missing) : "",
      load.depth > 1 ? "a group" : "an operation", us(0.5), us(0.9), us(0.99), us(0.999),
      static_cast<double>(latency.max()) * 1e-3);
}

std::string json_of(const KvLoad& load, const KvLoadResult& result) {
  const Machine machine = this_machine();
  const nlohmann::ordered_json json = {{"format", "refract-kv-1"},
                                       {"commit", machine.commit},
                                       {"compiler", machine.compiler},
                                       {"cpu", machine.cpu},
                                       {"kernel", machine.kernel},
                                       {"date", machine.date},
                                       {"mix", text(load.mix)},
                                       {"keys", load.keys},
                                       {"value_bytes", load.value_bytes},
                                       {"zipf", load.skew},
                                       {"depth", load.depth},
                                       {"rate", load.rate},
                                       {"operations", result.operations},
                                       {"missing", result.missing},
                                       {"seconds", result.seconds},
                                       {"latency_ns",
                                        {{"p50", result.latency_ns.quantile(0.5)},
                                         {"p90", result.latency_ns.quantile(0.9)},
                                         {"p99", result.latency_ns.quantile(0.99)},
                                         {"p999", result.latency_ns.quantile(0.999)},
                                         {"max", result.latency_ns.max()},
                                         {"mean", result.latency_ns.mean()}}}};
  return json.dump(2) + "\n";
}

}  // namespace refract::bench
