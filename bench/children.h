/* SPDX-License-Identifier: MIT
 *
 * Peers that cannot run in the benchmark's own process: children that live as long as it does,
 * sleep while it is not their turn, and do one repetition when asked, a line in and a line out. To
 * be included after report.h, by a program whose contestants have the members child (NULL: none)
 * and variant, and with, before the include:
 *
 *   children[]   all of them, CHILDREN in number and one without a name at the end
 *   skipped[]    as report.h wants it, with room for those that were built, but do not start
 */
#ifndef PLIM_BENCH_CHILDREN_H
#define PLIM_BENCH_CHILDREN_H

#include "report.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/resource.h>
#endif

static inline void skip(const char *text)
{
    int i = 0;
    while (skipped[i] != NULL) {
        i++;
    }
    skipped[i] = text;
}

/* It has died, or might as well have. */
static inline void give_child_up(bench_child *c)
{
    if (c->pid != 0) {
        kill(c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
        c->pid = 0;
    }
    snprintf(c->version, sizeof c->version, "%s (was built, but does not answer)", c->name);
    skip(c->version);
}

/* A line of what it says; false if it says nothing for a minute, or never will. */
static inline bool hear(bench_child *c, char *line, size_t size)
{
    size_t length = 0;
    while (c->pid != 0 && length + 1 < size) {
        struct pollfd readable = {.fd = c->from, .events = POLLIN};
        char byte;
        if (poll(&readable, 1, 60000) != 1 || read(c->from, &byte, 1) != 1) {
            return false;
        }
        if (byte == '\n') {
            line[length] = '\0';
            return true;
        }
        line[length++] = byte;
    }
    return false;
}

static inline void start_child(bench_child *c)
{
    int in[2], out[2];
    char line[128];
    if (pipe(in) != 0 || pipe(out) != 0) {
        return;
    }
    for (int i = 0; i < 2; i++) { /* a child must not keep its sister's pipe open */
        fcntl(in[i], F_SETFD, FD_CLOEXEC);
        fcntl(out[i], F_SETFD, FD_CLOEXEC);
    }
    fflush(stdout);
    c->pid = fork();
    if (c->pid == 0) {
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
        signal(SIGPIPE, SIG_DFL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        char *arguments[5] = {NULL};
        for (int i = 0; i < 4 && c->command[i] != NULL; i++) {
            arguments[i] = strdup(c->command[i]);
        }
        execvp(arguments[0], arguments);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    c->to = in[1];
    c->from = out[0];
    if (c->pid < 0) {
        c->pid = 0;
    }
    if (hear(c, line, sizeof line) && strncmp(line, "ready ", 6) == 0) {
        snprintf(c->version, sizeof c->version, "%s", line + 6);
    } else {
        give_child_up(c);
    }
}

static inline void stop_children(void)
{
    for (int i = 0; i < CHILDREN; i++) {
        if (children[i].pid != 0) {
            close(children[i].to); /* nothing more to read: it ends */
            waitpid(children[i].pid, NULL, 0);
            children[i].pid = 0;
        }
    }
}

/* One repetition of a child: up to two numbers, not a number for those that it does not give. */
__attribute__((format(printf, 3, 4))) static inline void ask(const contestant *who, double out[],
                                                             const char *format, ...)
{
    char line[128];
    va_list arguments;
    bench_child *c = who->child;
    out[0] = out[1] = (double)NAN;
    if (c->pid == 0) {
        return;
    }
    va_start(arguments, format);
    int length = snprintf(line, sizeof line, "%s ", who->variant);
    length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
    va_end(arguments);
    line[length++] = '\n';
    if (write(c->to, line, (size_t)length) == length && hear(c, line, sizeof line) &&
        sscanf(line, "%lf %lf", &out[0], &out[1]) >= 1) {
        return;
    }
    give_child_up(c);
    printf("\n%s does not answer, and is left out from here on\n", c->name);
}

/* CPU time of all children so far, those that have ended included. */
static inline double children_ns(void)
{
    double all = 0;
#ifdef __linux__
    struct rusage ended;
    getrusage(RUSAGE_CHILDREN, &ended);
    all += 1e9 * (double)(ended.ru_utime.tv_sec + ended.ru_stime.tv_sec);
    all += 1e3 * (double)(ended.ru_utime.tv_usec + ended.ru_stime.tv_usec);
    for (int i = 0; i < CHILDREN; i++) {
        clockid_t clock;
        if (children[i].pid != 0 && clock_getcpuclockid(children[i].pid, &clock) == 0) {
            all += (double)bench_clock(clock);
        }
    }
#endif
    return all;
}

static inline process process_of(const contestant *who)
{
    if (who->child == NULL) {
        return OWN_PROCESS;
    }
    return who->child->pid != 0 ? CHILD_PROCESS : DEAD_CHILD;
}

static inline void give_up_with_children(int signal_number)
{
    for (int i = 0; i < CHILDREN; i++) {
        if (children[i].pid != 0) {
            kill(children[i].pid, SIGKILL);
        }
    }
    begin_again_without(signal_number);
}

/* From main, before the machine is described. */
static inline void start_children(void)
{
    signal(SIGALRM, give_up_with_children);
    signal(SIGPIPE, SIG_IGN); /* of a child that has died */
    for (int i = 0; i < CHILDREN; i++) {
        start_child(&children[i]);
    }
}

static inline void print_children(void)
{
    for (int i = 0; i < CHILDREN; i++) {
        if (children[i].pid != 0) {
            printf("peer       %s, %s: a process of its own, that takes its turns\n",
                   children[i].name, children[i].version);
        }
    }
}

#endif
