// SPDX-License-Identifier: Apache-2.0
// The list of nodes that cluster.nodes names, when the node starts and when it is told to look again.
//
// Control path; reads a file where the setting names one.
#pragma once

#include <string>

#include "refract/base/report.h"
#include "refract/cluster/members.h"
#include "refract/node/config/config.h"

namespace refract::node {

// What cluster.nodes may be: a list, or the absolute path of a file behind "file:". The file is not looked
// at.
[[nodiscard]] Reported<> check_cluster_nodes(const std::string& nodes);

// The list as it is now, with cluster.self's place in it. Errors name the setting, and the file and its line.
// REQUIRES, here and below: config.cluster_nodes is not empty.
[[nodiscard]] Reported<cluster::Members> load_members(const NodeConfig& config);

// Reads the list again, and has it taken; the log says what came of it. What cannot be read, makes no sense
// or may not replace the present list changes nothing.
void reload_members(const NodeConfig& config, cluster::Members& members);

}  // namespace refract::node
