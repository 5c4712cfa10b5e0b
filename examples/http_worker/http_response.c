/* SPDX-License-Identifier: MIT
 *
 * Writes responses.
 */
#include "http.h"

#include <stdio.h>
#include <string.h>

const char *http_phrase(int status)
{
    static const struct {
        int status;
        const char *phrase;
    } phrases[] = {
        {100, "Continue"},
        {200, "OK"},
        {202, "Accepted"},
        {204, "No Content"},
        {303, "See Other"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {417, "Expectation Failed"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"}, /* as nginx says, when nobody may be there to read it */
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {508, "Loop Detected"},
    };
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++) {
        if (phrases[i].status == status) {
            return phrases[i].phrase;
        }
    }
    return "Other"; /* no client looks at it */
}

static bool says_type(const char *headers)
{
    return strncmp(headers, "Content-Type:", 13) == 0 ||
           strstr(headers, "\r\nContent-Type:") != NULL;
}

/* RFC 9110 allows neither a body nor its length with these. */
static bool has_length(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

size_t http_write_response(char *out, size_t size, const http_response *response)
{
    const char *headers = response->headers != NULL ? response->headers : "";
    const char *type = says_type(headers) ? "" : "Content-Type: text/plain\r\n";
    bool sends_body = has_length(response->status) && !response->without_body;
    char length[64] = "";
    if (has_length(response->status)) {
        snprintf(length, sizeof length, "Content-Length: %zu\r\n", response->body_size);
    }
    int head =
        snprintf(out, size, "HTTP/1.1 %d %s\r\n%s%s%sConnection: %s\r\n\r\n", response->status,
                 http_phrase(response->status), headers, length[0] != '\0' ? type : "", length,
                 response->keep_alive ? "keep-alive" : "close");
    size_t body = sends_body ? response->body_size : 0;
    if (head < 0 || (size_t)head >= size || body > size - (size_t)head) {
        return 0;
    }
    if (body > 0) {
        memcpy(out + head, response->body, body);
    }
    return (size_t)head + body;
}
