// SPDX-License-Identifier: Apache-2.0
// `refract bank` on a node of three shards that lives a hard life: banks are killed and stopped, so is the
// server, so are all processes at once, again and again. No money is made or lost: sums are counted all the
// while, also while the server stands still or is gone, and behind each start.
//
//   lasting_bank_test                                  15 s, divided between the durabilities
//   REFRACT_BANK_SOAK_SECONDS=3600 lasting_bank_test   an hour
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/node_process.h"

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/client/transactions/batch.h"
#include "refract/client/transactions/transaction.h"

namespace refract::test {
namespace {

constexpr std::array kDurabilities{"none", "everysec", "always"};
constexpr size_t kBanks = 2;
constexpr size_t kAccounts = 8;
constexpr int64_t kMoney = 1'000 * kAccounts;
// One that is overtaken again and again gives up, and counts another bank.
constexpr TransactionOptions kSoon{.timeout_ns = 30 * kMillisecond_ns};
constexpr TransactionOptions kPatiently{.timeout_ns = kPatience_ns};

uint64_t soak_ns() {
  const char* const wanted = std::getenv("REFRACT_BANK_SOAK_SECONDS");
  const uint64_t all = wanted == nullptr ? 15 : std::strtoull(wanted, nullptr, 10);
  return all * kSecond_ns / kDurabilities.size();
}

// All accounts of a bank: "bank:PID-...:".
using Name = std::string;

Name name_of(std::string_view key) {
  return Name(key.substr(0, key.rfind(':') + 1));
}
std::string account(const Name& bank, size_t number) {
  return bank + std::to_string(number);
}

// What a reader finds that adds a bank up; -1: accounts are missing. Nothing: it could not read.
std::optional<int64_t> sum_of(Client& client, const Name& bank, const TransactionOptions& options) {
  std::vector<std::string> accounts;
  for (size_t i = 0; i < kAccounts; ++i) accounts.push_back(account(bank, i));
  std::vector<GetItem> items;
  for (const std::string& one : accounts) items.push_back({.key = one});
  int64_t sum = 0;
  const Result<> read = client.read_only(
      [&](Transaction& t) -> Result<> {
        sum = 0;
        for (GetItem& item : items) item.result = fail(Code::kUnavailable);
        t.multi_get(items);
        for (const GetItem& item : items) {
          if (!item.result) return fail(item.result.error());
          sum += std::stoll(item.value);
        }
        return {};
      },
      options);
  if (read.code() == Code::kNotFound) return -1;
  return read ? std::optional(sum) : std::nullopt;
}

// All banks whose accounts are there, with how many of them.
std::map<Name, size_t> banks_in(Client& client) {
  std::map<Name, std::set<std::string>> accounts;
  uint64_t cursor = 0;
  do {
    const Result<ScanPage> page = client.scan(cursor);
    if (!page) {
      ADD_FAILURE() << "no scan: " << info(page.code()).text;
      break;
    }
    for (const ScanEntry& entry : page->entries) accounts[name_of(entry.key)].insert(entry.key);
    cursor = page->next;
  } while (cursor != 0);
  std::map<Name, size_t> banks;
  for (const auto& [bank, its] : accounts) banks[bank] = its.size();
  return banks;
}

// Counts the banks that it knows, one after the other, until it is told to end.
class Auditor {
 public:
  explicit Auditor(Client client)
      : client_(std::move(client)), thread_([this] {
          while (!is_over_) count();
        }) {}
  Auditor(const Auditor&) = delete;
  Auditor& operator=(const Auditor&) = delete;
  ~Auditor() {
    is_over_ = true;
    thread_.join();
  }
  void learn(const std::vector<Name>& banks) {
    const std::lock_guard lock(mutex_);
    banks_ = banks;
  }
  std::atomic<uint64_t> counts = 0;
  std::atomic<uint64_t> wrong = 0;

 private:
  void count() {
    std::vector<Name> banks;
    {
      const std::lock_guard lock(mutex_);
      banks = banks_;
    }
    sleep_ms(2);  // The two cores are others', too.
    for (const Name& bank : banks) {
      const std::optional<int64_t> sum = sum_of(client_, bank, kSoon);
      if (is_over_) return;
      if (!sum) continue;
      ++counts;
      if (*sum == kMoney) continue;
      if (wrong++ < 3) std::fprintf(stderr, "%s has %ld\n", bank.c_str(), *sum);
    }
  }

  std::mutex mutex_;
  std::vector<Name> banks_;
  std::atomic<bool> is_over_ = false;
  Client client_;
  std::thread thread_;
};

class LastingBank : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] bool keeps_data() const { return GetParam() != std::string_view("none"); }
  [[nodiscard]] NodeOptions options() const {
    NodeOptions options{.arguments = {"--server-shards", "3", "--listen-address", "127.0.0.1:0",
                                      "--memory-limit", "192MiB", "--memory-initial", "24MiB",
                                      "--restart-backoff", "0ns", "--data-durability", GetParam()}};
    if (!keeps_data()) return options;
    options.arguments.insert(options.arguments.end(), {"--data-folder", folder_.path() + "/data"});
    // Each other life has snapshots, for deaths in the middle of one.
    if (lives_ % 2 == 1) {
      options.arguments.insert(options.arguments.end(), {"--data-snapshot-every", "50ms"});
    }
    return options;
  }

  // One life of a node, which ends with the death of all processes.
  void live() {
    Node node(options());
    ASSERT_TRUE(node.is_up()) << node.errors();
    ++lives_;
    {
      Client client = node.connect();
      ASSERT_NO_FATAL_FAILURE(expect_whole(client));
      clear(client);
    }
    // That ends by itself, and says then what it has counted.
    Process brief = bank(node, 0, "400ms");
    pids_.clear();
    for (size_t i = 0; i < kBanks; ++i) {
      banks_.push_back(bank(node, i, "3h"));
      pids_.push_back(banks_.back().pid());
    }
    {
      Auditor here(node.connect());
      std::optional<Auditor> there(node.connect_tcp());
      Client client = node.connect();
      for (int harm = 0; harm < 8; ++harm) {
        sleep_ms(prng_.below(60));
        const std::vector<Name> names = all_open(client);
        here.learn(names);
        there->learn(names);
        ASSERT_NO_FATAL_FAILURE(do_harm(node));
      }
      EXPECT_EQ(brief.wait(), 0) << "its sums were wrong, or it had to close: "
                                 << read_whole(folder_.path() + "/banks");
      EXPECT_TRUE(becomes_true([&] { return here.counts != 0 && there->counts != 0; }));
      EXPECT_TRUE(becomes_true([&] {
        last_ = names_of_banks(client);
        const auto is_busy = [&](const Name& name) { return LastingBank::is_busy(client, name); };
        return static_cast<size_t>(std::ranges::count_if(last_, is_busy)) >= kBanks;
      }));
      counts_there_ += there->counts;
      EXPECT_EQ(there->wrong, 0U);
      // Over TCP it would wait for another node to come.
      there.reset();
      kill_everything(node);
      if (!keeps_data()) last_.clear();
      counts_here_ += here.counts;
      EXPECT_EQ(here.wrong, 0U);
    }
    banks_.clear();
  }

  [[nodiscard]] Process bank(Node& node, size_t number, const std::string& how_long) const {
    const bool is_there = number % 2 == 1;
    return Process::execute(
        {.arguments = {REFRACT_PATH, is_there ? "--address" : "--socket",
                       is_there ? "tcp:" + node.tcp_address() : node.socket_path(), "bank", "--accounts",
                       std::to_string(kAccounts), "--threads", "3", "--for", how_long, "--timeout", "120s"},
         .output_path = folder_.path() + "/banks"});
  }
  // Of those that run, or ran, for long; all their accounts appear at one moment.
  [[nodiscard]] std::vector<Name> names_of_banks(Client& client) {
    std::vector<Name> names;
    for (const auto& [name, accounts] : banks_in(client)) {
      const auto is_its = [&](pid_t one) { return name.starts_with("bank:" + std::to_string(one) + "-"); };
      if (std::ranges::any_of(pids_, is_its)) names.push_back(name);
    }
    return names;
  }

  // When each has its accounts: one whose server dies just then may have to close.
  [[nodiscard]] std::vector<Name> all_open(Client& client) {
    std::vector<Name> names;
    EXPECT_TRUE(becomes_true([&] {
      names = names_of_banks(client);
      return names.size() >= pids_.size() || !std::ranges::all_of(banks_, &Process::is_running);
    })) << read_whole(folder_.path() + "/banks");
    return names;
  }

  void do_harm(Node& node) {
    for (Process& one : banks_) {
      ASSERT_TRUE(one.is_running()) << "a bank has closed: " << read_whole(folder_.path() + "/banks");
    }
    const size_t which = prng_.below(kBanks);
    const pid_t server = node.server();
    switch (harms_++ % 5) {
      case 0:
        banks_[which].kill_now();
        banks_[which] = bank(node, which, "3h");
        pids_.push_back(banks_[which].pid());
        break;
      case 1:
        stop_for_a_while({banks_[which].pid()});
        break;
      case 2:
        send_signal(server, SIGKILL);
        ASSERT_GT(node.next_server(server), 0);
        break;
      case 3:
        stop_for_a_while({server});
        break;
      default:
        std::vector<pid_t> all{server, node.keeper()};
        for (const Process& one : banks_) all.push_back(one.pid());
        stop_for_a_while(all);
        break;
    }
  }
  void stop_for_a_while(const std::vector<pid_t>& processes) {
    for (const pid_t one : processes) send_signal(one, SIGSTOP);
    sleep_ms(1 + prng_.below(40));
    for (const pid_t one : processes) send_signal(one, SIGCONT);
  }
  void kill_everything(Node& node) {
    const bool are_banks_first = prng_.chance(0.5);
    const auto kill_banks = [this] {
      for (const Process& one : banks_) one.signal(SIGKILL);
    };
    if (are_banks_first) kill_banks();
    node.kill_everything();
    kill_banks();
  }

  // Behind a start: each bank that there ever was is there with all its money.
  void expect_whole(Client& client) {
    const std::map<Name, size_t> banks = banks_in(client);
    for (const Name& name : last_) EXPECT_TRUE(banks.contains(name)) << name << " in life " << lives_;
    for (const auto& [name, accounts] : banks) {
      ASSERT_TRUE(keeps_data());
      EXPECT_EQ(accounts, kAccounts) << name << " in life " << lives_;
      EXPECT_EQ(sum_of(client, name, kPatiently), kMoney) << name << " in life " << lives_;
      ++kept_;
    }
  }
  // Whether money has been moved in it.
  static bool is_busy(Client& client, const Name& bank) {
    for (size_t i = 0; i < kAccounts; ++i) {
      if (client.get(account(bank, i)).value_or("1000") != "1000") return true;
    }
    return false;
  }
  static void clear(Client& client) {
    for (const auto& [name, accounts] : banks_in(client)) {
      Batch all;
      for (size_t i = 0; i < kAccounts; ++i) all.erase(account(name, i));
      EXPECT_TRUE(client.commit(all));
    }
  }

  const TemporaryFolder folder_;
  Prng prng_{static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()) + 23};
  std::vector<Process> banks_;
  std::vector<pid_t> pids_;  // Of these, and of those that were killed in this life.
  uint64_t harms_ = 0;
  uint64_t lives_ = 0;
  uint64_t counts_here_ = 0;
  uint64_t counts_there_ = 0;
  uint64_t kept_ = 0;       // Banks that were found behind a start.
  std::vector<Name> last_;  // Those that were there when everything was killed.
};
INSTANTIATE_TEST_SUITE_P(All, LastingBank, testing::ValuesIn(kDurabilities),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(LastingBank, has_all_its_money_whatever_is_killed_or_stopped) {
  const uint64_t until_ns = system_clock().now_ns() + soak_ns();
  do {
    ASSERT_NO_FATAL_FAILURE(live());
  } while (system_clock().now_ns() < until_ns && !HasFailure());
  {
    Node node(options());
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client client = node.connect();
    ASSERT_NO_FATAL_FAILURE(expect_whole(client));
  }
  std::printf("%lu lives, %lu harms; %lu counts by shared memory, %lu by TCP; %lu banks kept\n", lives_,
              harms_, counts_here_, counts_there_, kept_);
}

}  // namespace
}  // namespace refract::test
