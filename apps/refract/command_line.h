// SPDX-License-Identifier: Apache-2.0
// The command line, taken apart: which command, with which arguments. Nothing is opened or connected here.
//
// Threads: one. Errors are Reports with kInvalidArgument, which say what is wrong and where to read more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/records/record_reader.h"

#include "refract/base/report.h"

// The library's own name.
namespace CLI {  // NOLINT(readability-identifier-naming)
class App;
}

namespace refract::cli {

// A key or value as it was given: a text of the command line, "-" for the standard input, or a file's name.
struct Source {
  enum class Kind : uint8_t { kNone, kText, kStandardInput, kFile };
  Kind kind = Kind::kNone;
  std::string text;
};

struct Invocation {
  std::string command;  // "get"; empty: help or version was asked for.
  std::string text_to_print;

  // Every command's.
  std::string socket;   // A socket's path. Empty: the default.
  std::string address;  // A connection string, instead of a socket.
  std::string secret_file;
  std::string rdma_device;  // Empty: what address and environment say.
  uint64_t timeout_ns = 5'000'000'000;
  bool json = false;
  bool verbose = false;

  // get, put, erase, cas.
  Source key;
  Source value;
  Source old_value;  // cas
  bool if_absent = false;
  uint64_t if_version = 0;
  uint64_t ttl_ns = 0;
  std::string output;   // get, dump: a file instead of the standard output.
  bool raw = false;     // get, scan, dump: the bytes as they are, also on a terminal.
  bool verify = false;  // Also load's and dump's: values carry checksums.

  // scan
  std::string prefix;  // Also load's: written before each key.
  uint64_t limit = UINT64_MAX;
  bool long_lines = false;
  bool zero_ends = false;

  bool all = false;  // clear

  // load, dump
  std::vector<std::string> files;
  records::ReadOptions reading;
  records::Format writing = records::Format::kJsonl;
  bool overwrite = false;
  bool no_progress = false;

  // top
  uint64_t interval_ns = 1'000'000'000;
  bool once = false;
  uint64_t connections_max = 1'000;  // Of each shard.

  // trace
  std::string traced;  // "get", "put": an operation, its key and value above. Empty: what the node does.
  uint64_t duration_ns = 1'000'000'000;
  uint64_t records_max = 10'000;
  bool chrome = false;

  // inspect, chain
  std::optional<uint64_t> at;
  std::optional<uint64_t> bucket;
  std::string layout;
  uint64_t shard = 0;
  bool explain = false;
  bool dry_run = false;

  // cluster
  std::vector<std::string> keys;
  uint64_t nodes_max = 3;  // Of each key.

  // bank (also duration_ns)
  uint64_t accounts = 100;
  uint64_t threads = 4;

  // txn settle
  std::string home;
  std::string as;  // "never", "happened"; empty: nothing is ended.

  // snapshot (also no_progress)
  bool no_wait = false;

  // ping, check, doctor (also no_progress), inspect
  bool why = false;
  std::string path;  // txn: a file, or "-". A folder of region files or a node's data, or a file of that;
                     // inspect's: of regions.
  std::vector<std::string> node_flags;  // doctor: as refractd would get them.
  // restore (also files, no_progress)
  bool salvage = false;
  std::string target;  // The new folder.
  std::string peer;    // doctor: HOST or HOST:PORT. Empty: this machine.
  bool no_self_test = false;
};

// `environment_socket`: the value of REFRACT_SOCKET_PATH; may be null.
[[nodiscard]] Reported<Invocation> parse_command_line(int argc, const char* const* argv,
                                                      const char* environment_socket);

// All options of `command` ("--ttl"), so that a test can hold them against the help text.
[[nodiscard]] std::vector<std::string> option_names(std::string_view command);

}  // namespace refract::cli
