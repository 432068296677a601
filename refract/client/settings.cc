// SPDX-License-Identifier: Apache-2.0
#include "refract/client/settings.h"

#include <cstdlib>
#include <string>
#include <utility>

namespace refract::client {

namespace {

std::string secret_file_of(const Settings& settings) {
  if (!settings.target.secret_file.empty()) return settings.target.secret_file;
  if (!settings.options.secret_file.empty()) return settings.options.secret_file;
  const char* named = std::getenv("REFRACT_SECRET_FILE");
  return named == nullptr ? std::string() : named;
}

}  // namespace

Reported<std::unique_ptr<const Settings>> Settings::make(std::string_view address,
                                                         const ClientOptions& options) {
  auto target = parse_address(address);
  if (!target) return report(std::move(target).error());
  auto settings = std::make_unique<Settings>();
  settings->target = std::move(*target);
  settings->options = options;
  if (settings->target.paths) settings->options.paths = *settings->target.paths;
  const std::string file = settings->target.is_path() ? std::string() : secret_file_of(*settings);
  if (!file.empty()) {
    auto secret = fabric::tcp::read_secret(file);
    if (!secret) return report(std::move(secret).error());
    settings->secret.emplace(std::move(*secret));
  }
  return settings;
}

}  // namespace refract::client
