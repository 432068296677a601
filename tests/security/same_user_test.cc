// SPDX-License-Identifier: Apache-2.0
// What a process of the node's own user can and cannot do, whether it is a client or not. The table that
// these tests stand for is docs/security.md.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tests/process/shard_link.h"
#include "tests/security/neighbour.h"

#include "refract/base/hash.h"
#include "refract/base/prng.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/fabric/shm/connection_memory.h"
#include "refract/fabric/shm/descriptors.h"
#include "refract/fabric/shm/domain.h"
#include "refract/memory/remote_visible.h"

namespace refract::test {
namespace {

// The attempts themselves: where nothing forbids them, they succeed.
TEST(Attempts, succeed_on_memory_that_is_not_sealed_and_on_a_process_that_may_be_traced) {
  Process hostile = run_as(owner(), [] {
    const Descriptor open_memory(::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (::ftruncate(open_memory.get(), 4096) != 0) return 1;
    Process victim = Process::run([] {
      sleep_ms(kPatience_ns / 1'000'000);
      return 0;
    });
    const bool all_write = ways_to_write(open_memory.get()) >= 8;
    const bool all_enter = ways_into(victim.pid()) >= 8;
    return all_write && all_enter ? 0 : 2;
  });
  EXPECT_EQ(hostile.wait(), 0);
}

class SameUser : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(node.is_up()) << node.errors();
    server = node.server();
    honest.emplace(node.connect());
    ASSERT_TRUE(honest->put("key", "value"));
  }
  void TearDown() override {
    if (!honest) return;
    EXPECT_EQ(honest->get("key").value_or(""), "value");
    EXPECT_TRUE(honest->put("key", "other"));
    honest.reset();
    EXPECT_EQ(node.server(), server) << "the server ended: " << node.errors();
    EXPECT_EQ(node.stop(), 0);
  }
  [[nodiscard]] std::string path() const { return node.socket_path(); }

  Node node{owned()};
  pid_t server = -1;
  std::optional<Client> honest;
};

TEST_F(SameUser, cannot_write_shorten_or_seal_any_memory_that_it_is_only_to_read) {
  Process hostile = run_as(owner(), [&] {
    const auto attached = attach(path());
    if (!attached || attached->regions.empty()) return 100;
    return ways_to_write(*attached);
  });
  EXPECT_EQ(hostile.wait(), 0);
}

TEST_F(SameUser, cannot_shorten_the_memory_of_its_own_connection_under_the_server) {
  Process hostile = run_as(owner(), [&] {
    const auto attached = attach(path());
    if (!attached) return 100;
    const int memory = attached->memory.get();
    int permitted = ::ftruncate(memory, 0) == 0 ? 1 : 0;
    const std::string link = "/proc/self/fd/" + std::to_string(memory);
    const Descriptor again(::open(link.c_str(), O_RDWR | O_CLOEXEC));
    permitted += again && ::ftruncate(again.get(), 0) == 0 ? 1 : 0;
    return permitted;
  });
  EXPECT_EQ(hostile.wait(), 0);
}

TEST_F(SameUser, cannot_reach_into_keeper_or_server_by_any_door_of_the_kernel) {
  Process hostile = run_as(owner(), [&] { return ways_into(node.keeper()) + ways_into(server); });
  EXPECT_EQ(hostile.wait(), 0);
}

TEST_F(SameUser, scribbles_over_all_that_it_may_write_and_hurts_nobody_else) {
  const uint64_t seed = secure_random_u64();
  std::printf("scribbled from seed %llu\n", static_cast<unsigned long long>(seed));
  Process hostile = run_as(owner(), [&] {
    Prng prng(seed);
    for (int round = 0; round < 50; ++round) {
      const auto attached = attach(path());
      if (!attached) return 100;
      const auto memory =
          fabric::shm::map_shared(attached->memory.get(), fabric::shm::kConnectionBytes, /*writable=*/true);
      if (!memory) return 101;
      auto& words = *reinterpret_cast<fabric::shm::ConnectionMemory*>(memory->data());
      // The server listens to a client that has reset its rings for this incarnation, so that is right at
      // first.
      publish_u64(&words.client.ring_incarnation, 1);
      (void)::send(attached->doorbell.get(), "x", 1, MSG_NOSIGNAL);
      for (int scribble = 0; scribble < 20; ++scribble) {
        const size_t begin = prng.below(fabric::shm::kConnectionBytes / 8);
        const size_t words_max = fabric::shm::kConnectionBytes / 8 - begin;
        const size_t count = 1 + prng.below(std::min<size_t>(words_max, 8'192));
        auto* at = reinterpret_cast<uint64_t*>(memory->data()) + begin;
        for (size_t i = 0; i < count; ++i) publish_u64(at + i, prng.next());
        (void)::send(attached->doorbell.get(), "x", 1, MSG_NOSIGNAL);
      }
    }
    return 0;
  });
  uint64_t rounds = 0;
  while (hostile.is_running()) {
    const std::string value = "value " + std::to_string(++rounds);
    ASSERT_TRUE(honest->put("honest", value));
    ASSERT_EQ(honest->get("honest").value_or(""), value);
  }
  EXPECT_EQ(hostile.wait(), 0);
  EXPECT_EQ(honest->counters().server_losses, 0U);
  // What it had seemed to pin is free again when it has gone, with its connections.
  EXPECT_TRUE(becomes_true([&] { return honest->stat().value().connections == 1; }));
  ASSERT_TRUE(honest->put("honest", "value"));
  EXPECT_TRUE(becomes_true([&] { return honest->stat().value().bytes_retired == 0; }));
}

// Keys of regions are handed to every client; they open what the region's rights allow.
TEST_F(SameUser, with_a_regions_own_key_reads_it_and_with_any_other_or_to_write_is_refused) {
  auto domain = needed(fabric::shm::ClientDomain::create());
  fabric::Channel* const channel = needed(domain->connect(path()));
  std::array<fabric::Completion, 8> completions;
  const auto settle = [&](const auto& done) {
    return becomes_true([&] {
      const size_t count = domain->poll(completions);
      domain->flush();
      return std::any_of(completions.begin(), completions.begin() + static_cast<ptrdiff_t>(count), done);
    });
  };
  ASSERT_TRUE(settle([](const fabric::Completion& each) { return each.op == fabric::Op::kOpened; }));
  ASSERT_FALSE(domain->regions(*channel).empty());
  const fabric::shm::OfferedRegion region = domain->regions(*channel).front();
  alignas(8) std::array<std::byte, 64> bytes{};
  const auto outcome_of = [&](fabric::Op op, RemoteKey key) {
    const fabric::Request request{.token = 1,
                                  .local = {bytes.data(), op == fabric::Op::kRead ? 64U : 8U},
                                  .remote = {.address = RemotePointer::at(region.region, 0), .key = key},
                                  .op = op};
    if (channel->post({&request, 1}) != 1) return Code::kOverloaded;
    Code code = Code::kDeadlineExceeded;
    (void)settle([&](const fabric::Completion& each) {
      if (each.token == 1) code = each.code;
      return each.token == 1;
    });
    return code;
  };
  EXPECT_EQ(outcome_of(fabric::Op::kRead, region.key), Code::kOk);
  EXPECT_EQ(outcome_of(fabric::Op::kRead, {region.key.bits ^ 1}), Code::kAccessDenied);
  EXPECT_EQ(outcome_of(fabric::Op::kWrite, region.key), Code::kAccessDenied);
  EXPECT_EQ(outcome_of(fabric::Op::kCompareSwap, region.key), Code::kAccessDenied);
  EXPECT_EQ(outcome_of(fabric::Op::kFetchAdd, region.key), Code::kAccessDenied);
}

TEST_F(SameUser, finds_nothing_of_earlier_clients_in_the_memory_of_its_connection) {
  {
    ASSERT_TRUE(node.connect().put("passing", std::string(1'000, 'p')));
  }
  Process hostile = run_as(owner(), [&] {
    const auto attached = attach(path());
    if (!attached) return 100;
    const auto memory =
        fabric::shm::map_shared(attached->memory.get(), fabric::shm::kConnectionBytes, /*writable=*/false);
    if (!memory) return 101;
    const auto& words = *reinterpret_cast<const fabric::shm::ConnectionMemory*>(memory->data());
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    return std::ranges::all_of(words.requests, is_zero) && std::ranges::all_of(words.replies, is_zero) ? 0
                                                                                                       : 1;
  });
  EXPECT_EQ(hostile.wait(), 0);
}

// Erasing gives memory back, and wipes nothing.
TEST_F(SameUser, sees_what_was_erased_until_its_memory_is_used_again) {
  const std::string value = "a value that is not to be seen by chance";
  ASSERT_TRUE(honest->put("erased", value));
  ASSERT_TRUE(honest->erase("erased"));
  EXPECT_EQ(honest->get("erased").code(), Code::kNotFound);
  Process curious = run_as(owner(), [&] {
    const auto attached = attach(path());
    return attached && can_be_seen(*attached, value) ? 0 : 1;
  });
  EXPECT_EQ(curious.wait(), 0);
}

// Every client knows the seed of the hash, since it hashes its keys itself. More keys than readers follow in
// one bucket are found all the same, by the server, and no other keys are in their way.
TEST_F(SameUser, with_keys_that_all_fall_into_one_bucket_slows_down_only_those) {
  constexpr size_t kKeys = 7'020;          // Readers follow eight lines of 7.
  constexpr uint64_t kBucketMask = 0xfff;  // More buckets than so many entries make.
  const uint64_t seed = ShardLink::over_shm(path())->hash_seed();
  std::vector<std::string> keys;
  for (uint64_t n = 0; keys.size() < kKeys; ++n) {
    const auto key = std::as_bytes(std::span(&n, 1));
    if ((hash_key(key, seed) & kBucketMask) == 0x123) keys.emplace_back(Bytes(key).text());
  }
  std::vector<PutItem> puts;
  for (const std::string& key : keys) puts.push_back({.key = key, .value = key});
  honest->multi_put(puts);
  std::vector<GetItem> gets;
  for (const std::string& key : keys) gets.push_back({.key = key});
  honest->multi_get(gets);
  size_t wrong = 0;
  for (size_t i = 0; i < kKeys; ++i)
    wrong += puts[i].result && gets[i].result && gets[i].value == keys[i] ? 0 : 1;
  EXPECT_EQ(wrong, 0U);
  ASSERT_LT(honest->stat().value().buckets, kBucketMask) << "the keys are in several buckets";
  EXPECT_EQ(honest->stat().value().entries, kKeys + 1);
  ASSERT_TRUE(honest->erase(keys.front()));
  EXPECT_EQ(honest->get(keys.front()).code(), Code::kNotFound);
}

// Each pin may hold a buffer of any length, so that a client that pins all it may fills a small node; others
// are told, lose nothing, and have the room again when it has gone.
TEST(SameUserPins, fill_a_node_whose_other_clients_are_told_and_served_again_afterwards) {
  Node node(owned({"--memory-limit", "32MiB"}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client honest = node.connect();
  const std::string value(96 * kKiB, 'h');
  ASSERT_TRUE(honest.put("honest", value));
  Process greedy = run_as(owner(), [&] {
    Client client = node.connect();
    std::vector<View> views;
    const std::string held(256 * kKiB, 'g');
    for (;;) {
      const auto put = client.put("greedy", held);
      if (put.code() == Code::kNoSpace) break;
      auto view = client.view("greedy");
      if (!put || !view) return 1;
      views.push_back(std::move(*view));
    }
    for (;;) sleep_ms(1'000);
  });
  const auto is_full = [&] { return honest.put("more", std::string(kMiB, 'm')).code() == Code::kNoSpace; };
  EXPECT_TRUE(becomes_true(is_full));
  EXPECT_TRUE(greedy.is_running());
  EXPECT_EQ(honest.get("honest").value_or(""), value);
  greedy.kill_now();
  EXPECT_TRUE(becomes_true([&] { return honest.put("more", std::string(kMiB, 'm')).has_value(); }));
  EXPECT_EQ(node.stop(), 0);
}

// Not even where the limit allows it: the memory of keeper and server cannot be looked at afterwards.
TEST(SameUserCrash, of_the_node_leaves_no_core_dump) {
  const TemporaryFolder folder;
  NodeOptions options = owned();
  options.before = [before = options.before, path = folder.path()] {
    before();
    const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
    (void)::setrlimit(RLIMIT_CORE, &unlimited);
    (void)!::chdir(path.c_str());
  };
  Node node(std::move(options));
  ASSERT_TRUE(node.is_up()) << node.errors();
  send_signal(node.keeper(), SIGQUIT);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(node.keeper()), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(ended.si_code, CLD_KILLED) << "the keeper left its memory behind";
  EXPECT_EQ(node.process().wait(), 128 + SIGQUIT);
}

}  // namespace
}  // namespace refract::test
