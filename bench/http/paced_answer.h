/* Reads answers of an HTTP/1.1 server from pieces of any size, and looks at each byte of a head once.
 *
 * It understands what an answer to GET may be: Content-Length, chunked, or everything until the end. It must not know
 * sockets or time.
 */
#ifndef PACED_ANSWER_H
#define PACED_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

enum { LINE_KEPT = 64 };

enum answer_state { STATUS_LINE, FIELD, SIZED, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, TRAILER, UNTIL_END };

struct answer {
    enum answer_state state;
    int status, line_bytes; /* of the line that has not ended yet; kept are its first LINE_KEPT */
    bool begun, closing, chunked, sized;
    int64_t left, length; /* bytes still to come of the content or chunk, and content so far */
    uint64_t hash;
    char line[LINE_KEPT];
};

enum answer_news { MORE, DONE, BROKEN };

void answer_begin(struct answer *answer);
/* Take bytes until one answer is whole or all are used; return how many were taken. */
long answer_take(struct answer *answer, const char *bytes, long count, bool hashing, enum answer_news *news);
/* The server has sent its last byte. True if that completes the answer. */
bool answer_at_end(const struct answer *answer);

#endif
