/* Opens a file from functions of different kinds, and says by which function and line how often: a line of JSON for each. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct place {
    const char *function;
    int line, opens;
};

#define PLACES 64
static struct place *places;
static const char *file;

static void opened(const char *function, int line) {
    for (struct place *place = places; place < places + PLACES; place++) {
        if (!place->function) {
            place->line = line;
            place->function = function;
        }
        if (place->line == line) {
            __atomic_add_fetch(&place->opens, 1, __ATOMIC_SEQ_CST);
            return;
        }
    }
    abort();
}

#define HERE opened(__func__, __LINE__)
#define KEPT __attribute__((noinline, noclone))

KEPT void by_open(void) {
    int fd = open(file, O_RDONLY); HERE;
    close(fd);
}

KEPT void by_openat(void) {
    int fd = openat(AT_FDCWD, file, O_RDONLY); HERE;
    close(fd);
}

KEPT void by_fopen(void) {
    char room[100];
    FILE *opened_file = fopen(file, "r"); HERE;
    if (!fgets(room, sizeof room, opened_file))
        abort();
    fclose(opened_file);
}

KEPT int recursive(int depth) {
    volatile int kept = depth;
    if (depth == 0) {
        int fd = open(file, O_RDONLY); HERE;
        close(fd);
        return 0;
    }
    return recursive(depth - 1) + kept;
}

static inline __attribute__((always_inline)) void inlined(void) {
    int fd = open(file, O_RDONLY); HERE;
    close(fd);
}

KEPT void has_inlined(void) {
    inlined();
    __asm__ volatile("");
}

KEPT void *by_thread(void *unused) {
    int fd = open(file, O_RDONLY); HERE;
    close(fd);
    return unused;
}

/* Called by a function of the C library. */
KEPT int compare(const void *a, const void *b) {
    int fd = open(file, O_RDONLY); HERE;
    close(fd);
    return *(const int *)a - *(const int *)b;
}

/* A frame that takes much room: the caller is far up. */
KEPT void large_frame(void) {
    volatile char room[2048];
    memset((char *)room, 1, sizeof room);
    int fd = open(file, O_RDONLY); HERE;
    close(fd);
    room[0] = room[1];
}

int main(int argc, char **argv) {
    file = argv[1];
    places = mmap(NULL, PLACES * sizeof *places, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int turn = 0; turn < 3; turn++) {
        by_open();
        by_openat();
        by_fopen();
        recursive(5);
        has_inlined();
        large_frame();
    }
    pthread_t threads[4];
    for (int index = 0; index < 4; index++)
        pthread_create(&threads[index], NULL, by_thread, NULL);
    for (int index = 0; index < 4; index++)
        pthread_join(threads[index], NULL);
    int numbers[] = {2, 1};
    qsort(numbers, 2, sizeof *numbers, compare);
    pid_t child = fork();
    if (child == 0) {
        by_open();
        /* The tracer looks at a process while it runs. */
        usleep(300000);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    for (struct place *place = places; place->function; place++)
        printf("{\"function\": \"%s\", \"line\": %d, \"opens\": %d}\n", place->function, place->line, place->opens);
    fflush(stdout);
    usleep(300000);
    if (argc > 2)
        execl(argv[2], argv[2], file, (char *)NULL);
    return 0;
}
