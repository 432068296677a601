// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/secret.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "refract/base/testing/needed.h"
#include "refract/base/testing/processes/files.h"

namespace refract::fabric::tcp {
namespace {

class SecretFile : public testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return folder_.path() + "/secret"; }
  void write(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path()) << text;
    ASSERT_EQ(::chmod(path().c_str(), mode), 0);
  }
  [[nodiscard]] static std::string text_of(const Secret& secret) {
    return {reinterpret_cast<const char*>(secret.bytes().data()), secret.bytes().size()};
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(SecretFile, one_newline_at_the_end_does_not_count) {
  write("0123456789abcdef\n");
  EXPECT_EQ(text_of(read_secret(path()).value()), "0123456789abcdef");
  write("0123456789abcdef\n\n");
  EXPECT_EQ(text_of(read_secret(path()).value()), "0123456789abcdef\n");
  write("0123456789abcdef");
  EXPECT_EQ(text_of(read_secret(path()).value()), "0123456789abcdef");
}

TEST_F(SecretFile, a_file_that_others_can_reach_is_refused_with_the_command_that_mends_it) {
  for (const mode_t mode : {0640U, 0604U, 0620U, 0610U, 0644U}) {
    write("0123456789abcdef", mode);
    const auto secret = read_secret(path());
    ASSERT_FALSE(secret.has_value()) << mode;
    EXPECT_EQ(secret.error().code, Code::kInvalidArgument);
    EXPECT_NE(secret.error().next.find("chmod 600 " + path()), std::string::npos) << secret.error().next;
  }
}

TEST_F(SecretFile, a_secret_has_16_to_1024_bytes) {
  const auto length_is_fine = [this](size_t bytes) {
    write(std::string(bytes, 'x') + "\n");
    return read_secret(path()).has_value();
  };
  EXPECT_FALSE(length_is_fine(0));
  EXPECT_FALSE(length_is_fine(15));
  EXPECT_TRUE(length_is_fine(16));
  EXPECT_TRUE(length_is_fine(1024));
  EXPECT_FALSE(length_is_fine(1025));
  EXPECT_FALSE(length_is_fine(100'000));
}

TEST_F(SecretFile, what_is_no_regular_file_is_refused_without_waiting_for_it) {
  const auto missing = read_secret(path());
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_NE(missing.error().what.find(path()), std::string::npos);
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_FALSE(read_secret(path()).has_value());
  EXPECT_FALSE(read_secret("/tmp").has_value());
}

TEST_F(SecretFile, no_refusal_repeats_what_the_file_holds) {
  const std::string text = "short-and-secret";
  write(text.substr(0, 15));
  const auto secret = read_secret(path());
  ASSERT_FALSE(secret.has_value());
  EXPECT_EQ(secret.error().to_string().find(text.substr(0, 15)), std::string::npos);
}

// The kernel says of each mapping whether a core dump takes it along ("dd": it does not).
TEST_F(SecretFile, core_dumps_leave_the_secret_out) {
  write("0123456789abcdef");
  const Secret secret = test::needed(read_secret(path()));
  const auto address = reinterpret_cast<uintptr_t>(secret.bytes().data());
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  bool hidden = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) inside = begin <= address && address < end;
    if (inside && line.starts_with("VmFlags:")) hidden = line.find(" dd") != std::string::npos;
  }
  EXPECT_TRUE(hidden);
}

TEST_F(SecretFile, a_moved_secret_is_in_one_place) {
  write("0123456789abcdef");
  Secret first = test::needed(read_secret(path()));
  const Secret second = std::move(first);
  EXPECT_TRUE(first.bytes().empty());  // NOLINT(bugprone-use-after-move): that is the claim.
  EXPECT_EQ(text_of(second), "0123456789abcdef");
}

}  // namespace
}  // namespace refract::fabric::tcp
