/* SPDX-License-Identifier: MIT
 *
 * A client that says exactly which bytes, and hears responses. Include it after tests/support.h.
 */
#ifndef HTTP_WORKER_CLIENT_H
#define HTTP_WORKER_CLIENT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define HOST "Host: x\r\n"
#define GET(TARGET) "GET " TARGET " HTTP/1.1\r\n" HOST "\r\n"

enum { LARGE = 8 << 20 }; /* more than the buffers of the system hold */

typedef struct client {
    int fd;
    char data[LARGE + 4096]; /* read and not looked at */
    size_t size;
    char *body; /* of the last response; in data, until the next one */
    size_t used;
} client;

/* A connection to that port of this machine, or -1. */
static inline int dial_number(uint16_t number)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(number),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval patience = {.tv_sec = PATIENCE_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static inline client *call_number(uint16_t number)
{
    client *c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->fd = dial_number(number);
    }
    return c;
}

static inline void hang_up(client *c)
{
    close(c->fd);
    free(c);
}

/* With a reset, as if the program had died with something unread. */
static inline void vanish(client *c)
{
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    hang_up(c);
}

static inline bool say_bytes(client *c, const char *data, size_t size)
{
    return send(c->fd, data, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static inline bool say(client *c, const char *text)
{
    return say_bytes(c, text, strlen(text));
}

/* More data; false at the end, or if nothing comes. */
static inline bool hear_more(client *c)
{
    ssize_t n = recv(c->fd, c->data + c->size, sizeof c->data - 1 - c->size, 0);
    c->size += n > 0 ? (size_t)n : 0;
    c->data[c->size] = '\0';
    return n > 0;
}

/* The next response: its status, or -1 if none comes. A body is expected unless `head_only`. */
static inline int hear_response(client *c, bool head_only)
{
    char *end, *length;
    int status;
    memmove(c->data, c->data + c->used, c->size - c->used);
    c->size -= c->used;
    c->used = 0;
    c->data[c->size] = '\0';
    while ((end = strstr(c->data, "\r\n\r\n")) == NULL) {
        if (!hear_more(c)) {
            return -1;
        }
    }
    length = strstr(c->data, "Content-Length: ");
    size_t body = length != NULL && length < end && !head_only ? strtoul(length + 16, NULL, 10) : 0;
    c->body = end + 4;
    c->used = (size_t)(c->body - c->data) + body;
    while (c->size < c->used) {
        if (!hear_more(c)) {
            return -1;
        }
    }
    return sscanf(c->data, "HTTP/1.1 %d", &status) == 1 ? status : -1;
}

static inline int hear(client *c)
{
    return hear_response(c, false);
}

static inline bool body_is(const client *c, const char *body)
{
    return c->used == (size_t)(c->body - c->data) + strlen(body) &&
           memcmp(c->body, body, strlen(body)) == 0;
}

/* Does the server close now, without another byte? */
static inline bool hears_end(client *c)
{
    char byte;
    return c->size == c->used && recv(c->fd, &byte, 1, 0) == 0;
}

#endif
