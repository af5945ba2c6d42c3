/* The functions of iotrace.h, for libiotrace-marker.so. */
#include "iotrace.h"

/* Not inlined, and not taken for one by a linker that folds functions that are the same. The instruction that a probe
 * replaces is one that every kernel emulates: single-stepping another takes twenty times as long. */
#if defined(__has_attribute)
#if __has_attribute(patchable_function_entry)
#define FIRST_IS_NOP patchable_function_entry(1),
#endif
#endif
#ifndef FIRST_IS_NOP
#define FIRST_IS_NOP
#endif
#define MARKER __attribute__((FIRST_IS_NOP noinline, visibility("default")))

MARKER void iotrace_range_push(const char *name)
{
	__asm__ volatile("" : : "r"(name), "i"(1));
}

MARKER void iotrace_range_pop(void)
{
	__asm__ volatile("" : : "i"(2));
}

MARKER void iotrace_mark(const char *name)
{
	__asm__ volatile("" : : "r"(name), "i"(3));
}
