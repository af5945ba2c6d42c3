/* Reads a file whole in every way that there is, and writes some of it in those that write. Its argument is the file. Says
 * what it did, as JSON: calls and bytes of each way. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FAIL_UNLESS(what) do { if (!(what)) { perror(#what); exit(1); } } while (0)
#define PAGE 4096

static char buffer[1 << 16];

/* read(2) and write(2). */
static void by_calls(int fd, long size)
{
	for (long offset = 0; offset < size; offset += sizeof buffer)
		FAIL_UNLESS(pread(fd, buffer, sizeof buffer, offset) == sizeof buffer);
	for (int i = 0; i < 3; i++)
		FAIL_UNLESS(pwrite(fd, buffer, PAGE, i * PAGE) == PAGE);
	printf(", \"calls\": [%ld, %ld, 3, %d]", size / (long)sizeof buffer, size, 3 * PAGE);
}

/* One page after the other comes in, if none is in memory. */
static void by_mapping(int fd, long size)
{
	char *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	volatile char *memory = mapped;
	FAIL_UNLESS(mapped != MAP_FAILED && madvise(mapped, size, MADV_RANDOM) == 0);
	for (long offset = 0; offset < size; offset += PAGE)
		(void)memory[offset];
	printf("{\"mapped\": [0, %ld, 0, 0]", size);
}

static struct io_uring_params parameters;
static char *ring, *entries;

static unsigned *word(unsigned offset)
{
	return (unsigned *)(ring + offset);
}

static void request(int uring, int fd, int opcode, unsigned bytes, long offset)
{
	unsigned tail = *word(parameters.sq_off.tail);
	unsigned index = tail & *word(parameters.sq_off.ring_mask);
	struct io_uring_sqe *entry = (struct io_uring_sqe *)entries + index;

	memset(entry, 0, sizeof *entry);
	entry->opcode = opcode;
	entry->fd = fd;
	entry->addr = (uintptr_t)buffer;
	entry->len = bytes;
	entry->off = offset;
	word(parameters.sq_off.array)[index] = index;
	__atomic_store_n(word(parameters.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	FAIL_UNLESS(syscall(SYS_io_uring_enter, uring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);

	unsigned head = *word(parameters.cq_off.head);
	FAIL_UNLESS(head != __atomic_load_n(word(parameters.cq_off.tail), __ATOMIC_ACQUIRE));
	struct io_uring_cqe *ends = (struct io_uring_cqe *)(ring + parameters.cq_off.cqes);
	FAIL_UNLESS(ends[head & *word(parameters.cq_off.ring_mask)].res == (int)bytes);
	__atomic_store_n(word(parameters.cq_off.head), head + 1, __ATOMIC_RELEASE);
}

static void by_uring(int fd, long size)
{
	int uring = syscall(SYS_io_uring_setup, 4, &parameters);
	FAIL_UNLESS(uring >= 0 && parameters.features & IORING_FEAT_SINGLE_MMAP);
	int kind = MAP_SHARED | MAP_POPULATE, access = PROT_READ | PROT_WRITE;
	long submitted = parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned);
	long ended = parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe);
	ring = mmap(NULL, submitted > ended ? submitted : ended, access, kind, uring, IORING_OFF_SQ_RING);
	entries = mmap(NULL, parameters.sq_entries * sizeof(struct io_uring_sqe), access, kind, uring, IORING_OFF_SQES);
	FAIL_UNLESS(ring != MAP_FAILED && entries != MAP_FAILED);
	for (long offset = 0; offset < size; offset += sizeof buffer)
		request(uring, fd, IORING_OP_READ, sizeof buffer, offset);
	for (int i = 0; i < 5; i++)
		request(uring, fd, IORING_OP_WRITE, PAGE, i * PAGE);
	printf(", \"uring\": [%ld, %ld, 5, %d]", size / (long)sizeof buffer, size, 5 * PAGE);
}

static void by_aio(int fd, long size)
{
	aio_context_t context = 0;
	FAIL_UNLESS(syscall(SYS_io_setup, 1, &context) == 0);
	long reads = size / sizeof buffer;
	for (long i = 0; i < reads + 7; i++) {
		struct iocb iocb = { .aio_fildes = fd, .aio_buf = (uintptr_t)buffer }, *list[1] = { &iocb };
		struct io_event event;
		iocb.aio_lio_opcode = i < reads ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
		iocb.aio_nbytes = i < reads ? sizeof buffer : PAGE;
		iocb.aio_offset = i < reads ? i * (long)sizeof buffer : 0;
		FAIL_UNLESS(syscall(SYS_io_submit, context, 1, list) == 1);
		FAIL_UNLESS(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1);
		FAIL_UNLESS(event.res == (long long)iocb.aio_nbytes);
	}
	printf(", \"aio\": [%ld, %ld, 7, %d]", reads, size, 7 * PAGE);
}

/* The C library reads a page for each fourth or fifth piece that is asked of it. */
static void by_stream(const char *path, long size)
{
	FILE *file = fopen(path, "r");
	FAIL_UNLESS(file && setvbuf(file, NULL, _IOFBF, PAGE) == 0);
	long calls = 0;
	for (long left = size; left > 0; calls++) {
		long piece = left < 1000 ? left : 1000;
		FAIL_UNLESS(fread(buffer, 1, piece, file) == (size_t)piece);
		left -= piece;
	}
	fclose(file);
	printf(", \"stream\": [%ld, %ld, 0, 0], \"of_stream\": [%ld, %ld, 0, 0]}\n", calls, size, size / PAGE, size);
}

int main(int argc, char **argv)
{
	struct stat status;
	FAIL_UNLESS(argc == 2);
	int fd = open(argv[1], O_RDWR);
	FAIL_UNLESS(fd >= 0 && fstat(fd, &status) == 0);
	by_mapping(fd, status.st_size);
	by_calls(fd, status.st_size);
	by_uring(fd, status.st_size);
	by_aio(fd, status.st_size);
	by_stream(argv[1], status.st_size);
	return 0;
}
