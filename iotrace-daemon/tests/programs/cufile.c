/* Loads cuFile when it runs, as frameworks do, and works on two files in a directory: writes and reads each way. With a
 * third argument it waits, once it has loaded the library, for the file of that name. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cufile.h"

#define LOAD(name) __typeof__(name) *load_##name = (__typeof__(name) *)dlsym(library, #name)
#define FAIL_UNLESS(what) do { if (!(what)) { perror(#what); exit(1); } } while (0)

int main(int argc, char **argv)
{
	static char memory[1 << 20];
	char path[4096];

	void *library = dlopen(argv[1], RTLD_NOW);
	FAIL_UNLESS(library);
	LOAD(cuFileHandleRegister);
	LOAD(cuFileHandleDeregister);
	LOAD(cuFileRead);
	LOAD(cuFileWrite);
	LOAD(cuFileReadAsync);
	LOAD(cuFileWriteAsync);
	LOAD(cuFileBatchIOSubmit);
	if (argc > 3) {
		/* Waits until the file is there that says that the probes are on. */
		while (access(argv[3], F_OK))
			usleep(1000);
	}

	CUfileHandle_t handles[2];
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/gpu-%d", argv[2], i);
		CUfileDescr_t descr = {.type = 1, .handle.fd = open(path, O_RDWR | O_CREAT, 0600)};
		FAIL_UNLESS(load_cuFileHandleRegister(&handles[i], &descr).err == 0);
	}
	CUfileDescr_t none = {.type = 1, .handle.fd = -1};
	CUfileHandle_t nothing;
	FAIL_UNLESS(load_cuFileHandleRegister(&nothing, &none).err != 0);

	for (int i = 0; i < 10; i++)
		FAIL_UNLESS(load_cuFileWrite(handles[0], memory, 65536, i * 65536, 0) == 65536);
	FAIL_UNLESS(load_cuFileRead(handles[0], memory, 1 << 20, 0, 0) == 655360);
	FAIL_UNLESS(load_cuFileRead(handles[0], memory, 100, 1 << 30, 0) == 0);

	size_t size = 12345;
	off_t zero = 0;
	ssize_t bytes;
	FAIL_UNLESS(load_cuFileWriteAsync(handles[1], memory, &size, &zero, &zero, &bytes, NULL).err == 0);
	FAIL_UNLESS(load_cuFileReadAsync(handles[1], memory, &size, &zero, &zero, &bytes, NULL).err == 0);

	CUfileIOParams_t params[5] = {0};
	for (int i = 0; i < 5; i++) {
		params[i].mode = 1;
		params[i].u.batch.devPtr_base = memory;
		params[i].u.batch.size = 1000 * (i + 1);
		params[i].fh = handles[i % 2];
		params[i].opcode = i == 4;
	}
	FAIL_UNLESS(load_cuFileBatchIOSubmit(NULL, 5, params, 0).err == 0);
	load_cuFileHandleDeregister(handles[0]);
	load_cuFileHandleDeregister(handles[1]);
	return 0;
}
