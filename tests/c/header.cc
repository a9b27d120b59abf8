// The public header by itself, as C++17: see header.c.
#include "skeep.h"

static_assert(sizeof(skeep_view) == 160 && SKEEP_ABI_VERSION >> 16 == 1, "the ABI is the one of C");
bool header_is_usable_too(const skeep_view &view);
bool header_is_usable_too(const skeep_view &view) { return skeep_view_check(&view).code == SKEEP_OK; }
