/* SPDX-License-Identifier: MIT
 *
 * Of the parser: which characters are allowed where, and words in header lines. Not by <ctype.h>,
 * which asks the locale.
 */
#include "http_parts.h"

#include <string.h>

static bool is_letter(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool http_is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

bool http_is_blank(unsigned char c)
{
    return c == ' ' || c == '\t';
}

bool http_is_token(unsigned char c)
{
    return is_letter(c) || http_is_digit(c) || (c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

bool http_is_of_target(unsigned char c)
{
    return c > ' ' && c < 127 && c != '#';
}

bool http_is_of_value(unsigned char c)
{
    return http_is_blank(c) || (c > ' ' && c != 127);
}

int http_hex_value(unsigned char c)
{
    if (http_is_digit(c)) {
        return c - '0';
    }
    const char *digits = "abcdef";
    const char *at = c != 0 ? strchr(digits, c | 32) : NULL;
    return is_letter(c) && at != NULL ? 10 + (int)(at - digits) : -1;
}

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

bool http_begins_the_same(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (lower(a[i]) != lower(b[i])) {
            return false;
        }
        if (a[i] == '\0') {
            return true;
        }
    }
    return true;
}

bool http_same(const char *a, const char *b)
{
    return http_begins_the_same(a, b, (size_t)-1);
}

const char *http_header(const http_request *r, const char *name)
{
    for (unsigned i = 0; i < r->field_count; i++) {
        if (http_same(r->fields[i].name, name)) {
            return r->fields[i].value;
        }
    }
    return NULL;
}

unsigned http_count_of(const http_request *r, const char *name)
{
    unsigned n = 0;
    for (unsigned i = 0; i < r->field_count; i++) {
        n += http_same(r->fields[i].name, name);
    }
    return n;
}

static bool list_has(const char *list, const char *word)
{
    size_t wanted = strlen(word);
    for (const char *at = list; *at != '\0';) {
        at += strspn(at, " \t,");
        size_t size = strcspn(at, " \t,");
        if (size == wanted && http_begins_the_same(at, word, size)) {
            return true;
        }
        at += strcspn(at, ",");
    }
    return false;
}

bool http_has_word(const http_request *r, const char *name, const char *word)
{
    for (unsigned i = 0; i < r->field_count; i++) {
        if (http_same(r->fields[i].name, name) && list_has(r->fields[i].value, word)) {
            return true;
        }
    }
    return false;
}
