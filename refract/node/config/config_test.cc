// SPDX-License-Identifier: Apache-2.0
// A node gets the configuration that was meant, or an error that names the place and what was expected there.
//
// Method: files, flags and variables of our own, on a machine with 16 GiB of which 12 GiB are available.
#include "refract/node/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/node/config/config_file.h"
#include "refract/node/config/knobs.h"

namespace refract::node {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Config : testing::Test {
  test::FakeSystem system;
  std::string file = system.path() + "/refractd.toml";

  [[nodiscard]] Reported<LoadedConfig> load(std::vector<const char*> flags,
                                            std::vector<const char*> environment = {}) const {
    flags.insert(flags.begin(), "refractd");
    return load_config(
        {.arguments = flags, .environment = environment, .default_file = file, .system = system.root()});
  }
  [[nodiscard]] NodeConfig loaded(std::vector<const char*> flags,
                                  std::vector<const char*> environment = {}) const {
    const Reported<LoadedConfig> result = load(std::move(flags), std::move(environment));
    EXPECT_TRUE(result) << (result ? "" : result.error().to_string());
    return result ? result->config : NodeConfig{};
  }
  [[nodiscard]] std::string refusal(std::vector<const char*> flags,
                                    std::vector<const char*> environment = {}) const {
    const Reported<LoadedConfig> result = load(std::move(flags), std::move(environment));
    return result ? "loaded" : result.error().to_string();
  }
  [[nodiscard]] std::string refusal_of_file(const std::string& text) const {
    system.write("refractd.toml", text);
    std::string refused = refusal({});
    // Leaves what follows the folder, which has a name of its own in each run.
    for (size_t at = refused.find(file); at != std::string::npos; at = refused.find(file)) {
      refused.replace(at, file.size(), "FILE");
    }
    return refused;
  }
};

TEST_F(Config, has_defaults_for_everything) {
  const NodeConfig config = loaded({}, {"XDG_RUNTIME_DIR=/run/user/7"});
  EXPECT_EQ(config.socket_path, "/run/user/7/refract/node.sock");
  EXPECT_EQ(config.memory_limit_bytes, kGiB);
  EXPECT_EQ(config.memory_initial_bytes, 64 * kMiB);
  EXPECT_EQ(config.memory_backing, Backing{});
  EXPECT_FALSE(config.memory_in_core_dumps);
  EXPECT_EQ(config.durability, Durability::kNone);
  EXPECT_EQ(loaded({}, {"XDG_STATE_HOME=/state", "HOME=/home/u"}).data_folder, "/state/refract");
  EXPECT_GT(config.snapshot_every_ns, 0U);
  EXPECT_EQ(config.log_level, LogLevel::kInfo);
  EXPECT_EQ(config.server_spin_ns, 50'000U);
  EXPECT_EQ(config.server_cpu, -1);
  EXPECT_EQ(config.restart_limit, 5U);
  EXPECT_GT(config.clients_max, 0U);
  EXPECT_GT(config.restart_backoff_ns, 0U);
  EXPECT_GT(config.ttl_sweep_ns, 0U);
}

TEST_F(Config, on_a_small_machine_the_default_takes_half) {
  system.memory(1 << 20, 101 << 10);
  EXPECT_EQ(loaded({}).memory_limit_bytes, 50 * kMiB);
  EXPECT_EQ(loaded({}).memory_initial_bytes, 50 * kMiB);
}

TEST_F(Config, a_flag_wins_over_the_environment_and_that_over_the_file) {
  system.write("refractd.toml", "[clients]\nmax = 1\n[restart]\nlimit = 1\n[server]\ncpu = 1\n");
  const Reported<LoadedConfig> result =
      load({"--clients-max", "3"}, {"REFRACT_CLIENTS_MAX=2", "REFRACT_RESTART_LIMIT=2"});
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_EQ(result->config.clients_max, 3U);
  EXPECT_EQ(result->config.restart_limit, 2U);
  EXPECT_EQ(result->config.server_cpu, 1);
  EXPECT_EQ(result->config_file, file);
  const auto origin = [&](const char* key) {
    return result->origins[static_cast<size_t>(find_knob(key) - knobs().data())];
  };
  EXPECT_EQ(origin("clients.max").place, "--clients-max");
  EXPECT_EQ(origin("restart.limit").place, "REFRACT_RESTART_LIMIT");
  EXPECT_EQ(origin("server.cpu").place, file + ":6");
  EXPECT_EQ(origin("log.level").source, Source::kDefault);
}

TEST_F(Config, every_knob_can_be_set_from_every_source) {
  for (const Knob& knob : knobs()) {
    const Reported<LoadedConfig> plain = load({});
    ASSERT_TRUE(plain);
    const std::string value = knob.show(plain->config);
    const bool is_bare = knob.type == KnobType::kInteger || knob.type == KnobType::kBool;
    const std::string flag = flag_of(knob) + "=" + value;
    const std::string variable = environment_of(knob) + "=" + value;
    const size_t index = static_cast<size_t>(&knob - knobs().data());
    EXPECT_EQ(load({flag.c_str()})->origins[index].source, Source::kFlag) << flag;
    EXPECT_EQ(load({}, {variable.c_str()})->origins[index].source, Source::kEnvironment) << variable;
    system.write("refractd.toml",
                 std::string(knob.key) + " = " + (is_bare ? value : "\"" + value + "\"") + "\n");
    const Reported<LoadedConfig> from_file = load({});
    ASSERT_TRUE(from_file) << from_file.error().to_string();
    EXPECT_EQ(from_file->origins[index].source, Source::kFile) << knob.key;
    std::filesystem::remove(file);
  }
}

TEST_F(Config, flags_may_be_written_in_both_ways_and_repeated) {
  EXPECT_EQ(loaded({"--server-cpu", "-1"}).server_cpu, -1);
  EXPECT_EQ(loaded({"--server-cpu=3"}).server_cpu, 3);
  EXPECT_EQ(loaded({"--server-cpu=3", "--server-cpu=4"}).server_cpu, 4);
  EXPECT_TRUE(loaded({"--memory-dump"}).memory_in_core_dumps);
  EXPECT_TRUE(loaded({"--memory-dump", "--server-cpu=3"}).memory_in_core_dumps);
  EXPECT_FALSE(loaded({"--memory-dump=false"}).memory_in_core_dumps);
}

TEST_F(Config, an_empty_variable_is_not_set) {
  EXPECT_EQ(loaded({}, {"REFRACT_SERVER_CPU="}).server_cpu, -1);
}

TEST_F(Config, a_share_is_taken_of_what_is_available) {
  EXPECT_EQ(loaded({"--memory-limit=50%"}).memory_limit_bytes, 6 * kGiB);
  EXPECT_EQ(loaded({}, {"REFRACT_MEMORY_LIMIT=100%"}).memory_limit_bytes, 12 * kGiB);
  system.memory(1 << 20, 100 << 10);
  EXPECT_THAT(refusal({"--memory-limit=1%"}),
              HasSubstr("--memory-limit: 1% of the 100 MiB that are available"));
}

TEST_F(Config, more_than_is_available_is_a_warning) {
  const Reported<LoadedConfig> result = load({"--memory-limit=64GiB"});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->warnings, ElementsAre("memory.limit is 64GiB, but only 12 GiB are available now"));
  EXPECT_THAT(load({"--memory-limit=12GiB"})->warnings, IsEmpty());
}

TEST_F(Config, the_initial_memory_may_not_exceed_the_limit) {
  EXPECT_EQ(loaded({"--memory-limit=32MiB"}).memory_initial_bytes, 32 * kMiB);
  EXPECT_THAT(
      refusal({"--memory-limit=32MiB", "--memory-initial=64MiB"}),
      HasSubstr("--memory-initial: memory.initial is 64MiB, which is above the memory.limit of 32MiB"));
}

TEST_F(Config, errors_in_the_file_name_line_key_and_what_was_expected) {
  EXPECT_THAT(refusal_of_file("# x\n\n[memory]\nlimit = \"lots\"\n"),
              HasSubstr("FILE:4: memory.limit: expected a size such as 512MiB or 4GiB, or a share such as "
                        "50%, found 'lots'"));
  EXPECT_THAT(refusal_of_file("[memory]\nlimt = \"1GiB\"\n"),
              HasSubstr("FILE:2: there is no key memory.limt\n  did you mean memory.limit?"));
  EXPECT_THAT(refusal_of_file("[memroy]\nlimit = \"1GiB\"\n"), HasSubstr("FILE:1: there is no key memroy"));
  EXPECT_THAT(refusal_of_file("[server]\ncpu = \"2\"\n"),
              HasSubstr("FILE:2: server.cpu: expected a bare integer, found text in quotes"));
  EXPECT_THAT(
      refusal_of_file("[server]\nspin = 50\n"),
      HasSubstr("FILE:2: server.spin: expected a duration in quotes, such as \"50us\", found a bare number"));
  EXPECT_THAT(refusal_of_file("[memory]\ndump = \"true\"\n"), HasSubstr("expected a bare true or false"));
  EXPECT_THAT(refusal_of_file("[memory.limit]\n"), HasSubstr("FILE:1: memory.limit: expected a size"));
  EXPECT_THAT(refusal_of_file("memory = 3\n"), HasSubstr("FILE:1: there is no key memory"));
  EXPECT_THAT(refusal_of_file("[socket]\npath = []\n"), HasSubstr("found a value of another type"));
  EXPECT_THAT(
      refusal_of_file("[socket]\npath = \"here\"\n"),
      HasSubstr("expected an absolute path, found 'here'\n  a path may be relative on the command line"));
  EXPECT_THAT(refusal_of_file("[data]\nfolder = \"here\"\n"), HasSubstr("expected an absolute path"));
  EXPECT_THAT(refusal_of_file("[auth]\nsecret_file = \"here\"\n"), HasSubstr("expected an absolute path"));
  EXPECT_THAT(refusal_of_file("[memory]\nbacking = \"file:here\"\n"), HasSubstr("must be an absolute path"));
  EXPECT_THAT(refusal_of_file("[memory]\nbacking = \"shm:\"\n"),
              HasSubstr("memory.backing: 'shm:': there is no backing"));
  EXPECT_THAT(refusal_of_file("[log]\nlevel = \"loud\"\n"), HasSubstr("expected error, warn, info or debug"));
}

TEST_F(Config, what_is_no_toml_is_an_error_with_its_line) {
  EXPECT_THAT(refusal_of_file("[server]\ncpu = \n"), HasSubstr("FILE:2: not TOML: "));
  EXPECT_THAT(refusal_of_file("[server]\ncpu = 1\ncpu = 2\n"), HasSubstr("FILE:3: not TOML: "));
  EXPECT_THAT(refusal_of_file("\xff\xfe\n"), HasSubstr("FILE:1: not TOML: "));
  EXPECT_THAT(refusal_of_file(std::string(2 << 20, '#')), HasSubstr("larger than 1 MiB"));
  EXPECT_THAT(refusal_of_file(std::string(100'000, '[')), HasSubstr("not TOML"));
}

TEST_F(Config, no_bytes_in_the_file_crash_the_node) {
  static constexpr std::string_view kPieces[] = {"[",  "]", "=",   "\"",     "'",     ".",  ",", "{", "}",
                                                 "\n", " ", "#",   "memory", "limit", "1",  "-", "+", "e",
                                                 "_",  ":", "inf", "\\u",    "\xff",  "0x", "\r"};
  for (uint64_t seed = 0; seed < 1'000; ++seed) {
    Prng prng(seed);
    std::string text;
    for (uint64_t i = prng.below(24); i > 0; --i) text += kPieces[prng.below(std::size(kPieces))];
    // A name of its own: some file systems wait for the disk when a file is written again.
    const std::string name = std::to_string(seed) + "-refractd.toml";
    system.write(name, text);
    const Reported<std::vector<FileSetting>> result = read_config_file(system.path() + "/" + name);
    if (!result) {
      EXPECT_THAT(result.error().what, HasSubstr("refractd.toml:")) << seed;
    }
  }
}

TEST_F(Config, a_value_that_another_source_overrides_is_checked_too) {
  system.write("refractd.toml", "[server]\ncpu = 99999\n");
  EXPECT_THAT(refusal({"--server-cpu=1"}, {}), HasSubstr("server.cpu: expected -1 to 4095, found '99999'"));
}

TEST_F(Config, errors_in_flags_and_variables_name_them) {
  EXPECT_EQ(refusal({"--memory-limt=1GiB"}),
            "there is no flag --memory-limt\n  did you mean --memory-limit?");
  EXPECT_EQ(refusal({"--print-confg"}), "there is no flag --print-confg\n  did you mean --print-config?");
  EXPECT_THAT(refusal({"--memory"}), HasSubstr("there is no flag --memory"));
  EXPECT_THAT(refusal({"start"}), HasSubstr("'start' is no flag"));
  EXPECT_THAT(refusal({"--server-cpu=x"}), HasSubstr("--server-cpu: expected an integer, found 'x'"));
  EXPECT_THAT(refusal({"--server-cpu"}), HasSubstr("--server-cpu"));
  EXPECT_THAT(refusal({}, {"REFRACT_SERVER_CPU=x"}),
              HasSubstr("REFRACT_SERVER_CPU: expected an integer, found 'x'"));
  const std::string path = "--socket-path=/" + std::string(107, 'x');
  EXPECT_THAT(refusal({path.c_str()}), HasSubstr("at most 107 bytes"));
}

TEST_F(Config, data_are_kept_in_files_or_in_a_log_and_not_in_both) {
  EXPECT_EQ(loaded({"--data-durability=always"}).durability, Durability::kAlways);
  EXPECT_THAT(refusal({"--data-durability=sometimes"}),
              HasSubstr("--data-durability: expected none, everysec or always, found 'sometimes'"));
  EXPECT_THAT(refusal({"--data-durability=everysec", "--memory-backing=file:/srv/data"}),
              HasSubstr("--data-durability: memory.backing names files"));
}

TEST_F(Config, a_variable_that_is_nearly_ours_is_a_warning) {
  const Reported<LoadedConfig> result = load({}, {"REFRACT_MEMROY_LIMIT=1GiB", "REFRACT_COLOUR=1", "HOME=/"});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->warnings, ElementsAre(HasSubstr("did you mean REFRACT_MEMORY_LIMIT?")));
}

TEST_F(Config, memory_is_divided_among_shards_and_must_suffice_for_each) {
  const NodeConfig config = loaded({"--server-shards=8", "--memory-limit=1GiB"});
  EXPECT_EQ(config.memory_initial_bytes, 128 * kMiB) << "16 MiB a shard, where nothing else was asked for";
  EXPECT_EQ(share_of_shard(config.memory_limit_bytes, 8), 128 * kMiB);
  EXPECT_EQ(share_of_shard(15 * kMiB, 2), 6 * kMiB) << "in whole 2 MiB";
  EXPECT_THAT(refusal({"--server-shards=8", "--memory-limit=100MiB"}),
              HasSubstr("less than 16MiB to each of the 8 shards"));
  EXPECT_THAT(refusal({"--server-shards=8", "--memory-initial=14MiB"}), HasSubstr("less than 2MiB for each"));
  EXPECT_THAT(refusal({"--server-shards=0"}), HasSubstr("1 to 256"));
  EXPECT_THAT(refusal({"--server-shards=257"}), HasSubstr("1 to 256"));
  const std::string path = "--socket-path=/" + std::string(105, 'x');
  EXPECT_EQ(loaded({path.c_str()}).socket_path.size(), 106U);
  EXPECT_THAT(refusal({path.c_str(), "--server-shards=2"}), HasSubstr("choose a shorter path"));
}

TEST_F(Config, nobody_listens_to_other_hosts_without_a_secret) {
  EXPECT_EQ(loaded({}).listen_address, "");
  EXPECT_EQ(loaded({"--listen-address=none"}, {"REFRACT_LISTEN_ADDRESS=127.0.0.1:1"}).listen_address, "");
  for (const char* address : {"127.0.0.1:7400", "127.9.9.9:0", "[::1]:65535"}) {
    EXPECT_EQ(loaded({"--listen-address", address}).listen_address, address);
  }
  for (const char* address : {"0.0.0.0:7400", "[::]:7400", "10.0.0.1:7400", "[fe80::1]:7400"}) {
    EXPECT_THAT(refusal({"--listen-address", address}), HasSubstr("--auth-secret-file")) << address;
    EXPECT_EQ(loaded({"--listen-address", address, "--auth-secret-file=/s"}).listen_address, address);
  }
  for (const char* address : {"localhost:7400", "127.0.0.1", "::1:7400", "127.0.0.1:", "127.0.0.1:65536",
                              ":7400", "127.0.0.1:7400x", "[::1:7400"}) {
    EXPECT_THAT(refusal({"--listen-address", address, "--auth-secret-file=/s"}),
                AnyOf(HasSubstr("is no TCP address"), HasSubstr("write its address in numbers")))
        << address;
  }
}

TEST_F(Config, a_directory_in_redis_is_checked_where_it_is_set_and_its_password_is_in_a_file) {
  EXPECT_EQ(loaded({}).objects_directory, "");
  const char* const redis = "--objects-directory=redis://10.0.0.9:6379";
  const char* const list = "--cluster-nodes=a=h:1";
  const char* const secret = "--cluster-secret-file=/a/secret";
  const auto all = load({list, secret, redis, "--objects-directory-secret-file=/a/redis"});
  ASSERT_TRUE(all);
  EXPECT_THAT(all->warnings, IsEmpty());
  EXPECT_EQ(all->config.objects_directory, "redis://10.0.0.9:6379");
  EXPECT_EQ(all->config.objects_directory_secret_file, "/a/redis");
  EXPECT_EQ(loaded({"--objects-directory=none"}).objects_directory, "");
  EXPECT_THAT(refusal({"--objects-directory=10.0.0.9:6379"}),
              HasSubstr("--objects-directory: a directory's address begins with redis://"));
  for (const std::string& refused : {refusal({"--objects-directory=redis://:hunter2@h:1"}),
                                     refusal({}, {"REFRACT_OBJECTS_DIRECTORY=redis://:hunter2@h:1"}),
                                     refusal_of_file("[objects]\ndirectory = 'redis://:hunter2@h:1'\n")}) {
    EXPECT_THAT(refused, HasSubstr("name that in objects.directory_secret_file"));
    EXPECT_THAT(refused, Not(HasSubstr("hunter2")));
  }
  std::filesystem::remove(file);
  const std::string alone = "objects.directory is of no effect without cluster.nodes and cluster.secret_file";
  EXPECT_THAT(load({redis})->warnings, ElementsAre(alone));
  EXPECT_THAT(load({redis, list})->warnings, ElementsAre(alone));
  EXPECT_THAT(load({"--objects-directory-secret-file=/a/redis"})->warnings,
              ElementsAre("objects.directory_secret_file is of no effect without objects.directory"));
}

TEST_F(Config, copies_are_none_or_one_and_others_are_refused_with_what_is_allowed) {
  EXPECT_EQ(loaded({}).kv_copies, 0U);
  EXPECT_EQ(loaded({"--kv-copies=0"}).kv_copies, 0U);
  EXPECT_EQ(loaded({"--kv-copies=1"}).kv_copies, 1U);
  EXPECT_EQ(loaded({}, {"REFRACT_KV_COPIES=1"}).kv_copies, 1U);
  for (const char* value : {"2", "4", "6", "-1", "4294967297"}) {
    const std::string flag = std::string("--kv-copies=") + value;
    EXPECT_THAT(refusal({flag.c_str()}),
                HasSubstr(std::string("--kv-copies: expected 0 or 1, found '") + value + "'"));
  }
  for (const char* value : {"3", "5"}) {
    const std::string variable = std::string("REFRACT_KV_COPIES=") + value;
    EXPECT_THAT(refusal({}, {variable.c_str()}),
                HasSubstr(std::string("REFRACT_KV_COPIES: expected 0 or 1, found '") + value +
                          "': keys with several copies are not there yet"));
  }
  EXPECT_THAT(refusal({"--kv-copies=one"}), HasSubstr("--kv-copies: expected an integer, found 'one'"));
  EXPECT_THAT(refusal_of_file("[kv]\ncopies = 3\n"),
              HasSubstr("FILE:2: kv.copies: expected 0 or 1, found '3'"));
  std::filesystem::remove(file);
}

TEST_F(Config, the_list_of_nodes_is_checked_where_it_is_set_and_a_file_of_it_named_by_its_path) {
  EXPECT_EQ(loaded({}).cluster_nodes, "");
  EXPECT_NE(loaded({}).cluster_self, "");
  const NodeConfig config = loaded({"--cluster-nodes=b=h:1,a=h:2", "--cluster-self=a"});
  EXPECT_EQ(config.cluster_nodes, "b=h:1,a=h:2");
  EXPECT_EQ(config.cluster_self, "a");
  EXPECT_EQ(loaded({"--cluster-nodes=file:/etc/nodes"}).cluster_nodes, "file:/etc/nodes");
  EXPECT_THAT(refusal({"--cluster-nodes=a=h:1,a=h:2"}),
              HasSubstr("--cluster-nodes: there are two nodes of the name 'a'"));
  EXPECT_THAT(refusal({}, {"REFRACT_CLUSTER_NODES=a"}),
              HasSubstr("REFRACT_CLUSTER_NODES: 'a': expected NAME=HOST:PORT"));
  EXPECT_THAT(refusal({"--cluster-nodes=file:"}), HasSubstr("expected file: and an absolute path"));
  EXPECT_THAT(refusal_of_file("[cluster]\nnodes = 'file:nodes'\n"),
              HasSubstr("FILE:2: cluster.nodes: expected file: and an absolute path, found 'file:nodes'"));
  std::filesystem::remove(file);
  EXPECT_THAT(load({"--cluster-self=a"})->warnings,
              ElementsAre("cluster.self is of no effect without cluster.nodes"));
  EXPECT_THAT(load({"--cluster-secret-file=/a/secret"})->warnings,
              ElementsAre("cluster.secret_file is of no effect without cluster.nodes"));
  const char* const list = "--cluster-nodes=a=h:1";
  EXPECT_THAT(load({list, "--cluster-self=a", "--cluster-secret-file=/a/secret"})->warnings, IsEmpty());
  EXPECT_EQ(loaded({list, "--cluster-secret-file=/a/secret"}).cluster_secret_file, "/a/secret");
  EXPECT_EQ(loaded({list, "--cluster-secret-file=none"}).cluster_secret_file, "");
  EXPECT_THAT(refusal_of_file("[cluster]\nsecret_file = 'secret'\n"),
              HasSubstr("FILE:2: cluster.secret_file: expected an absolute path or none"));
}

TEST_F(Config, relative_paths_of_flags_and_environment_are_below_the_working_directory) {
  const auto in_folder = [this](std::vector<const char*> flags, std::vector<const char*> variables,
                                const std::string& folder) {
    flags.insert(flags.begin(), "refractd");
    return load_config({.arguments = flags,
                        .environment = variables,
                        .default_file = file,
                        .system = system.root(),
                        .working_folder = folder});
  };
  const auto loaded = in_folder(
      {"--auth-secret-file=secret", "--data-folder", "./data/of/it", "--memory-backing=file:regions"},
      {"REFRACT_SOCKET_PATH=../node.sock"}, "/home/me");
  ASSERT_TRUE(loaded) << loaded.error().to_string();
  EXPECT_EQ(loaded->config.auth_secret_file, "/home/me/secret");
  EXPECT_EQ(loaded->config.data_folder, "/home/me/data/of/it");
  EXPECT_EQ(in_folder({"--cluster-secret-file=secret"}, {}, "/home/me")->config.cluster_secret_file,
            "/home/me/secret");
  EXPECT_EQ(loaded->config.memory_backing.folder, "/home/me/regions");
  EXPECT_EQ(loaded->config.socket_path, "/home/me/../node.sock");
  EXPECT_EQ(in_folder({"--data-folder=data"}, {}, "/")->config.data_folder, "/data");
  EXPECT_EQ(in_folder({"--auth-secret-file=none"}, {}, "/home/me")->config.auth_secret_file, "");
  EXPECT_EQ(in_folder({"--auth-secret-file=./none"}, {}, "/home/me")->config.auth_secret_file,
            "/home/me/none");
  EXPECT_FALSE(in_folder({"--data-folder="}, {}, "/home/me"));
  const std::string deep = "/" + std::string(100, 'd');
  const auto too_long = in_folder({"--socket-path=node.sock"}, {}, deep);
  ASSERT_FALSE(too_long);
  EXPECT_THAT(too_long.error().what, HasSubstr("at most 107 bytes"));
}

TEST_F(Config, a_file_that_was_named_must_be_there) {
  EXPECT_THAT(refusal({"--config=/none/x.toml"}),
              HasSubstr("cannot read the configuration /none/x.toml: No such file or directory"));
  const std::string flag = "--config=" + system.path() + "/other.toml";
  system.write("other.toml", "clients.max = 9\n");
  system.write("refractd.toml", "clients.max = 8\n");
  EXPECT_EQ(loaded({flag.c_str()}).clients_max, 9U);
}

TEST_F(Config, what_print_config_prints_loads_to_the_same) {
  const Reported<LoadedConfig> first =
      load({"--print-config", "--socket-path=/tmp/a\"b\\c\n\x7f", "--memory-dump", "--memory-backing=file:/x",
            "--log-level=debug", "--memory-limit=50%"},
           {"REFRACT_SERVER_SPIN=1500ns"});
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_THAT(first->text_to_print, HasSubstr("spin = \"1500ns\"  # REFRACT_SERVER_SPIN\n"));
  EXPECT_THAT(first->text_to_print, HasSubstr("limit = \"6GiB\"  # --memory-limit\n"));
  EXPECT_THAT(first->text_to_print, HasSubstr("max = 256  # default\n"));
  system.write("refractd.toml", first->text_to_print);
  const Reported<LoadedConfig> second = load({});
  ASSERT_TRUE(second) << second.error().to_string();
  for (const Knob& knob : knobs()) EXPECT_EQ(knob.show(first->config), knob.show(second->config)) << knob.key;
  EXPECT_EQ(second->text_to_print, "");
}

TEST_F(Config, help_names_every_knob_within_80_columns_whatever_else_is_wrong) {
  system.write("refractd.toml", "broken");
  const Reported<LoadedConfig> result = load({"--help"});
  ASSERT_TRUE(result);
  for (const Knob& knob : knobs()) EXPECT_THAT(result->text_to_print, HasSubstr(flag_of(knob)));
  std::istringstream lines(result->text_to_print);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_THAT(load({"--version"})->text_to_print, HasSubstr("refractd "));
}

TEST_F(Config, main_may_pass_what_c_gives_it) {
  const char* const arguments[] = {"refractd", "--version", nullptr};
  const char* const environment[] = {"A=b", nullptr};
  EXPECT_EQ(load_config(2, arguments, environment)->text_to_print, version_text());
}

// When it fails: REFRACT_ACCEPT=1 node_test --gtest_filter='*configuration_page*' writes the page again.
TEST(ConfigurationPage, the_configuration_page_is_the_table) {
  const std::filesystem::path page = std::filesystem::path(REFRACT_SOURCE_DIR) / "docs" / "configuration.md";
  if (std::getenv("REFRACT_ACCEPT") != nullptr) std::ofstream(page) << configuration_page();
  std::ifstream file(page);
  ASSERT_TRUE(file) << page;
  std::ostringstream written;
  written << file.rdbuf();
  EXPECT_EQ(written.str(), configuration_page());
}

}  // namespace
}  // namespace refract::node
