// SPDX-License-Identifier: Apache-2.0
// A connected Client with its objects, shared by the Python client and the calls that are under way: it ends
// with the last of them.
#pragma once

#include <memory>
#include <string>

#include "refract/client/client.h"
#include "refract/client/objects.h"

namespace refract::python {

struct ObjectsLink {
  Client client;
  Objects objects;
  std::string address;  // As connect() was given it.
};

using SharedLink = std::shared_ptr<ObjectsLink>;

}  // namespace refract::python
