// SPDX-License-Identifier: Apache-2.0
// A node at the far end of a path that loses, repeats and delays packets, or carries none at all, and clients
// on both of its addresses: one suffers, the other one does not. What all of them were told is judged by the
// checker.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/measure/delayed_path.h"
#include "tests/network/callers.h"
#include "tests/network/node_use.h"
#include "tests/network/weather.h"
#include "tests/process/node_process.h"
#include "tests/process/sealed.h"

#include "refract/base/clock.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"

namespace refract::test {
namespace {

constexpr Weather::Kind kCut{.cut_to_far = true, .cut_to_near = true};

// What this process may not do, of what the tests need; empty: all of it.
std::string missing_right() {
  if (::geteuid() != 0) return "only root makes network namespaces";
  const int device = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (device < 0) return "/dev/net/tun cannot be opened: " + errno_text(errno);
  (void)::close(device);
  bool may = false;
  std::thread([&may] { may = ::unshare(CLONE_NEWNET) == 0; }).join();
  return may ? "" : "no process may make a network namespace here (CAP_SYS_ADMIN)";
}

class BadPath : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = missing_right(); !missing.empty()) {
      std::printf("not run here: %s\n", missing.c_str());  // What ctest looks for.
      GTEST_SKIP() << missing;
    }
    const uint64_t seed = secure_random_u64();
    std::printf("weather from seed %llu\n", static_cast<unsigned long long>(seed));
    weather.emplace(seed);
    prng.emplace(seed);
    auto made = bench::DelayedPath::create({.round_trip_ns = 10 * kMillisecond_ns,
                                            .bytes_per_s = 50'000'000,
                                            .large_packets = false,
                                            .fates = &*weather});
    ASSERT_TRUE(made) << made.error().to_string();
    path = std::move(*made);
    weather->choose(path->far_address());
    secret_file = secret_folder.path() + "/secret";
    ASSERT_TRUE(write_whole(secret_file, "correct horse battery staple\n"));
    ASSERT_EQ(::chmod(secret_file.c_str(), 0600), 0);
    node.emplace(
        NodeOptions{.arguments = {"--listen-address", "0.0.0.0:0", "--auth-secret-file", secret_file},
                    .launcher = path->launcher()});
    ASSERT_TRUE(node->is_up()) << node->errors();
    const std::string listens = node->tcp_address();
    const std::string port = listens.substr(listens.find(':'));
    bad_address = "tcp:" + path->far_address() + port;
    good_address = "tcp:" + path->other_far_address() + port;
  }

  [[nodiscard]] ClientOptions client_options(uint64_t timeout_ns = kPatience_ns) const {
    return {.timeout_ns = timeout_ns, .secret_file = secret_file};
  }
  [[nodiscard]] Client connect(const std::string& address, uint64_t timeout_ns = kPatience_ns) const {
    auto client = Client::connect(address, client_options(timeout_ns));
    EXPECT_TRUE(client) << client.error().to_string();
    return std::move(*client);
  }

  const TemporaryFolder secret_folder;
  std::string secret_file;
  std::optional<Weather> weather;
  std::optional<Prng> prng;
  std::optional<bench::DelayedPath> path;
  std::optional<Node> node;  // Goes before its path.
  std::string bad_address;
  std::string good_address;
};

// Patient callers and impatient ones on the bad address, and witnesses on the good one, all on the same keys.
class BadPathCallers : public BadPath {
 protected:
  void SetUp() override {
    BadPath::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    for (int i = 0; i < 3; ++i) {
      add(sufferers, "patient " + std::to_string(i), bad_address, kPatience_ns);
      add(sufferers, "impatient " + std::to_string(i), bad_address, 250 * kMillisecond_ns);
    }
    for (int i = 0; i < 2; ++i) add(witnesses, "witness " + std::to_string(i), good_address, kPatience_ns);
  }

  void add(std::vector<std::unique_ptr<Caller>>& to, const std::string& name, const std::string& address,
           uint64_t timeout_ns) {
    to.push_back(std::make_unique<Caller>(scene, CallerOptions{.name = name,
                                                               .address = address,
                                                               .client = client_options(timeout_ns),
                                                               .seed = prng->next(),
                                                               .is_patient = timeout_ns == kPatience_ns}));
  }

  // So long at least, and until each witness got as many answers as it would on a path that is well.
  void have_weather(const Weather::Kind& kind, uint64_t at_least_ms) {
    weather->set(kind);
    sleep_ms(at_least_ms);
    EXPECT_TRUE(make_progress(scene, witnesses, 20))
        << "clients on another path are held up; " << scene.complaint();
  }

  Scene scene;
  std::vector<std::unique_ptr<Caller>> sufferers;
  std::vector<std::unique_ptr<Caller>> witnesses;
};

TEST_F(BadPathCallers, all_that_clients_are_told_over_loss_reorder_duplicates_and_cuts_has_an_order) {
  const Weather::Kind rain{
      .loss = 0.01, .duplicates = 0.01, .reorder = 0.03, .reorder_ns = 8 * kMillisecond_ns};
  have_weather({}, 300);
  have_weather(rain, 2'000);
  EXPECT_TRUE(make_progress(scene, sufferers, 20)) << scene.complaint();
  EXPECT_TRUE(becomes_true([&] {
    const Weather::Counts counts = weather->counts();
    return counts.lost > 0 && counts.duplicated > 0 && counts.reordered > 0;
  }));

  // Requests arrive and their answers do not; no request arrives; nothing passes.
  Weather::Kind no_answers = rain;
  no_answers.cut_to_near = true;
  Weather::Kind no_requests = rain;
  no_requests.cut_to_far = true;
  for (const Weather::Kind& cut : {no_answers, no_requests, kCut, no_answers}) {
    have_weather(cut, 500);
    weather->set(rain);
    EXPECT_TRUE(make_progress(scene, sufferers, 3))
        << "no client continues after the cut; " << scene.complaint();
  }
  // The impatient give up, and say what they know: a read was not answered, a write perhaps happened. Which
  // of the two a cut meets is chance; afterwards they are without a connection.
  const auto both_were_said = [&] {
    return scene.count_of(Code::kDeadlineExceeded) > 0 && scene.count_of(Code::kIndeterminate) > 0;
  };
  for (int more = 0; more < 40 && !both_were_said(); ++more) {
    have_weather(kCut, 500);
    weather->set(rain);
    EXPECT_TRUE(make_progress(scene, sufferers, 3))
        << "no client continues after the cut; " << scene.complaint();
  }
  EXPECT_TRUE(both_were_said()) << scene.codes();
  have_weather(kCut, 1'500);
  weather->set({});
  EXPECT_TRUE(make_progress(scene, sufferers, 20))
      << "no client continues after the cut; " << scene.complaint();

  for (const auto& caller : sufferers) caller->stop();
  for (const auto& caller : witnesses) {
    caller->stop();
    EXPECT_EQ(caller->unanswered(), 0U);
    EXPECT_EQ(caller->counters().server_losses, 0U);
    EXPECT_EQ(caller->counters().connections, 1U);
  }
  witnesses.front()->read_all();
  const Weather::Counts counts = weather->counts();
  std::printf("%zu operations: %s\n%llu packets: %llu lost, %llu duplicated, %llu reordered, %llu cut\n",
              scene.operations(), scene.codes().c_str(), static_cast<unsigned long long>(counts.packets),
              static_cast<unsigned long long>(counts.lost),
              static_cast<unsigned long long>(counts.duplicated),
              static_cast<unsigned long long>(counts.reordered), static_cast<unsigned long long>(counts.cut));
  EXPECT_EQ(scene.complaint(), "");
  EXPECT_EQ(scene.contradiction(/*has_one_shard=*/true), "");
  EXPECT_GT(counts.cut, 0U);
}

// A write is executed and its answer lost for so long that the client gives up. A client that repeats it with
// its identity is told its outcome; one that does not would be told that its own write is in its way.
TEST_F(BadPath, a_conditional_write_whose_answer_was_cut_off_is_answered_truthfully_afterwards) {
  Client sufferer = connect(bad_address, 300 * kMillisecond_ns);
  Client witness = connect(good_address);
  for (uint64_t round = 1; round <= 2; ++round) {
    const std::string key = "conditional-" + std::to_string(round);
    const auto before = witness.put(key, "before");
    ASSERT_TRUE(before);
    ASSERT_TRUE(becomes_true([&] { return sufferer.exists(key).code() == Code::kOk; }));
    const PutOptions condition{.if_version = *before, .request = needed(sufferer.new_request())};
    weather->set({.cut_to_near = true});
    ASSERT_EQ(sufferer.put(key, "mine", condition).code(), Code::kIndeterminate);
    // It was executed, which only others can see.
    ASSERT_TRUE(becomes_true([&] { return witness.get(key).value_or("") == "mine"; }));
    if (round == 2) {
      ASSERT_TRUE(witness.put(key, "another's"));
    }
    EXPECT_FALSE(sufferer.put(key, "mine", condition)) << "an answer came through the cut";
    weather->set({});
    Result<uint64_t> again = fail(Code::kIndeterminate);
    ASSERT_TRUE(becomes_true([&] {
      again = sufferer.put(key, "mine", condition);
      return again.code() != Code::kIndeterminate && again.code() != Code::kDeadlineExceeded;
    }));
    ASSERT_TRUE(again) << info(again.code()).text;
    EXPECT_GT(*again, *before);
    const auto now = witness.get(key);
    EXPECT_EQ(now.value_or(""), round == 2 ? "another's" : "mine") << "the repetition was executed again";
    EXPECT_EQ(sufferer.put(key, "stranger's", {.if_version = *before}).code(), Code::kVersionMismatch);
  }
}

// Peers that vanish without a word, with and without bytes under way: both ends notice within some 15
// seconds, nothing of them stays, and clients that are still there when the path comes back continue.
TEST_F(BadPath, a_cut_that_lasts_ends_dead_connections_on_both_sides_and_calls_at_their_deadlines) {
  constexpr int kVanishing = 40;
  Client witness = connect(good_address);
  const std::string large = sealed_value("large", 1, 24 * kMiB);
  ASSERT_TRUE(witness.put("large", large));
  const pid_t server = node->server();
  const auto before = witness.stat();
  ASSERT_TRUE(before);
  const size_t descriptors_before = descriptors_of(server);

  Client survivor = connect(bad_address, 400 * kMillisecond_ns);
  ASSERT_TRUE(becomes_true([&] { return survivor.put("mine", "1").code() == Code::kOk; }));
  const std::string ready = secret_folder.path() + "/ready";
  Process vanishing = Process::run([&] {
    std::vector<Client> idle;
    for (int i = 0; i < kVanishing; ++i) {
      auto client = Client::connect(bad_address, client_options());
      if (!client || client->exists("large").code() != Code::kOk) return 1;
      idle.push_back(std::move(*client));
    }
    if (!write_whole(ready, "yes")) return 1;
    // Its bytes are on their way when the path is cut.
    while (idle.front().get("large").code() == Code::kOk) {
    }
    return 0;
  });
  ASSERT_TRUE(becomes_true([&] { return std::filesystem::exists(ready) || !vanishing.is_running(); }));
  ASSERT_TRUE(vanishing.is_running());
  sleep_ms(200);
  EXPECT_GE(witness.stat().value().connections, before->connections + kVanishing + 1);
  weather->set(kCut);
  vanishing.kill_now();

  const uint64_t cut_ns = system_clock().now_ns();
  uint64_t calls = 0;
  bool heard = false;
  ASSERT_TRUE(becomes_true([&] {
    const uint64_t begun_ns = system_clock().now_ns();
    const auto got = survivor.get("mine");
    heard |= got.code() != Code::kDeadlineExceeded && got.code() != Code::kUnavailable;
    EXPECT_LT(system_clock().now_ns() - begun_ns, 400 * kMillisecond_ns + kDeadlineSlack_ns);
    EXPECT_EQ(witness.get("mine").value_or(""), "1");
    ++calls;
    return descriptors_of(server) == descriptors_before && survivor.counters().server_losses > 0;
  })) << descriptors_of(server)
      << " descriptors, before it were " << descriptors_before;
  EXPECT_FALSE(heard) << "an answer came through the cut";
  EXPECT_EQ(witness.stat().value().connections, before->connections);
  std::printf("dead connections were gone after %.1f s, within which %llu calls ended at their deadlines\n",
              static_cast<double>(system_clock().now_ns() - cut_ns) / 1e9,
              static_cast<unsigned long long>(calls));
  EXPECT_FALSE(survivor.trouble().what.empty());

  weather->set({});
  EXPECT_TRUE(becomes_true([&] { return survivor.get("mine").value_or("") == "1"; }));
  EXPECT_TRUE(becomes_true([&] { return survivor.put("mine", "2").code() == Code::kOk; }));
  EXPECT_EQ(witness.get("mine").value_or(""), "2");
  EXPECT_EQ(witness.counters().server_losses, 0U);
  EXPECT_EQ(node->server(), server);
}

TEST_F(BadPath, who_does_not_know_the_secret_is_told_so_and_others_are_served) {
  Client witness = connect(good_address);
  ASSERT_TRUE(witness.put("key", "value"));
  const std::string wrong = secret_folder.path() + "/wrong";
  ASSERT_TRUE(write_whole(wrong, "incorrect horse battery staple\n"));
  ASSERT_EQ(::chmod(wrong.c_str(), 0600), 0);
  weather->set({.loss = 0.02});
  for (const std::string& file : {wrong, std::string()}) {
    const auto refused = Client::connect(bad_address, {.timeout_ns = kPatience_ns, .secret_file = file});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kAccessDenied) << refused.error().to_string();
    EXPECT_NE(refused.error().to_string().find("secret"), std::string::npos) << refused.error().to_string();
  }
  EXPECT_EQ(witness.get("key").value_or(""), "value");
  EXPECT_EQ(connect(bad_address).get("key").value_or(""), "value");
}

}  // namespace
}  // namespace refract::test
