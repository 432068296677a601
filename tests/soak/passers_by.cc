// SPDX-License-Identifier: Apache-2.0
#include "tests/soak/passers_by.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <set>

#include "tests/process/node_process.h"
#include "tests/process/sealed.h"

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/client/client.h"

namespace refract::test {
namespace {

constexpr uint64_t kLargeBytes = 300'000;
constexpr uint64_t kKeys = 200;
// Between two visits: what they leave until it expires stays few entries, however fast the machine is.
constexpr uint64_t kPause_ms = 200;

class Visitor {
 public:
  Visitor(Client& client, Prng& prng, Passing& passing) : client_(client), prng_(prng), passing_(passing) {}

  // Nothing, or what was wrong.
  std::string visit() {
    for (int i = 0; i < 30 && trouble_.empty(); ++i) write_and_look();
    if (trouble_.empty() && prng_.chance(0.1)) outlive();
    if (trouble_.empty() && prng_.chance(0.2)) scan_a_page();
    return trouble_;
  }

 private:
  template <typename Call>
  auto timed(Histogram* histogram, Call&& call) {
    const uint64_t begun_ns = system_clock().now_ns();
    auto result = call();
    const uint64_t took_ns = system_clock().now_ns() - begun_ns;
    histogram[passing_.third.load()].record(took_ns);
    passing_.longest_ns = std::max(passing_.longest_ns, took_ns);
    return result;
  }
  // Whether a call may have ended so, while a server dies; counted.
  bool is_unanswered(Code code) {
    const bool is = code == Code::kIndeterminate || code == Code::kUnavailable ||
                    code == Code::kDeadlineExceeded || code == Code::kOverloaded;
    if (is) passing_.unanswered.fetch_add(1);
    return is;
  }

  void write_and_look() {
    // Keys of this visit alone: what is there is what it wrote.
    const std::string key = fmt::format("visit {:x} {}", visit_, prng_.below(kKeys));
    const uint64_t bytes = prng_.chance(0.02) ? kLargeBytes : kSealedBytesMin + prng_.below(500);
    const uint64_t ttl_ns = (2'000 + prng_.below(3'000)) * kMillisecond_ns;
    const auto put = timed(passing_.put_ns, [&] {
      return client_.put(key, sealed_value(key, ++number_, bytes), {.ttl_ns = ttl_ns});
    });
    if (!put && !is_unanswered(put.code())) return complain("put", key, put.code());
    written_.insert(key);
    const auto got = timed(passing_.get_ns, [&] { return client_.get(key); });
    if (!got && is_unanswered(got.code())) return;
    if (!got && got.code() != Code::kNotFound) return complain("get", key, got.code());
    // What came late may have expired already.
    if (!got) return;
    const auto number = number_in(key, *got);
    if (!number) return complain("get", key, Code::kCorrupt);
    if (put && *number != number_)
      trouble_ = fmt::format("'{}' has number {}, not {}", key, *number, number_);
  }

  // After their time the entries are gone.
  void outlive() {
    sleep_ms(5'100);
    for (const std::string& key : written_) {
      const auto found = client_.exists(key);
      if (found) trouble_ = fmt::format("'{}' outlived its time", key);
      if (!found && found.code() != Code::kNotFound && !is_unanswered(found.code())) {
        return complain("exists", key, found.code());
      }
      if (!trouble_.empty()) return;
    }
  }

  void scan_a_page() {
    const auto page = client_.scan(0, 50);
    if (!page && !is_unanswered(page.code())) complain("scan", "", page.code());
  }

  void complain(const char* call, const std::string& key, Code code) {
    trouble_ = fmt::format("{} of '{}' was answered with {}", call, key, info(code).text);
  }

  Client& client_;
  Prng& prng_;
  Passing& passing_;
  uint64_t visit_ = prng_.next();
  uint64_t number_ = 0;
  std::set<std::string> written_;
  std::string trouble_;
};

}  // namespace

SharedPassing::SharedPassing() {
  void* memory = ::mmap(nullptr, sizeof(Passing), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  passing_ = new (memory) Passing{};
}

SharedPassing::~SharedPassing() {
  (void)::munmap(passing_, sizeof(Passing));
}

int pass_by(const std::string& one_address, const std::string& other_address, uint64_t seed,
            Passing& passing) {
  Prng prng(seed);
  while (!passing.stop.load()) {
    const uint64_t visit = passing.visits.fetch_add(1);
    auto client =
        Client::connect(visit % 2 == 0 ? one_address : other_address, {.timeout_ns = kCallTimeout_ns});
    if (!client) {
      // While a node is started again, which may take longer than a client waits.
      passing.unanswered.fetch_add(1);
      sleep_ms(100);
      continue;
    }
    const std::string trouble = Visitor(*client, prng, passing).visit();
    if (!trouble.empty()) {
      (void)std::fprintf(stderr, "passer-by: %s\n", trouble.c_str());
      return 1;
    }
    sleep_ms(kPause_ms);
  }
  return 0;
}

}  // namespace refract::test
