// SPDX-License-Identifier: Apache-2.0
#include "tests/security/neighbour.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/falloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>

#include "refract/fabric/shm/descriptors.h"
#include "refract/fabric/shm/listen.h"

namespace refract::test {
namespace {

namespace shm = fabric::shm;

constexpr uid_t kNobody = 65'534;
constexpr size_t kPage = 4096;

// Counts what was permitted.
class Attempts {
 public:
  void make(const char* what, bool was_permitted) {
    if (!was_permitted) return;
    (void)std::fprintf(stderr, "permitted: %s\n", what);
    ++permitted_;
  }
  [[nodiscard]] int permitted() const noexcept { return permitted_; }

 private:
  int permitted_ = 0;
};

bool map_for_writing(int descriptor) {
  void* const at = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (at == MAP_FAILED) return false;
  (void)::munmap(at, kPage);
  return true;
}

// Around the protection of a mapping that may only be read.
void write_behind_mapping(Attempts& attempts, int descriptor) {
  void* const at = ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, descriptor, 0);
  if (at == MAP_FAILED) return;
  std::byte mine{0xA5};
  const iovec from{&mine, 1};
  const iovec to{at, 1};
  attempts.make("process_vm_writev", ::process_vm_writev(::getpid(), &from, 1, &to, 1, 0) == 1);
  const int memory = ::open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (memory >= 0) {
    const auto place = static_cast<off_t>(reinterpret_cast<uintptr_t>(at));
    attempts.make("/proc/self/mem", ::pwrite(memory, &mine, 1, place) == 1);
    (void)::close(memory);
  }
  attempts.make("MADV_REMOVE", ::madvise(at, kPage, MADV_REMOVE) == 0);
  attempts.make("mprotect", ::mprotect(at, kPage, PROT_READ | PROT_WRITE) == 0);
  (void)::munmap(at, kPage);
}

void write_by(Attempts& attempts, int descriptor) {
  attempts.make("mmap", map_for_writing(descriptor));
  write_behind_mapping(attempts, descriptor);
  attempts.make("pwrite", ::pwrite(descriptor, "x", 1, 0) == 1);
  attempts.make("FALLOC_FL_PUNCH_HOLE",
                ::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage) == 0);
  struct stat status{};
  const off_t bytes = ::fstat(descriptor, &status) == 0 ? status.st_size : 0;
  attempts.make("to make it longer", ::ftruncate(descriptor, bytes + static_cast<off_t>(kPage)) == 0);
  attempts.make("to make it shorter", ::ftruncate(descriptor, 0) == 0);
  attempts.make("F_ADD_SEALS", ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_GROW) == 0);
}

bool reads_some(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char byte = 0;
  return file && ::read(file.get(), &byte, 1) == 1;
}

bool opens_folder(const std::string& path) {
  DIR* const folder = ::opendir(path.c_str());
  if (folder == nullptr) return false;
  (void)::closedir(folder);
  return true;
}

bool takes_a_descriptor(pid_t process) {
  const Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  const Descriptor taken(static_cast<int>(::syscall(SYS_pidfd_getfd, handle.get(), STDERR_FILENO, 0)));
  return static_cast<bool>(taken);
}

// The next message, waited for.
shm::ReceivedMessage wait_for_message(int control, std::span<std::byte> message,
                                      std::span<Descriptor> descriptors) {
  pollfd wanted{.fd = control, .events = POLLIN, .revents = 0};
  if (::poll(&wanted, 1, static_cast<int>(kPatience_ns / 1'000'000)) != 1) return {};
  return shm::receive_message(control, message, descriptors);
}

bool take_regions(Attached& attached) {
  alignas(8) std::array<std::byte, sizeof(shm::Regions)> bytes;
  std::array<Descriptor, shm::kRegionsAMessage> descriptors;
  const auto received = wait_for_message(attached.control.get(), bytes, descriptors);
  if (received.outcome != shm::ReceivedMessage::Outcome::kMessage) return false;
  shm::Regions regions{};
  std::memcpy(&regions, bytes.data(), std::min(received.bytes, sizeof(regions)));
  if (regions.head.kind != static_cast<uint16_t>(shm::MessageKind::kRegions)) return true;
  for (size_t i = 0; i < received.descriptor_count; ++i) {
    attached.regions.push_back({regions.entry[i], std::move(descriptors[i])});
  }
  return true;
}

}  // namespace

bool is_root() {
  return ::geteuid() == 0;
}

uid_t owner() {
  return is_root() ? kNobody : ::geteuid();
}

bool become(uid_t user) {
  if (::geteuid() == user) return true;
  if (::setgroups(0, nullptr) != 0 || ::setresgid(user, user, user) != 0 ||
      ::setresuid(user, user, user) != 0) {
    return false;
  }
  // A change of the user makes a process undumpable, and its own descriptors a secret.
  return ::prctl(PR_SET_DUMPABLE, 1) == 0;
}

Process run_as(uid_t user, const std::function<int()>& body) {
  return Process::run([&] { return become(user) ? body() : 125; });
}

NodeOptions owned(std::vector<std::string> arguments) {
  return {.arguments = std::move(arguments), .before = [user = owner()] {
            if (!become(user)) ::_exit(125);
          }};
}

std::optional<Attached> attach(const std::string& socket_path) {
  auto connected = shm::connect_to(socket_path);
  if (!connected) return std::nullopt;
  Attached attached{
      .control = std::move(*connected), .page = {}, .memory = {}, .doorbell = {}, .regions = {}};
  const shm::Hello hello{.head = {shm::kWireMagic, static_cast<uint16_t>(shm::MessageKind::kHello), 0},
                         .version_lowest = shm::kWireVersionLowest,
                         .version_highest = shm::kWireVersionHighest,
                         .pid = 0};
  if (!shm::send_message(attached.control.get(), std::as_bytes(std::span(&hello, 1)))) return std::nullopt;
  alignas(8) std::array<std::byte, sizeof(shm::Refused)> bytes{};
  std::array<Descriptor, 3> descriptors;
  const auto received = wait_for_message(attached.control.get(), bytes, descriptors);
  if (received.descriptor_count != descriptors.size()) return std::nullopt;
  std::memcpy(&attached.welcome, bytes.data(), sizeof(attached.welcome));
  attached.page = std::move(descriptors[0]);
  attached.memory = std::move(descriptors[1]);
  attached.doorbell = std::move(descriptors[2]);
  while (attached.regions.size() < attached.welcome.region_count) {
    if (!take_regions(attached)) return std::nullopt;
  }
  return attached;
}

int ways_to_write(int descriptor) {
  Attempts attempts;
  write_by(attempts, descriptor);
  // The descriptor leads to its file, which may be opened with other rights.
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const Descriptor truncated(::open(link.c_str(), O_RDWR | O_TRUNC | O_CLOEXEC));
  attempts.make("O_TRUNC", static_cast<bool>(truncated));
  const Descriptor again(::open(link.c_str(), O_RDWR | O_CLOEXEC));
  if (again) write_by(attempts, again.get());
  return attempts.permitted();
}

int ways_to_write(const Attached& attached) {
  int permitted = ways_to_write(attached.page.get());
  for (const Attached::Region& region : attached.regions) permitted += ways_to_write(region.descriptor.get());
  return permitted;
}

int ways_into(pid_t process) {
  Attempts attempts;
  const std::string folder = "/proc/" + std::to_string(process);
  attempts.make("to read its memory",
                static_cast<bool>(Descriptor(::open((folder + "/mem").c_str(), O_RDONLY | O_CLOEXEC))));
  attempts.make("to write its memory",
                static_cast<bool>(Descriptor(::open((folder + "/mem").c_str(), O_RDWR | O_CLOEXEC))));
  attempts.make("its environment", reads_some(folder + "/environ"));
  attempts.make("its mappings", reads_some(folder + "/maps"));
  attempts.make("its mapped files", opens_folder(folder + "/map_files"));
  attempts.make("its descriptors", opens_folder(folder + "/fd"));
  attempts.make("pidfd_getfd", takes_a_descriptor(process));
  std::byte mine{0xA5};
  const iovec here{&mine, 1};
  const iovec there{&mine, 1};
  // No such address is another answer than no permission.
  const auto is_allowed = [](ssize_t moved) { return moved >= 0 || errno != EPERM; };
  attempts.make("process_vm_readv", is_allowed(::process_vm_readv(process, &here, 1, &there, 1, 0)));
  attempts.make("process_vm_writev", is_allowed(::process_vm_writev(process, &here, 1, &there, 1, 0)));
  attempts.make("ptrace", ::ptrace(PTRACE_SEIZE, process, nullptr, nullptr) == 0);
  return attempts.permitted();
}

bool can_be_seen(const Attached& attached, std::string_view bytes) {
  return std::ranges::any_of(attached.regions, [&](const Attached::Region& region) {
    const auto mapped = shm::map_shared(region.descriptor.get(), region.entry.bytes, /*writable=*/false);
    if (!mapped) return false;
    const std::string_view all(reinterpret_cast<const char*>(mapped->data()), mapped->bytes());
    return all.find(bytes) != std::string_view::npos;
  });
}

}  // namespace refract::test
