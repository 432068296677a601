// SPDX-License-Identifier: Apache-2.0
// A node that lives long: with a log, snapshots every few seconds, clients that stay and clients that come
// and go, large values, values that expire. Nothing that was acknowledged is missing, and what the node takes
// does not grow.
//
// Method: in the first third of the run everything dies again and again: the server, all processes, the node
// by a clean stop. Then the node is left alone, and what it takes at the end of the second third is compared
// with what it takes at the end. Clients in processes of their own check every answer, all the time.
//
//   soak_test                              about a minute; under a sanitizer a quarter of one
//   REFRACT_SOAK_SECONDS=36000 soak_test   ten hours
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/network/node_use.h"
#include "tests/process/load.h"
#include "tests/process/node_process.h"
#include "tests/soak/flat_use.h"
#include "tests/soak/passers_by.h"

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/testing/turns.h"
#include "refract/base/units.h"

namespace refract::test {
namespace {

namespace fs = std::filesystem;

constexpr int kStaying = 4;
constexpr int kPassing = 2;
constexpr uint64_t kDeathEvery_ns = 2 * kSecond_ns;
constexpr uint64_t kSampleEvery_ns = 250 * kMillisecond_ns;

uint64_t soak_ns() {
  const char* const wanted = std::getenv("REFRACT_SOAK_SECONDS");
  return (wanted == nullptr ? turns(60, 15) : std::strtoull(wanted, nullptr, 10)) * kSecond_ns;
}

// What the node takes at one moment.
struct Use {
  uint64_t server_bytes = 0;
  uint64_t keeper_bytes = 0;
  uint64_t server_descriptors = 0;
  uint64_t keeper_descriptors = 0;
  uint64_t server_threads = 0;
  uint64_t region_bytes = 0;
  uint64_t live_bytes = 0;
  uint64_t retired_bytes = 0;
  uint64_t entries = 0;
  uint64_t connections = 0;
  uint64_t files = 0;
  uint64_t file_bytes = 0;
};
// The load is at random, so that what it stores varies: its large values have up to 112 KB each, and a
// value's class of buffers takes a chunk of 1 MiB. A passer-by has a connection to each shard, and a
// descriptor or some for each. Of files a snapshot that is being written and a segment or two may be there or
// not. A process's own memory is what its allocator keeps of bursts; what leaks with calls, visits or
// snapshots, of which there are many thousands, some thousands and some dozens, would be more before long.
const std::vector<Bound<Use>>& bounds() {
  static const std::vector<Bound<Use>> all = {
      {"server's memory", &Use::server_bytes, 0.1, 4 * kMiB + sanitizer_bytes()},
      {"keeper's memory", &Use::keeper_bytes, 0.1, kMiB + sanitizer_bytes()},
      {"server's descriptors", &Use::server_descriptors, 0, 24},
      {"keeper's descriptors", &Use::keeper_descriptors, 0, 24},
      {"server's threads", &Use::server_threads, 0, 2},
      {"regions", &Use::region_bytes, 0, 0},
      {"live bytes", &Use::live_bytes, 0.2, 16 * kMiB},
      {"retired bytes", &Use::retired_bytes, 0.2, 8 * kMiB},
      {"entries", &Use::entries, 0.3, 1'000},
      {"connections", &Use::connections, 0, 16},
      {"files", &Use::files, 0, 6},
      {"bytes of files", &Use::file_bytes, 0.2, 256 * kMiB},
  };
  return all;
}

class Soak : public testing::Test {
 protected:
  [[nodiscard]] std::string data() const { return folder_.path() + "/data"; }
  [[nodiscard]] std::string socket() const { return folder_.path() + "/node.sock"; }

  void start() {
    node_.reset();
    node_.emplace(NodeOptions{
        .arguments = {"--data-durability", "everysec", "--data-folder", data(), "--data-snapshot-every", "3s",
                      "--ttl-sweep", "1s", "--memory-limit", "512MiB", "--server-shards", "2",
                      "--listen-address", tcp_address_, "--restart-backoff", "0ns"},
        .socket_path = socket()});
    ASSERT_TRUE(node_->is_up()) << node_->errors();
  }
  // At a port that stays the same, and that the system gives to no process by itself: a client that looks for
  // a node that is away would come to be its own peer there.
  void start_somewhere() {
    constexpr uint64_t kFirstPort = 20'000;
    constexpr uint64_t kPorts = 12'000;
    for (int i = 0; i < 10; ++i) {
      tcp_address_ = "127.0.0.1:" + std::to_string(kFirstPort + prng_.below(kPorts));
      Node probe(NodeOptions{.arguments = {"--listen-address", tcp_address_}});
      if (probe.is_up() && probe.stop() == 0) break;
    }
    start();
  }
  void die_once(uint64_t how) {
    if (how < 2) {
      const pid_t server = node_->server();
      send_signal(server, SIGKILL);
      ASSERT_GT(node_->next_server(server), 0);
      return;
    }
    if (how == 2) {
      node_->kill_everything();
    } else {
      ASSERT_EQ(node_->stop(), 0) << node_->errors();
    }
    start();
  }

  void begin_load() {
    for (int client = 0; client < kStaying; ++client) {
      const std::string address = client % 2 == 0 ? socket() : "tcp:" + tcp_address_;
      staying_.push_back(Process::run([this, client, address] {
        return run_load(
            address, *ledger_,
            {.client = client, .large_bytes = 100'000, .node_may_end = true, .pause_ns = kMillisecond_ns});
      }));
    }
    for (int client = 0; client < kPassing; ++client) {
      passing_by_.push_back(Process::run(
          [this, seed = prng_.next()] { return pass_by(socket(), "tcp:" + tcp_address_, seed, *passing_); }));
    }
  }
  void expect_all_go_on() {
    for (Process& each : staying_) ASSERT_TRUE(each.is_running()) << "a client has ended";
    for (Process& each : passing_by_) ASSERT_TRUE(each.is_running()) << "a passer-by has ended";
  }
  void end_load() {
    passing_->stop = true;
    ledger_->stop = true;
    for (Process& each : staying_) EXPECT_EQ(each.wait(), 0);
    for (Process& each : passing_by_) EXPECT_EQ(each.wait(), 0);
  }

  [[nodiscard]] std::optional<Use> look(Client& client) const {
    const auto stat = client.stat();
    if (!stat) return std::nullopt;
    const pid_t server = node_->server();
    Use use{.server_bytes = private_bytes(server),
            .keeper_bytes = private_bytes(node_->keeper()),
            .server_descriptors = descriptors_of(server),
            .keeper_descriptors = descriptors_of(node_->keeper()),
            .server_threads = threads_of(server),
            .region_bytes = stat->bytes_total,
            .live_bytes = stat->bytes_live,
            .retired_bytes = stat->bytes_retired,
            .entries = stat->entries,
            .connections = stat->connections};
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(data(), gone)) {
      ++use.files;
      const uint64_t bytes = entry.file_size(gone);
      if (!gone) use.file_bytes += bytes;
    }
    return use;
  }
  // The moments from now on, for so long.
  void watch(Client& client, uint64_t until_ns, std::vector<Use>& moments) {
    do {
      sleep_ms(kSampleEvery_ns / kMillisecond_ns);
      ASSERT_NO_FATAL_FAILURE(expect_all_go_on());
      if (const std::optional<Use> use = look(client)) moments.push_back(*use);
    } while (system_clock().now_ns() < until_ns || moments.empty());
  }

  TemporaryFolder folder_;
  SharedLedger ledger_;
  SharedPassing passing_;
  Prng prng_{static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed())};
  std::string tcp_address_;
  std::optional<Node> node_;
  std::vector<Process> staying_;
  std::vector<Process> passing_by_;
};

void report_latency(const Passing& passing) {
  const auto tell = [](const char* what, const Histogram* thirds) {
    std::printf("%s  median of thirds %.1f %.1f %.1f us, p99 %.1f %.1f %.1f us, %lu calls\n", what,
                static_cast<double>(thirds[0].quantile(0.5)) / 1e3,
                static_cast<double>(thirds[1].quantile(0.5)) / 1e3,
                static_cast<double>(thirds[2].quantile(0.5)) / 1e3,
                static_cast<double>(thirds[0].quantile(0.99)) / 1e3,
                static_cast<double>(thirds[1].quantile(0.99)) / 1e3,
                static_cast<double>(thirds[2].quantile(0.99)) / 1e3,
                thirds[0].count() + thirds[1].count() + thirds[2].count());
  };
  tell("put", passing.put_ns);
  tell("get", passing.get_ns);
}

TEST_F(Soak, loses_nothing_and_takes_no_more_as_time_goes_by) {
  const uint64_t begun_ns = system_clock().now_ns();
  const uint64_t third_ns = soak_ns() / kThirds;
  ASSERT_NO_FATAL_FAILURE(start_somewhere());
  begin_load();
  uint64_t deaths = 0;
  while (system_clock().now_ns() < begun_ns + third_ns || deaths < 4) {
    sleep_ms(kDeathEvery_ns / kMillisecond_ns);
    ASSERT_NO_FATAL_FAILURE(expect_all_go_on());
    ASSERT_NO_FATAL_FAILURE(die_once(deaths++ % 4));
  }
  passing_->third = 1;
  Client client = node_->connect();
  const uint64_t rest_ns = system_clock().now_ns();
  std::vector<Use> settling;
  std::vector<Use> before;
  std::vector<Use> after;
  ASSERT_NO_FATAL_FAILURE(watch(client, rest_ns + third_ns * 2 / 3, settling));
  ASSERT_NO_FATAL_FAILURE(watch(client, rest_ns + third_ns, before));
  passing_->third = 2;
  ASSERT_NO_FATAL_FAILURE(watch(client, rest_ns + third_ns * 5 / 3, settling));
  ASSERT_NO_FATAL_FAILURE(watch(client, rest_ns + third_ns * 2, after));
  end_load();
  expect_flat(std::span<const Bound<Use>>(bounds()), before, after);
  report_latency(*passing_);
  std::printf("%lu deaths, %lu operations of clients that stayed, %lu visits, %lu calls unanswered\n", deaths,
              ledger_.operations(), passing_->visits.load(), passing_->unanswered.load());
  // A call has its time and no more; that the machine did not let it run meanwhile is not its fault.
  EXPECT_LT(passing_->longest_ns, kCallTimeout_ns + kPatience_ns);
  EXPECT_GT(ledger_.operations(), 1'000U);
  EXPECT_GT(passing_->visits.load(), 20U);

  EXPECT_EQ(differences(client, *ledger_, kStaying), "");
  EXPECT_EQ(leak_after_erasing_all(client), "");
  ASSERT_TRUE(client.put("last", "one"));
  node_->kill_everything();
  ASSERT_NO_FATAL_FAILURE(start());
  Client later = node_->connect();
  EXPECT_EQ(later.get("last").value(), "one");
  const auto stat = later.stat();
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->entries, 1U) << "erased entries have come back";
  EXPECT_EQ(node_->stop(), 0) << node_->errors();
}

}  // namespace
}  // namespace refract::test
