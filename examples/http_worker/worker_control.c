/* SPDX-License-Identifier: MIT
 *
 * The control port: health, metrics, limits, and the page that shows them. On a thread of its own,
 * and without a permit.
 */
#include "worker_parts.h"

#ifdef __linux__

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static void send_text(server_request *request, int status, const char *type, const char *body)
{
    char headers[320];
    snprintf(headers, sizeof headers, "Content-Type: %s\r\nCache-Control: no-store\r\n", type);
    server_respond(request, status, headers, body);
}

static void send_plain(server_request *request, int status, const char *body)
{
    send_text(request, status, "text/plain; charset=utf-8", body);
}

/* ---- what GET gets */

/* The process is there, and this thread answers. */
static void tell_live(worker *w, server_request *request)
{
    (void)w;
    send_plain(request, 200, "live\n");
}

/* Not when it is merely full: then it says 429, and that is its work. */
bool control_is_ready(const worker *w, const bulkhead_stats *s)
{
    bool stuck = s->available == 0 && s->queued > 0 && s->longest_wait_ns >= w->options.stuck_ns;
    return !stuck && !atomic_load(&w->stopping);
}

static void tell_ready(worker *w, server_request *request)
{
    bulkhead_stats s = bulkhead_snapshot(&w->calls);
    bool ready = control_is_ready(w, &s);
    send_plain(request, ready ? 200 : 503, ready ? "ready\n" : "not ready\n");
}

static void tell_metrics(worker *w, server_request *request)
{
    bool fits = figures_as_metrics(w, w->text, sizeof w->text) < sizeof w->text;
    send_text(request, fits ? 200 : 500, "text/plain; version=0.0.4",
              fits ? w->text : "too long\n");
}

static void tell_figures(worker *w, server_request *request)
{
    figures_as_json(w, w->text, sizeof w->text);
    send_text(request, 200, "application/json", w->text);
}

static void show_page(worker *w, server_request *request)
{
    size_t length = 0;
    for (unsigned i = 0; i < worker_page_parts; i++) {
        length += (size_t)snprintf(w->text + length, sizeof w->text - length, "%s", worker_page[i]);
    }
    send_text(
        request, 200,
        "text/html; charset=utf-8\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'",
        w->text);
}

/* ---- limits */

/* Is it of this machine, and not a web page from elsewhere that is open in a browser here? That one
 * would have another origin, or a name of its own for this address. */
static bool is_from_here(const server_request *request)
{
    const char *host = http_header(&request->http, "Host");
    const char *origin = http_header(&request->http, "Origin");
    char name[64];
    struct in_addr address;
    if (!request->from_loopback || host == NULL ||
        (origin != NULL && (strncmp(origin, "http://", 7) != 0 || strcmp(origin + 7, host) != 0))) {
        return false;
    }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(host, ":"), host);
    return http_same(name, "localhost") ||
           (inet_pton(AF_INET, name, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

/* Reads a form of NAME=VALUE pairs. What is not there, or empty, is PLIM_KEEP; what is not known, or
 * no form, is EINVAL. */
static int read_limits(const char *form, int32_t *permits, int32_t *queue)
{
    int error = 0;
    *permits = *queue = PLIM_KEEP;
    do {
        bool of_queue = strncmp(form, "queue=", 6) == 0;
        if (!of_queue && strncmp(form, "permits=", 8) != 0) {
            return EINVAL;
        }
        form += of_queue ? 6 : 8;
        char value[16];
        size_t length = strcspn(form, "&");
        snprintf(value, sizeof value, "%.*s", (int)length, form);
        if (length >= sizeof value) {
            error = EINVAL;
        } else if (length > 0) {
            error = bulkhead_parse_limit(value, of_queue ? queue : permits);
        }
        form += length;
    } while (error == 0 && *form++ == '&');
    return error;
}

static void change_limits(worker *w, server_request *request)
{
    int32_t permits, queue;
    const char *form = request->http.body; /* a NUL in it ends it here */
    if (!is_from_here(request)) {
        send_plain(request, 403, "limits are changed from this machine only\n");
        return;
    }
    int error = read_limits(form, &permits, &queue);
    error = error != 0 ? error : bulkhead_resize(&w->calls, permits, queue);
    if (error != 0) {
        send_plain(request, 400, "wanted: permits=N&queue=N, digits or null\n");
        return;
    }
    tell_figures(w, request);
}

/* ---- which one */

typedef struct route {
    const char *method, *target;
    void (*tell)(worker *w, server_request *request);
} route;

void control_arrives(server_request *request, void *w)
{
    static const route routes[] = {
        {"GET", "/", show_page},
        {"GET", "/stats.json", tell_figures},
        {"GET", "/metrics", tell_metrics},
        {"GET", "/health/live", tell_live},
        {"POST", "/limits", change_limits},
        {"GET", "/health/ready", tell_ready},
    };
    const char *method = request->http.method, *target = request->http.target;
    if (strcmp(method, "HEAD") == 0) {
        method = "GET";
    }
    bool known = false;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (strcmp(target, routes[i].target) == 0 && strcmp(method, routes[i].method) == 0) {
            routes[i].tell(w, request);
            return;
        }
        known = known || strcmp(target, routes[i].target) == 0;
    }
    send_plain(
        request, known ? 405 : 404,
        "there are /, /stats.json, /metrics, /health/live, /health/ready; POST to /limits\n");
}

#endif
