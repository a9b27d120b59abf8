package coretest

/*
#include "internal.h"
#include <stdlib.h>
*/
import "C"

import "unsafe"

// FamilyOf is the family that the C core counts a processor as, by what CPUID says of it.
func FamilyOf(vendor string, family, model int) string {
	v := C.CString(vendor)
	defer C.free(unsafe.Pointer(v))
	return C.GoString(C.skeep_machine_of(v, C.uint32_t(family), C.uint32_t(model)).name)
}
