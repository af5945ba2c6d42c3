/* Uses files as memory, and says what it did with each: how often, how many major page faults its thread had in that, and
 * how long that took by its own clock, within which each page fault and each call lies.
 *
 * mapped WAY FILE [FILE]
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, THREADS = 4 };

struct part {
	volatile char *memory;
	size_t size;
	int out;
	long majors;
	uint64_t ns;
};

static void must(int fine, const char *what)
{
	if (!fine) {
		perror(what);
		exit(1);
	}
}

static uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static long majors(void)
{
	struct rusage usage;
	must(getrusage(RUSAGE_THREAD, &usage) == 0, "getrusage");
	return usage.ru_majflt;
}

static void *touch(void *argument)
{
	struct part *part = argument;
	long before = majors();
	for (size_t at = 0; at < part->size; at += PAGE) {
		uint64_t start = now();
		if (part->out < 0)
			(void)part->memory[at];
		else
			must(pwrite(part->out, (char *)part->memory + at, PAGE, at) == PAGE, "pwrite");
		part->ns += now() - start;
	}
	part->majors = majors() - before;
	return NULL;
}

/* Maps a file, none of which is in the page cache. */
static char *map(const char *path, size_t *size)
{
	int fd = open(path, O_RDWR);
	must(fd >= 0, path);
	struct stat about;
	must(fstat(fd, &about) == 0, "fstat");
	*size = about.st_size;
	must(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "posix_fadvise");
	char *memory = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(memory != MAP_FAILED, "mmap");
	must(madvise(memory, *size, MADV_RANDOM) == 0, "madvise");
	close(fd);
	return memory;
}

static void said(long count, long majors, uint64_t ns)
{
	printf("{\"count\": %ld, \"majors\": %ld, \"ns\": %llu}\n", count, majors, (unsigned long long)ns);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	must(argc > 2, "arguments");
	const char *way = argv[1];
	size_t size;
	char *memory = map(argv[2], &size);
	struct part all = {memory, size, -1, 0, 0};
	if (strcmp(way, "touch") == 0) {
		touch(&all);
	} else if (strcmp(way, "threads") == 0) {
		struct part parts[THREADS];
		pthread_t threads[THREADS];
		for (int i = 0; i < THREADS; i++) {
			parts[i] = (struct part){memory + i * (size / THREADS), size / THREADS, -1, 0, 0};
			must(pthread_create(&threads[i], NULL, touch, &parts[i]) == 0, "pthread_create");
		}
		for (int i = 0; i < THREADS; i++) {
			pthread_join(threads[i], NULL);
			all.majors += parts[i].majors;
			all.ns += parts[i].ns;
		}
	} else if (strcmp(way, "write") == 0) {
		/* The kernel faults, within the call. */
		all.out = open(argv[3], O_WRONLY | O_CREAT, 0600);
		must(all.out >= 0, argv[3]);
		touch(&all);
	} else if (strcmp(way, "populate") == 0) {
		/* The kernel brings the pages in by itself; then one fault more, on another file. */
		long before = majors();
		uint64_t start = now();
		must(madvise(memory, size, 22) == 0, "MADV_POPULATE_READ");
		all.ns = now() - start;
		all.majors = majors() - before;
		size_t other;
		(void)*(volatile char *)map(argv[3], &other);
	} else if (strcmp(way, "sync") == 0) {
		/* The first file once a page, the second once as a whole, by an address within it. */
		for (size_t at = 0; at < size; at += PAGE) {
			memory[at] = 1;
			uint64_t start = now();
			must(msync(memory + at, PAGE, MS_SYNC) == 0, "msync");
			all.ns += now() - start;
		}
		size_t other;
		char *second = map(argv[3], &other);
		memset(second, 1, other);
		must(msync(second, other, MS_SYNC) == 0, "msync");
		must(msync(second + PAGE, PAGE, MS_ASYNC) == 0, "msync");
	}
	said(size / PAGE, all.majors, all.ns);
	return 0;
}
