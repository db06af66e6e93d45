/* The reader of answers: a state for each place between two bytes at which a piece can end. */
#define _GNU_SOURCE
#include "paced_answer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const uint64_t FNV_START = UINT64_C(14695981039346656037), FNV_STEP = UINT64_C(1099511628211);

void answer_begin(struct answer *answer) {
    answer->state = STATUS_LINE;
    answer->status = answer->line_bytes = 0;
    answer->begun = answer->closing = answer->chunked = answer->sized = false;
    answer->left = answer->length = 0;
    answer->hash = FNV_START;
}

bool answer_at_end(const struct answer *answer) { return answer->state == UNTIL_END; }

static enum answer_news head_is_over(struct answer *answer) {
    if (answer->status < 200) { /* an interim answer: the real one follows */
        answer_begin(answer);
        answer->begun = true;
        return MORE;
    }
    if (answer->status == 204 || answer->status == 304) return DONE;
    if (answer->chunked) {
        answer->state = CHUNK_SIZE;
    } else if (answer->sized) {
        answer->state = SIZED;
        if (answer->left == 0) return DONE;
    } else {
        answer->state = UNTIL_END;
        answer->closing = true;
    }
    return MORE;
}

static void field(struct answer *answer, const char *line) {
    if (strncasecmp(line, "content-length:", 15) == 0) {
        answer->sized = true;
        answer->left = strtoll(line + 15, NULL, 10);
    } else if (strncasecmp(line, "transfer-encoding:", 18) == 0) {
        answer->chunked = strcasestr(line + 18, "chunked") != NULL;
    } else if (strncasecmp(line, "connection:", 11) == 0) {
        answer->closing = strcasestr(line + 11, "close") != NULL;
    }
}

/* A whole line, without its end. */
static enum answer_news line_is_over(struct answer *answer, const char *line) {
    switch (answer->state) {
        case STATUS_LINE:
            if (strncmp(line, "HTTP/1.", 7) != 0 || strlen(line) < 12) return BROKEN;
            answer->closing = line[7] == '0';
            answer->status = atoi(line + 9);
            answer->state = FIELD;
            return answer->status < 100 || answer->status > 599 ? BROKEN : MORE;
        case FIELD:
            if (line[0] == 0) return head_is_over(answer);
            field(answer, line);
            return MORE;
        case CHUNK_SIZE:
            answer->left = strtoll(line, NULL, 16);
            answer->state = answer->left > 0 ? CHUNK_DATA : TRAILER;
            return MORE;
        case CHUNK_END: answer->state = CHUNK_SIZE; return line[0] == 0 ? MORE : BROKEN;
        default: return line[0] == 0 ? DONE : MORE; /* TRAILER */
    }
}

static long take_line(struct answer *answer, const char *bytes, long count, enum answer_news *news) {
    const char *end = memchr(bytes, '\n', (size_t)count);
    long taken = end ? end - bytes + 1 : count;
    for (long place = 0; place < taken && answer->line_bytes < LINE_KEPT - 1; place++)
        if (bytes[place] != '\n') answer->line[answer->line_bytes++] = bytes[place];
    if (!end) return taken;
    if (answer->line_bytes > 0 && answer->line[answer->line_bytes - 1] == '\r') answer->line_bytes--;
    answer->line[answer->line_bytes] = 0;
    answer->line_bytes = 0;
    *news = line_is_over(answer, answer->line);
    return taken;
}

static long take_content(struct answer *answer, const char *bytes, long count, bool hashing, enum answer_news *news) {
    long taken = answer->state != UNTIL_END && count > answer->left ? (long)answer->left : count;
    answer->length += taken;
    if (hashing)
        for (long place = 0; place < taken; place++)
            answer->hash = (answer->hash ^ (unsigned char)bytes[place]) * FNV_STEP;
    if (answer->state == UNTIL_END) return taken;
    answer->left -= taken;
    if (answer->left > 0) return taken;
    if (answer->state == SIZED) *news = DONE;
    answer->state = CHUNK_END;
    return taken;
}

long answer_take(struct answer *answer, const char *bytes, long count, bool hashing, enum answer_news *news) {
    long taken = 0;
    *news = MORE;
    while (taken < count && *news == MORE) {
        bool content = answer->state == SIZED || answer->state == CHUNK_DATA || answer->state == UNTIL_END;
        answer->begun = true;
        taken += content ? take_content(answer, bytes + taken, count - taken, hashing, news)
                         : take_line(answer, bytes + taken, count - taken, news);
    }
    return taken;
}
