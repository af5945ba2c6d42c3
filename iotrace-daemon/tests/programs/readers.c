/* Threads read files, each file once, and measure themselves: readers TRUTH THREADS FILE...
 *
 * TRUTH is written as JSON: `reading`, the seconds in which at least one file was read; `bandwidth`, bytes per second of them;
 * `in_flight`, how many were read at a time in them, on average. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct span { double start, end; };

static char **files;
static int count;
static atomic_int next;
static atomic_long bytes;
static struct span *spans;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void *work(void *buffer) {
    for (int index; (index = next++) < count;) {
        spans[index].start = now();
        int file = open(files[index], O_RDONLY);
        for (ssize_t length; (length = read(file, buffer, 1 << 20)) > 0;) bytes += length;
        close(file);
        spans[index].end = now();
    }
    return NULL;
}

static int by_start(const void *left, const void *right) {
    double difference = ((const struct span *)left)->start - ((const struct span *)right)->start;
    return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv) {
    int threads = atoi(argv[2]);
    files = argv + 3;
    count = argc - 3;
    spans = calloc(count, sizeof *spans);
    pthread_t pool[threads];
    for (int index = 0; index < threads; index++) pthread_create(&pool[index], NULL, work, malloc(1 << 20));
    for (int index = 0; index < threads; index++) pthread_join(pool[index], NULL);
    qsort(spans, count, sizeof *spans, by_start);
    double reading = 0, sum = 0, reached = 0;
    for (int index = 0; index < count; index++) {
        struct span span = spans[index];
        sum += span.end - span.start;
        if (span.end > reached) {
            reading += span.end - (span.start > reached ? span.start : reached);
            reached = span.end;
        }
    }
    FILE *truth = fopen(argv[1], "w");
    fprintf(truth, "{\"reading\": %.9f, \"bandwidth\": %.3f, \"in_flight\": %.6f}\n", reading, bytes / reading, sum / reading);
    return fclose(truth);
}
