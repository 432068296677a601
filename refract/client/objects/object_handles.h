// SPDX-License-Identifier: Apache-2.0
// Makes the handles that programs have of objects: of what a link's pin holds, or of memory of this process.
#pragma once

#include <cstdint>
#include <memory>

#include "refract/client/objects.h"
#include "refract/client/objects/object_link.h"
#include "refract/client/objects/object_memory.h"
#include "refract/object/layout/object_layout.h"

namespace refract::client {

// What of an object every handle says.
struct ObjectFacts {
  uint64_t birth = 0;
  object::ObjectParts parts;
};

class ObjectHandles {
 public:
  // REQUIRES: the pin holds the object, which lies inside of what the link may read; the handle is of
  // nothing.
  static void hold(ObjectLink& link, int pin, uint64_t object_at, const ObjectFacts& facts,
                   Object& object) noexcept;
  // The memory is the handle's from now on.
  [[nodiscard]] static Object of_memory(ObjectMemory* memory, const ObjectFacts& facts) noexcept;
};

}  // namespace refract::client
