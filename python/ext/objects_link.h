// SPDX-License-Identifier: Apache-2.0
// A connected Client with its objects, shared by the Python client and the calls that are under way: it ends
// with the last of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "refract/client/client.h"
#include "refract/client/objects.h"

namespace refract::python {

class Creation;

struct ObjectsLink {
  Client client;
  Objects objects;
  std::string address;  // As connect() was given it.
  // Those that are open or were; each is in it as long as it lives. The GIL is held.
  std::vector<Creation*> creations = {};
};

using SharedLink = std::shared_ptr<ObjectsLink>;

}  // namespace refract::python
