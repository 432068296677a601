// SPDX-License-Identifier: Apache-2.0
#include "bench/sides/memcached.h"

#include <fmt/core.h>
#include <pwd.h>
#include <unistd.h>

#include "bench/measure/measure.h"
#include "bench/measure/tcp_socket.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

// Beside key and value: the item's head, its place in the hash table, and what its slab class rounds up,
// which is a quarter at most.
constexpr uint64_t kItemOverhead_bytes = 96;

uint64_t memory_mib_for(const Memcached::Options& options) {
  const uint64_t item = options.key_bytes + options.value_bytes + kItemOverhead_bytes;
  // Each of some sixty slab classes takes whole pages of 1 MiB; a large item is a chain of their halves.
  return 256 + (options.keys * item * 3 / 2 + 16 * options.value_bytes) / kMiB;
}

std::string user_name() {
  const passwd* user = ::getpwuid(::geteuid());
  return user == nullptr ? "root" : user->pw_name;
}

Reported<> wait_until_it_listens(test::Process& process, uint16_t port, const std::string& log_path) {
  const uint64_t end_ns = now_ns() + 5 * kSecond_ns;
  while (!connect_tcp("127.0.0.1", port)) {
    if (!process.is_running() || now_ns() > end_ns) {
      return report(Code::kUnavailable, "memcached did not start: " + test::tail_of(log_path));
    }
    sleep_ns(5 * kMillisecond_ns);
  }
  return {};
}

}  // namespace

Reported<Memcached> Memcached::start(const Options& options) {
  if (!test::is_in_path("memcached")) {
    return report(Code::kUnsupported, "there is no memcached here to compare with",
                  "install it: 'make bars' and 'scripts/setup bars' do (Debian: apt-get install memcached)");
  }
  Reported<test::TemporaryFolder> folder = test::TemporaryFolder::make();
  if (!folder) return report(folder.error());
  const Reported<uint16_t> port = free_port();
  if (!port) return report(port.error());
  const std::string log_path = folder->path() + "/memcached.log";
  // -M: full is an error instead of an eviction, which would look like a fast miss. -R: as many requests of
  // one client at a time as it may have in flight; the default of 20 costs it a third of its speed.
  test::Process::Program program{
      .arguments = {"memcached", "-l", "127.0.0.1", "-p", fmt::format("{}", *port), "-U", "0", "-t", "1",
                    "-m", fmt::format("{}", memory_mib_for(options)), "-M", "-R", "4096", "-I",
                    fmt::format("{}m", 1 + (options.value_bytes + options.key_bytes + kMiB - 1) / kMiB), "-u",
                    user_name()},
      .output_path = log_path};
  Reported<test::Process> process = start_beside(std::move(program), options.cpu);
  if (!process) return report(process.error());
  if (const Reported<> up = wait_until_it_listens(*process, *port, log_path); !up) return report(up.error());
  return Memcached(std::move(*folder), std::move(*process), *port);
}

}  // namespace refract::bench
