/* The public header by itself, under the strictest flags (CMakeLists.txt): as C11 here, as C++17 in header.cc. */
#include "skeep.h"

extern int header_is_usable(const skeep_view *view);
int header_is_usable(const skeep_view *view) { return skeep_view_check(view).code == SKEEP_OK; }
