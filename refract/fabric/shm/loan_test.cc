// SPDX-License-Identifier: Apache-2.0
// Memory that a client lends: its server READs it without the client, and nothing that a client sends with it
// harms the server or shows it something else.
#include "refract/fabric/shm/loan.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/fabric/shm/doorbell.h"
#include "refract/fabric/shm/test_domains.h"
#include "refract/memory/copy_team.h"
#include "refract/memory/testing/staged_clock.h"

namespace refract::fabric::shm {
namespace {

constexpr uint64_t kBytes = kMiB;
constexpr uint16_t kRegion = kLentRegionFirst;

class LoanTest : public DomainTest {
 protected:
  explicit LoanTest(const LoanLimits& loans = {}, uint64_t bytes = kBytes, CopyTeam* copies = nullptr)
      : DomainTest({}, loans, copies), buffer_(std::move(*SharedBuffer::make(bytes))) {
    std::memset(buffer_->bytes().data(), 1, bytes);
    channel_ = open();
    EXPECT_TRUE(settle([&] { return server_end_.find(Op::kOpened) != nullptr; }));
    at_server_ = server_end_.find(Op::kOpened)->channel;
  }

  [[nodiscard]] RemoteKey lend(uint16_t region = kRegion) {
    auto key = client_->register_region({.region = region,
                                         .base = buffer_->bytes().data(),
                                         .bytes = buffer_->bytes().size(),
                                         .rights = {.read = true},
                                         .lent_file = buffer_->descriptor()});
    EXPECT_TRUE(key) << key.error().to_string();
    client_->flush();
    return *key;
  }
  // What the server's READ ends with, while the client does nothing.
  [[nodiscard]] Code read(RemotePointer address, RemoteKey key, uint64_t bytes) {
    poll_server();
    target_.assign(bytes, std::byte{0});
    const Request request{
        .token = 77, .local = {target_.data(), bytes}, .remote = {address, key}, .op = Op::kRead};
    server_end_.seen.clear();
    EXPECT_EQ(at_server_->post({&request, 1}), 1u);
    for (int turn = 0; turn < 10; ++turn) {
      poll_server();
      const Completion* const done = server_end_.find(Op::kRead);
      if (done != nullptr) return done->code;
    }
    return Code::kDeadlineExceeded;
  }
  [[nodiscard]] Code read(RemoteKey key, uint64_t bytes = 64) {
    return read(RemotePointer::at(kRegion, 0), key, bytes);
  }
  void poll_server() {
    server_end_.domain = &node_.server();
    server_end_.poll();
  }

  SharedBufferHold buffer_;
  Channel* channel_ = nullptr;
  Channel* at_server_ = nullptr;
  std::vector<std::byte> target_;
};

TEST_F(LoanTest, is_read_by_the_server_while_the_client_stands_still) {
  EXPECT_TRUE(channel_->capabilities().maps_lent_files);
  const RemoteKey key = lend();
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{64}, 300 * kKiB, kBytes}) {
    std::memset(buffer_->bytes().data(), static_cast<int>(bytes % 251), kBytes);
    ASSERT_EQ(read(key, bytes), Code::kOk) << bytes;
    EXPECT_EQ(std::memcmp(target_.data(), buffer_->bytes().data(), bytes), 0) << bytes;
  }
  EXPECT_EQ(read(RemotePointer::at(kRegion, kBytes - 10), key, 10), Code::kOk);
}

TEST_F(LoanTest, shows_nothing_to_another_key_or_beyond_its_end) {
  const RemoteKey key = lend();
  EXPECT_EQ(read({key.bits + 1}), Code::kAccessDenied);
  EXPECT_EQ(read(RemotePointer::at(kRegion, kBytes - 10), key, 11), Code::kAccessDenied);
  EXPECT_EQ(read(RemotePointer::at(kRegion, kBytes + 1), key, 0), Code::kAccessDenied);
  EXPECT_EQ(read(RemotePointer::at(kRegion + 1, 0), key, 1), Code::kAccessDenied);
}

TEST_F(LoanTest, that_was_taken_back_is_refused_at_once_and_its_memory_given_up) {
  const RemoteKey key = lend();
  ASSERT_EQ(read(key), Code::kOk);
  (void)client_->revoke_region(kRegion);
  EXPECT_EQ(read(key), Code::kAccessDenied);
  std::memset(buffer_->bytes().data(), 2, kBytes);
  const RemoteKey next = lend();
  EXPECT_EQ(read(key), Code::kAccessDenied);
  ASSERT_EQ(read(next), Code::kOk);
  EXPECT_EQ(target_.front(), std::byte{2});
}

TEST_F(LoanTest, is_lent_again_to_the_server_that_follows_and_to_connections_that_come_later) {
  const RemoteKey key = lend();
  for (int crash = 0; crash < 3; ++crash) {
    // Bells with descriptors that were not taken out may wait for the next one.
    client_end_.seen.clear();
    server_end_.seen.clear();
    node_.kill_server();
    ASSERT_TRUE(settle([&] { return client_end_.find(Op::kClosed, channel_) != nullptr; }));
    node_.start_server();
    ASSERT_TRUE(settle([&] {
      return client_end_.find(Op::kOpened, channel_) != nullptr && server_end_.find(Op::kOpened) != nullptr;
    }));
    at_server_ = server_end_.find(Op::kOpened)->channel;
    client_end_.poll();
    ASSERT_EQ(read(key), Code::kOk) << crash;
  }
  server_end_.seen.clear();
  (void)open();
  ASSERT_TRUE(settle([&] { return server_end_.find(Op::kOpened) != nullptr; }));
  at_server_ = server_end_.find(Op::kOpened)->channel;
  client_end_.poll();
  EXPECT_EQ(read(key), Code::kOk);
}

TEST_F(LoanTest, only_what_is_lendable_can_be_registered_so) {
  const Descriptor plain(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(plain.get(), kBytes), 0);
  Domain::RegionSpec spec{.region = kRegion,
                          .base = buffer_->bytes().data(),
                          .bytes = kBytes,
                          .rights = {.read = true},
                          .lent_file = plain.get()};
  EXPECT_EQ(client_->register_region(spec).error().code, Code::kInvalidArgument);
  spec.lent_file = buffer_->descriptor();
  spec.region = 5;
  EXPECT_EQ(client_->register_region(spec).error().code, Code::kInvalidArgument);
  spec.region = kRegion;
  EXPECT_TRUE(client_->register_region(spec)) << "those that were refused left nothing behind";
}

TEST_F(LoanTest, many_are_kept_apart_and_those_beyond_the_limit_are_refused) {
  std::vector<RemoteKey> keys;
  constexpr size_t kLoansMax = LoanLimits{}.loans_max;
  for (uint16_t i = 0; i < kLoansMax + 2; ++i) {
    keys.push_back(lend(static_cast<uint16_t>(kRegion + i)));
    poll_server();
  }
  for (uint16_t i = 0; i < keys.size(); ++i) {
    const Code code = read(RemotePointer::at(static_cast<uint16_t>(kRegion + i), 0), keys[i], 64);
    EXPECT_EQ(code, i < kLoansMax ? Code::kOk : Code::kAccessDenied) << i;
  }
}

// Where clients fill objects.
class LoansOfObjects : public LoanTest {
 protected:
  static constexpr uint64_t kEach = 4 * kMiB;
  static constexpr uint64_t kObjectsMax = 300 * kEach - 1;
  static constexpr LoanLimits kLimits = LoanLimits::of_objects(kObjectsMax);
  static constexpr uint64_t kMany = kLimits.bytes_max / kEach;
  static_assert(kMany < kLimits.loans_max);

  LoansOfObjects() : LoanTest(kLimits, kEach) {}
};

TEST_F(LoansOfObjects, a_client_lends_as_many_bytes_as_objects_may_have_and_no_more) {
  static_assert(kMany >= 300, "the last object's memory is rounded up");
  std::vector<RemoteKey> keys;
  for (uint16_t i = 0; i < kMany + 2; ++i) {
    keys.push_back(lend(static_cast<uint16_t>(kRegion + i)));
    poll_server();
  }
  for (uint16_t i = 0; i < keys.size(); ++i) {
    const Code code = read(RemotePointer::at(static_cast<uint16_t>(kRegion + i), 0), keys[i], 64);
    ASSERT_EQ(code, i < kMany ? Code::kOk : Code::kAccessDenied) << i;
  }
  // What is taken back makes room.
  (void)client_->revoke_region(kRegion + 7);
  const auto last = static_cast<uint16_t>(kRegion + keys.size());
  const RemoteKey key = lend(last);
  poll_server();
  client_end_.poll();
  poll_server();
  EXPECT_EQ(read(RemotePointer::at(last, 0), key, 64), Code::kOk);
}

class LoansOfAll : public LoanTest {
 protected:
  LoansOfAll() : LoanTest({.all_max = 3}) {}
};

TEST_F(LoansOfAll, what_one_client_has_lent_is_counted_for_the_others_until_it_is_gone) {
  const auto other = make_client();
  End other_end{other.get(), false, {}, {}};
  ASSERT_TRUE(other->connect(node_.path()).has_value());
  server_end_.seen.clear();
  ASSERT_TRUE(settle([&] {
    other_end.poll();
    return server_end_.find(Op::kOpened) != nullptr;
  }));
  const auto lend_of_other = [&](uint16_t region) {
    const auto key = other->register_region({.region = region,
                                             .base = buffer_->bytes().data(),
                                             .bytes = kBytes,
                                             .rights = {.read = true},
                                             .lent_file = buffer_->descriptor()});
    other->flush();
    EXPECT_TRUE(key.has_value());
    poll_server();
  };
  lend_of_other(kRegion);
  lend_of_other(kRegion + 1);
  const RemoteKey third = lend(kRegion);
  const RemoteKey fourth = lend(kRegion + 1);
  EXPECT_EQ(read(RemotePointer::at(kRegion, 0), third, 64), Code::kOk);
  EXPECT_EQ(read(RemotePointer::at(kRegion + 1, 0), fourth, 64), Code::kAccessDenied);
  node_.server().drop(node_.meeting().attachments().back().id);
  ASSERT_TRUE(settle([&] { return node_.server().connections() == 1; }));
  EXPECT_EQ(read(RemotePointer::at(kRegion + 2, 0), lend(kRegion + 2), 64), Code::kOk);
}

// That of a shard of objects, where a core is free and help pays.
struct BusyTeam {
  test::StagedClock clock{1'000, 10};
  CopyTeam team{{.free_cores = &test::many_cores, .clock = clock, .past_caches = true}};
};
class LoansCopiedByATeam : protected BusyTeam, public LoanTest {
 protected:
  static constexpr uint64_t kLong = 3 * CopyTeam::kBytesMin;
  LoansCopiedByATeam() : LoanTest({}, kLong, &team) {}
  // That no byte is missing, behind the other, or beside them.
  void read_all(RemoteKey key) {
    const std::span words(reinterpret_cast<uint64_t*>(buffer_->bytes().data()), kLong / 8);
    for (const uint64_t from : {uint64_t{0}, uint64_t{1}, CopyTeam::kPieceBytes}) {
      for (const uint64_t bytes : {CopyTeam::kBytesMin - 1, CopyTeam::kBytesMin, kLong - from}) {
        std::ranges::generate(words, [&] { return prng_.next(); });
        ASSERT_EQ(read(RemotePointer::at(kRegion, from), key, bytes), Code::kOk);
        EXPECT_EQ(std::memcmp(target_.data(), buffer_->bytes().data() + from, bytes), 0)
            << bytes << " from " << from;
      }
    }
  }
  Prng prng_{1};
};

TEST_F(LoansCopiedByATeam, are_read_whole_and_the_channel_says_from_which_length_on) {
  EXPECT_EQ(at_server_->capabilities().shared_read_bytes_min, CopyTeam::kBytesMin);
  EXPECT_EQ(channel_->capabilities().shared_read_bytes_min, 0U);
  const RemoteKey key = lend();
  // Helpers may come late, but not always.
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  do {
    read_all(key);
  } while (team.shared_copies() == 0 && std::chrono::steady_clock::now() < patience);
  EXPECT_GT(team.shared_copies(), 0U);
  EXPECT_EQ(read(RemotePointer::at(kRegion, 1), key, kLong), Code::kAccessDenied);
}

TEST_F(LoanTest, is_copied_by_the_servers_thread_alone_where_it_has_no_team) {
  EXPECT_EQ(at_server_->capabilities().shared_read_bytes_min, 0U);
}

// The server's side alone, against what a hostile client can send.
class HostileLoans : public testing::Test {
 protected:
  HostileLoans() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0); }
  ~HostileLoans() override {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  void send(int file) {
    const std::byte bell{1};
    EXPECT_TRUE(send_message(ends_[0], {&bell, 1}, std::array{file}));
  }
  [[nodiscard]] static uint64_t inode_of(int file) {
    struct stat status{};
    EXPECT_EQ(::fstat(file, &status), 0);
    return status.st_ino;
  }
  [[nodiscard]] bool lend(const LendFrame& frame) {
    return loans_.lend(std::as_bytes(std::span(&frame, 1)), ends_[1]);
  }
  [[nodiscard]] LendFrame frame_of(const SharedBuffer& buffer) const {
    return {.region = kRegion, .key = 5, .bytes = kBytes, .inode = inode_of(buffer.descriptor())};
  }
  [[nodiscard]] bool is_lent() const {
    return loans_.find({.address = RemotePointer::at(kRegion, 0), .key = {5}}, 1) != nullptr;
  }

  int ends_[2];
  LoanAccount account_;
  Loans loans_{account_};
};

TEST_F(HostileLoans, frames_that_cannot_be_are_nonsense) {
  const SharedBufferHold buffer = test::needed(SharedBuffer::make(kBytes));
  LendFrame frame = frame_of(*buffer);
  frame.region = 3;
  EXPECT_FALSE(lend(frame));
  frame.region = 0x10000;
  EXPECT_FALSE(lend(frame));
  frame = frame_of(*buffer);
  frame.bytes = 0;
  EXPECT_FALSE(lend(frame));
  EXPECT_FALSE(loans_.lend(std::as_bytes(std::span("short", 5)), ends_[1]));
  EXPECT_FALSE(loans_.take_back(std::as_bytes(std::span("short", 5))));
  const TakeBackFrame unknown{kRegion};
  EXPECT_TRUE(loans_.take_back(std::as_bytes(std::span(&unknown, 1))));
}

TEST_F(HostileLoans, a_loan_without_its_file_or_with_another_is_none) {
  const SharedBufferHold buffer = test::needed(SharedBuffer::make(kBytes));
  const SharedBufferHold other = test::needed(SharedBuffer::make(kBytes));
  EXPECT_TRUE(lend(frame_of(*buffer)));
  EXPECT_FALSE(is_lent()) << "nothing was sent";
  send(other->descriptor());
  EXPECT_TRUE(lend(frame_of(*buffer)));
  EXPECT_FALSE(is_lent());
  const Descriptor plain(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(plain.get(), kBytes), 0);
  send(plain.get());
  EXPECT_TRUE(lend({.region = kRegion, .key = 5, .bytes = kBytes, .inode = inode_of(plain.get())}));
  EXPECT_FALSE(is_lent());
  send(buffer->descriptor());
  LendFrame longer = frame_of(*buffer);
  longer.bytes = kBytes + 1;
  EXPECT_TRUE(lend(longer));
  EXPECT_FALSE(is_lent());
  send(buffer->descriptor());
  EXPECT_TRUE(lend(frame_of(*buffer)));
  EXPECT_TRUE(is_lent());
}

TEST_F(HostileLoans, descriptors_beyond_any_use_are_closed_and_bells_between_them_do_not_matter) {
  const SharedBufferHold buffer = test::needed(SharedBuffer::make(kBytes));
  const auto open_files = [] {
    int count = 0;
    for (int file = 0; file < 1024; ++file) count += ::fcntl(file, F_GETFD) >= 0 ? 1 : 0;
    return count;
  };
  const int before = open_files();
  for (int i = 0; i < 100; ++i) {
    send(buffer->descriptor());
    for (int bells = 0; bells < 3; ++bells) ring(ends_[0]);
    EXPECT_TRUE(loans_.hear(ends_[1]));
    EXPECT_TRUE(loans_.hear(ends_[1]));
  }
  EXPECT_LE(open_files(), before + 4);
  EXPECT_TRUE(lend(frame_of(*buffer)));
  EXPECT_TRUE(is_lent());
  EXPECT_EQ(open_files(), before + 3) << "what is mapped needs no descriptor";
}

}  // namespace
}  // namespace refract::fabric::shm
