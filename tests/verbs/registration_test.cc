// SPDX-License-Identifier: Apache-2.0
// Registrations that fail, and what stays of them: nothing, and a sentence.
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/verbs/failure_fixture.h"

#include "refract/base/units.h"
#include "refract/fabric/verbs/trouble.h"
#include "refract/memory/host/limits.h"

namespace refract::fabric::verbs {
namespace {

constexpr uint16_t kRegion = 20;
constexpr uint64_t kBytes = 4 * kMiB;

// For as long as it lives, this process may lock so much memory and no more.
class LowLimit {
 public:
  explicit LowLimit(uint64_t bytes) : bytes_(bytes) {
    EXPECT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before_), 0);
    const rlimit low{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &low), 0);
    EXPECT_FALSE(lock_limit().is_unbound);
  }
  LowLimit(const LowLimit&) = delete;
  LowLimit& operator=(const LowLimit&) = delete;
  ~LowLimit() { EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before_), 0); }
  // Limit, need and remedy are in it.
  void expect_told(const Report& why) const {
    EXPECT_EQ(why.code, Code::kNoSpace) << why.to_string();
    for (const std::string& words : {std::string("RLIMIT_MEMLOCK"), bytes_text(bytes_),
                                     std::string("more are needed"), std::string("LimitMEMLOCK=infinity")}) {
      EXPECT_TRUE(says(why, words)) << words << " in " << why.to_string();
    }
  }

 private:
  uint64_t bytes_;
  rlimit before_{};
};

class VerbsRegistrationFailure : public VerbsFailure {
 public:
  // Root may lock whatever it likes, so the process gives that right up, before it opens a device: the kernel
  // refuses a process that has changed since. Nothing else in this program needs the right.
  static void SetUpTestSuite() {
    constexpr uint32_t kIpcLock = uint32_t{1} << CAP_IPC_LOCK;
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, 2> rights{};
    ASSERT_EQ(::syscall(SYS_capget, &header, rights.data()), 0);
    rights[0].effective &= ~kIpcLock;
    rights[0].permitted &= ~kIpcLock;
    ASSERT_EQ(::syscall(SYS_capset, &header, rights.data()), 0);
  }

 protected:
  [[nodiscard]] Domain::RegionSpec region() const {
    return {.region = kRegion,
            .base = memory_.get(),
            .bytes = kBytes,
            .rights = {.read = true, .write = false, .atomic = false}};
  }
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> memory_{static_cast<std::byte*>(std::aligned_alloc(4096, kBytes))};
};

TEST_F(VerbsRegistrationFailure, a_region_beyond_the_limit_on_locked_memory_is_refused_with_the_numbers) {
  const uint64_t locked = lock_limit().used_bytes;
  EXPECT_GT(locked, 0u) << "what the channels have registered";
  {
    const LowLimit low(locked + kMiB);
    const auto refused = serving_.domain().register_region(region());
    ASSERT_FALSE(refused.has_value());
    low.expect_told(refused.error());
    EXPECT_TRUE(says(refused.error(), "4 MiB")) << refused.error().to_string();
    bystander_goes_on();
  }
  EXPECT_EQ(lock_limit().used_bytes, locked);
  EXPECT_TRUE(serving_.domain().register_region(region()).has_value()) << "something of it stayed";
}

// Some of its pieces are registered when the limit is met.
TEST_F(VerbsRegistrationFailure, a_region_of_which_some_pieces_fail_is_undone_as_a_whole) {
  Serving pieces(wish_on("veth1"), {.device = {}, .channels_max = 1, .chunk_bytes_max = 64 * kKiB});
  const uint64_t locked = lock_limit().used_bytes;
  {
    const LowLimit low(locked + kBytes / 2);
    const auto refused = pieces.domain().register_region(region());
    ASSERT_FALSE(refused.has_value());
    low.expect_told(refused.error());
  }
  EXPECT_EQ(lock_limit().used_bytes, locked) << "pieces are left over";
  EXPECT_TRUE(pieces.domain().register_region(region()).has_value());
  EXPECT_GE(lock_limit().used_bytes, locked + kBytes);
  pieces.domain().revoke_region(kRegion);
  EXPECT_EQ(lock_limit().used_bytes, locked);
  bystander_goes_on();
}

// A channel has memory of its own to be registered, at either end.
TEST_F(VerbsRegistrationFailure, a_channel_beyond_the_limit_is_refused_with_the_numbers_and_opens_later) {
  Caller poor(serving_, wish_on("veth0"));
  const uint64_t locked = lock_limit().used_bytes;
  {
    const LowLimit low(locked + 64 * kKiB);
    EXPECT_FALSE(poor.connect());
    EXPECT_EQ(poor.refused(), Code::kNoSpace);
    low.expect_told(poor.domain().last_refusal());
    bystander_goes_on();
  }
  EXPECT_EQ(lock_limit().used_bytes, locked);
  EXPECT_TRUE(settle([&] {
    (void)poor.connect();
    poor.turn();
    return poor.good() > 0;
  }));
}

// The server meets its limit when a peer is introduced: the peer is told, and others notice nothing.
TEST_F(VerbsRegistrationFailure, a_peer_that_the_server_has_no_memory_for_is_told_so) {
  Caller poor(serving_, wish_on("veth0"));
  ASSERT_TRUE(poor.connect());
  {
    const LowLimit low(lock_limit().used_bytes + 64 * kKiB);
    ASSERT_TRUE(settle([&] { return poor.turn(), poor.refused() != Code::kOk; }));
    EXPECT_EQ(poor.refused(), Code::kNoSpace);
    EXPECT_TRUE(says(poor.domain().last_refusal(), "RLIMIT_MEMLOCK"))
        << poor.domain().last_refusal().to_string();
    bystander_goes_on();
  }
  EXPECT_TRUE(settle([&] {
    (void)poor.connect();
    poor.turn();
    return poor.good() > 0;
  }));
}

// A region of 1 GiB in pages of 2 MiB, as a node's lie in.
TEST_F(VerbsRegistrationFailure, a_gibibyte_of_huge_pages_is_one_registration) {
  const char* const family = std::getenv("REFRACT_VERBS_FAMILY");
  const bool is_again = family != nullptr && std::string(family) == "ipv6";
  if (is_again) GTEST_SKIP() << "it takes long in the machine, and addresses have no part in it";
  constexpr uint64_t kLarge = kGiB;
  const std::string pages = "/proc/sys/vm/nr_hugepages";
  run("echo 512 >" + pages);
  void* const mapped = ::mmap(nullptr, kLarge, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED) << "the machine has no memory for 512 pages of 2 MiB";
  auto* const bytes = static_cast<std::byte*>(mapped);
  bytes[kLarge - 64] = std::byte{0x77};
  const DomainCounters before = serving_.domain().counters();
  const auto key =
      serving_.domain().register_region({.region = kRegion,
                                         .base = bytes,
                                         .bytes = kLarge,
                                         .rights = {.read = true, .write = false, .atomic = false}});
  ASSERT_TRUE(key.has_value()) << key.error().to_string();
  EXPECT_EQ(serving_.domain().counters().registrations - before.registrations, 1u);
  std::array<std::byte, 64> last{};
  const Request read{.token = 5,
                     .local = {last.data(), last.size()},
                     .remote = {RemotePointer::at(kRegion, kLarge - last.size()), *key},
                     .op = Op::kRead};
  ASSERT_EQ(victim_.post({&read, 1}), 1u);
  ASSERT_TRUE(settle([this] { return !victim_.others.empty(); }));
  EXPECT_EQ(victim_.others.front().code, Code::kOk);
  EXPECT_EQ(last[0], std::byte{0x77});
  bystander_goes_on();
  serving_.domain().revoke_region(kRegion);
  EXPECT_EQ(::munmap(mapped, kLarge), 0);
  run("echo 0 >" + pages);
}

}  // namespace
}  // namespace refract::fabric::verbs
