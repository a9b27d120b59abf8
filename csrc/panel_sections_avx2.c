/* Unpacked sections of panels times tokens, AVX2: for all encodings in one unit, since they do not depend on them. */
#include "internal.h"

#ifdef __x86_64__
#include "isa/avx2.h"

#include "tile/panel_avx2.h"
#include "tile/sections_x86_template.h"

#include "isa/end.h"
#endif
