// SPDX-License-Identifier: Apache-2.0
#include "refract/base/trace_ring.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/clock.h"

namespace refract {
namespace {

// What dump_trace writes, by lines, without the ages and threads.
std::vector<std::string> dumped(size_t events_max = SIZE_MAX) {
  const int fd = memfd_create("trace", MFD_CLOEXEC);
  dump_trace(fd, events_max);
  std::string text(static_cast<size_t>(lseek(fd, 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  close(fd);
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    EXPECT_TRUE(line.starts_with("-")) << line;
    lines.push_back(line.substr(line.find(": ") + 2));
  }
  return lines;
}

TEST(TraceRing, shows_the_newest_event_last) {
  REFRACT_TRACE("nothing to count");
  REFRACT_TRACE("one {}", 1);
  REFRACT_TRACE("put slot {} stamp {} bytes {}", 7u, uint64_t{18446744073709551615u}, size_t{64});
  const std::vector<std::string> lines = dumped(3);
  EXPECT_EQ(lines, (std::vector<std::string>{"nothing to count", "one 1",
                                             "put slot 7 stamp 18446744073709551615 bytes 64"}));
}

TEST(TraceRing, the_text_is_the_dump_below_the_moment_it_was_made) {
  const uint64_t before_ns = system_clock().now_ns();
  REFRACT_TRACE("for the text {}", 42);
  std::istringstream stream(trace_text(1));
  uint64_t now_ns = 0;
  uint64_t age_ns = 0;
  char dash = ' ';
  stream >> now_ns >> dash >> age_ns;
  std::string rest;
  std::getline(stream, rest);
  EXPECT_GE(now_ns, before_ns);
  EXPECT_LE(now_ns, system_clock().now_ns());
  EXPECT_EQ(dash, '-');
  EXPECT_TRUE(rest.starts_with(" ns thread ")) << rest;
  EXPECT_TRUE(rest.ends_with(": for the text 42")) << rest;
  EXPECT_FALSE(std::getline(stream, rest));
}

TEST(TraceRing, keeps_the_last_events_of_many) {
  for (uint64_t event = 0; event < 3 * kTraceEvents; ++event) REFRACT_TRACE("event {}", event);
  const std::vector<std::string> lines = dumped(kTraceEvents);
  ASSERT_EQ(lines.size(), kTraceEvents);
  for (size_t at = 0; at < kTraceEvents; ++at) {
    ASSERT_EQ(lines[at], "event " + std::to_string(2 * kTraceEvents + at));
  }
}

TEST(TraceRing, merges_threads_by_time_and_keeps_what_ended_threads_said) {
  REFRACT_TRACE("before");
  std::thread([] { REFRACT_TRACE("in between"); }).join();
  REFRACT_TRACE("after");
  EXPECT_EQ(dumped(3), (std::vector<std::string>{"before", "in between", "after"}));
}

TEST(TraceRing, drops_events_of_threads_beyond_the_limit_and_takes_new_ones_later) {
  std::atomic<bool> may_end = false;
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kTraceThreadsMax + 4; ++thread) {
    threads.emplace_back([&may_end] {
      REFRACT_TRACE("one of many");
      while (!may_end) std::this_thread::yield();
      REFRACT_TRACE("one of many");
    });
  }
  may_end = true;
  for (std::thread& thread : threads) thread.join();
  std::thread([] { REFRACT_TRACE("after the crowd"); }).join();
  EXPECT_EQ(dumped(1).at(0), "after the crowd");
}

TEST(TraceRing, may_be_dumped_while_others_record) {
  std::atomic<bool> stop = false;
  std::thread recorder([&stop] {
    for (uint64_t event = 0; !stop; ++event) REFRACT_TRACE("busy {}", event);
  });
  for (int round = 0; round < 5; ++round) {
    for (const std::string& line : dumped()) ASSERT_FALSE(line.empty());
  }
  stop = true;
  recorder.join();
}

TEST(TraceRingDeathTest, a_failed_check_shows_the_last_events) {
  const auto run = [] {
    REFRACT_TRACE("the last thing was {}", 42);
    REFRACT_CHECK(false);
  };
  EXPECT_DEATH(run(), "check failed: false(.|\n)*the last thing was 42");
}

}  // namespace
}  // namespace refract
