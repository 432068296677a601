// SPDX-License-Identifier: Apache-2.0
// A Redis of our own, to be measured beside: nothing is written to disk unless it is asked to, one thread
// serves, and only programs of this host can reach it.
#pragma once

#include <cstdint>
#include <string>

#include "bench/load/entry.h"
#include "bench/measure/beside.h"

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::bench {

class Redis {
 public:
  struct Options {
    bool over_tcp = false;  // Reachable on a port of loopback too, see port().
    int cpu = -1;           // The system's number of the core that it is bound to; -1: any.
    // Appends each change to a file and syncs it so: "everysec" or "always", as it calls them. Empty: no
    // file.
    std::string append_fsync = {};
    size_t clients_max = 0;  // Its knob maxclients; 0: its default.
  };
  // kUnsupported where the machine has no redis-server; `next` says how to get it.
  [[nodiscard]] static Reported<Redis> start(const Options& options);
  // Entries 0 to `entries` of entry.h, in pipelined batches of SET.
  [[nodiscard]] Reported<> load(uint64_t entries);
  // Writes its RDB into folder().
  [[nodiscard]] Reported<> save();
  void stop();
  // After stop(): until it has loaded its RDB. kCorrupt: that had another number of entries.
  [[nodiscard]] Reported<> start_again(uint64_t entries);
  [[nodiscard]] const std::string& folder() const noexcept { return folder_.path(); }

  // A number of INFO, such as "used_memory_rss".
  [[nodiscard]] Reported<uint64_t> info(const std::string& name);
  [[nodiscard]] pid_t pid() const noexcept { return process_.pid(); }
  [[nodiscard]] uint16_t port() const noexcept { return port_; }
  [[nodiscard]] const std::string& version() const noexcept { return version_; }

 private:
  Redis(test::TemporaryFolder folder, test::Process::Program program, test::Process process) noexcept
      : folder_(std::move(folder)), program_(std::move(program)), process_(std::move(process)) {}
  [[nodiscard]] Reported<> connect();
  [[nodiscard]] Reported<> send(std::string_view bytes);
  [[nodiscard]] Reported<> expect_oks(uint64_t count);
  [[nodiscard]] Reported<std::string> info_text();

  test::TemporaryFolder folder_;
  test::Process::Program program_;
  test::Process process_;
  Descriptor socket_;
  uint16_t port_ = 0;
  std::string version_;
};

}  // namespace refract::bench
