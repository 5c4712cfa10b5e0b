/* SPDX-License-Identifier: MIT
 *
 * Looks for bytes that break the parser of examples/http_worker. tests/http_worker/fuzz.sh builds it
 * with libFuzzer where clang has that. By itself it reads the texts of a folder and mutates them:
 *
 *     fuzz [SECONDS [SEED [FOLDER]]]
 *
 * For whatever bytes, split wherever:
 *   - nothing outside of what was given is read, nor written outside of the memory (by the
 *     sanitizers: both are not a byte too large)
 *   - never more is taken than was given, and less only at the end of a request
 *   - what is understood, and how many bytes that takes, does not depend on the pieces
 *   - a refusal has a status that a response can have, and a reason
 *   - a request that was accepted means the same when it is written anew, with Content-Length
 *     instead of chunks
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* opendir */
#endif
#include <dirent.h>
#include <inttypes.h>
#include <stdint.h>
#include <time.h>
#include "requests.h"

static const http_limits limits = {.line = 128, .fields = 512, .body = 256};
static uint64_t inputs, accepted;

static void require(bool holds, const char *what, const uint8_t *data, size_t size)
{
    if (holds) {
        return;
    }
    fprintf(stderr, "not so: %s, of these %zu bytes:\n", what, size);
    for (size_t i = 0; i < size; i++) {
        fprintf(stderr, "%s%02x", i % 32 == 0 ? "\n" : " ", data[i]);
    }
    fprintf(stderr, "\n");
    abort();
}

/* How long the first of the pieces is and the others are follows from the bytes themselves. */
static uint32_t hash(const uint8_t *data, size_t size)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < size; i++) {
        h = (h ^ data[i]) * 16777619u;
    }
    return h ^ h >> 15;
}

static bool is_about_the_body(const char *name)
{
    return http_same(name, "Content-Length") || http_same(name, "Transfer-Encoding");
}

static text written_anew(const http_request *q)
{
    text t = {0};
    char line[64];
    add_string(&t, q->method);
    add_string(&t, " ");
    add_string(&t, q->target);
    snprintf(line, sizeof line, " HTTP/1.%d\r\n", q->minor);
    add_string(&t, line);
    for (unsigned i = 0; i < q->field_count; i++) {
        if (!is_about_the_body(q->fields[i].name)) {
            add_string(&t, q->fields[i].name);
            add_string(&t, ": ");
            add_string(&t, q->fields[i].value);
            add_string(&t, "\r\n");
        }
    }
    snprintf(line, sizeof line, "Content-Length: %zu\r\n\r\n", q->body_size);
    add_string(&t, line);
    add(&t, q->body, q->body_size);
    return t;
}

/* Are the header lines the same, but for those about the body? */
static bool have_same_fields(const http_request *a, const http_request *b)
{
    unsigned i = 0, j = 0;
    for (;;) {
        while (i < a->field_count && is_about_the_body(a->fields[i].name)) {
            i++;
        }
        while (j < b->field_count && is_about_the_body(b->fields[j].name)) {
            j++;
        }
        if (i == a->field_count || j == b->field_count) {
            return i == a->field_count && j == b->field_count;
        }
        if (strcmp(a->fields[i].name, b->fields[j].name) != 0 ||
            strcmp(a->fields[i].value, b->fields[j].value) != 0) {
            return false;
        }
        i++;
        j++;
    }
}

static bool mean_the_same(const http_request *a, const http_request *b)
{
    return strcmp(a->method, b->method) == 0 && strcmp(a->target, b->target) == 0 &&
           a->minor == b->minor && a->keep_alive == b->keep_alive && have_same_fields(a, b) &&
           a->body_size == b->body_size && memcmp(a->body, b->body, a->body_size) == 0;
}

static void check_written_anew(const http_request *q, const uint8_t *data, size_t size)
{
    /* What it gains by spaces and a length may be more than its limits; there may be no room for
     * one line more. */
    http_limits wide = {.line = 256, .fields = 1024, .body = 256};
    text again = written_anew(q);
    reading *r = begin_reading(&wide);
    feed(r, again.at, again.size);
    if (q->field_count < HTTP_MAX_FIELDS) {
        require(r->result == HTTP_DONE && r->taken == again.size, "it is accepted again", data,
                size);
        require(mean_the_same(q, &r->request), "it means the same again", data, size);
    }
    end_reading(r);
    free(again.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t pieces = hash(data, size);
    size_t piece[] = {0, 1, 1 + pieces % 7};
    reading *one = begin_reading(&limits);
    feed_all(one, (const char *)data, size, 0, 0);
    text meaning = described(one);
    for (size_t i = 1; i < sizeof piece / sizeof *piece; i++) {
        reading *r = begin_reading(&limits);
        feed_all(r, (const char *)data, size, size > 0 ? pieces % (size + 1) : 0, piece[i]);
        text other = described(r);
        require(strcmp(meaning.at, other.at) == 0 && meaning.size == other.size &&
                    one->taken == r->taken &&
                    one->request.awaits_continue == r->request.awaits_continue,
                "it means the same in pieces", data, size);
        free(other.at);
        end_reading(r);
    }
    inputs++;
    if (one->result == HTTP_REFUSED) {
        require(one->request.status >= 400 && one->request.status < 600 &&
                    strcmp(http_phrase(one->request.status), "Other") != 0 &&
                    one->request.reason != NULL && !one->request.keep_alive,
                "a refusal can be answered", data, size);
    } else if (one->result == HTTP_DONE) {
        accepted++;
        check_written_anew(&one->request, data, size);
    }
    free(meaning.at);
    end_reading(one);
    return 0;
}

#ifndef WITH_LIBFUZZER

/* ---- without libFuzzer: texts of a folder, and mutations of them */

enum { TEXTS_MAX = 64, SIZE_MAX_OF_TEXT = 1024 };

static struct {
    uint8_t data[SIZE_MAX_OF_TEXT];
    size_t size;
} texts[TEXTS_MAX];
static size_t text_count;

static void read_text(const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = name[0] != '.' && text_count < TEXTS_MAX ? fopen(path, "rb") : NULL;
    if (file != NULL) {
        texts[text_count].size = fread(texts[text_count].data, 1, SIZE_MAX_OF_TEXT, file);
        text_count++;
        fclose(file);
    }
}

static void read_texts(const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        read_text(folder, entry->d_name);
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static uint64_t dice;

static size_t below(size_t n)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (size_t)(dice % n);
}

/* Replaces `gone` bytes at a place by others. */
static size_t replace(uint8_t *data, size_t size, size_t at, size_t gone, const void *by, size_t n)
{
    gone = gone < size - at ? gone : size - at;
    n = n < SIZE_MAX_OF_TEXT - (size - gone) ? n : SIZE_MAX_OF_TEXT - (size - gone);
    uint8_t tail[SIZE_MAX_OF_TEXT];
    size_t rest = size - at - gone;
    memcpy(tail, data + at + gone, rest);
    memcpy(data + at, by, n);
    memcpy(data + at + n, tail, rest);
    return size - gone + n;
}

static size_t mutate(uint8_t *data, size_t size)
{
    static const char *const words[] = {"\r\n",
                                        "\n",
                                        "\r",
                                        " ",
                                        "\t",
                                        ":",
                                        ";",
                                        ",",
                                        "0",
                                        "\r\n\r\n",
                                        "0\r\n\r\n",
                                        "1\r\na\r\n",
                                        "Content-Length: 3\r\n",
                                        "Transfer-Encoding: chunked\r\n",
                                        "Host: y\r\n",
                                        "HTTP/1.0",
                                        "Expect: 100-continue\r\n",
                                        "Connection: close\r\n",
                                        "ffffffffffffffff",
                                        "99999999999",
                                        "-"};
    size_t at = below(size + 1);
    uint8_t byte = (uint8_t)below(256);
    const char *word = words[below(sizeof words / sizeof *words)];
    size_t other = below(text_count);
    switch (below(5)) {
    case 0:
        return replace(data, size, at, 1, &byte, 1);
    case 1:
        return replace(data, size, at, 1 + below(8), "", 0);
    case 2:
        return replace(data, size, at, below(2) * strlen(word), word, strlen(word));
    case 3: /* a part of itself, once more */
        return replace(data, size, at, 0, data + at, below(size - at + 1));
    default: /* the end of another one */
        return replace(data, size, at, size, texts[other].data + texts[other].size / 2,
                       texts[other].size / 2);
    }
}

int main(int argc, char **argv)
{
    time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
    dice = seed * 2 + 1;
    read_texts(argc > 3 ? argv[3] : "tests/http_worker/corpus");
    printf("%zu texts, seed %" PRIu64 "\n", text_count, seed);
    fflush(stdout);
    if (text_count == 0) {
        return 1;
    }
    for (size_t i = 0; i < text_count; i++) {
        LLVMFuzzerTestOneInput(texts[i].data, texts[i].size);
    }
    for (uint8_t data[SIZE_MAX_OF_TEXT]; inputs % 256 != 0 || time(NULL) < end;) {
        size_t which = below(text_count), size = texts[which].size;
        memcpy(data, texts[which].data, size);
        for (size_t n = 1 + below(6); n > 0; n--) {
            size = mutate(data, size);
        }
        LLVMFuzzerTestOneInput(data, size);
    }
    printf("%" PRIu64 " inputs, %" PRIu64 " accepted\n", inputs, accepted);
    return accepted > 0 ? 0 : 1;
}

#endif
