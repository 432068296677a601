// SPDX-License-Identifier: Apache-2.0
// What a region's bytes lie in, as people write it in the configuration:
//
//   memfd:       anonymous memory, in pages of 2 MiB where the kernel grants them and of 4 KiB elsewhere
//                (memory/host/large_pages.h); gone with the last process that holds it
//   hugetlb:     anonymous memory in pages of 2 MiB, which an administrator has set aside
//   file:FOLDER  one file a region in an existing folder: survives the processes (and, on a disk, the
//   machine)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "refract/base/report.h"

namespace refract {

enum class BackingKind : uint8_t { kMemfd, kHugetlb, kFile };

struct Backing {
  BackingKind kind = BackingKind::kMemfd;
  std::string folder;  // kFile only: absolute, without a slash at the end.
  // Whose regions these are: shards of a node share a folder, and the files of shard k > 0 end in ".k".
  uint32_t shard = 0;
  bool operator==(const Backing&) const = default;
};

// Errors name the part of `uri` that is wrong and what may stand there. Touches no file.
[[nodiscard]] Reported<Backing> parse_backing(std::string_view uri);

// The URI that parses to the same backing, but for the shard, which people do not write.
[[nodiscard]] std::string to_uri(const Backing& backing);

// Regions begin and end at multiples of this: 2 MiB for hugetlb:, else 4 KiB.
[[nodiscard]] uint64_t page_bytes(const Backing& backing) noexcept;

// The file of a region below a file: backing, "FOLDER/region-000", or "FOLDER/region-000.1" of shard 1.
[[nodiscard]] std::string region_path(const Backing& backing, uint16_t region);

}  // namespace refract
