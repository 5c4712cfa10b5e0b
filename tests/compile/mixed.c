/* tests/compile/mixed.c - a program whose C and C++ halves share their objects
 * SPDX-License-Identifier: MIT
 *
 * Included by what matrix.sh writes, after NAMES(ROW), the names of the headers. That it links at
 * all, both halves having the same headers, shows that nothing is defined twice.
 */
#include <stdio.h>
#include <unistd.h>

extern const unsigned use_layout_c[], use_layout_cxx[];

#define DECLARE(name) int use_##name##_c(void), use_##name##_cxx(void);
NAMES(DECLARE)

static int mixed_check(const char *name, const char *language, int wrong)
{
    if (wrong != 0) {
        printf("error: use_%s.c as %s: %d wrong answers\n", name, language, wrong);
    }
    return wrong;
}

int main(void)
{
    int wrong = 0;
    int i = 0;
    alarm(10); /* a semaphore that is broken may wait for ever; the signal ends us */
    while (use_layout_c[i] != 0 && use_layout_c[i] == use_layout_cxx[i]) {
        i++;
    }
    if (use_layout_c[i] != use_layout_cxx[i] || i == 0) {
        printf("error: %s of type %d in the list: %u in C, %u in C++\n",
               i % 2 == 0 ? "size" : "alignment", i / 2 + 1, use_layout_c[i], use_layout_cxx[i]);
        wrong++;
    }
#define RUN(name) \
    wrong += mixed_check(#name, "C", use_##name##_c()); \
    wrong += mixed_check(#name, "C++", use_##name##_cxx()); \
    wrong += mixed_check(#name, "C again", use_##name##_c());
    NAMES(RUN)
    return wrong != 0;
}
