/* tests/compile/use_thread.cc - uses the parts of the C++ library that include <semaphore.h>
 * SPDX-License-Identifier: MIT
 *
 * In C++20 libstdc++'s <thread> does so, by way of <stop_token>: whoever shadows POSIX's header
 * breaks programs that never heard of it. The scripts include this after the headers; then
 * USE_ONLY is defined.
 */
#ifndef USE_ONLY
#include <thread>
#include <mutex>
#include <condition_variable>
#if __cplusplus >= 202002L
#include <semaphore>
#include <stop_token>
#include <latch>
#endif
#endif

int use_thread();

int use_thread()
{
    std::mutex mutex;
    std::condition_variable changed;
    int answer = 1;
    std::thread other([&] {
        std::lock_guard<std::mutex> lock(mutex);
        answer = 0;
        changed.notify_one();
    });
    {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return answer == 0; });
    }
    other.join();
#if __cplusplus >= 202002L
    std::counting_semaphore<4> permits(1);
    permits.acquire();
    permits.release();
    answer += !permits.try_acquire();
#endif
    return answer;
}
