// SPDX-License-Identifier: Apache-2.0
// For tests: a folder that vanishes with its object, and in it the /proc and /sys of a machine that we do not
// have.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "refract/base/testing/processes/files.h"
#include "refract/memory/host/system_root.h"

namespace refract::test {

class Folder : public TemporaryFolder {
 public:
  // Makes the folders on the way.
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path() + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
};

// A machine with 16 GiB, 12 GiB of them available, no cgroups and no limits; write() changes it.
class FakeSystem : public Folder {
 public:
  FakeSystem() {
    memory(uint64_t{16} << 20, uint64_t{12} << 20);
    write("proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units     \n"
          "Max file size             unlimited            unlimited            bytes     \n"
          "Max core file size        0                    unlimited            bytes     \n"
          "Max open files            1024                 1048576              files     \n"
          "Max locked memory         8388608              8388608              bytes     \n"
          "Max address space         unlimited            unlimited            bytes     \n");
  }
  void memory(uint64_t total_kib, uint64_t available_kib) const {
    write("proc/meminfo", "MemTotal:       " + std::to_string(total_kib) +
                              " kB\nMemFree:         1 kB\nMemAvailable:   " + std::to_string(available_kib) +
                              " kB\n");
  }
  void huge_pages(uint64_t total, uint64_t free, uint64_t promised) const {
    const std::string folder = "sys/kernel/mm/hugepages/hugepages-2048kB/";
    write(folder + "nr_hugepages", std::to_string(total) + "\n");
    write(folder + "free_hugepages", std::to_string(free) + "\n");
    write(folder + "resv_hugepages", std::to_string(promised) + "\n");
  }
  [[nodiscard]] SystemRoot root() const { return {path()}; }
};

}  // namespace refract::test
