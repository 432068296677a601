// SPDX-License-Identifier: Apache-2.0
// The doctor sees what is wrong with a machine, and says what mends it.
//
// Method: a machine of our own that is healthy, and one thing after the other that is not.
#include "refract/node/doctor/doctor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/fabric/shm/meeting.h"
#include "refract/fabric/tcp/listen.h"
#include "refract/memory/host/descriptor.h"
#include "refract/memory/testing/child_process.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/object/testing/redis_process.h"

namespace refract::node {
namespace {

using testing::HasSubstr;

struct Doctor : testing::Test {
  test::FakeSystem system;
  DoctorInputs inputs;

  Doctor() {
    inputs.memory_limit_bytes = kGiB;
    inputs.socket_path = system.path() + "/node.sock";
    inputs.clients_max = 16;
    inputs.system = system.root();
    system.write(
        "proc/cpuinfo",
        "processor\t: 0\nflags\t\t: fpu pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm avx2\nbugs\t\t: x\n");
    system.write("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1,4\n");
    system.write("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n");
    system.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
  }
  [[nodiscard]] Finding finding(std::string_view name) const {
    for (const Finding& found : examine(inputs)) {
      if (found.name == name) return found;
    }
    ADD_FAILURE() << "no finding is called " << name;
    return {};
  }
  void expect(std::string_view name, Health health, const std::string& found, const std::string& mend) const {
    const Finding one = finding(name);
    EXPECT_EQ(one.health, health) << name << ": " << one.found;
    EXPECT_THAT(one.found, HasSubstr(found));
    EXPECT_THAT(one.mend, HasSubstr(mend));
    EXPECT_EQ(one.mend.empty(), health == Health::kOk) << name;
  }
};

TEST_F(Doctor, a_healthy_machine_has_nothing_to_mend) {
  for (const Finding& found : examine(inputs)) {
    EXPECT_EQ(found.health, Health::kOk) << found.name << ": " << found.found;
    EXPECT_EQ(found.mend, "") << found.name;
    EXPECT_NE(found.found, "") << found.name;
  }
  EXPECT_EQ(findings_exit_code(examine(inputs)), 0);
}

TEST_F(Doctor, little_memory_is_a_warning_and_none_a_failure) {
  system.memory(1 << 20, 512 << 10);
  expect("memory", Health::kWarn, "512 MiB available (the machine binds)", "lower memory.limit");
  system.memory(1 << 20, 1 << 10);
  expect("memory", Health::kFail, "1 MiB available", "lower memory.limit");
}

TEST_F(Doctor, the_cgroup_is_named_with_version_and_path) {
  expect("cgroup", Health::kOk, "no cgroup", "");
  system.write("proc/self/cgroup", "0::/a\n");
  system.write("proc/self/mountinfo", "9 8 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  system.write("sys/fs/cgroup/a/memory.max", "2147483648\n");
  system.write("sys/fs/cgroup/a/memory.current", "1073741824\n");
  expect("cgroup", Health::kOk,
         "version 2, /sys/fs/cgroup/a: the cgroup /a (version 2) leaves 1 GiB of 2 GiB", "");
  system.write("sys/fs/cgroup/a/memory.high", "1174405120\n");
  expect("cgroup", Health::kWarn, "slows down after 96 MiB more", "raise /sys/fs/cgroup/a/memory.high");
}

TEST_F(Doctor, huge_pages_matter_only_where_they_are_used) {
  expect("huge pages", Health::kOk, "memfd:", "");
  inputs.backing = {BackingKind::kFile, system.path()};
  expect("huge pages", Health::kOk, "0 of 0", "");
  inputs.backing = {BackingKind::kHugetlb, ""};
  expect("huge pages", Health::kFail, "memory.limit needs 512", "sysctl vm.nr_hugepages=512");
  system.huge_pages(120, 100, 0);
  expect("huge pages", Health::kWarn, "100 of 120", "sysctl vm.nr_hugepages=532");
  system.huge_pages(600, 600, 0);
  expect("huge pages", Health::kOk, "600 of 600", "");
}

TEST_F(Doctor, a_missing_folder_is_a_failure) {
  inputs.backing = {BackingKind::kFile, system.path() + "/none"};
  expect("folder", Health::kFail, "No such file", "mkdir -m 700 -p " + inputs.backing.folder);
  inputs.backing.folder = system.path();
  inputs.memory_limit_bytes = 0;
  expect("folder", Health::kOk, "free", "");
  inputs.memory_limit_bytes = uint64_t{1} << 60;
  expect("folder", Health::kWarn, "memory.limit is 1 EiB", "lower memory.limit");
}

TEST_F(Doctor, limits_of_the_process_are_seen) {
  inputs.clients_max = 1000;
  expect("open files", Health::kOk, "1048576 allowed", "");
  inputs.shards = 300;
  expect("open files", Health::kWarn, "1048576 allowed, 1000 clients may need 1200064", "ulimit -n 1200064");
  inputs.shards = 1;
  expect("limits", Health::kOk, "locked memory 8 MiB, core files none", "");
  system.write("proc/self/limits",
               "Max address space         1073741824           1073741824           bytes     \n");
  system.write("proc/self/statm", "1000 1 1 1 0 1 0\n");
  expect("addresses", Health::kFail, "1020 MiB left", "ulimit -v unlimited");
}

TEST_F(Doctor, a_node_of_ours_is_a_warning_another_listener_a_failure_and_a_stale_socket_nothing) {
  expect("socket", Health::kOk, "is free", "");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, inputs.socket_path.data(), inputs.socket_path.size());
  {
    const Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    expect("socket", Health::kFail, "is no node that answers", "--socket-path");
  }
  expect("socket", Health::kOk, "is left from a node that is gone", "");
  ASSERT_EQ(::unlink(inputs.socket_path.c_str()), 0);
  // The last of several shards counts like the first.
  inputs.shards = 3;
  fabric::shm::MeetingOptions options;
  options.path = inputs.socket_path + ".2";
  const auto meeting = fabric::shm::Meeting::open(options);
  ASSERT_TRUE(meeting) << meeting.error().to_string();
  std::atomic<bool> stop = false;
  std::thread keeper([&] {
    while (!stop.load()) (*meeting)->poll();
  });
  expect("socket", Health::kWarn, "a node is running at " + options.path, "another path with --socket-path");
  EXPECT_EQ(findings_exit_code(examine(inputs)), 0);
  inputs.shards = 2;
  expect("socket", Health::kOk, "is free", "");
  stop.store(true);
  keeper.join();
}

TEST_F(Doctor, a_socket_path_that_cannot_be_used_fails) {
  system.write("node.sock", "a file");
  expect("socket", Health::kFail, "no socket", "remove it");
  inputs.socket_path = "here";
  expect("socket", Health::kFail, "no absolute path", "--socket-path");
  inputs.socket_path = "/" + std::string(107, 'x');
  expect("socket", Health::kFail, "no absolute path", "--socket-path");
  inputs.socket_path = system.path() + "/deep/er/node.sock";
  expect("socket", Health::kOk, "is free", "");
  inputs.socket_path = "/proc/self/node.sock";
  if (::geteuid() != 0) expect("socket", Health::kFail, "/proc/self: Permission denied", "--socket-path");
}

TEST_F(Doctor, a_sandbox_that_refuses_memfd_or_seals_fails) {
  const auto health_in_sandbox = [&](const test::RefusedCall& call, std::string_view name) {
    return test::in_child([&] { return test::refuse(call) ? static_cast<int>(finding(name).health) : 99; });
  };
  const int fails = static_cast<int>(Health::kFail);
  EXPECT_EQ(health_in_sandbox({.number = SYS_memfd_create, .error = EPERM}, "memfd"), fails);
  EXPECT_EQ(health_in_sandbox({.number = SYS_memfd_create, .error = EPERM}, "seals"), fails);
  const test::RefusedCall no_seals{
      .number = SYS_fcntl, .argument = 1, .mask = ~0U, .value = F_ADD_SEALS, .error = EINVAL};
  EXPECT_EQ(health_in_sandbox(no_seals, "seals"), fails);
  EXPECT_EQ(health_in_sandbox(no_seals, "memfd"), static_cast<int>(Health::kOk));
}

TEST_F(Doctor, old_machines_are_recognised) {
  system.write("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu pni ssse3 cx16 lahf_lm popcnt\n");
  expect("processor", Health::kFail, "without sse4_1, sse4_2", "newer");
  system.write("proc/sys/kernel/osrelease", "4.19.0\n");
  expect("kernel", Health::kFail, "4.19.0", "5.1");
  system.write("proc/sys/kernel/osrelease", "5.10.0-8\n");
  expect("kernel", Health::kWarn, "5.10.0-8", "5.14");
  system.write("proc/sys/kernel/osrelease", "strange\n");
  expect("kernel", Health::kWarn, "'strange'", "/proc");
  system.write("proc/self/status", "Cpus_allowed_list:\t3\n");
  expect("CPUs", Health::kWarn, "only CPU 3", "taskset");
  system.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  expect("clock", Health::kWarn, "source hpet", "current_clocksource");
}

TEST_F(Doctor, a_port_in_use_fails_and_so_does_an_address_of_others) {
  const Reported<Descriptor> listener = fabric::tcp::listen("127.0.0.1:0");
  ASSERT_TRUE(listener) << listener.error().to_string();
  inputs.listen_address =
      "127.0.0.1:" + std::to_string(test::needed(fabric::tcp::bound_port(listener->get())));
  expect("port", Health::kFail, "in use", "choose another port");
  EXPECT_EQ(findings_exit_code(examine(inputs)), 1);
  inputs.listen_address = "192.0.2.1:7400";
  expect("port", Health::kFail, "192.0.2.1:7400", "ip address");
  inputs.listen_address = "127.0.0.1:0";
  expect("port", Health::kOk, "is free", "");
}

TEST_F(Doctor, a_directory_in_redis_must_answer) {
  const uint16_t port = object::test::free_port();
  inputs.directory = fmt::format("redis://127.0.0.1:{}", port);
  expect("directory", Health::kFail, inputs.directory + ": cannot connect", "is Redis running there?");
  const object::test::RedisProcess redis(port, "0123456789abcdef");
  expect("directory", Health::kFail, "NOAUTH", "objects.directory_secret_file");
  inputs.directory_secret_file = system.path() + "/secret";
  expect("directory", Health::kFail, "cannot open secret file", "");
  system.write("secret", "0123456789abcdef\n");
  ASSERT_EQ(::chmod(inputs.directory_secret_file.c_str(), 0600), 0);
  expect("directory", Health::kOk, inputs.directory + " answers", "");
  EXPECT_EQ(finding("directory").found.find("0123456789"), std::string::npos);
}

TEST_F(Doctor, a_secret_must_be_there_and_for_its_owner_alone) {
  inputs.listen_address = "127.0.0.1:0";
  expect("secret", Health::kOk, "none", "");
  inputs.secret_file = system.path() + "/secret";
  EXPECT_EQ(finding("secret").health, Health::kFail) << "there is none";
  system.write("secret", "0123456789abcdef\n");
  ASSERT_EQ(::chmod(inputs.secret_file.c_str(), 0644), 0);
  expect("secret", Health::kFail, inputs.secret_file, "chmod");
  ASSERT_EQ(::chmod(inputs.secret_file.c_str(), 0600), 0);
  expect("secret", Health::kOk, "16 bytes", "");
}

TEST_F(Doctor, what_the_kernel_keeps_for_tcp_matters_to_other_hosts) {
  inputs.listen_address = "127.0.0.1:0";
  system.write("proc/sys/net/core/somaxconn", "128\n");
  expect("backlog", Health::kWarn, "128 connections", "sysctl net.core.somaxconn=4096");
  system.write("proc/sys/net/core/somaxconn", "4096\n");
  expect("backlog", Health::kOk, "4096 connections", "");
  system.write("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
  system.write("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t33554432\n");
  expect("tcp buffers", Health::kOk, "6 MiB for receiving, 32 MiB for sending", "");
  inputs.listen_address = "0.0.0.0:0";
  expect("tcp buffers", Health::kWarn, "1 GB/s over 10 ms", "tcp_rmem='4096 131072 33554432'");
  system.write("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n");
  expect("tcp buffers", Health::kOk, "32 MiB for receiving", "");
}

TEST_F(Doctor, the_verdict_says_who_reaches_a_node_or_what_it_fails_for) {
  std::vector<Finding> findings = {{"memory", Health::kOk, "much", ""},
                                   {"clock", Health::kWarn, "slow", "x"}};
  Finding last = verdict(inputs, findings);
  EXPECT_EQ(last.name, "verdict");
  EXPECT_EQ(last.health, Health::kOk);
  EXPECT_THAT(last.found, HasSubstr("those of others not at all: listen.address is none; 1 warning above"));
  inputs.listen_address = "127.0.0.1:7400";
  EXPECT_THAT(verdict(inputs, findings).found, HasSubstr("by TCP alone: this host has no RDMA device"));
  inputs.rdma_device = "";
  EXPECT_THAT(verdict(inputs, findings).found, HasSubstr("by TCP alone: rdma.device is none"));
  findings.push_back({"seals", Health::kFail, "none", "x"});
  last = verdict(inputs, findings);
  EXPECT_EQ(last.health, Health::kFail);
  EXPECT_THAT(last.found, HasSubstr(": seals"));
  EXPECT_THAT(last.mend, HasSubstr("FAIL"));
}

TEST(DoctorText, table_and_json_say_the_same) {
  const std::vector<Finding> findings = {{"memory", Health::kOk, "much", ""},
                                         {"huge pages", Health::kWarn, "few \xff", "sysctl x"}};
  EXPECT_EQ(findings_table(findings),
            "OK    memory      much\n"
            "WARN  huge pages  few \xff\n"
            "                  -> sysctl x\n");
  EXPECT_EQ(findings_json(findings),
            R"({"findings":[{"figures":{},"found":"much","health":"ok","mend":"","name":"memory"},)"
            "{\"figures\":{},\"found\":\"few \xef\xbf\xbd\",\"health\":\"warn\",\"mend\":\"sysctl "
            "x\",\"name\":\"huge pages\"}],"
            R"("healthy":true})");
  EXPECT_EQ(findings_exit_code(findings), 0);
  EXPECT_EQ(findings_exit_code(std::vector<Finding>{{"x", Health::kFail, "", ""}}), 1);
}

TEST(DoctorText, this_machine_can_be_examined) {
  DoctorInputs inputs;
  inputs.socket_path = "/tmp/none/x.sock";
  const std::vector<Finding> findings = examine(inputs);
  EXPECT_GT(findings.size(), 10U);
}

}  // namespace
}  // namespace refract::node
