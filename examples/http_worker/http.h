/* SPDX-License-Identifier: MIT
 *
 * HTTP/1.1 requests, read byte by byte as they come from a socket, and responses. Nothing here
 * knows of sockets, allocates, or blocks.
 *
 *     char memory[...];                                  // http_buffer_size(&limits) of it
 *     http_request request;
 *     http_begin(&request, memory, &limits);
 *     size_t taken;
 *     switch (http_feed(&request, bytes, count, &taken)) {
 *     case HTTP_MORE:    read more from the socket; all of the bytes were taken
 *     case HTTP_DONE:    request.method, request.target ...; the bytes behind `taken` belong to the
 *                        next request of the connection
 *     case HTTP_REFUSED: answer request.status, and close: where the next one begins is not known
 *     }
 *
 * What is accepted is as strict as RFC 9112 allows. Two programs that read one request differently
 * let a client smuggle a second one past the first of them, so whatever is ambiguous is refused:
 *
 *   400  no CR before LF, or CR alone; NUL and other control characters; more than one space in the
 *        request line; a space before the colon; a header line that goes on in the next (obs-fold);
 *        Content-Length beside Transfer-Encoding; either of them twice, or in a list; a length that
 *        is not digits only; Transfer-Encoding in HTTP/1.0; no Host or two in HTTP/1.1
 *   413  a body above its limit, said by Content-Length or found while reading chunks
 *   414  a request line above its limit
 *   417  Expect with anything but 100-continue
 *   431  header lines (and trailers) above their limit, or more than HTTP_MAX_FIELDS of them
 *   501  a Transfer-Encoding other than chunked; CONNECT; a method of more than 31 characters
 *   505  HTTP/2.0 and the like
 *
 * Chunk extensions and trailers are read, checked and dropped. One empty line before a request is
 * skipped. A request with neither Content-Length nor chunks has no body, so there is no 411.
 */
#ifndef HTTP_WORKER_HTTP_H
#define HTTP_WORKER_HTTP_H

#include <stdbool.h>
#include <stddef.h>

enum { HTTP_MAX_FIELDS = 64 };

/* In bytes, as they come; 0 takes the default. */
typedef struct http_limits {
    size_t line;   /* the request line, with its end (4096) */
    size_t fields; /* all header lines and trailers together (8192) */
    size_t body;   /* without what chunks add (16384) */
} http_limits;

typedef enum http_result { HTTP_MORE, HTTP_DONE, HTTP_REFUSED } http_result;

/* One header line. */
typedef struct http_field {
    const char *name, *value;
} http_field;

/* All strings end with NUL, are in the memory that http_begin was given, and have no NUL inside;
 * only the body may have. They are there when http_feed returns HTTP_DONE. */
typedef struct http_request {
    const char *method, *target; /* the target begins with '/', or is "*" (OPTIONS) */
    int minor;                   /* of the version: 0 for HTTP/1.0, 1 for HTTP/1.1 */
    http_field fields[HTTP_MAX_FIELDS];
    unsigned field_count;
    const char *body; /* a NUL stands behind it */
    size_t body_size;
    bool keep_alive;       /* may the connection go on after the response? */
    bool head_is_complete; /* all but the body has been read */
    bool awaits_continue;  /* the client wants to see "100 Continue" before it sends its body */
    int status;            /* HTTP_REFUSED: the response that says why, */
    const char *reason;    /* and the same in words */

    /* Private. */
    int state;
    http_limits limits;
    char *memory;
    size_t used;         /* bytes in memory */
    size_t start;        /* where in memory the present word, name or value begins */
    size_t line_bytes;   /* read of the request line */
    size_t field_bytes;  /* and of the header lines */
    size_t left;         /* of the body, or of the present chunk */
    unsigned hex_digits; /* of the present chunk's size */
    bool skipped;        /* an empty line before the request */
    bool chunked, in_trailer;
} http_request;

/* How much memory a request within these limits takes at most. */
size_t http_buffer_size(const http_limits *limits);

/* Gets ready for a request; limits may be NULL. */
void http_begin(http_request *request, char *memory, const http_limits *limits);

/* Reads on. *taken is how many bytes belonged to this request; more than that were not looked at.
 * After HTTP_DONE or HTTP_REFUSED it takes nothing and says so again. */
http_result http_feed(http_request *request, const char *data, size_t size, size_t *taken);

/* Has anything of a request come, if only a part? */
bool http_has_begun(const http_request *request);

/* The value of the first header line of that name (in any case), or NULL. */
const char *http_header(const http_request *request, const char *name);

/* Does such a header line have that word in its list? As in "Connection: te, close". */
bool http_has_word(const http_request *request, const char *name, const char *word);

/* Are two strings the same but for the case of ASCII letters? */
bool http_same(const char *a, const char *b);

typedef struct http_response {
    int status;
    const char *headers; /* NULL, or lines that each end with "\r\n". Never put there what a client
                            sent: a line end in it would begin a line of its own */
    const char *body;
    size_t body_size;
    bool keep_alive;
    bool without_body; /* the answer to HEAD: the length is said, the body is not sent */
} http_response;

/* Writes a response with Content-Length and Connection, and Content-Type: text/plain if headers do
 * not say another. Returns its size, or 0 if it does not fit; then what is in out means nothing. */
size_t http_write_response(char *out, size_t size, const http_response *response);

/* "Not Found" for 404, and so on. */
const char *http_phrase(int status);

#endif
