// SPDX-License-Identifier: Apache-2.0
// A bit that flips where values lie: what the node notices by itself, and what only clients notice that
// verify (docs/design/026-verify.md). The memory is a file here, which a process that may write to it can
// change under the node.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "tests/security/neighbour.h"

#include "refract/client/verified.h"
#include "refract/kv/layout/layout.h"

namespace refract::test {
namespace {

class FlippedBit : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(node.is_up()) << node.errors(); }
  [[nodiscard]] std::string region() const { return folder.path() + "/region-000"; }
  // Of the byte `at` behind the first place where these bytes lie.
  void flip(std::string_view bytes, size_t at, int bit) {
    const Descriptor file(::open(region().c_str(), O_RDWR | O_CLOEXEC));
    const size_t place = read_whole(region()).find(bytes);
    ASSERT_NE(place, std::string::npos);
    char byte = 0;
    ASSERT_EQ(::pread(file.get(), &byte, 1, static_cast<off_t>(place + at)), 1);
    byte = static_cast<char>(byte ^ (1 << bit));
    ASSERT_EQ(::pwrite(file.get(), &byte, 1, static_cast<off_t>(place + at)), 1);
  }

  TemporaryFolder folder;
  Node node{{.arguments = {"--memory-backing", "file:" + folder.path(), "--memory-initial", "16MiB",
                           "--memory-limit", "16MiB", "--listen-address", "127.0.0.1:0"}}};
};

TEST_F(FlippedBit, in_a_value_is_served_to_those_who_do_not_verify_and_found_by_those_who_do) {
  const std::string value = "a value that is not to be met by chance";
  Client near = node.connect();
  Client far = node.connect_tcp();
  VerifyingClient verifying(near);
  VerifyingClient verifying_far(far);
  ASSERT_TRUE(verifying.put("key", value));
  ASSERT_EQ(verifying_far.get("key").value_or(""), value);
  flip(value, 5, 3);
  const std::string served = near.get("key").value_or("");
  EXPECT_EQ(served.size(), value.size() + kChecksumBytes);
  EXPECT_NE(served.substr(0, value.size()), value) << "the node does not look at the bytes of values";
  EXPECT_EQ(verifying.get("key").code(), Code::kCorrupt);
  EXPECT_EQ(verifying_far.get("key").code(), Code::kCorrupt);
  ASSERT_TRUE(verifying.put("key", value));
  EXPECT_EQ(verifying.get("key").value_or(""), value);
}

// Header, key, checksum and value of one entry: whichever bit it is, no other bytes come back as the value,
// and the node continues.
TEST_F(FlippedBit, anywhere_in_an_entry_never_brings_other_bytes_to_those_who_verify) {
  const std::string key = "a key that is not to be met by chance";
  const std::string value = "value";
  const pid_t server = node.server();
  Client client = node.connect();
  VerifyingClient verifying(client);
  ASSERT_TRUE(verifying.put(key, value));
  const std::string entry = key + with_checksum(key, value);
  const std::string whole = read_whole(region());
  const size_t buffer = whole.find(entry) - sizeof(kv::BufferHeader);
  const std::string all = whole.substr(buffer, sizeof(kv::BufferHeader) + entry.size());
  const Descriptor file(::open(region().c_str(), O_RDWR | O_CLOEXEC));
  int found = 0;
  for (size_t at = 0; at < all.size(); ++at) {
    const char flipped = static_cast<char>(all[at] ^ (1 << at % 8));
    ASSERT_EQ(::pwrite(file.get(), &flipped, 1, static_cast<off_t>(buffer + at)), 1);
    const auto got = verifying.get(key);
    ASSERT_EQ(::pwrite(file.get(), &all[at], 1, static_cast<off_t>(buffer + at)), 1);
    if (got) {
      EXPECT_EQ(*got, value) << "byte " << at;
    } else {
      ++found;
    }
  }
  // All but the stamp, which is the version that is told: the bytes under another one are still right.
  EXPECT_EQ(found, static_cast<int>(all.size() - sizeof(uint64_t)));
  EXPECT_EQ(verifying.get(key).value_or(""), value);
  EXPECT_EQ(node.server(), server);
}

TEST_F(FlippedBit, can_be_made_in_files_by_every_process_of_the_nodes_user_and_by_no_other) {
  struct stat status{};
  ASSERT_EQ(::stat(region().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_EQ(status.st_uid, ::geteuid());
  const std::string value = "a value that is not to be met by chance";
  Client client = node.connect();
  ASSERT_TRUE(client.put("key", value));
  flip(value, 0, 0);
  EXPECT_NE(client.get("key").value_or(""), value);
}

}  // namespace
}  // namespace refract::test
