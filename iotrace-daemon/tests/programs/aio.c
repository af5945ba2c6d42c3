/* Asynchronous I/O by the system calls that libaio makes, in a directory: one file for each way of taking the results.
 * Says what it did, by file. */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FAIL_UNLESS(what) do { if (!(what)) { perror(#what); exit(1); } } while (0)
#define DEPTH 4
#define SIZE 4096

struct ring { unsigned id, nr, head, tail, magic, features[2], length; struct io_event events[]; };

static char buffers[DEPTH][SIZE];
static struct iocb iocbs[DEPTH];
static struct iocb *list[DEPTH];

static aio_context_t setup(unsigned events)
{
	aio_context_t context = 0;
	FAIL_UNLESS(syscall(SYS_io_setup, events, &context) == 0);
	return context;
}

static void prepare(int index, int fd, int opcode, void *buffer, size_t bytes, off_t offset)
{
	memset(&iocbs[index], 0, sizeof iocbs[index]);
	iocbs[index].aio_lio_opcode = opcode;
	iocbs[index].aio_fildes = fd;
	iocbs[index].aio_buf = (uintptr_t)buffer;
	iocbs[index].aio_nbytes = bytes;
	iocbs[index].aio_offset = offset;
	list[index] = &iocbs[index];
}

static long submit(aio_context_t context, long count)
{
	return syscall(SYS_io_submit, context, count, list);
}

/* Waits for results by the kernel. */
static long long take(aio_context_t context, long count)
{
	struct io_event events[DEPTH];
	long long bytes = 0;
	while (count > 0) {
		long got = syscall(SYS_io_getevents, context, 1, count, events, NULL);
		FAIL_UNLESS(got > 0);
		for (long i = 0; i < got; i++) {
			FAIL_UNLESS((long long)events[i].res >= 0);
			bytes += events[i].res;
		}
		count -= got;
	}
	return bytes;
}

/* Takes results out of the ring, without a call. */
static void take_by_itself(aio_context_t context, long count)
{
	volatile struct ring *ring = (volatile struct ring *)context;
	while (count > 0) {
		unsigned head = ring->head;
		if (head == ring->tail)
			continue;
		FAIL_UNLESS((long long)ring->events[head].res == SIZE);
		ring->head = (head + 1) % ring->nr;
		count--;
	}
}

static long long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int create(const char *directory, const char *name, int flags)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", directory, name);
	int fd = open(path, O_CREAT | flags, 0600);
	FAIL_UNLESS(fd >= 0);
	return fd;
}

int main(int argc, char **argv)
{
	FAIL_UNLESS(argc == 2);

	/* By io_getevents: every kind of request. */
	aio_context_t context = setup(DEPTH);
	int fd = create(argv[1], "called", O_RDWR);
	long long within = 0, start;
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < DEPTH; i++)
			prepare(i, fd, IOCB_CMD_PWRITE, buffers[i], SIZE, (round * DEPTH + i) * SIZE);
		start = now();
		FAIL_UNLESS(submit(context, DEPTH) == DEPTH);
		FAIL_UNLESS(take(context, DEPTH) == DEPTH * SIZE);
		within += DEPTH * (now() - start);
	}
	struct iovec parts[2] = {{buffers[0], 1000}, {buffers[1], 500}};
	prepare(0, fd, IOCB_CMD_PREADV, parts, 2, 0);
	prepare(1, fd, IOCB_CMD_PWRITEV, parts, 2, 0);
	prepare(2, fd, IOCB_CMD_PREAD, buffers[2], 100, 1 << 30);
	start = now();
	FAIL_UNLESS(submit(context, 3) == 3);
	FAIL_UNLESS(take(context, 3) == 3000);
	within += now() - start;
	prepare(0, fd, IOCB_CMD_FSYNC, NULL, 0, 0);
	prepare(1, fd, IOCB_CMD_FDSYNC, NULL, 0, 0);
	FAIL_UNLESS(submit(context, 2) == 2);
	FAIL_UNLESS(take(context, 2) == 0);
	printf("{\"called\": {\"reads\": 2, \"bytes_read\": 1500, \"writes\": 41, \"bytes_written\": %d,"
	       " \"fsyncs\": 1, \"fdatasyncs\": 1, \"failures\": 0, \"within_ns\": %lld},\n", 40 * SIZE + 1500, within);

	/* Out of the ring, which begins anew several times; the descriptor is closed before the last results are taken. */
	aio_context_t own = setup(DEPTH);
	fd = create(argv[1], "taken", O_RDWR);
	int rounds = 400;
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < DEPTH; i++)
			prepare(i, fd, i % 2 && round ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE, buffers[i], SIZE, i * SIZE);
		FAIL_UNLESS(submit(own, DEPTH) == DEPTH);
		if (round == rounds - 1)
			close(fd);
		take_by_itself(own, DEPTH);
	}
	FAIL_UNLESS(syscall(SYS_io_destroy, own) == 0);
	int reads = (rounds - 1) * DEPTH / 2, writes = rounds * DEPTH - reads;
	printf("\"taken\": {\"reads\": %d, \"bytes_read\": %d, \"writes\": %d, \"bytes_written\": %d,"
	       " \"fsyncs\": 0, \"fdatasyncs\": 0, \"failures\": 0},\n", reads, reads * SIZE, writes, writes * SIZE);

	/* The second request is refused, and later the first: what stands behind them is not submitted. */
	fd = create(argv[1], "refused", O_RDWR);
	int closed = dup(fd), only_read = create(argv[1], "refused", O_RDONLY);
	close(closed);
	for (int i = 0; i < 3; i++)
		prepare(i, i == 1 ? closed : fd, IOCB_CMD_PWRITE, buffers[i], 10, 0);
	FAIL_UNLESS(submit(context, 3) == 1);
	FAIL_UNLESS(take(context, 1) == 10);
	prepare(0, only_read, IOCB_CMD_PWRITE, buffers[0], 10, 0);
	prepare(1, fd, IOCB_CMD_PWRITE, buffers[1], 10, 0);
	FAIL_UNLESS(submit(context, 2) == -1 && errno == EBADF);
	printf("\"refused\": {\"reads\": 0, \"bytes_read\": 0, \"writes\": 1, \"bytes_written\": 10,"
	       " \"fsyncs\": 0, \"fdatasyncs\": 0, \"failures\": 1},\n");

	/* Nobody takes the result. */
	aio_context_t left = setup(DEPTH);
	fd = create(argv[1], "left", O_RDWR);
	prepare(0, fd, IOCB_CMD_PWRITE, buffers[0], 10, 0);
	FAIL_UNLESS(submit(left, 1) == 1);
	printf("\"left\": {\"reads\": 0, \"bytes_read\": 0, \"writes\": 1, \"bytes_written\": 10,"
	       " \"fsyncs\": 0, \"fdatasyncs\": 0, \"failures\": 0}}\n");
	return 0;
}
