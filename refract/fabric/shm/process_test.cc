// SPDX-License-Identifier: Apache-2.0
// Real processes: killed, stopped, forked again, and walled off in namespaces. The parent is the keeper.
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>

#include "refract/fabric/shm/descriptors.h"
#include "refract/fabric/shm/test_node.h"

namespace refract::fabric::shm {
namespace {

// So long a sleep means that a wake-up was lost, even on a busy machine.
constexpr int kForever_ms = 20'000;

// Polls, and sleeps on the wake descriptors (and on `other`) when there is nothing to do, as a shard does.
// False: nothing woke it.
bool poll_or_sleep(Domain& domain, std::span<Completion> completions, size_t& count, int other = -1,
                   int timeout_ms = kForever_ms) {
  count = domain.poll(completions);
  domain.flush();
  if (count > 0) return true;
  int ready = 1;
  if (domain.prepare_sleep()) {
    std::array<pollfd, 2> wait{{{.fd = domain.wake_descriptors()[0], .events = POLLIN, .revents = 0},
                                {.fd = other, .events = POLLIN, .revents = 0}}};
    ready = ::poll(wait.data(), wait.size(), timeout_ms);
  }
  domain.woke();
  count = domain.poll(completions);
  domain.flush();
  return ready != 0;
}

// The server's process: echoes until its keeper hangs up on `orders`, by which later attachments come.
[[noreturn]] void serve(Meeting& meeting, int orders) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto server = ServerDomain::create({&meeting.node_page()});
  if (!server) ::_exit(10);
  for (const Attachment& attachment : meeting.attachments()) {
    if (!(*server)->adopt(attachment)) ::_exit(11);
  }
  meeting.abandon_in_child();
  (*server)->start_serving();
  std::array<Completion, 64> completions;
  for (;;) {
    Attachment later;
    std::array<Descriptor, 2> descriptors;
    const auto received =
        receive_message(orders, std::as_writable_bytes(std::span(&later.id, 1)), descriptors);
    if (received.outcome == ReceivedMessage::Outcome::kEnded) ::_exit(0);
    if (received.outcome == ReceivedMessage::Outcome::kMessage) {
      later.memory_fd = descriptors[0].get();
      later.doorbell_fd = descriptors[1].get();
      if (!(*server)->adopt(later)) ::_exit(12);
    }
    size_t count = 0;
    (void)poll_or_sleep(**server, completions, count, orders, -1);
    for (const Completion& each : std::span(completions).first(count)) {
      if (each.op != Op::kReceive) continue;
      auto* bytes = const_cast<std::byte*>(each.bytes.data());  // NOLINT: post reads it only.
      const Request answer{.local = {bytes, each.bytes.size()}, .tail = {}, .op = Op::kSend};
      if (each.channel->post({&answer, 1}) != 1) ::_exit(13);
    }
    (*server)->flush();
  }
}

uint64_t processor_time_ns(pid_t process) {
  clockid_t clock{};
  timespec used{};
  EXPECT_EQ(::clock_getcpuclockid(process, &clock), 0);
  EXPECT_EQ(::clock_gettime(clock, &used), 0);
  return static_cast<uint64_t>(used.tv_sec) * kSecond_ns + static_cast<uint64_t>(used.tv_nsec);
}

// A client in a process of its own.
class Client {
 public:
  explicit Client(const std::string& path) {
    auto connected = domain_->connect(path);
    if (connected) channel_ = *connected;
  }
  bool await(const std::function<bool(const Completion&)>& wanted) {
    size_t count = 0;
    while (poll_or_sleep(*domain_, completions_, count)) {
      bool found = false;
      for (const Completion& each : std::span(completions_).first(count)) found |= wanted(each);
      if (found) return true;
    }
    return false;
  }
  bool await(Op op) {
    return await([op](const Completion& each) { return each.op == op && each.code == Code::kOk; });
  }
  bool echo() {
    std::array<std::byte, 48> message{};
    const Request request{.local = {message.data(), message.size()}, .tail = {}, .op = Op::kSend};
    return channel_->post({&request, 1}) == 1 && await(Op::kReceive);
  }
  [[nodiscard]] Channel* channel() const { return channel_; }
  [[nodiscard]] ClientDomain& domain() { return *domain_; }

 private:
  std::unique_ptr<ClientDomain> domain_ = make_client();
  Channel* channel_ = nullptr;
  std::array<Completion, 16> completions_;
};

class ProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    MeetingOptions options;
    options.path = directory_.socket();
    options.on_attach = [this](const Attachment& attachment) {
      const std::array<int, 2> descriptors = {attachment.memory_fd, attachment.doorbell_fd};
      if (!orders_) return;
      EXPECT_TRUE(send_message(orders_.get(), std::as_bytes(std::span(&attachment.id, 1)), descriptors));
    };
    auto opened = Meeting::open(std::move(options));
    ASSERT_TRUE(opened.has_value());
    meeting_ = std::move(*opened);
  }
  void TearDown() override {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }
  void start_server() {
    meeting_->begin_incarnation();
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    orders_ = Descriptor(ends[0]);
    const Descriptor server_end(ends[1]);
    server_ = ::fork();
    if (server_ == 0) {
      ::close(orders_.release());
      serve(*meeting_, server_end.get());
    }
    children_.push_back(server_);
  }
  void kill_server() {
    ::kill(server_, SIGKILL);
    ::waitpid(server_, nullptr, 0);
    std::erase(children_, server_);
    meeting_->set_server_state(ServerState::kRestarting);
  }
  pid_t start_client(const std::function<int()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      meeting_->abandon_in_child();
      ::_exit(work());
    }
    children_.push_back(child);
    return child;
  }
  // Keeps the meeting until the child ends; its status, or -1 for an end by a signal or after the time limit.
  int finish(pid_t child) {
    pollfd wait{.fd = meeting_->epoll_descriptor(), .events = POLLIN, .revents = 0};
    for (int turn = 0; turn < 6'000; ++turn) {
      (void)::poll(&wait, 1, 5);
      meeting_->poll();
      int status = 0;
      if (::waitpid(child, &status, WNOHANG) != child) continue;
      std::erase(children_, child);
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    return -1;
  }
  void keep_for(int milliseconds) {
    pollfd wait{.fd = meeting_->epoll_descriptor(), .events = POLLIN, .revents = 0};
    for (int waited = 0; waited < milliseconds; waited += 5) {
      (void)::poll(&wait, 1, 5);
      meeting_->poll();
    }
  }
  int echo_once(int times = 1) {
    const std::string path = directory_.socket();
    return finish(start_client([path, times] {
      Client client(path);
      if (client.channel() == nullptr || !client.await(Op::kOpened)) return 1;
      for (int i = 0; i < times; ++i) {
        if (!client.echo()) return 2;
      }
      return 0;
    }));
  }

  MeetingFolder directory_;
  std::unique_ptr<Meeting> meeting_;
  Descriptor orders_;
  pid_t server_ = -1;
  std::vector<pid_t> children_;
};

TEST_F(ProcessTest, killed_clients_leave_nothing_behind_and_others_do_not_notice) {
  start_server();
  for (int round = 0; round < 10; ++round) {
    const pid_t victim = start_client([path = directory_.socket()] {
      Client client(path);
      if (!client.await(Op::kOpened)) return 1;
      for (;;) (void)client.echo();
    });
    keep_for(10 + round * 3);
    ::kill(victim, SIGKILL);
    EXPECT_EQ(finish(victim), -1);
    EXPECT_EQ(echo_once(100), 0);
  }
  keep_for(20);
  EXPECT_TRUE(meeting_->attachments().empty());
}

TEST_F(ProcessTest, a_killed_server_is_replaced_under_its_clients) {
  start_server();
  const pid_t client = start_client([path = directory_.socket()] {
    Client client_end(path);
    if (!client_end.await(Op::kOpened)) return 1;
    for (int crash = 0; crash < 5; ++crash) {
      if (!client_end.echo()) return 2;
      const auto reopened = [](const Completion& each) { return each.op == Op::kOpened; };
      if (!client_end.await(reopened)) return 3;
    }
    return client_end.echo() ? 0 : 4;
  });
  for (int crash = 0; crash < 5; ++crash) {
    keep_for(60);
    kill_server();
    keep_for(10);
    start_server();
  }
  EXPECT_EQ(finish(client), 0);
}

// Pitfall: a wake-up that comes while its target is stopped must still be there when the target continues.
TEST_F(ProcessTest, no_wake_up_is_lost_when_either_side_is_stopped) {
  start_server();
  const pid_t client = start_client([path = directory_.socket()] {
    Client client_end(path);
    if (!client_end.await(Op::kOpened)) return 1;
    for (int i = 0; i < 400; ++i) {
      if (!client_end.echo()) return 2;
      if (i % 8 == 0) ::usleep(2'000);
    }
    return 0;
  });
  for (int round = 0; round < 60; ++round) {
    const pid_t stopped = round % 2 == 0 ? server_ : client;
    ::kill(stopped, SIGSTOP);
    keep_for(5);
    ::kill(stopped, SIGCONT);
    keep_for(5);
  }
  EXPECT_EQ(finish(client), 0);
}

TEST_F(ProcessTest, a_stopped_server_does_not_keep_clients_from_attaching_and_reading) {
  auto memory = make_memory("region", 4096);
  const auto own = map_shared(memory->get(), 4096, true);
  own->data()[100] = std::byte{9};
  ASSERT_TRUE(finish_seals(memory->get(), true).has_value());
  ASSERT_TRUE(meeting_->offer_region({1, 0, 4096, memory->get(), {5}}).has_value());
  start_server();
  keep_for(20);
  ::kill(server_, SIGSTOP);
  EXPECT_EQ(
      finish(start_client([path = directory_.socket()] {
        Client client(path);
        if (!client.await(Op::kOpened)) return 1;
        std::byte byte{};
        const Request read{
            .token = 1, .local = {&byte, 1}, .remote = {RemotePointer::at(1, 100), {5}}, .op = Op::kRead};
        if (client.channel()->post({&read, 1}) != 1 || !client.await(Op::kRead)) return 2;
        return byte == std::byte{9} && client.channel()->local_view().base[100] == byte ? 0 : 3;
      })),
      0);
  ::kill(server_, SIGCONT);
  EXPECT_EQ(echo_once(), 0);
}

TEST_F(ProcessTest, a_client_in_other_pid_and_ipc_namespaces_works) {
  start_server();
  constexpr int kNotPermitted = 77;
  const int status = finish(start_client([path = directory_.socket()] {
    if (::unshare(CLONE_NEWPID | CLONE_NEWIPC) != 0) return kNotPermitted;
    const pid_t inner = ::fork();  // The first process of the new namespace.
    if (inner == 0) {
      Client client(path);
      ::_exit(::getpid() == 1 && client.await(Op::kOpened) && client.echo() ? 0 : 1);
    }
    int inner_status = 0;
    ::waitpid(inner, &inner_status, 0);
    return WIFEXITED(inner_status) ? WEXITSTATUS(inner_status) : 2;
  }));
  if (status == kNotPermitted) GTEST_SKIP() << "unshare(CLONE_NEWPID | CLONE_NEWIPC) is not permitted here";
  EXPECT_EQ(status, 0);
}

TEST_F(ProcessTest, an_undumpable_keeper_without_rights_still_hands_out_read_only_memory) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root, to give its rights up";
  const std::string path = directory_.socket();
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0777), 0);
  const int status = finish(start_client([path] {
    ::unlink(path.c_str());
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 1;
    ::prctl(PR_SET_DUMPABLE, 0);
    MeetingOptions options;
    options.path = path;
    auto meeting = Meeting::open(std::move(options));
    if (!meeting) return 2;
    auto domain = make_client();
    auto channel = domain->connect(path);
    std::array<Completion, 4> completions;
    for (int turn = 0; turn < 1'000; ++turn) {
      (*meeting)->poll();
      if (domain->poll(completions) > 0) return completions[0].code == Code::kOk ? 0 : 3;
    }
    return 4;
  }));
  EXPECT_EQ(status, 0);
}

TEST_F(ProcessTest, an_idle_pair_uses_no_processor_time) {
  start_server();
  const pid_t client = start_client([path = directory_.socket()] {
    Client client_end(path);
    if (!client_end.await(Op::kOpened) || !client_end.echo()) return 1;
    std::array<Completion, 4> completions;
    size_t woken = 0;
    size_t count = 0;
    rusage before{};
    ::getrusage(RUSAGE_SELF, &before);
    // Only a wake-up that is not needed ends the first sleeps.
    while (poll_or_sleep(client_end.domain(), completions, count, -1, 300)) ++woken;
    rusage after{};
    ::getrusage(RUSAGE_SELF, &after);
    const auto used_us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1'000'000 +
                         after.ru_utime.tv_usec - before.ru_utime.tv_usec;
    return woken <= 5 && used_us < 50'000 ? 0 : 2;
  });
  EXPECT_EQ(finish(client), 0);
  keep_for(20);
  const uint64_t before_ns = processor_time_ns(server_);
  keep_for(300);
  EXPECT_LT(processor_time_ns(server_) - before_ns, 5 * kMillisecond_ns);
}

}  // namespace
}  // namespace refract::fabric::shm
