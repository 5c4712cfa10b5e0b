/* tests/compile/use_moodycamel.cc - uses moodycamel's semaphore, which is POSIX's inside
 * SPDX-License-Identifier: MIT
 *
 * shadow.sh finds out where it is installed, and includes this after it.
 */
int use_moodycamel();

int use_moodycamel()
{
    moodycamel::LightweightSemaphore s(1);
    int wrong = !s.tryWait();
    s.signal();
    return wrong;
}
