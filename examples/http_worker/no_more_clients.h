/* SPDX-License-Identifier: MIT
 *
 * The end of a listening socket, without a client that falls between accept() and close(). For Linux.
 */
#ifndef HTTP_WORKER_NO_MORE_CLIENTS_H
#define HTTP_WORKER_NO_MORE_CLIENTS_H

#include <linux/filter.h>
#include <sys/socket.h>

/* From now on the system lets nobody connect to a listening TCP socket. Who has connected is still
 * there for accept(). Without this a client may connect after the last accept(), and the close()
 * resets it. It drops what has SYN set and not ACK; a client tries again after a second, and hears
 * that nobody listens. Where the system does not know it, that client is lost as before. */
static inline void no_more_clients(int fd)
{
    struct sock_filter drop_syn[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13), /* the flags of the TCP header */
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x02, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, 0xffff),
    };
    struct sock_fprog program = {sizeof drop_syn / sizeof drop_syn[0], drop_syn};
    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

#endif
