/* tests/compile/layout.c - size and alignment of every public type, to compare C with C++
 * SPDX-License-Identifier: MIT
 *
 * Included by what matrix.sh writes, after the headers and their use_*.c; LAYOUT(ROW) lists the
 * types of all of them. mixed.c compares.
 */
#ifdef __cplusplus
#define USE_LAYOUT use_layout_cxx
#define USE_ROW(type) static_cast<unsigned>(sizeof(type)), static_cast<unsigned>(alignof(type)),
extern "C" {
#else
#define USE_LAYOUT use_layout_c
#define USE_ROW(type) (unsigned)sizeof(type), (unsigned)_Alignof(type),
#endif

extern const unsigned USE_LAYOUT[];
const unsigned USE_LAYOUT[] = {LAYOUT(USE_ROW) 0};

#ifdef __cplusplus
}
#endif
