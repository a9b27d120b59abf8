/* Ends a unit that isa/<set>.h has begun, and its compilation target. */
#ifdef ISA_HAS_TARGET
#undef ISA_HAS_TARGET
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
