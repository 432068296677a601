// SPDX-License-Identifier: Apache-2.0
// What librefract.so exports. All else in it is hidden, whatever the installed headers may show of it: a name
// without this mark is used by other code of ours alone.
#pragma once

#define REFRACT_API [[gnu::visibility("default")]]
