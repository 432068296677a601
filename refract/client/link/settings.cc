// SPDX-License-Identifier: Apache-2.0
#include "refract/client/link/settings.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "refract/fabric/verbs/device_names.h"

namespace refract::client {

namespace {

namespace verbs = fabric::verbs;

std::string first_of(const std::string& address, const std::string& option, const char* variable) {
  if (!address.empty()) return address;
  if (!option.empty()) return option;
  const char* named = std::getenv(variable);
  return named == nullptr ? std::string() : named;
}

Reported<> take_device(Settings& settings) {
  const Target& target = settings.target;
  std::string wanted = first_of(target.rdma_device, settings.options.rdma_device, "REFRACT_RDMA_DEVICE");
  if (wanted.empty()) wanted = verbs::kAnyDevice;
  const bool may_matter = !target.is_path() &&
                          (target.preference == Preference::kAuto || target.preference == Preference::kVerbs);
  if (may_matter && !verbs::is_device_name(wanted)) {
    return report(Code::kInvalidArgument, "'" + wanted + "' is no name of an RDMA device",
                  "give a name as refract doctor lists them, auto or none");
  }
  if (may_matter && wanted != verbs::kAnyDevice && wanted != verbs::kNoDevice) {
    if (auto known = verbs::check_device_name(wanted, verbs::device_names()); !known) return known;
  }
  settings.rdma_device = std::move(wanted);
  return {};
}

}  // namespace

Reported<std::unique_ptr<const Settings>> Settings::make(std::string_view address,
                                                         const ClientOptions& options) {
  auto target = parse_address(address);
  if (!target) return report(std::move(target).error());
  auto settings = std::make_unique<Settings>();
  settings->target = std::move(*target);
  settings->options = options;
  settings->copies = std::make_unique<CopyTeam>(CopyTeam::Options{.threads_max = options.copy_threads});
  if (settings->target.paths) settings->options.paths = *settings->target.paths;
  if (auto taken = take_device(*settings); !taken) return report(std::move(taken).error());
  const Target& place = settings->target;
  const std::string file = first_of(place.secret_file, settings->options.secret_file, "REFRACT_SECRET_FILE");
  if (!file.empty()) {
    auto secret = fabric::tcp::read_secret(file);
    // A socket needs none. Other nodes, of which that one may tell, say that they do.
    if (!secret && !place.is_path()) return report(std::move(secret).error());
    if (secret) settings->secret.emplace(std::move(*secret));
  }
  return settings;
}

TransportRequest Settings::request_to(std::string address) const {
  return {.address = std::move(address),
          .populate = options.populate,
          .timeout_ns = options.timeout_ns,
          .secret = secret ? &*secret : nullptr,
          .rdma_device = rdma_device == verbs::kAnyDevice ? std::string() : rdma_device,
          .copies = copies.get()};
}

Reported<> Settings::rdma_is_possible() const {
  if (rdma_device == verbs::kNoDevice) {
    return report(Code::kUnsupported, "this client is told to use no RDMA device",
                  "say device=auto (REFRACT_RDMA_DEVICE), or the name of one");
  }
  if (verbs::device_names().empty()) return report(verbs::no_device_here());
  return {};
}

}  // namespace refract::client
