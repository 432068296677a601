// SPDX-License-Identifier: Apache-2.0
// get, put, erase, cas: one entry.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "apps/records/descriptor.h"
#include "apps/refract/commands.h"
#include "apps/refract/terminal.h"
#include "apps/refract/values.h"

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/kv/layout/layout.h"

namespace refract::cli {
namespace {

constexpr size_t kReadBytes = 64 * kKiB;

int tell_version(const Invocation& invocation, const std::string& key, uint64_t version) {
  if (invocation.json) {
    documents::Value entry;
    records::append_bytes(entry, "key", key);
    entry.append_member("version", version);
    return write_json(entry);
  }
  return invocation.verbose ? write_out(fmt::format("version {}\n", version)) : kDone;
}

}  // namespace

Reported<std::string> read_source(const Source& source) {
  if (source.kind == Source::Kind::kText) return source.text;
  const bool is_file = source.kind == Source::Kind::kFile;
  const records::Descriptor file(is_file ? ::open(source.text.c_str(), O_RDONLY | O_CLOEXEC)
                                         : ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
  const std::string name = is_file ? in_quotes(source.text) : "the standard input";
  if (!file.is_open()) {
    return report(Code::kSystem, fmt::format("cannot open {}: {}", name, errno_text(errno)),
                  "look at the path and its permissions");
  }
  std::string bytes;
  while (bytes.size() <= kv::kValueBytesMax) {
    const size_t before = bytes.size();
    bytes.resize(before + kReadBytes);
    const ssize_t got = ::read(file.number(), bytes.data() + before, kReadBytes);
    bytes.resize(before + static_cast<size_t>(got > 0 ? got : 0));
    if (got == 0) return bytes;
    if (got < 0 && errno != EINTR) {
      return report(Code::kSystem, fmt::format("cannot read {}: {}", name, errno_text(errno)));
    }
  }
  return report(Code::kTooLarge, fmt::format("{} holds more than the 512 MiB that a value may have", name),
                "cut it into pieces and store each under a key of its own");
}

Reported<std::string> read_key(const Invocation& invocation) {
  auto key = read_source(invocation.key);
  if (!key) return key;
  if (!key->empty() && key->size() <= kv::kKeyBytesMax) return key;
  return report(Code::kInvalidArgument,
                fmt::format("a key has 1 to {} bytes, this one has {}", kv::kKeyBytesMax, key->size()),
                "give a key of such a length");
}

int write_file(const std::string& path, std::string_view bytes) {
  const records::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  while (file.is_open() && !bytes.empty()) {
    const ssize_t written = ::write(file.number(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  if (file.is_open() && bytes.empty()) return kDone;
  return complain(kFailed, fmt::format("cannot write {}: {}", in_quotes(path), errno_text(errno)),
                  "look at the path, its permissions and the room on its disk");
}

Report with_what_to_start(Report why) {
  if (why.code == Code::kUnavailable) {
    why.next =
        "start a node with: refractd (its banner names its socket); if it runs elsewhere: --socket PATH, "
        "or --address";
  }
  return why;
}

const std::string& target_of(const Invocation& invocation) {
  return invocation.address.empty() ? invocation.socket : invocation.address;
}

NodeLink::Options link_options(const Invocation& invocation) {
  return {.address = target_of(invocation),
          .secret_file = invocation.secret_file,
          .rdma_device = invocation.rdma_device,
          .timeout_ns = invocation.timeout_ns};
}

Reported<Client> connect(const Invocation& invocation, bool populate) {
  auto client = Client::connect(target_of(invocation), {.timeout_ns = invocation.timeout_ns,
                                                        .populate = populate,
                                                        .secret_file = invocation.secret_file,
                                                        .rdma_device = invocation.rdma_device});
  if (client) return client;
  return report(with_what_to_start(client.error()));
}

Report explain(const Client& client, Code code, std::string_view what) {
  Report said{code, fmt::format("{}: {}", what, info(code).sentence), ""};
  switch (code) {
    case Code::kUnavailable:
    case Code::kDeadlineExceeded: {
      const Report trouble = client.trouble();
      if (!trouble.what.empty()) said.what = fmt::format("{}: {}", what, trouble.what);
      said.next = trouble.next.empty() ? "refract ping --why says what can be reached" : trouble.next;
      break;
    }
    case Code::kNoSpace:
      said.next =
          "erase entries, or restart the node with a higher --memory-limit (refract dump keeps the data)";
      break;
    case Code::kIndeterminate:
      said.next =
          "the server ended, or did not answer in time, while it had this; look with refract get before "
          "repeating";
      break;
    case Code::kCorrupt:
      said.next = "refract check says where; refract dump saves what can be read";
      break;
    case Code::kTooLarge:
      said.next = "keys have up to 65,535 bytes, values up to 512 MiB";
      break;
    case Code::kOverloaded:
    case Code::kInvalidated:
      said.next = "try again";
      break;
    default:
      break;
  }
  return said;
}

int run_get(const Invocation& invocation) {
  const auto key = read_key(invocation);
  if (!key) return complain(key.error());
  auto client = connect(invocation);
  if (!client) return complain(client.error());
  std::string value;
  Values values(invocation, *client);
  const Result<Got> got = values.get(*key, value);
  if (!got) {
    if (values.is_unverified(got.code())) return complain(Values::explain_unverified(*key, got.code()));
    if (got.code() == Code::kNotFound) {
      return complain(kNotDone, fmt::format("there is no key {}", in_quotes(*key)),
                      "refract scan lists the keys that there are");
    }
    return complain(explain(*client, got.code(), fmt::format("cannot get {}", in_quotes(*key))));
  }
  if (invocation.verbose) {
    std::string about = fmt::format("version {}, {} bytes", got->version, got->value_bytes);
    if (got->expires_wall_ns != 0) {
      const uint64_t now_ns = system_clock().wall_ns();
      const uint64_t left_ns = got->expires_wall_ns > now_ns ? got->expires_wall_ns - now_ns : 0;
      about += ", expires in " + progress::duration_text(static_cast<double>(left_ns) / 1e9);
    }
    std::fputs((about + "\n").c_str(), stderr);
  }
  if (!invocation.output.empty()) return write_file(invocation.output, value);
  if (invocation.raw || !is_output_terminal()) return write_out(value);
  if (!value.ends_with('\n')) value.push_back('\n');
  return write_text(value);
}

int run_put(const Invocation& invocation) {
  const auto key = read_key(invocation);
  if (!key) return complain(key.error());
  const auto value = read_source(invocation.value);
  if (!value) return complain(value.error());
  auto client = connect(invocation);
  if (!client) return complain(client.error());
  const Result<uint64_t> put = Values(invocation, *client)
                                   .put(*key, *value,
                                        {.if_absent = invocation.if_absent,
                                         .if_version = invocation.if_version,
                                         .ttl_ns = invocation.ttl_ns});
  if (put) return tell_version(invocation, *key, *put);
  const std::string name = in_quotes(*key);
  switch (put.code()) {
    case Code::kExists:
      return complain(kNotDone, fmt::format("the key {} exists already; nothing was changed", name),
                      "without --if-absent the value is replaced");
    case Code::kVersionMismatch:
    case Code::kNotFound:
      return complain(
          kNotDone,
          fmt::format("the entry {} has not version {}; nothing was changed", name, invocation.if_version),
          fmt::format("refract get --verbose {} prints the present version", name));
    default:
      return complain(explain(*client, put.code(), fmt::format("cannot store {}", name)));
  }
}

int run_erase(const Invocation& invocation) {
  const auto key = read_key(invocation);
  if (!key) return complain(key.error());
  auto client = connect(invocation);
  if (!client) return complain(client.error());
  const Result<uint64_t> erased = client->erase(*key, invocation.if_version);
  if (erased) return tell_version(invocation, *key, *erased);
  const std::string name = in_quotes(*key);
  if (erased.code() == Code::kNotFound) {
    return complain(kNotDone, fmt::format("there is no key {}", name),
                    "refract scan lists the keys that there are");
  }
  if (erased.code() == Code::kVersionMismatch) {
    return complain(
        kNotDone,
        fmt::format("the entry {} has not version {}; nothing was erased", name, invocation.if_version),
        fmt::format("refract get --verbose {} prints the present version", name));
  }
  return complain(explain(*client, erased.code(), fmt::format("cannot erase {}", name)));
}

int run_cas(const Invocation& invocation) {
  const auto key = read_key(invocation);
  if (!key) return complain(key.error());
  const auto expected = read_source(invocation.old_value);
  if (!expected) return complain(expected.error());
  const auto value = read_source(invocation.value);
  if (!value) return complain(value.error());
  auto client = connect(invocation);
  if (!client) return complain(client.error());
  const std::string name = in_quotes(*key);
  std::string present;
  Values values(invocation, *client);
  while (true) {
    const Result<Got> got = values.get(*key, present);
    if (got.code() == Code::kNotFound) {
      return complain(kNotDone, fmt::format("there is no key {}; nothing was changed", name),
                      "refract put --if-absent creates it");
    }
    if (values.is_unverified(got.code())) return complain(Values::explain_unverified(*key, got.code()));
    if (!got) return complain(explain(*client, got.code(), fmt::format("cannot get {}", name)));
    if (present != *expected) {
      return complain(kNotDone,
                      fmt::format("the value of {} is {}; nothing was changed", name, in_quotes(present)),
                      "call again with this as OLD if it is still to be replaced");
    }
    const Result<uint64_t> put =
        values.put(*key, *value, {.if_version = got->version, .ttl_ns = invocation.ttl_ns});
    if (put) return tell_version(invocation, *key, *put);
    // Another client was quicker. What is there now may still be OLD, so this is no answer yet; each turn
    // means that another client made progress.
    if (put.code() == Code::kVersionMismatch || put.code() == Code::kNotFound) continue;
    return complain(explain(*client, put.code(), fmt::format("cannot replace {}", name)));
  }
}

}  // namespace refract::cli
