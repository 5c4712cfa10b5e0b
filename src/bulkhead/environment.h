/* Options from the environment. */

/* Reads a number up to `most` into *value; 0 is PLIM_NONE, and no limit is `unlimited`. False: it
 * is not one. */
PLIM_SLOW_ bool bulkhead_read_(const char *text, int64_t most, int64_t unlimited, int64_t *value)
{
    int64_t number = 0;
    const char *at = text;
    if (strcmp(text, "null") == 0 || strcmp(text, "unlimited") == 0) {
        *value = unlimited;
        return true;
    }
    for (; *at >= '0' && *at <= '9'; at++) {
        int digit = *at - '0';
        if (number > (most - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    if (at == text || *at != 0) {
        return false;
    }
    *value = number == 0 ? PLIM_NONE : number;
    return true;
}

static inline int bulkhead_parse_limit(const char *text, int32_t *value)
{
    int64_t number;
    if (text == NULL || value == NULL ||
        !bulkhead_read_(text, BULKHEAD_PERMITS_MAX_, BULKHEAD_UNLIMITED, &number)) {
        return EINVAL;
    }
    *value = (int32_t)number;
    return 0;
}

/* What a variable of the environment says; NULL: nothing. */
static inline const char *bulkhead_variable_(const char *name)
{
    const char *text = name == NULL ? NULL : getenv(name);
    return text == NULL || *text == 0 ? NULL : text;
}

/* Takes options from three texts, NULL where there is none. Returns the number of the one that is
 * wrong, and then takes none, or -1. */
PLIM_SLOW_ int bulkhead_take_texts_(bulkhead_options *options, const char *const texts[3])
{
    int64_t values[3] = {options->permits, options->queue, PLIM_NONE};
    const int64_t most[3] = {BULKHEAD_PERMITS_MAX_, BULKHEAD_QUEUE_MAX_, INT64_MAX / 1000000};
    const int64_t unlimited[3] = {BULKHEAD_UNLIMITED, BULKHEAD_UNLIMITED, PLIM_FOREVER};
    for (int i = 0; i < 3; i++) {
        if (texts[i] != NULL && (!bulkhead_read_(texts[i], most[i], unlimited[i], &values[i]) ||
                                 (i == 0 && values[i] == PLIM_NONE))) {
            return i;
        }
    }
    options->permits = (int32_t)values[0];
    options->queue = (int32_t)values[1];
    if (texts[2] != NULL) {
        options->timeout_ns =
            values[2] == PLIM_FOREVER || values[2] < 0 ? values[2] : PLIM_MS(values[2]);
    }
    return -1;
}

static inline int bulkhead_options_from_names(bulkhead_options *options,
                                              const bulkhead_names *names, const char **wrong)
{
    if (options == NULL || names == NULL) {
        return EINVAL;
    }
    const char *const variables[3] = {names->permits, names->queue, names->timeout_ms};
    const char *const texts[3] = {bulkhead_variable_(variables[0]),
                                  bulkhead_variable_(variables[1]),
                                  bulkhead_variable_(variables[2])};
    int error = bulkhead_take_texts_(options, texts);
    if (error >= 0 && wrong != NULL) {
        *wrong = variables[error];
    }
    return error >= 0 ? EINVAL : 0;
}

static inline int bulkhead_options_from_env(bulkhead_options *options, const char *prefix)
{
    static const char *const names[3] = {"PERMITS", "QUEUE", "TIMEOUT_MS"};
    const char *texts[3] = {NULL, NULL, NULL};
    if (options == NULL || prefix == NULL || strlen(prefix) > 200) {
        return EINVAL;
    }
    for (int i = 0; i < 6; i++) { /* all by themselves, then those that have nothing yet */
        char variable[256];
        bulkhead_text_ text = {variable, 0};
        bulkhead_put_(&text, prefix);
        bulkhead_put_(&text, i < 3 ? "" : "DEFAULT_");
        bulkhead_put_(&text, names[i % 3]);
        texts[i % 3] = texts[i % 3] != NULL ? texts[i % 3] : bulkhead_variable_(variable);
    }
    return bulkhead_take_texts_(options, texts) >= 0 ? EINVAL : 0;
}
