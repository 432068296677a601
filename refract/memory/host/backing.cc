// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/host/backing.h"

#include <fmt/core.h>

#include "refract/memory/host/limits.h"

namespace refract {
namespace {

constexpr const char* kChoices = "one of memfd:, hugetlb: and file:/FOLDER";

}  // namespace

Reported<Backing> parse_backing(std::string_view uri) {
  const size_t colon = uri.find(':');
  if (colon == std::string_view::npos) {
    return report(Code::kInvalidArgument, fmt::format("'{}' is no backing: a colon is missing", uri),
                  fmt::format("write {}", kChoices));
  }
  const std::string_view scheme = uri.substr(0, colon);
  std::string_view rest = uri.substr(colon + 1);
  if (scheme == "memfd" || scheme == "hugetlb") {
    if (rest.empty()) return Backing{scheme == "memfd" ? BackingKind::kMemfd : BackingKind::kHugetlb, {}};
    return report(Code::kInvalidArgument, fmt::format("'{}': nothing may follow {}:", uri, scheme),
                  fmt::format("write {}", kChoices));
  }
  if (scheme != "file") {
    return report(Code::kInvalidArgument, fmt::format("'{}': there is no backing '{}:'", uri, scheme),
                  fmt::format("write {}", kChoices));
  }
  if (!rest.starts_with('/')) {
    return report(Code::kInvalidArgument, fmt::format("'{}': the folder must be an absolute path", uri),
                  "write file:/FOLDER");
  }
  if (rest.find('\0') != std::string_view::npos) {
    return report(Code::kInvalidArgument, "the folder of file: holds a zero byte", "write file:/FOLDER");
  }
  while (rest.size() > 1 && rest.ends_with('/')) rest.remove_suffix(1);
  return Backing{BackingKind::kFile, std::string(rest)};
}

std::string to_uri(const Backing& backing) {
  switch (backing.kind) {
    case BackingKind::kMemfd:
      return "memfd:";
    case BackingKind::kHugetlb:
      return "hugetlb:";
    case BackingKind::kFile:
      break;
  }
  return "file:" + backing.folder;
}

uint64_t page_bytes(const Backing& backing) noexcept {
  return backing.kind == BackingKind::kHugetlb ? kHugePageBytes : 4096;
}

std::string region_path(const Backing& backing, uint16_t region) {
  const std::string path =
      fmt::format("{}/region-{:03}", backing.folder == "/" ? "" : backing.folder, region);
  return backing.shard == 0 ? path : fmt::format("{}.{}", path, backing.shard);
}

}  // namespace refract
