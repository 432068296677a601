// SPDX-License-Identifier: Apache-2.0
// restore: a new data folder of another one, of what verifies in a damaged one, or of snapshots.
#include "apps/refract/restore.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "apps/progress/progress.h"
#include "apps/refract/commands.h"
#include "apps/refract/node_memory.h"
#include "apps/refract/terminal.h"

#include "refract/base/clock.h"
#include "refract/node/durable/folder_salvage.h"
#include "refract/storage/fresh_folder.h"
#include "refract/storage/posix_disk.h"

namespace refract::cli {
namespace {

namespace fs = std::filesystem;
using progress::bytes_text;
using progress::count_text;

[[nodiscard]] documents::Value json_of(const node::Salvaged& done, const std::string& to) {
  return {{"restored", to},
          {"shards", done.facts.shard_count},
          {"copies", done.facts.copies},
          {"is_part", done.facts.placement != 0},
          {"entries", done.entries},
          {"bytes", done.bytes},
          {"changes", done.changes},
          {"left_out", cli::json_of(done.left_out)},
          {"notes", done.notes}};
}

[[nodiscard]] std::string text_of(const node::Salvaged& done, const std::string& to) {
  std::string out;
  for (const node::FileDamage& damage : done.left_out) out += "left out: " + damage.to_string() + "\n";
  for (const std::string& note : done.notes) out += "note: " + note + "\n";
  if (done.facts.placement != 0) {
    out +=
        "note: it is one node's part of the keys; start it with the --cluster-nodes and --cluster-self that "
        "it "
        "had, too\n";
  }
  return out + fmt::format(
                   "restored {} entries, {}, into {}\n  refractd --data-durability everysec "
                   "--data-folder {} --server-shards {}{}\n",
                   count_text(done.entries), bytes_text(done.bytes), to, to, done.facts.shard_count,
                   done.facts.copies == 0 ? "" : fmt::format(" --kv-copies {}", done.facts.copies));
}

[[nodiscard]] Reported<node::Salvaged> restore(const Invocation& invocation, storage::Disk& to,
                                               const node::SalvageOptions& options) {
  std::vector<std::unique_ptr<storage::Disk>> disks;
  std::vector<node::SnapshotSourceFile> files;
  for (const std::string& named : invocation.files) {
    const auto path = whole_path(named);
    if (!path) return report(path.error());
    const bool is_whole_folder = is_folder(*path);
    if (is_whole_folder && invocation.files.size() > 1) {
      return report(Code::kInvalidArgument, fmt::format("{} is a folder, and there is more than it", *path),
                    "restore takes one data folder, or the snapshots of one store");
    }
    auto disk =
        storage::open_existing_posix_disk(is_whole_folder ? *path : fs::path(*path).parent_path().string());
    if (!disk) return report(std::move(disk).error());
    if (is_whole_folder) return node::salvage_folder(**disk, to, options);
    disks.push_back(*std::move(disk));
    files.push_back({.disk = *disks.back(), .name = fs::path(*path).filename().string()});
  }
  return node::salvage_snapshots(files, to, options);
}

}  // namespace

int run_restore(const Invocation& invocation) {
  const std::string target = fs::absolute(invocation.target).lexically_normal().string();
  auto folder = storage::FreshFolder::make(target);
  if (!folder) return complain(folder.error());
  progress::Style style = progress::style_of(STDERR_FILENO);
  style.silent = invocation.no_progress || !style.terminal;
  progress::Progress progress(system_clock(), progress::write_to_descriptor(STDERR_FILENO), style,
                              "restoring", "");
  uint64_t bytes = 0;
  node::SalvageOptions options{.salvages = invocation.salvage};
  options.on_progress = [&](uint64_t more) { progress.update({.count = 0, .bytes = bytes += more}); };
  const auto done = restore(invocation, folder->disk(), options);
  if (!done) return complain(done.error());
  if (const auto finished = folder->finish(); !finished) return complain(finished.error());
  const int written =
      invocation.json ? write_json(json_of(*done, target)) : write_text(text_of(*done, target));
  if (written != kDone || done->left_out.empty()) return written;
  return complain(kNotDone, damages_text(done->left_out.size()) + ": not everything was restored",
                  "keep the damaged folder until you know that you miss nothing");
}

}  // namespace refract::cli
