// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/device_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace refract::fabric::verbs {

bool is_device_name(std::string_view text) noexcept {
  return !text.empty() && text.find_first_of(std::string_view("/ \0", 3)) == std::string_view::npos;
}

std::vector<std::string> device_names(const SystemRoot& system) {
  std::vector<std::string> names;
  std::error_code failed;
  std::filesystem::directory_iterator entry(system.at("/sys/class/infiniband"), failed);
  while (!failed && entry != std::filesystem::directory_iterator()) {
    names.push_back(entry->path().filename().string());
    entry.increment(failed);
  }
  std::ranges::sort(names);
  return names;
}

Report no_device_here() {
  return {Code::kUnsupported, "this host has no RDMA device",
          "rdma link and lspci show what the kernel knows; leave the choice to auto, or name none"};
}

Reported<> check_device_name(std::string_view name, std::span<const std::string> names) {
  if (std::ranges::find(names, name) != names.end()) return {};
  std::string what = fmt::format("there is no RDMA device named '{}'", name);
  if (names.empty()) return report(Code::kUnsupported, std::move(what), no_device_here().what);
  return report(Code::kUnsupported, std::move(what),
                fmt::format("this host has {}; or say auto, or none", fmt::join(names, ", ")));
}

}  // namespace refract::fabric::verbs
