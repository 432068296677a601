// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doctor/loop_back.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/fabric/shm/descriptors.h"
#include "refract/fabric/shm/domain.h"
#include "refract/fabric/shm/meeting.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/fabric/tcp/listen.h"
#include "refract/fabric/tcp/reception.h"
#include "refract/fabric/verbs/domain.h"
#include "refract/runtime/shard.h"

namespace refract::node {
namespace {

namespace shm = fabric::shm;
namespace tcp = fabric::tcp;
namespace verbs = fabric::verbs;

constexpr Rights kAllRights = {.read = true, .write = true, .atomic = true};

// Whole pages, as devices want them.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, bytes))) {
    std::fill_n(bytes_.get(), bytes, std::byte{0});
  }
  [[nodiscard]] std::byte* data() const noexcept { return bytes_.get(); }

 private:
  static constexpr size_t kPageBytes = 4 * kKiB;
  struct Free {
    void operator()(std::byte* bytes) const noexcept { std::free(bytes); }  // NOLINT: of aligned_alloc.
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

// A folder of its own, with all that is in it gone in the end.
class OwnFolder {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<OwnFolder>> make() {
    std::error_code failed;
    const std::filesystem::path above = std::filesystem::temp_directory_path(failed);
    std::string name = (above / "refract-doctor-XXXXXX").string();
    if (failed || ::mkdtemp(name.data()) == nullptr) {
      return report(Code::kSystem,
                    fmt::format("cannot make a folder in {}: {}", above.string(), errno_text(errno)),
                    "set TMPDIR to a folder that may be written");
    }
    return std::unique_ptr<OwnFolder>(new OwnFolder(std::move(name)));
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string socket() const { return path_ + "/node.sock"; }

 private:
  explicit OwnFolder(std::string path) noexcept : path_(std::move(path)) {}
  std::string path_;
};

// A node's side without a keeper, which offers its region as a node does.
class ShmLoop final : public LoopBack {
 public:
  [[nodiscard]] Reported<> open() {
    auto folder = OwnFolder::make();
    if (!folder) return report(folder.error());
    folder_ = std::move(*folder);
    shm::MeetingOptions options;
    options.path = folder_->socket();
    options.space_bytes_max = kGiB;
    options.on_attach = [this](const shm::Attachment& attachment) { (void)far_->adopt(attachment); };
    options.on_detach = [this](uint64_t id) { far_->drop(id); };
    auto meeting = shm::Meeting::open(std::move(options));
    if (!meeting) return report(meeting.error());
    meeting_ = std::move(*meeting);
    meeting_->begin_incarnation();
    auto far = shm::ServerDomain::create({.node_page = &meeting_->node_page()});
    if (!far) return report(far.error());
    far_ = std::move(*far);
    if (auto offered = offer(); !offered) return offered;
    far_->start_serving();
    auto near = shm::ClientDomain::create();
    if (!near) return report(near.error());
    near_ = std::move(*near);
    return {};
  }

  [[nodiscard]] fabric::Domain& near_end() noexcept override { return *near_; }
  [[nodiscard]] fabric::Domain& far_end() noexcept override { return *far_; }
  [[nodiscard]] const std::string& address() const noexcept override { return meeting_->path(); }
  [[nodiscard]] RemoteKey key() const noexcept override { return key_; }
  [[nodiscard]] std::byte* local() noexcept override { return local_.data(); }
  void let_in() noexcept override { meeting_->poll(); }
  [[nodiscard]] const Report& last_refusal() const noexcept override { return near_->last_refusal(); }

 private:
  [[nodiscard]] Reported<> offer() {
    auto file = shm::make_memory("refract-doctor", kBytes);
    if (!file) return report(file.error());
    auto memory = shm::map_shared(file->get(), kBytes, /*writable=*/true);
    if (!memory) return report(memory.error());
    memory_ = std::move(*memory);
    if (auto sealed = shm::finish_seals(file->get(), /*forbid_new_writers=*/true); !sealed) return sealed;
    const auto read_only = shm::read_only_descriptor(file->get());
    if (!read_only) return report(read_only.error());
    auto offered = meeting_->offer_region(
        {.region = kRegion, .base = 0, .bytes = kBytes, .read_fd = read_only->get(), .key = key_});
    if (!offered) return offered;
    return far_->serve_region(
        {.region = kRegion, .base = memory_.data(), .bytes = kBytes, .rights = kAllRights}, key_);
  }

  Pages local_{kAreaBytes};
  RemoteKey key_{std::max<uint64_t>(secure_random_u64(), 1)};
  std::unique_ptr<OwnFolder> folder_;
  shm::Mapping memory_;
  std::unique_ptr<shm::Meeting> meeting_;
  std::unique_ptr<shm::ServerDomain> far_;
  std::unique_ptr<shm::ClientDomain> near_;
};

class TcpLoop : public LoopBack {
 public:
  [[nodiscard]] Reported<> open() {
    if (auto opened = open_sockets(); !opened) return opened;
    return register_memory();
  }

  [[nodiscard]] fabric::Domain& near_end() noexcept override { return *near_; }
  [[nodiscard]] fabric::Domain& far_end() noexcept override { return *far_; }
  [[nodiscard]] const std::string& address() const noexcept override { return address_; }
  [[nodiscard]] RemoteKey key() const noexcept override { return key_; }
  [[nodiscard]] std::byte* local() noexcept override { return local_.data(); }
  // Looks at all its sockets, which its poll does only now and then.
  void let_in() noexcept override { (void)reception_->prepare_sleep(); }
  [[nodiscard]] const Report& last_refusal() const noexcept override { return near_->last_refusal(); }

 protected:
  [[nodiscard]] Reported<> open_sockets() {
    auto socket = tcp::listen("127.0.0.1:0");
    if (!socket) return report(socket.error());
    socket_ = std::move(*socket);
    auto bound = tcp::bound_address(socket_.get());
    if (!bound) return report(bound.error());
    address_ = std::move(*bound);
    auto far = tcp::ServerDomain::create();
    if (!far) return report(far.error());
    far_ = std::move(*far);
    row_ = far_.get();
    const auto facts = [identity = secure_random_u64()](uint32_t) {
      return tcp::NodeFacts{.identity = {identity, 1}, .incarnation = 1, .boot_id = {}, .socket_path = {}};
    };
    auto reception =
        tcp::Reception::create(shard_, {.listen_fd = socket_.get(), .shards = {&row_, 1}, .facts = facts});
    if (!reception) return report(reception.error());
    reception_ = std::move(*reception);
    auto near = tcp::ClientDomain::create({});
    if (!near) return report(near.error());
    near_ = std::move(*near);
    return {};
  }
  // Of the domains that this object has in the end.
  [[nodiscard]] Reported<> register_memory() {
    const auto key = far_end().register_region(
        {.region = kRegion, .base = memory_.data(), .bytes = kBytes, .rights = kAllRights});
    if (!key) return report(key.error());
    key_ = *key;
    const auto own = near_end().register_region(
        {.region = kRegion, .base = local_.data(), .bytes = kAreaBytes, .rights = kAllRights});
    if (!own) return report(own.error());
    return {};
  }
  [[nodiscard]] tcp::ClientDomain& near_sockets() noexcept { return *near_; }
  [[nodiscard]] tcp::ServerDomain& far_sockets() noexcept { return *far_; }

 private:
  Pages memory_{kBytes};
  Pages local_{kAreaBytes};
  runtime::Shard shard_{system_clock()};  // The reception needs one; it is not run.
  Descriptor socket_;
  std::string address_;
  RemoteKey key_;
  std::unique_ptr<tcp::ServerDomain> far_;
  tcp::ServerDomain* row_ = nullptr;
  std::unique_ptr<tcp::Reception> reception_;
  std::unique_ptr<tcp::ClientDomain> near_;
};

class VerbsLoop final : public TcpLoop {
 public:
  [[nodiscard]] Reported<> open(const verbs::DeviceWish& from, const verbs::DeviceWish& to) {
    if (auto opened = open_sockets(); !opened) return opened;
    auto far = verbs::ServerDomain::create(far_sockets(), {.device = to, .channels_max = 1});
    if (!far) return report(far.error());
    far_ = std::move(*far);
    auto near = verbs::ClientDomain::create(near_sockets(), {.device = from, .channels_max = 1});
    if (!near) return report(near.error());
    near_ = std::move(*near);
    return register_memory();
  }

  [[nodiscard]] fabric::Domain& near_end() noexcept override { return *near_; }
  [[nodiscard]] fabric::Domain& far_end() noexcept override { return *far_; }
  [[nodiscard]] const Report& last_refusal() const noexcept override { return near_->last_refusal(); }

 private:
  std::unique_ptr<verbs::ServerDomain> far_;
  std::unique_ptr<verbs::ClientDomain> near_;
};

}  // namespace

Reported<std::unique_ptr<LoopBack>> LoopBack::over_shm() {
  auto loop = std::make_unique<ShmLoop>();
  if (auto opened = loop->open(); !opened) return report(opened.error());
  return loop;
}

Reported<std::unique_ptr<LoopBack>> LoopBack::over_tcp() {
  auto loop = std::make_unique<TcpLoop>();
  if (auto opened = loop->open(); !opened) return report(opened.error());
  return loop;
}

Reported<std::unique_ptr<LoopBack>> LoopBack::over_verbs(const verbs::DeviceWish& from,
                                                         const verbs::DeviceWish& to) {
  auto loop = std::make_unique<VerbsLoop>();
  if (auto opened = loop->open(from, to); !opened) return report(opened.error());
  return loop;
}

}  // namespace refract::node
