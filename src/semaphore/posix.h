/* POSIX owns <semaphore.h>. With our directory on the include path we stand in its way (C++20's
 * <thread> includes it), so hand the include on, whatever came first. This must stay last, because
 * the pragma silences the rest of the file. It must stay outside the guard, because it must happen
 * on every inclusion: the search may find this same file a second time. */
#if defined(__has_include_next) && defined(__INCLUDE_LEVEL__)
#if __INCLUDE_LEVEL__ > 0
#pragma GCC system_header
#if __has_include_next(<semaphore.h>)
#include_next <semaphore.h>
#endif
#endif
#endif
