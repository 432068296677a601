// SPDX-License-Identifier: Apache-2.0
// put and get: an object's bytes from and to files.
#include "apps/refract/object/object_commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "apps/progress/progress.h"
#include "apps/records/descriptor.h"
#include "apps/refract/commands.h"
#include "apps/refract/terminal.h"

#include "refract/base/clock.h"
#include "refract/base/units.h"

namespace refract::cli {
namespace {

// The node copies what was read while the next piece is.
constexpr uint64_t kPieceBytes = 4 * kMiB;
// From so much on there is a line of progress.
constexpr uint64_t kProgressBytes = 64 * kMiB;

class Bar {
 public:
  Bar(const Invocation& invocation, std::string label, uint64_t total_bytes, bool is_silent)
      : style_(progress::style_of(STDERR_FILENO)) {
    style_.silent = invocation.no_progress || total_bytes < kProgressBytes || is_silent;
    progress_.emplace(system_clock(), progress::write_to_descriptor(STDERR_FILENO), style_, std::move(label),
                      "objects");
    progress_->set_total({.count = {}, .bytes = total_bytes});
  }
  void update(uint64_t bytes) { progress_->update({.count = 0, .bytes = bytes}); }
  void end() { say_last(*progress_, style_, {}); }

 private:
  progress::Style style_;
  std::optional<progress::Progress> progress_;
};

// Exit codes: kDone, or a complaint was made.
class Putter {
 public:
  Putter(const ObjectInvocation& invocation, Objects& objects, Client& client)
      : invocation_(invocation), objects_(objects), client_(client), id_(invocation.ids.front()) {}

  int run() {
    const bool is_input = invocation_.file.empty() || invocation_.file == "-";
    name_ = is_input ? "the standard input" : in_quotes(invocation_.file);
    const records::Descriptor file(is_input ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                            : ::open(invocation_.file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) {
      return complain({Code::kSystem, fmt::format("cannot open {}: {}", name_, errno_text(errno)),
                       "look at the path and its permissions"});
    }
    struct stat facts{};
    if (::fstat(file.number(), &facts) == 0 && S_ISDIR(facts.st_mode)) {
      return complain({Code::kInvalidArgument, fmt::format("{} is a directory", name_),
                       "an object is made of one file; tar -c DIRECTORY | refract object put ID"});
    }
    const off_t at = S_ISREG(facts.st_mode) ? ::lseek(file.number(), 0, SEEK_CUR) : 0;
    const bool is_sized = S_ISREG(facts.st_mode) && at >= 0 && facts.st_size >= at;
    return is_sized ? put_file(file.number(), static_cast<uint64_t>(facts.st_size - at))
                    : put_stream(file.number());
  }

 private:
  // Read straight into the memory from which the node copies it.
  int put_file(int file, uint64_t bytes) {
    auto made = objects_.create(id_, bytes, static_cast<uint32_t>(invocation_.metadata.size()), options());
    if (!made) return refuse(made.code());
    Bar bar(invocation_.base, fmt::format("putting {}", in_quotes(id_)), bytes, false);
    uint64_t told = 0;
    for (uint64_t done = 0; done < bytes;) {
      const ssize_t got = ::read(file, made->body().data() + done, std::min(kPieceBytes, bytes - done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        const std::string why = got == 0 ? "it became shorter meanwhile" : errno_text(errno);
        bar.end();
        return complain(
            {Code::kSystem, fmt::format("cannot read {}: {}", name_, why), "no object was made; try again"});
      }
      done += static_cast<uint64_t>(got);
      bar.update(done);
      if (done - told < kPieceBytes || done == bytes) continue;
      told = done;
      // What is wrong is said by the seal.
      (void)made->filled(done);
    }
    std::ranges::copy(std::as_bytes(std::span(invocation_.metadata)), made->metadata().begin());
    birth_ = made->birth();
    const auto sealed = made->seal();
    bar.end();
    return sealed ? done(bytes) : refuse(sealed.code());
  }

  // Of a length that is known at its end.
  int put_stream(int file) {
    std::string bytes;
    for (;;) {
      const size_t before = bytes.size();
      bytes.resize(before + kMiB);
      const ssize_t got = ::read(file, bytes.data() + before, kMiB);
      bytes.resize(before + static_cast<size_t>(got > 0 ? got : 0));
      if (got == 0) break;
      if (got < 0 && errno != EINTR) {
        return complain({Code::kSystem, fmt::format("cannot read {}: {}", name_, errno_text(errno)), ""});
      }
    }
    const auto birth = objects_.put(id_, bytes, invocation_.metadata, options());
    if (!birth) return refuse(birth.code());
    birth_ = *birth;
    return done(bytes.size());
  }

  [[nodiscard]] MakeOptions options() const {
    MakeOptions options;
    if (invocation_.wait_ms) options.room_timeout_ms = *invocation_.wait_ms;
    return options;
  }

  int refuse(Code code) {
    return complain(explain_object(client_, objects_, code, fmt::format("cannot put {}", in_quotes(id_))));
  }

  int done(uint64_t bytes) {
    if (invocation_.keeps) {
      const Code code = objects_.keep(id_);
      if (code != Code::kOk) return refuse(code);
    }
    std::optional<ObjectCopies> copies;
    if (invocation_.copies.value_or(0) > 0) {
      const auto made = objects_.set_copies(id_, *invocation_.copies, options().copies_timeout_ms);
      if (!made) return refuse(made.code());
      copies = *made;
    }
    const Exit exit = copies && copies->copies < copies->wanted ? kNotDone : kDone;
    int written = kDone;
    if (invocation_.base.json) {
      documents::Value row;
      append_id(row, invocation_, id_);
      row.update({{"birth", birth_}, {"body_bytes", bytes}, {"metadata_bytes", invocation_.metadata.size()}});
      if (copies) row.update({{"copies_wanted", copies->wanted}, {"copies", copies->copies}});
      written = write_json(row);
    } else if (exit != kDone) {
      return complain(
          exit,
          fmt::format("{} is there, with {}", in_quotes(id_), copies_text(copies->copies, copies->wanted)),
          "refract object where names its nodes; more copies come when nodes and room do");
    }
    return written == kDone ? exit : written;
  }

  const ObjectInvocation& invocation_;
  Objects& objects_;
  Client& client_;
  const std::string& id_;
  std::string name_;
  uint64_t birth_ = 0;
};

int write_to_file(const ObjectInvocation& invocation, std::span<const std::byte> bytes) {
  const records::Descriptor file(
      ::open(invocation.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  Bar bar(invocation.base, fmt::format("getting {}", in_quotes(invocation.ids.front())), bytes.size(), false);
  size_t done = 0;
  while (file.is_open() && done < bytes.size()) {
    const ssize_t written =
        ::write(file.number(), bytes.data() + done, std::min<size_t>(kPieceBytes, bytes.size() - done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    done += static_cast<size_t>(written);
    bar.update(done);
  }
  const int error = errno;
  bar.end();
  if (file.is_open() && done == bytes.size()) return kDone;
  return complain(kFailed, fmt::format("cannot write {}: {}", in_quotes(invocation.file), errno_text(error)),
                  "look at the path, its permissions and the room on its disk");
}

}  // namespace

int put_object(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  if (invocation.metadata.size() > Objects::kMetadataBytesMax) {
    return complain({Code::kInvalidArgument,
                     fmt::format("metadata have up to {} bytes, these have {}", Objects::kMetadataBytesMax,
                                 invocation.metadata.size()),
                     "put what is longer into an object of its own"});
  }
  return Putter(invocation, objects, client).run();
}

int get_object(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  const std::string& id = invocation.ids.front();
  const uint64_t wait_ms = invocation.wait_ms.value_or(0);
  // What comes of it the get says.
  if (const Bytes bytes(id); invocation.transfer != Transfer::kAuto) {
    (void)objects.prefetch({&bytes, 1}, wait_ms, {.transfer = invocation.transfer});
  }
  const auto object = objects.get(id, wait_ms);
  if (!object) {
    return complain(
        explain_object(client, objects, object.code(), fmt::format("cannot get {}", in_quotes(id))));
  }
  const std::span<const std::byte> bytes = invocation.shows_metadata ? object->metadata() : object->body();
  if (!invocation.file.empty()) return write_to_file(invocation, bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!is_output_terminal() || invocation.base.raw) return write_out(text);
  return write_out(printable(text, LineBreaks::kKept) + "\n");
}

}  // namespace refract::cli
