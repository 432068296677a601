// SPDX-License-Identifier: Apache-2.0
// The doctor sees what is wrong with a machine, and says what mends it.
//
// Method: a machine of our own that is healthy, and one thing after the other that is not.
#include "refract/node/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "refract/base/units.h"
#include "refract/memory/child_process.h"
#include "refract/memory/descriptor.h"
#include "refract/memory/fake_system.h"

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
  expect("huge pages", Health::kOk, "0 of 0", "");
  inputs.backing.kind = BackingKind::kHugetlb;
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
  expect("open files", Health::kWarn, "1024 allowed, 1000 clients may need 4064", "ulimit -n 4064");
  expect("limits", Health::kOk, "locked memory 8 MiB, core files none", "");
  system.write("proc/self/limits",
               "Max address space         1073741824           1073741824           bytes     \n");
  system.write("proc/self/statm", "1000 1 1 1 0 1 0\n");
  expect("addresses", Health::kFail, "1020 MiB left", "ulimit -v unlimited");
}

TEST_F(Doctor, a_live_listener_fails_and_a_stale_socket_does_not) {
  expect("socket", Health::kOk, "is free", "");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, inputs.socket_path.data(), inputs.socket_path.size());
  {
    const Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    expect("socket", Health::kFail, "a node answers at", "--socket-path");
  }
  expect("socket", Health::kOk, "is left from a node that is gone", "");
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

TEST_F(Doctor, a_port_in_use_fails) {
  const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof(address);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  const uint16_t port = ntohs(address.sin_port);
  inputs.ports = {port};
  expect("port " + std::to_string(port), Health::kFail, "in use", "ss -ltnp");
  EXPECT_EQ(findings_exit_code(examine(inputs)), 1);
}

TEST(DoctorText, table_and_json_say_the_same) {
  const std::vector<Finding> findings = {{"memory", Health::kOk, "much", ""},
                                         {"huge pages", Health::kWarn, "few \xff", "sysctl x"}};
  EXPECT_EQ(findings_table(findings),
            "OK    memory      much\n"
            "WARN  huge pages  few \xff\n"
            "                  -> sysctl x\n");
  EXPECT_EQ(
      findings_json(findings),
      R"({"findings":[{"found":"much","health":"ok","mend":"","name":"memory"},)"
      "{\"found\":\"few \xef\xbf\xbd\",\"health\":\"warn\",\"mend\":\"sysctl x\",\"name\":\"huge pages\"}],"
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
