/* Marks that iotrace sees: ranges and moments of a program's own, such as the steps and phases of a training loop.
 *
 * The functions do nothing. `iotrace record --uprobe marker` puts a probe on their first instruction; without one a call
 * costs what the call of an empty function costs. Build them as a shared library:
 *
 *     cc -O2 -shared -fPIC -o libiotrace-marker.so iotrace.c
 */
#ifndef IOTRACE_H
#define IOTRACE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Begins a range, which lies in the thread's ranges that have not ended. Of the name 255 bytes are kept. */
void iotrace_range_push(const char *name);

/* Ends the thread's innermost range. */
void iotrace_range_pop(void);

/* Marks a moment. */
void iotrace_mark(const char *name);

#ifdef __cplusplus
}
#endif

#endif
