// SPDX-License-Identifier: Apache-2.0
#include "refract/node/config/config.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <filesystem>
#include <optional>

#include "refract/arguments/command.h"
#include "refract/base/default_socket.h"
#include "refract/base/units.h"
#include "refract/fabric/shm/node_page.h"
#include "refract/fabric/tcp/listen.h"
#include "refract/node/config/config_file.h"
#include "refract/node/config/knobs.h"

namespace refract::node {
namespace {

// Below it a shard has no room for a table and for values of a few MiB.
constexpr uint64_t kShardBytesMin = 16 * kMiB;

struct Setting {
  const Knob* knob;
  std::string text;
  Source source;
  std::string place;
  std::string subject;  // What errors begin with: the place, and the key where the place does not name it.
};

struct Flags {
  std::vector<Setting> settings;
  arguments::Given config_file;
  bool help = false;
  bool version = false;
  bool print_config = false;
};

std::string suggestion(std::string_view name, std::span<const std::string> names) {
  const std::string nearest = nearest_name(name, names);
  if (!nearest.empty()) return fmt::format("did you mean {}?", nearest);
  return "refractd --help lists all names";
}

template <typename NameOf>
std::vector<std::string> names_of(NameOf&& name_of) {
  std::vector<std::string> names;
  for (const Knob& knob : knobs()) names.emplace_back(name_of(knob));
  return names;
}

std::unexpected<Report> unknown_argument(const std::string& argument) {
  std::vector<std::string> names = names_of(flag_of);
  for (const char* other : {"--config", "--print-config", "--help", "--version"}) names.emplace_back(other);
  const std::string flag = argument.substr(0, argument.find('='));
  if (!flag.starts_with('-')) {
    return report(Code::kInvalidArgument,
                  fmt::format("'{}' is no flag, and refractd takes no other arguments", argument),
                  "refractd --help lists all flags");
  }
  return report(Code::kInvalidArgument, fmt::format("there is no flag {}", flag), suggestion(flag, names));
}

Reported<Flags> read_flags(std::span<const char* const> words) {
  using arguments::Given;
  Flags flags;
  arguments::Command command({}, {.keeps_unknown = true, .has_help = false});
  command.add({.names = "--help,-h", .to = &flags.help});
  command.add({.names = "--version", .to = &flags.version});
  command.add({.names = "--print-config", .to = &flags.print_config});
  command.add({.names = "--config", .to = &flags.config_file, .last_counts = true});
  std::vector<Given> values(knobs().size());
  for (const Knob& knob : knobs()) {
    Given& value = values[static_cast<size_t>(&knob - knobs().data())];
    const bool is_flag = knob.type == KnobType::kBool;
    command.add({.names = flag_of(knob), .to = &value, .may_be_bare = is_flag, .last_counts = true});
  }
  // Without the program's name.
  const arguments::CommandRead read = command.read(words.subspan(std::min<size_t>(words.size(), 1)));
  if (!read.refused.empty()) {
    return report(Code::kInvalidArgument, read.refused, "refractd --help lists all flags");
  }
  if (!read.unknown.empty()) return unknown_argument(read.unknown.front());
  for (const Knob& knob : knobs()) {
    const Given& value = values[static_cast<size_t>(&knob - knobs().data())];
    if (!value.is_there) continue;
    std::string text = value.last();
    if (knob.type == KnobType::kBool && text.empty()) text = "true";
    flags.settings.push_back({&knob, std::move(text), Source::kFlag, flag_of(knob), flag_of(knob)});
  }
  return flags;
}

// Other variables that begin with REFRACT_ may be meant for other programs, so that only near misses are
// noted.
std::vector<Setting> read_environment(std::span<const char* const> environment,
                                      std::vector<std::string>& warnings) {
  const std::vector<std::string> names = names_of(environment_of);
  std::vector<Setting> settings;
  for (const char* entry : environment) {
    const std::string_view whole = entry;
    const size_t equals = whole.find('=');
    if (!whole.starts_with("REFRACT_") || equals == std::string_view::npos) continue;
    const std::string name(whole.substr(0, equals));
    const auto known = std::ranges::find(names, name);
    if (known == names.end()) {
      const std::string nearest = nearest_name(name, names);
      if (!nearest.empty()) {
        warnings.push_back(fmt::format("the variable {} is ignored; did you mean {}?", name, nearest));
      }
      continue;
    }
    // An empty variable is how containers say "not set".
    if (equals + 1 == whole.size()) continue;
    const Knob& knob = knobs()[static_cast<size_t>(known - names.begin())];
    settings.push_back({&knob, std::string(whole.substr(equals + 1)), Source::kEnvironment, name, name});
  }
  return settings;
}

bool kind_fits(KnobType type, FileValue kind) {
  switch (type) {
    case KnobType::kBytes:
      return kind == FileValue::kText || kind == FileValue::kInteger;
    case KnobType::kInteger:
      return kind == FileValue::kInteger;
    case KnobType::kBool:
      return kind == FileValue::kBool;
    case KnobType::kDuration:
    case KnobType::kText:
      break;
  }
  return kind == FileValue::kText;
}

const char* kind_text(FileValue kind) {
  switch (kind) {
    case FileValue::kText:
      return "text in quotes";
    case FileValue::kInteger:
      return "a bare number";
    case FileValue::kBool:
      return "a bare true or false";
    case FileValue::kTable:
      return "a table";
    case FileValue::kOther:
      break;
  }
  return "a value of another type";
}

std::string wanted_kind(KnobType type) {
  if (type == KnobType::kInteger) return "a bare integer";
  if (type == KnobType::kBool) return "a bare true or false";
  if (type == KnobType::kDuration) return "a duration in quotes, such as \"50us\"";
  return type == KnobType::kBytes ? "a size in quotes, such as \"512MiB\"" : "text in quotes";
}

Reported<std::vector<Setting>> read_file(const std::string& path) {
  const Reported<std::vector<FileSetting>> read = read_config_file(path);
  if (!read) return report(read.error());
  const std::vector<std::string> keys = names_of([](const Knob& knob) { return knob.key; });
  std::vector<Setting> settings;
  for (const FileSetting& entry : *read) {
    const std::string place = fmt::format("{}:{}", path, entry.line);
    const Knob* knob = find_knob(entry.key);
    if (knob == nullptr) {
      const auto is_below = [&](const std::string& key) { return key.starts_with(entry.key + "."); };
      if (entry.kind == FileValue::kTable && std::ranges::any_of(keys, is_below)) continue;
      return report(Code::kInvalidArgument, fmt::format("{}: there is no key {}", place, entry.key),
                    suggestion(entry.key, keys));
    }
    if (!kind_fits(knob->type, entry.kind)) {
      return report(Code::kInvalidArgument, fmt::format("{}: {}: expected {}, found {}", place, entry.key,
                                                        wanted_kind(knob->type), kind_text(entry.kind)));
    }
    settings.push_back({knob, entry.text, Source::kFile, place, fmt::format("{}: {}", place, entry.key)});
  }
  return settings;
}

uint64_t share_of(uint64_t bytes, uint64_t percent) {
  return bytes / 100 * percent + bytes % 100 * percent / 100;
}

Reported<> apply(const Setting& setting, uint64_t available_bytes, LoadedConfig& loaded) {
  const Knob& knob = *setting.knob;
  Reported<KnobValue> value = parse_value(knob, setting.text);
  if (!value) return report(value.error().code, fmt::format("{}: {}", setting.subject, value.error().what));
  if (value->percent != 0) {
    value->number = static_cast<int64_t>(share_of(available_bytes, value->percent));
    if (value->number < knob.least) {
      return report(
          Code::kNoSpace,
          fmt::format("{}: {} of the {} that are available is less than {}", setting.subject, setting.text,
                      bytes_text(available_bytes), exact_bytes(static_cast<uint64_t>(knob.least))),
          "free memory, raise the limit of the cgroup, or choose a larger share");
    }
  }
  const Reported<> stored = knob.store(loaded.config, *value);
  if (!stored) {
    return report(stored.error().code, fmt::format("{}: {}", setting.subject, stored.error().what),
                  stored.error().next);
  }
  loaded.origins[static_cast<size_t>(setting.knob - knobs().data())] = {setting.source, setting.place};
  return {};
}

// `name` with its '='; empty: there is no such variable.
std::string value_of(std::span<const char* const> environment, std::string_view name) {
  for (const std::string_view entry : environment) {
    if (entry.starts_with(name)) return std::string(entry.substr(name.size()));
  }
  return {};
}

std::string default_data_folder(std::span<const char* const> environment, uid_t user) {
  const std::string state = value_of(environment, "XDG_STATE_HOME=");
  if (state.starts_with('/')) return state + "/refract";
  const std::string home = value_of(environment, "HOME=");
  if (user != 0 && home.starts_with('/')) return home + "/.local/state/refract";
  return "/var/lib/refract";
}

// Empty where the host has none.
std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string();
}

Reported<> apply_defaults(const LoadInputs& inputs, uint64_t available_bytes, LoadedConfig& loaded) {
  loaded.origins.resize(knobs().size());
  loaded.config.socket_path =
      default_socket_path(value_of(inputs.environment, "XDG_RUNTIME_DIR=").c_str(), ::geteuid());
  loaded.config.data_folder = default_data_folder(inputs.environment, ::geteuid());
  loaded.config.cluster_self = host_name();
  const auto least = static_cast<uint64_t>(find_knob("memory.limit")->least);
  loaded.config.memory_limit_bytes = std::max(least, std::min(kGiB, available_bytes / 2));
  for (const Knob& knob : knobs()) {
    if (knob.fallback.empty()) continue;
    const Setting setting{&knob, std::string(knob.fallback), Source::kDefault, "", std::string(knob.key)};
    if (Reported<> applied = apply(setting, available_bytes, loaded); !applied) return applied;
  }
  return {};
}

const Origin& origin_of(const LoadedConfig& loaded, std::string_view key) {
  return loaded.origins[static_cast<size_t>(find_knob(key) - knobs().data())];
}

Reported<> settle_memory(LoadedConfig& loaded, uint64_t available_bytes) {
  static constexpr uint64_t kUnit = 2 * kMiB;
  NodeConfig& config = loaded.config;
  config.memory_limit_bytes = config.memory_limit_bytes / kUnit * kUnit;
  config.memory_initial_bytes = config.memory_initial_bytes / kUnit * kUnit;
  if (share_of_shard(config.memory_limit_bytes, config.server_shards) < kShardBytesMin) {
    return report(
        Code::kInvalidArgument,
        fmt::format("memory.limit is {}, which leaves less than {} to each of the {} shards of server.shards",
                    exact_bytes(config.memory_limit_bytes), exact_bytes(kShardBytesMin),
                    config.server_shards),
        "raise the one or lower the other");
  }
  const Origin& origin = origin_of(loaded, "memory.initial");
  if (origin.source == Source::kDefault) {
    const uint64_t least = kShardBytesMin * config.server_shards;
    config.memory_initial_bytes =
        std::min(std::max(config.memory_initial_bytes, least), config.memory_limit_bytes);
  } else if (config.memory_initial_bytes > config.memory_limit_bytes) {
    return report(
        Code::kInvalidArgument,
        fmt::format("{}: memory.initial is {}, which is above the memory.limit of {}", origin.place,
                    exact_bytes(config.memory_initial_bytes), exact_bytes(config.memory_limit_bytes)),
        "lower the one or raise the other");
  } else if (share_of_shard(config.memory_initial_bytes, config.server_shards) == 0) {
    return report(Code::kInvalidArgument,
                  fmt::format("{}: memory.initial is {}, which is less than 2MiB for each of {} shards",
                              origin.place, exact_bytes(config.memory_initial_bytes), config.server_shards),
                  "raise it, or lower server.shards");
  }
  if (config.memory_limit_bytes > available_bytes && config.memory_backing.kind == BackingKind::kMemfd) {
    loaded.warnings.push_back(fmt::format("memory.limit is {}, but only {} are available now",
                                          exact_bytes(config.memory_limit_bytes),
                                          bytes_text(available_bytes)));
  }
  return {};
}

// Which of two memories that outlive a host is right cannot be known.
Reported<> settle_data(LoadedConfig& loaded) {
  NodeConfig& config = loaded.config;
  config.is_data_folder_default = origin_of(loaded, "data.folder").source == Source::kDefault;
  if (config.durability == Durability::kNone || config.memory_backing.kind != BackingKind::kFile) return {};
  return report(
      Code::kInvalidArgument,
      fmt::format("{}: memory.backing names files, and data.durability keeps the data in a log already",
                  origin_of(loaded, "data.durability").place),
      "leave memory.backing at memfd: or hugetlb:, or data.durability at none");
}

Reported<> settle_addresses(const LoadedConfig& loaded) {
  const NodeConfig& config = loaded.config;
  const uint32_t shards = config.server_shards + (has_objects(config) ? 1 : 0);
  const std::string last = fabric::shm::shard_socket_path(config.socket_path, shards - 1);
  if (last.size() > kSocketPathBytesMax) {
    return report(Code::kInvalidArgument,
                  fmt::format("socket.path has {} bytes, and the last of {} shards adds {}, where the system "
                              "allows {}",
                              config.socket_path.size(), shards, last.size() - config.socket_path.size(),
                              kSocketPathBytesMax),
                  "choose a shorter path");
  }
  if (config.listen_address.empty() || !config.auth_secret_file.empty()) return {};
  const auto is_loopback = fabric::tcp::is_loopback(config.listen_address);
  if (!is_loopback) return report(is_loopback.error());
  if (*is_loopback) return {};
  return report(
      Code::kInvalidArgument,
      fmt::format("{}: other hosts can reach {}, and without auth.secret_file anyone there could "
                  "read and change the store",
                  origin_of(loaded, "listen.address").place, config.listen_address),
      "(umask 077; head -c 32 /dev/urandom | base64 > FILE), and start with --auth-secret-file FILE; or "
      "listen at 127.0.0.1");
}

// Where this process is; empty: in a folder that has gone, so that nothing is relative to it.
std::string working_folder() {
  std::error_code gone;
  return std::filesystem::current_path(gone).string();
}

void make_paths_absolute(std::vector<Setting>& settings, const std::string& folder) {
  for (Setting& setting : settings) setting.text = with_absolute_path(*setting.knob, setting.text, folder);
}

// What no value by itself shows to be wrong.
Reported<> settle(LoadedConfig& loaded, uint64_t available_bytes) {
  if (auto settled = settle_memory(loaded, available_bytes); !settled) return settled;
  if (auto settled = settle_data(loaded); !settled) return settled;
  if (loaded.config.cluster_nodes.empty() && origin_of(loaded, "cluster.self").source != Source::kDefault) {
    loaded.warnings.emplace_back("cluster.self is of no effect without cluster.nodes");
  }
  if (loaded.config.cluster_nodes.empty() && !loaded.config.cluster_secret_file.empty()) {
    loaded.warnings.emplace_back("cluster.secret_file is of no effect without cluster.nodes");
  }
  const bool shares = !loaded.config.cluster_nodes.empty() && !loaded.config.cluster_secret_file.empty();
  if (!loaded.config.objects_directory.empty() && !shares) {
    loaded.warnings.emplace_back(
        "objects.directory is of no effect without cluster.nodes and cluster.secret_file");
  }
  if (loaded.config.objects_directory.empty() && !loaded.config.objects_directory_secret_file.empty()) {
    loaded.warnings.emplace_back("objects.directory_secret_file is of no effect without objects.directory");
  }
  return settle_addresses(loaded);
}

}  // namespace

Reported<LoadedConfig> load_config(const LoadInputs& inputs) {
  Reported<Flags> flags = read_flags(inputs.arguments);
  if (!flags) return report(flags.error());
  LoadedConfig loaded;
  if (flags->help || flags->version) {
    loaded.text_to_print = flags->help ? help_text() : version_text();
    return loaded;
  }
  const Reported<MemoryLimits> limits = memory_limits(inputs.system);
  if (!limits) return report(limits.error());
  const uint64_t available_bytes = limits->available_bytes();
  if (Reported<> applied = apply_defaults(inputs, available_bytes, loaded); !applied)
    return report(applied.error());

  std::vector<Setting> settings;
  if (flags->config_file.is_there || ::access(inputs.default_file.c_str(), F_OK) == 0) {
    loaded.config_file = flags->config_file.is_there ? flags->config_file.last() : inputs.default_file;
    Reported<std::vector<Setting>> read = read_file(loaded.config_file);
    if (!read) return report(read.error());
    settings = std::move(*read);
  }
  const std::string folder = inputs.working_folder.empty() ? working_folder() : inputs.working_folder;
  std::vector<Setting> variables = read_environment(inputs.environment, loaded.warnings);
  make_paths_absolute(variables, folder);
  make_paths_absolute(flags->settings, folder);
  std::ranges::move(variables, std::back_inserter(settings));
  std::ranges::move(flags->settings, std::back_inserter(settings));
  // Ascending precedence: a later one overwrites, but none goes unchecked.
  for (const Setting& setting : settings) {
    if (Reported<> applied = apply(setting, available_bytes, loaded); !applied)
      return report(applied.error());
  }
  if (Reported<> settled = settle(loaded, available_bytes); !settled) return report(settled.error());
  if (flags->print_config) loaded.text_to_print = print_config(loaded);
  return loaded;
}

Reported<LoadedConfig> load_config(int argc, const char* const* argv, const char* const* environment) {
  size_t variables = 0;
  while (environment[variables] != nullptr) ++variables;
  LoadInputs inputs;
  inputs.arguments = {argv, static_cast<size_t>(argc)};
  inputs.environment = {environment, variables};
  return load_config(inputs);
}

}  // namespace refract::node
