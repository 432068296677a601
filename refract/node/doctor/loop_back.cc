// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doctor/loop_back.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "refract/node/doctor/serving_end.h"

namespace refract::node {
namespace {

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

class Loop final : public LoopBack {
 public:
  // `folder`: of the address, where that is a path; then local bytes need not be registered.
  [[nodiscard]] Reported<> open(Reported<std::unique_ptr<ServingEnd>> far, Reported<ClientEnd> near,
                                std::unique_ptr<OwnFolder> folder) {
    folder_ = std::move(folder);
    if (!far) return report(far.error());
    far_ = std::move(*far);
    if (!near) return report(near.error());
    near_ = std::move(*near);
    auto local = end_memory(kAreaBytes);
    if (!local) return report(local.error());
    local_ = std::move(*local);
    if (folder_ != nullptr) return {};
    const auto own = near_.domain->register_region({.region = kRegion,
                                                    .base = local_.data(),
                                                    .bytes = kAreaBytes,
                                                    .rights = {.read = true, .write = true, .atomic = true}});
    if (!own) return report(own.error());
    return {};
  }

  [[nodiscard]] fabric::Domain& near_end() noexcept override { return *near_.domain; }
  [[nodiscard]] fabric::Domain& far_end() noexcept override { return far_->domain(); }
  [[nodiscard]] const std::string& address() const noexcept override { return far_->address(); }
  [[nodiscard]] RemoteKey key() const noexcept override { return far_->key(); }
  [[nodiscard]] std::byte* local() noexcept override { return local_.data(); }
  void let_in() noexcept override { far_->let_in(); }
  [[nodiscard]] const Report& last_refusal() const noexcept override { return *near_.last_refusal; }

 private:
  std::unique_ptr<OwnFolder> folder_;
  fabric::shm::Mapping local_;
  std::unique_ptr<ServingEnd> far_;
  ClientEnd near_;
};

Reported<std::unique_ptr<LoopBack>> loop_of(Reported<std::unique_ptr<ServingEnd>> far,
                                            Reported<ClientEnd> near,
                                            std::unique_ptr<OwnFolder> folder = nullptr) {
  auto loop = std::make_unique<Loop>();
  if (auto opened = loop->open(std::move(far), std::move(near), std::move(folder)); !opened) {
    return report(opened.error());
  }
  return loop;
}

}  // namespace

Reported<std::unique_ptr<LoopBack>> LoopBack::over_shm() {
  auto folder = OwnFolder::make();
  if (!folder) return report(folder.error());
  const std::string socket = (*folder)->socket();
  return loop_of(ServingEnd::over_shm(socket, kBytes), shm_client(), std::move(*folder));
}

Reported<std::unique_ptr<LoopBack>> LoopBack::over_tcp() {
  return loop_of(ServingEnd::over_tcp("127.0.0.1:0", kBytes), tcp_client());
}

Reported<std::unique_ptr<LoopBack>> LoopBack::over_verbs(const fabric::verbs::DeviceWish& from,
                                                         const fabric::verbs::DeviceWish& to) {
  return loop_of(ServingEnd::over_verbs("127.0.0.1:0", kBytes, to, /*channels_max=*/1),
                 verbs_client(from, /*channels_max=*/1));
}

}  // namespace refract::node
