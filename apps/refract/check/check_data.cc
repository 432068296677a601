// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/check/check_data.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "apps/progress/progress.h"
#include "apps/refract/node_memory.h"
#include "apps/refract/restore.h"
#include "apps/refract/terminal.h"

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/storage/log/segment.h"
#include "refract/storage/posix_disk.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::cli {
namespace {

namespace fs = std::filesystem;
using node::FileDamage;
using node::FileReading;
using node::FolderReading;
using progress::bytes_text;
using progress::count_text;

[[nodiscard]] bool is_data_name(const std::string& name) {
  return storage::parse_snapshot_name(name).has_value() || storage::shard_of_segment(name).has_value();
}

// What of the folder has content to be read.
[[nodiscard]] uint64_t data_bytes(const std::string& folder) {
  uint64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (is_data_name(entry.path().filename().string())) bytes += entry.file_size(ignored);
  }
  return bytes;
}

[[nodiscard]] std::string line_of(const FileReading& file) {
  const bool has_content = file.kind == FileReading::Kind::kSnapshot ||
                           file.kind == FileReading::Kind::kSegment || file.kind == FileReading::Kind::kRing;
  std::string out = fmt::format("  {:<10} {:<38} {:>9}", text(file.kind), file.name, bytes_text(file.bytes));
  if (has_content) {
    const bool is_snapshot = file.kind == FileReading::Kind::kSnapshot;
    out += fmt::format("  {} {}", count_text(file.entries), is_snapshot ? "entries" : "records");
    if (file.first_stamp != 0) out += fmt::format(", versions {} to {}", file.first_stamp, file.last_stamp);
    if (file.wall_ns != 0) {
      const auto seconds = static_cast<std::time_t>(file.wall_ns / kSecond_ns);
      out += fmt::format(", of {:%F %TZ}", fmt::gmtime(seconds));
    }
  }
  const size_t damages = file.damages.size();
  out += damages == 0 ? "  sound" : fmt::format("  {} DAMAGE{}", damages, damages == 1 ? "" : "S");
  out += '\n';
  if (!file.note.empty()) out += fmt::format("             {}\n", file.note);
  return out;
}

[[nodiscard]] documents::Value json_of(const FileReading& file) {
  return {{"kind", text(file.kind)},
          {"name", file.name},
          {"shard", file.shard},
          {"bytes", file.bytes},
          {"entries", file.entries},
          {"first_version", file.first_stamp},
          {"last_version", file.last_stamp},
          {"wall_ns", file.wall_ns},
          {"note", file.note},
          {"damages", cli::json_of(file.damages)}};
}

// What would happen, and what to type next.
[[nodiscard]] std::string verdict_of(const FolderReading& found, const std::string& path) {
  const uint64_t damages = found.damage_count();
  if (found.is_in_use) {
    return fmt::format(
        "a node has the folder: its snapshots were looked at, and {}\n"
        "  the log is looked at when it has stopped; refract check without a path looks at its "
        "memory\n",
        damages == 0 ? "are sound" : "are damaged; refract snapshot writes a new one");
  }
  if (found.refusal) {
    return fmt::format("a start would serve nothing: {}\n", found.refusal->to_string());
  }
  if (damages > 0) {
    return fmt::format(
        "a start would serve the store: what is damaged is not needed any more\n"
        "  the next snapshot that is written replaces it; refractd --data-folder {}\n",
        path);
  }
  return "no damage; a start would serve the store\n";
}

class Reading {
 public:
  Reading(const Invocation& invocation, const std::string& label, uint64_t total)
      : style_(progress::style_of(STDERR_FILENO)),
        progress_(system_clock(), progress::write_to_descriptor(STDERR_FILENO), style_of(invocation, style_),
                  label, "") {
    if (total > 0) progress_.set_total({.count = std::nullopt, .bytes = total});
  }
  [[nodiscard]] node::FolderReadingOptions options() {
    return {.on_progress = [this](uint64_t bytes) {
      bytes_ += bytes;
      progress_.update({.count = 0, .bytes = bytes_});
    }};
  }

 private:
  static progress::Style style_of(const Invocation& invocation, progress::Style style) {
    // Lines of their own would be in the way of scripts; a person sees how far it is.
    style.silent = invocation.no_progress || !style.terminal;
    return style;
  }

  progress::Style style_;
  progress::Progress progress_;
  uint64_t bytes_ = 0;
};

int check_file(const Invocation& invocation, const std::string& path) {
  const fs::path file(path);
  const auto disk = storage::open_existing_posix_disk(file.parent_path().string());
  if (!disk) return complain(disk.error());
  std::error_code ignored;
  Reading reading(invocation, "checking", fs::file_size(file, ignored));
  auto found = node::read_one_file(**disk, file.filename().string(), reading.options());
  if (!found) return complain(found.error());
  const bool is_sound = found->damages.empty();
  std::string out = fmt::format("checked {}\n{}", path, line_of(*found));
  for (const FileDamage& damage : found->damages) out += "damage in " + damage.to_string() + "\n";
  if (is_sound) out += "no damage\n";
  const int written = invocation.json ? write_json(json_of(*found)) : write_text(out);
  if (written != kDone || is_sound) return written;
  return complain(kNotDone, fmt::format("{} in {}", damages_text(found->damages.size()), path),
                  "refract check of the whole folder says what a start would do without it");
}

int check_store(const Invocation& invocation, const std::string& path) {
  const auto disk = storage::open_existing_posix_disk(path);
  if (!disk) return complain(disk.error());
  Reading reading(invocation, "checking", data_bytes(path));
  const auto found = node::read_folder(**disk, reading.options());
  if (!found) return complain(found.error());
  const int written =
      invocation.json ? write_json(cli::json_of(*found, path)) : write_text(cli::text_of(*found, path));
  if (written != kDone || (found->damage_count() == 0 && !found->refusal)) return written;
  return complain(kNotDone, fmt::format("{} in {}", damages_text(found->damage_count()), path),
                  found->refusal
                      ? fmt::format("what verifies, into a new folder: refract restore --salvage {} "
                                    "--to NEWFOLDER",
                                    path)
                      : std::string());
}

}  // namespace

std::string damages_text(uint64_t count) {
  return count == 1 ? "1 damage" : count_text(count) + " damages";
}

documents::Value json_of(const std::vector<FileDamage>& damages) {
  documents::Value rows = documents::Value::array();
  for (const FileDamage& damage : damages) {
    rows.push_back({{"file", damage.path},
                    {"offset", damage.offset},
                    {"bytes", damage.bytes},
                    {"what", damage.what},
                    {"lost", damage.lost}});
  }
  return rows;
}

std::string text_of(const FolderReading& found, const std::string& path) {
  std::string out = fmt::format("checked {}", path);
  if (found.facts) {
    out += fmt::format(": a store of {} shard{}", found.facts->shard_count,
                       found.facts->shard_count == 1 ? "" : "s");
  }
  out += '\n';
  for (const FileReading& file : found.files) out += line_of(file);
  for (const FileReading& file : found.files) {
    for (const FileDamage& damage : file.damages) out += "damage in " + damage.to_string() + "\n";
  }
  return out + verdict_of(found, path);
}

documents::Value json_of(const FolderReading& found, const std::string& path) {
  documents::Value files = documents::Value::array();
  for (const FileReading& file : found.files) files.push_back(json_of(file));
  documents::Value start;  // Null: the node that has the folder serves it.
  if (!found.is_in_use) start = found.refusal ? found.refusal->what : "serves";
  return {{"healthy", found.damage_count() == 0 && !found.refusal},
          {"checked", path},
          {"in_use", found.is_in_use},
          {"start", start},
          {"damage_count", found.damage_count()},
          {"files", files}};
}

bool is_data(const std::string& path) {
  if (!is_folder(path)) return true;
  std::error_code ignored;
  if (fs::exists(path + "/store", ignored)) return true;
  for (const auto& entry : fs::directory_iterator(path, ignored)) {
    if (is_data_name(entry.path().filename().string())) return true;
  }
  return false;
}

int check_data(const Invocation& invocation, const std::string& path) {
  return is_folder(path) ? check_store(invocation, path) : check_file(invocation, path);
}

}  // namespace refract::cli
