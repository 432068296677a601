// SPDX-License-Identifier: Apache-2.0
// Two ends of a provider in one process carry something, and a path that does not is given up.
#include "refract/node/doctor/path_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "refract/memory/testing/fake_system.h"

namespace refract::node {
namespace {

using testing::HasSubstr;

void expect_figures(Reported<std::unique_ptr<LoopBack>> ends) {
  ASSERT_TRUE(ends) << ends.error().to_string();
  uint32_t count = 0;
  const auto figures = measure(**ends, {.each_ns = kMillisecond_ns, .on_figure = [&count] { ++count; }});
  ASSERT_TRUE(figures) << figures.error().to_string();
  EXPECT_EQ(count, kFiguresOfPath);
  for (const PathFigures::Latency& latency : {figures->read, figures->message}) {
    EXPECT_GT(latency.ns_p50, 0U);
    EXPECT_GE(latency.ns_p99, latency.ns_p50);
  }
  for (const PathFigures::Bandwidth& large : figures->large) {
    EXPECT_GT(large.request_bytes, 0U);
    EXPECT_GT(large.read_bytes_per_s, 0U);
    EXPECT_GT(large.write_bytes_per_s, 0U);
  }
  EXPECT_THAT(text(*figures), HasSubstr("READ of 8 B"));
}

TEST(PathMeter, shared_memory_is_measured_and_leaves_no_folder) {
  const test::Folder folder;
  const char* const before = std::getenv("TMPDIR");
  const std::string restored = before == nullptr ? "" : before;
  ::setenv("TMPDIR", folder.path().c_str(), 1);
  expect_figures(LoopBack::over_shm());
  before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", restored.c_str(), 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(PathMeter, sockets_are_measured) {
  expect_figures(LoopBack::over_tcp());
}

TEST(PathMeter, a_device_that_is_not_there_is_said) {
  const auto ends = LoopBack::over_verbs({.device = "mlx5_77"}, {.device = "mlx5_77"});
  ASSERT_FALSE(ends);
  EXPECT_FALSE(ends.error().what.empty());
}

// Lets no client in.
class Deaf final : public LoopBack {
 public:
  explicit Deaf(LoopBack& ends) noexcept : ends_(ends) {}
  [[nodiscard]] fabric::Domain& near_end() noexcept override { return ends_.near_end(); }
  [[nodiscard]] fabric::Domain& far_end() noexcept override { return ends_.far_end(); }
  [[nodiscard]] const std::string& address() const noexcept override { return ends_.address(); }
  [[nodiscard]] RemoteKey key() const noexcept override { return ends_.key(); }
  [[nodiscard]] std::byte* local() noexcept override { return ends_.local(); }
  void let_in() noexcept override {}
  [[nodiscard]] const Report& last_refusal() const noexcept override { return ends_.last_refusal(); }

 private:
  LoopBack& ends_;
};

TEST(PathMeter, a_path_that_gives_no_sign_of_life_is_given_up) {
  const auto ends = LoopBack::over_tcp();
  ASSERT_TRUE(ends) << ends.error().to_string();
  Deaf deaf(**ends);
  const auto figures = measure(deaf, {.patience_ns = 50 * kMillisecond_ns});
  ASSERT_FALSE(figures);
  EXPECT_EQ(figures.error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(figures.error().what, HasSubstr("opening the channel failed"));
  EXPECT_FALSE(figures.error().next.empty());
}

TEST(PathMeter, figures_are_written_for_people) {
  EXPECT_EQ(latency_text(850), "850 ns");
  EXPECT_EQ(latency_text(12'440), "12.4 us");
  EXPECT_EQ(latency_text(3'100'000), "3.1 ms");
  EXPECT_EQ(rate_text(850'000'000), "850.0 MB/s");
  EXPECT_EQ(rate_text(12'340'000'000), "12.3 GB/s");
}

}  // namespace
}  // namespace refract::node
