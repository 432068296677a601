// SPDX-License-Identifier: Apache-2.0
// What the death of a host leaves of a node, of which all processes have been killed: its files as they were
// written last.
#pragma once

#include <string>

namespace refract::test {

// The rings of the data folder do not count any more: they are of another boot of the host. REQUIRES: no node
// has the folder.
void boot_again(const std::string& data_folder);

}  // namespace refract::test
