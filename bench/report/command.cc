// SPDX-License-Identifier: Apache-2.0
#include "bench/report/command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace refract::bench {
namespace {

std::vector<BenchCommand*>& registered_commands() {
  static std::vector<BenchCommand*> all;
  return all;
}

}  // namespace

BenchCommand::BenchCommand(std::string_view name, std::string_view help) : name_(name), help_(help) {
  registered_commands().push_back(this);
}

std::vector<BenchCommand*> bench_commands() {
  std::vector<BenchCommand*> all = registered_commands();
  std::ranges::sort(all, {}, &BenchCommand::name);
  return all;
}

Reported<> write_file(const std::string& path, const std::string& text) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file == nullptr || (file == stdout ? std::fflush(file) : std::fclose(file)) == 0;
  if (written && closed) return {};
  return report(Code::kSystem, fmt::format("cannot write {}: {}", path, errno_text(errno)));
}

}  // namespace refract::bench
